#!/usr/bin/env bash
# Checks around a pipeline before its first step: numbers that do not fit, ranks that disagree.
. "$(dirname "$0")/support.sh"
make_text 600 >text.txt
make_model model.json
make_config run.yaml
pp=parallelism.pipeline_parallel_degree
schedule=parallelism.pipeline_parallel_schedule

layers=parallelism.pipeline_parallel_layers_per_stage
sed 's/"num_hidden_layers": 3/"num_hidden_layers": 11/' model.json >eleven.json

# refused NAME EXIT_CODE TEXT RANKS OVERRIDES...
refused() {
    local name=$1 code=$2 text=$3 ranks=$4
    shift 4
    rm -rf out
    expect "$name" "$code" "$text" "$tessera" train run.yaml -n "$ranks" "$@"
}

# bad NAME TEXT RANKS OVERRIDES...: refused as bad input, by commands that start ranks and those that only plan; nothing
# is written.
bad() {
    local name=$1 text=$2 ranks=$3
    shift 3
    refused "$name" 2 "$text" "$ranks" "$@"
    [ -e out/metrics.jsonl ] && fail "$name: trained"
    expect "$name: verify" 2 "$text" "$tessera" verify run.yaml -n "$ranks" "$@"
}

# ---- Numbers that do not fit: the message has those that would
bad "more stages than layers" "4 ranks with 1 stage each (1f1b) are more stages than the model's 3 layers: give a degree of 2" \
    4 $pp=4
bad "more stages than layers, two a rank" \
    "2 ranks with 2 stages each (zbv) are more stages than the model's 3 layers: give a degree of 1, or a schedule with one" \
    2 $pp=2 $schedule=zbv
bad "a degree that does not divide" "3 does not divide 4 ranks: start a multiple of 3 ranks, or give a divisor of 4" 4 $pp=3
bad "no stages" "0 is outside 1 .. 4096" 4 $pp=0
bad "too few micro-batches" "training.global_batch_size=4 has 2 micro-batches a rank: set training.global_batch_size=8, or another schedule: dualpipev with 2 ranks needs 4 or more" \
    2 $pp=2 $schedule=dualpipev training.global_batch_size=4 model.config=eleven.json
bad "too few for data-parallel ranks" "has 2 micro-batches a rank: set training.global_batch_size=16" \
    4 $pp=2 $schedule=dualpipev training.global_batch_size=8 model.config=eleven.json
bad "no multiple" "training.global_batch_size=6 has 3 micro-batches a rank: set training.global_batch_size=8, or another schedule: interleaved with 2 ranks needs a multiple of 2" \
    2 $pp=2 $schedule=interleaved training.global_batch_size=6 model.config=eleven.json
bad "layers a stage that make no multiple" "4 layers a stage make 3 stages of 11 layers, which is not a multiple of 2 ranks: take 6" \
    2 $pp=2 $layers=4 model.config=eleven.json
bad "layers a stage that make too many stages" "6 stages of 11 layers, 3 a rank, which 1f1b does not take (interleaved does): take 6" \
    2 $pp=2 $layers=2 model.config=eleven.json
bad "a schedule misspelt" "'interleavd' is not one of gpipe|1f1b|interleaved|zb_h1|zbv|dualpipev: did you mean 'interleaved'?" \
    2 $pp=2 $schedule=interleavd
bad "passes" "2 passes of a micro-batch do not go through a pipeline: set training.passes=1" 2 $pp=2 training.passes=2
bad "replicas of a stage" "2 replicas do not divide 3 ranks: give a divisor of 3" 6 $pp=2 \
    parallelism.data_parallel_replicate_degree=2

# ---- Each number that a message proposes is taken, and accepted. KEY -n: the number of ranks.
# hints KEY TEXT RANKS OVERRIDES...: what follows TEXT in the message, up to the next ":" or ",", are values of KEY.
hints() {
    local key=$1 text=$2 ranks=$3 value values how
    shift 3
    "$tessera" mesh run.yaml -n "$ranks" "$@" >output 2>&1 && fail "not refused: $*"
    values=$(sed -n "s/.*$text\([0-9][^:,]*\).*/\1/p" output | tr -c '0-9\n' ' ')
    [ -n "$values" ] || fail "no number after '$text' in $(cat output)"
    for value in $values; do
        how=("-n" "$ranks" "$@" "$key=$value")
        [ "$key" = -n ] && how=(-n "$value" "$@")
        expect "taken: ${how[*]}" 0 "mesh " "$tessera" mesh run.yaml "${how[@]}"
    done
}
m="model.config=eleven.json training.global_batch_size=64"
tp=parallelism.tensor_parallel_degree
for kind in 1f1b interleaved zbv; do
    for each in 2 4 5 7 9; do
        "$tessera" mesh run.yaml -n 2 $m $pp=2 $schedule=$kind $layers=$each >output 2>&1 ||
            hints $layers "take " 2 $m $pp=2 $schedule=$kind $layers=$each
    done
done
hints $layers "take " 3 $m $pp=3 $layers=7 parallelism.pipeline_parallel_first_stage_less_layers=1
hints $pp "give a degree of " 4 training.global_batch_size=64 $pp=4
hints $pp "give a degree of " 4 training.global_batch_size=64 $pp=4 $schedule=zbv
hints $pp "give a degree of " 12 $m $pp=12
hints -n "start a multiple of " 4 $pp=3
hints -n "start a multiple of " 4 $pp=3 $tp=2
hints -n "start a multiple of " 6 $pp=3 $tp=4 training.global_batch_size=64
hints -n "start a multiple of " 4 $tp=3
hints $tp "give a divisor of " 6 $pp=3 $tp=4
hints $pp "give a divisor of " 4 $pp=3 $tp=2
hints training.global_batch_size "global_batch_size=[0-9]* has.* set training.global_batch_size=" 2 $pp=2 $schedule=dualpipev \
    training.global_batch_size=4 model.config=eleven.json
