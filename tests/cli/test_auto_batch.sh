#!/usr/bin/env bash
# training.local_batch_size=auto: the number is that of the plan, the same on every number of ranks with the same memory;
# its bits are those of the number written by hand; resumes keep it; what does not fit is refused with the missing bytes.
. "$(dirname "$0")/support.sh"
make_text 900 >text.txt
make_model model.json
sed -i 's/"max_position_embeddings": 64/"max_position_embeddings": 1024/' model.json
make_config run.yaml
# Activations of a row take more than the state of a rank, so that the state does not decide.
base="training.seq_len=1009 training.global_batch_size=72 training.local_batch_size=auto training.memory_budget=12MiB
      validation.enable=false lr_scheduler.warmup_steps=0 lr_scheduler.decay_type=constant model.save_dtype=float32
      checkpoint.interval=1000 training.threads=1 debug.trace=false"

columns() { grep -o '"step": [0-9]*, "loss": [^,]*, "grad_norm": [^,]*' "$1/metrics.jsonl"; }
train() { "$tessera" train run.yaml $base job.dump_folder="$@"; }

# same NAME FOLDER REFERENCE
same() {
    cmp -s <(columns "$2") <(columns "$3") && cmp -s "$2/model/model.safetensors" "$3/model/model.safetensors" &&
        pass "$1" || fail "$1: $(diff <(columns "$2") <(columns "$3") | head -n 3)"
}

expect "one rank by hand" 0 "in micro-batches of 3" train hand -n 1 training.steps=1 training.local_batch_size=3
for n in 1 2 3 4 8; do
    expect "$n ranks choose 3 rows" 0 "training.local_batch_size=auto: 3 rows, which need" train auto$n -n $n training.steps=1
    grep -q "in micro-batches of 3$" output && pass "the ranks use them" || fail "$(cat output)"
    same "$n ranks: the bits are those of the number by hand" auto$n hand
done
expect "one rank that no launcher started" 0 "auto: 3 rows" train alone training.steps=1
same "it has the same bits" alone hand

foretold auto3 && pass "each rank's peak is what was planned" || fail "$(pools auto3)"

"$tessera" plan run.yaml $base -n 4 --machine h100-sxm --json >plan.json
python3 - <<'P' && pass "tessera plan chooses the most that fit into a GPU" || fail "$(cat plan.json)"
import json
plan = json.load(open("plan.json"))
chosen = plan["micro_batch"]
exit(not (chosen["fits"] and plan["memory"]["bytes"] <= 12 * 2**20 < chosen["next_bytes"] and chosen["rows"] < chosen["next_rows"]))
P
expect "the same in words" 0 "training.local_batch_size=auto: " "$tessera" plan run.yaml $base -n 4 --machine h100-sxm
expect "a plan of this host" 0 "in micro-batches of" train free -n 2 training.steps=1 training.memory_budget=0
grep -q "auto: 36 rows, which need .* (nine tenths of what is free on the host)" output && pass "free memory: no rank is idle" ||
    fail "$(cat output)"

# Resumes on other ranks, with other memory.
expect "2 ranks" 0 "auto: 3 rows" train kept -n 2 training.steps=1
expect "4 ranks and more memory keep it" 0 "auto: 3 rows, as in the checkpoint" train kept -n 4 training.steps=2 training.memory_budget=0
grep -q "in micro-batches of 3$" output && grep -q "resumed from step 1" output && pass "and go on" || fail "$(cat output)"
expect "1 rank and less memory keep it" 0 "auto: 3 rows, as in the checkpoint" train kept -n 1 training.steps=3 training.memory_budget=1MiB
expect "one that never stopped" 0 "micro-batches of 3" train whole -n 2 training.steps=3 training.local_batch_size=3
same "the bits are those of a run that never stopped" kept whole

# A killed rank comes back with the number, although memory is less by then.
expect "a rank is killed, and the run goes on" 0 "in micro-batches of 3" train killed -n 2 training.steps=3 recovery.enable=true \
    recovery.backoff_s=0 checkpoint.memory_copies=true fault.spec="rank=1 step=2 kind=sigkill"
same "with the bits of a run that never stopped" killed whole

# An open batch of the step: one micro-batch a rank.
expect "the batch of a step follows" 0 "batch: 6 rows of 1009 tokens a step, in micro-batches of 3" \
    train open -n 2 training.steps=1 training.global_batch_size=0
