# Tests of hot recovery source this: a small run, and the comparison of two runs.
make_text 300 >text.txt
make_model model.json
make_config run.yaml

# metrics.jsonl without times and places.
numbers() { sed -E 's/, "tps".*//; s/, "validation_seconds.*//' "$1/metrics.jsonl"; }

common=(training.steps=6 training.local_batch_size=2 training.global_batch_size=16 checkpoint.interval=3
    validation.interval=3 validation.steps=8 metrics.log_freq=1 debug.trace=false training.threads=1
    recovery.enable=true recovery.max_failures=0)

# train FOLDER ARGUMENTS...: runs 6 steps with validations and saves.
train() {
    local folder=$1
    shift
    timeout 600 "$tessera" train run.yaml job.dump_folder="$folder" "${common[@]}" "$@" >"$folder.out" 2>&1 </dev/null
}

# same NAME FOLDER UNDISTURBED
same() {
    if ! cmp -s "$3/model/model.safetensors" "$2/model/model.safetensors"; then
        fail "$1: other weights"
        tail -n 5 "$2.out" | sed 's/^/    /'
    elif ! diff <(numbers "$3") <(numbers "$2") >difference; then
        fail "$1: other metrics"
        head -n 6 difference | sed 's/^/    /'
    elif ! grep -q "replaced in .* s, going on from step" "$2.out"; then
        fail "$1: nobody was replaced"
        tail -n 5 "$2.out" | sed 's/^/    /'
    else
        pass "$1"
    fi
    rm -rf "$2" "$2.out"
}