hints training.global_batch_size "global_batch_size=[0-9]* has.* set training.global_batch_size=" 4 $pp=2 $schedule=interleaved \
    training.global_batch_size=10 model.config=eleven.json

# ---- What is shown before anything starts
eleven="$pp=2 model.config=eleven.json"
expect "mesh shows stages" 0 "pp 1    stage 1: layers 6-10, head" "$tessera" mesh run.yaml -n 4 $eleven
grep -q "^pp 0    stage 0: embedding, layers 0-5$" output && pass "with the embedding" || fail "embedding: $(cat output)"
expect "several of a rank" 0 "pp 0    stage 0: embedding, layers 0-2; stage 3: layers 9-10, head" "$tessera" mesh run.yaml \
    -n 4 $eleven $schedule=zbv
expect "mesh as JSON" 0 '"first_layer": 6' "$tessera" mesh run.yaml -n 4 $eleven --json
expect "mesh without a model" 0 "mesh 2 x 1 x 2 (pp, dp_replicate, dp_shard)" "$tessera" mesh -n 4 $pp=2
expect "mesh of stages without layers" 2 "more stages than the model's 3 layers" "$tessera" mesh run.yaml -n 4 $pp=4
expect "preflight counts rows by stage" 0 "16 rows a step = 2 ranks of a stage x 4 x 2; stages of layers 0-5, 6-10" \
    "$tessera" doctor preflight run.yaml -n 4 --only config $eleven
expect "preflight finds a schedule file that is missing" 4 "pipeline_parallel_schedule_csv: open none.csv" \
    "$tessera" doctor preflight run.yaml -n 4 --only config $eleven parallelism.pipeline_parallel_schedule_csv=none.csv
expect "preflight finds stages without layers" 4 "more stages than the" "$tessera" doctor preflight run.yaml -n 4 --only config \
    $pp=4

# ---- Frozen layers cost less, and every command plans the stages of the run: layers 0-6 and 7-10, not 0-5 and 6-10
frozen="$eleven training.freeze=model.embed_tokens,model.layers.[0-5]"
expect "frozen: the run" 0 "stages of layers 0-6, 7-10" "$tessera" train run.yaml -n 2 $frozen training.steps=1 \
    lr_scheduler.warmup_steps=0 job.dump_folder=frozen checkpoint.enable=false validation.enable=false
expect "frozen: mesh" 0 "pp 1    stage 1: layers 7-10, head" "$tessera" mesh run.yaml -n 2 $frozen
expect "frozen: preflight" 0 "stages of layers 0-6, 7-10" "$tessera" doctor preflight run.yaml -n 2 --only config $frozen
expect "frozen: verify" 0 "the same bits: this layout" "$tessera" verify run.yaml -n 2 --steps 1 $frozen

# ---- torchtitan's names
for names in GPipe:gpipe 1F1B:1f1b interleaved1f1b:interleaved ZBVZeroBubble:zbv DualPipeV:dualpipev; do
    expect "${names%:*}" 0 "pipeline_parallel_schedule=${names#*:} " "$tessera" info run.yaml $schedule="${names%:*}"
done

# ---- What a pipeline has trained needs none
rm -rf out
expect "a sample at the end" 0 "out/model" "$tessera" train run.yaml -n 3 $pp=3 training.steps=6 sample.prompt="the sea" \
    sample.max_new_tokens=4
expect "eval of its model" 0 "perplexity" "$tessera" eval out/model --data text.txt
expect "generate with it" 0 "the sea" "$tessera" generate out/model --prompt "the sea" --max-new-tokens 4

# ---- The measured timeline: a row a rank in the log, and in the file each action of a stage once
for kind in 1f1b zb_h1; do
    rm -rf out
    expect "timeline of $kind" 0 "pipeline: step 4 took" "$tessera" train run.yaml -n 4 $pp=2 $schedule=$kind training.steps=5 \
        training.local_batch_size=1 metrics.pipeline_timeline=4
    micros=$(sed -n "s/^pipeline: $kind, \([0-9]*\) micro-batches.*/\1/p" output)
    [ "$(grep -cE '^  rank [01]  [FBIW.]+$' output)" = 2 ] && pass "$kind: a row a stage" || fail "$kind: $(cat output)"
    tr '{' '\n' <out/pipeline/step-00000004.json >events
    for action in F $([ $kind = 1f1b ] && echo B || echo BI BW); do
        n=$(grep -cE "\"name\": ?\"$action [0-9]+\"" events)
        [ "$n" = $((2 * micros)) ] && pass "$kind: $action of each micro-batch on each stage" || fail "$kind: $n times $action"
    done
done
[ ! -e out/pipeline/step-00000005.json ] && pass "no other step is drawn" || fail "step 5 is drawn"
expect "no timeline without a pipeline" 0 "metrics.pipeline_timeline: there is no pipeline" "$tessera" train run.yaml -n 2 \
    training.steps=5 metrics.pipeline_timeline=4 job.dump_folder=flat
mkdir closed && echo file >closed/pipeline
expect "a timeline that cannot be written" 0 "warning: no timeline of step 4" "$tessera" train run.yaml -n 2 $pp=2 \
    training.steps=5 metrics.pipeline_timeline=4 job.dump_folder=closed

# ---- Ranks that do not plan the same
refused "a rank of a stage with fewer micro-batches" 1 "before the first step: ranks disagree, the odd one out: rank 3 has" \
    4 $pp=2 training.local_batch_size=1 fault.spec="rank=3 step=1 kind=uneven"
finish