expect "and both are kept" 0 "batch: 6 rows of 1009 tokens a step, in micro-batches of 3" \
    train open -n 4 training.steps=2 training.global_batch_size=0 training.memory_budget=0

# Pipelines get at least one micro-batch a stage, and only numbers that the schedule allows.
expect "a pipeline of 3 stages" 0 "in micro-batches of 2" train pp -n 3 training.steps=1 training.global_batch_size=6 \
    parallelism.pipeline_parallel_degree=3 training.memory_budget=1GiB

# The budget is that of each rank. With 2 rows the mean of this pipeline's ranks is 0.9 of what the largest needs, which depends on
# the kernels of the machine.
needs=$(sed -n 's/.*auto: 2 rows, which need \([0-9.]*\) MiB.*/\1/p' output)
expect "the largest rank of a pipeline counts" 0 "auto: 1 row, which needs" train alike -n 3 training.steps=1 \
    training.global_batch_size=6 parallelism.pipeline_parallel_degree=3 \
    training.memory_budget="$(LC_ALL=C awk -v mib="$needs" 'BEGIN { print int(0.97 * mib * 1024) }')KiB"

# Commands that do not choose take a number that the run may choose.
odd="training.passes=4 training.global_batch_size=10 training.seq_len=64 training.steps=1"
expect "passes that do not divide the step" 0 "auto: 10 rows" train odd -n 1 $odd
expect "the same without a launcher" 0 "auto: 10 rows" train odd1 $odd
expect "the same in preflight" 0 "the run chooses it" "$tessera" doctor preflight run.yaml $base $odd -n 2 --only config
expect "the memory of preflight" 0 "needed (estimate): the run chooses" "$tessera" doctor preflight run.yaml $base $odd \
    job.dump_folder=new -n 2 --only memory
expect "the memory of a job of Slurm is the budget" 0 "take up to 24 MiB a node" \
    "$tessera" slurm run.yaml $base $odd --nodes 1 --ranks-per-node 2
grep -q '^#SBATCH --mem=' output && pass "with an option" || fail "$(cat output)"
expect "or nothing" 0 "# No --mem: the ranks choose" "$tessera" slurm run.yaml $base training.memory_budget=0 --nodes 1
grep -q '^#SBATCH --mem' output && fail "$(cat output)" || pass "without an option"

expect "another number after a checkpoint" 0 \
    "warning: a micro-batch had 10 rows until here, now it has 5 (training.local_batch_size)" \
    train odd $odd training.steps=2 training.local_batch_size=5

expect "nothing fits" 2 "not even a micro-batch of 1 row fits: a rank needs" train no -n 2 training.memory_budget=1MiB training.steps=1
grep -q "training.memory_budget of each rank is 1.00 MiB, .* too little. It would fit" output && pass "by how much, and what would" ||
    fail "$(cat output)"
expect "a machine where nothing fits" 2 "too little. It would fit" "$tessera" plan run.yaml $base training.memory_budget=0 \
    -n 2 --machine "$(printf 'machine:\n  name: small\n  devices: 2\ncompute:\n  bf16_tflops: 100\nmemory:\n  gb: 0.001\n  gb_per_s: 1000\npcie:\n  gb_per_s: 10\n' >small.yaml; echo small.yaml)"
expect "a word that is none" 2 "neither 'auto' nor an integer in the range" train no training.local_batch_size=much
expect "zero is no number of rows" 2 "0 is outside 1 .. 65536" train no training.local_batch_size=0
expect "no divisor is allowed" 2 "no divisor of training.global_batch_size=7 is at least training.passes=8" \
    train no -n 2 training.global_batch_size=7 training.passes=8 training.steps=1
expect "a GPU that is not there" 2 "training.local_batch_size=auto: device 'cuda'" \
    env TESSERA_CUDA=/nowhere/x.so "$tessera" train run.yaml $base job.dump_folder=no training.memory_budget=0 job.device=cuda -n 2
expect "commands that do not choose say so" 2 "only \`tessera train\`, \`tessera rl\` and \`tessera plan\` choose it" \
    "$tessera" verify run.yaml $base -n 2
expect "info shows it" 0 "local_batch_size=auto" "$tessera" info run.yaml $base --filter local_batch_size
expect "preflight leaves it open" 0 "the run chooses it" "$tessera" doctor preflight run.yaml $base -n 2 --only config
finish
