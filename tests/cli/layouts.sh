# Tests that compare layouts of ranks with one rank source this: run.yaml is the configuration, $settings what all runs have.

columns() { grep -o '"step": [0-9]*, "loss": [^,]*, "grad_norm": [^,]*\|"validation_loss": [^,]*' "$1/metrics.jsonl"; }
weights() { cat "$1"/model/model.safetensors "$1"/adapter/adapter_model.safetensors 2>/dev/null; }
equal() { cmp -s <(columns "$1") <(columns "$2") && cmp -s <(weights "$1") <(weights "$2") && [ -n "$(columns "$1")" ]; }

reference() { # NAME OPTIONS...: the run of one rank, in the folder NAME
    local name=$1
    shift
    "$tessera" train run.yaml job.dump_folder="$name" $settings "$@" >log 2>&1 || { cat log; exit 1; }
}

# same NAME REFERENCE RANKS OPTIONS...: equal in every digit to the run in folder REFERENCE.
same() {
    local name=$1 reference=$2 ranks=$3
    shift 3
    rm -rf out
    if ! "$tessera" train run.yaml -n "$ranks" job.dump_folder=out $settings "$@" >log 2>&1; then
        fail "$name: $(tail -n 3 log)"
    elif equal out "$reference"; then
        pass "$name"
    else
        fail "$name: other bits, first at $(diff <(columns out) <(columns "$reference") | head -n 2 | tail -n 1)"
    fi
}
