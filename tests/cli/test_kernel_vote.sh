#!/usr/bin/env bash
# Ranks on unequal CPUs compute with the best table of kernels that all have, and get its bits. Ranks are made unequal
# by TESSERA_CPU_MOST of their own.
. "$(dirname "$0")/support.sh"
make_text 200 >text.txt
make_model model.json
make_config run.yaml

columns() { grep -o '"step": [0-9]*, "loss": [^,]*, "grad_norm": [^,]*' "$1/metrics.jsonl"; }

cat >unequal <<'END'
#!/usr/bin/env bash
# unequal COMMAND...: rank R has the kernels of $most_R at most, and is told to take those of $cpu_R.
most=most_$TESSERA_RANK
cpu=cpu_$TESSERA_RANK
[ -z "${!most:-}" ] || export TESSERA_CPU_MOST=${!most}
[ -z "${!cpu:-}" ] || export TESSERA_CPU=${!cpu}
exec "$@"
END
chmod +x unequal

# train FOLDER RANKS ARGUMENTS...
train() {
    local out=$1 ranks=$2
    shift 2
    rm -rf "$out"
    "$tessera" run -n "$ranks" -- ./unequal "$tessera" train run.yaml job.dump_folder="$out" training.steps=4 checkpoint.interval=2 \
        lr_scheduler.warmup_steps=1 model.save_dtype=float32 "$@" >log 2>&1 </dev/null
}

# voted NAME REFERENCE RANKS ARGUMENTS...: a run with the bits of the one in folder REFERENCE.
voted() {
    local name=$1 reference=$2
    shift 2
    if ! train out "$@"; then
        fail "$name: $(tail -n 3 log)"
    elif cmp -s <(columns out) <(columns "$reference") && cmp -s out/model/model.safetensors "$reference/model/model.safetensors"; then
        pass "$name"
    else
        fail "$name: other bits: $(diff <(columns out) <(columns "$reference") | head -n 3)"
    fi
}

says() { has_text log "$2" && pass "$1" || fail "$1: the log has no '$2': $(head -n 12 log)"; }

best=$("$tessera" info | sed -n 's/^kernels: \([a-z0-9_]*\) .*/\1/p')
[ "$best" != ref ] || { echo "this CPU has one table"; exit 77; }
TESSERA_CPU=ref train ref 1
TESSERA_CPU="$best" train best 1
voted "equal ranks" best 2
has_text log 'has no kernels' && fail "equal ranks voted: $(cat log)" || pass "equal ranks say nothing"
most_1=ref voted "the second of 2 ranks has less" ref 2
says "it is named" "rank 1 has no kernels '$best': all ranks compute with 'ref'"
most_0=ref voted "the first of 3 ranks has less" ref 3 parallelism.shard_strategy=zero2
most_0=avx2 most_3=ref voted "4 ranks of three kinds" ref 4
says "the least is named" "rank 3 has no kernels '$best'"

# A table that somebody names is no vote.
TESSERA_CPU=ref most_1=avx2 voted "a table is named" ref 2
has_text log 'has no kernels' && fail "a named table was voted on: $(cat log)" || pass "a named table is no vote"
TESSERA_CPU="$best" most_1=ref train none 2 && fail "a rank computed with what it has not" ||
    says "a rank that lacks what is named says so" "TESSERA_CPU_MOST allows 'ref' at most"
cpu_0=avx2 most_1=ref train none 2 && fail "ranks computed with two tables" ||
    says "a name that others cannot follow" "but rank 1 has no better ones than 'ref': name one table"

# Precision: bfloat16 where all ranks have it in hardware.
auto=training.mixed_precision_param=auto
train float32 1 training.mixed_precision_param=float32
most_1=avx2 voted "one rank has no bfloat16: float32" float32 2 $auto
says "that is said" "Falling back to float32: kernels 'avx2' have no products of bfloat16 in hardware"
if [ "$best" != avx2 ] && [ "$best" != avx512 ]; then
    voted "all have it: bfloat16" best 2 $auto
    has_text log 'Falling back' && fail "fell back: $(cat log)" || pass "nothing fell back"
fi

# The run goes on as on another machine, with other bits, and says so.
mv best out2 && rm -rf out2/checkpoint/step-00000004 out2/model
TESSERA_CPU=ref "$tessera" train run.yaml job.dump_folder=out2 training.steps=4 lr_scheduler.warmup_steps=1 >log 2>&1
says "other kernels go on" "kernels '$best' computed until here, now 'ref': bits in bfloat16 are others from here on"
copies="$tessera train run.yaml -n 1 job.dump_folder=out3 training.steps=4 lr_scheduler.warmup_steps=1 checkpoint.memory_copies=true"
TESSERA_CPU="$best" $copies fault.spec="rank=all step=4 point=phase:optimizer kind=sigkill" >log 2>&1
TESSERA_CPU=ref $copies >log 2>&1
says "other kernels go on from memory" "kernels '$best' computed until here, now 'ref': bits in bfloat16 are others from here on"
finish
