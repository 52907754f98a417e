#!/usr/bin/env bash
# Loss scaling: a scale changes no bit; gradients in float16 overflow, and the scale follows, the same on any number of
# ranks, through a stop and where an infinite gradient is planted.
. "$(dirname "$0")/support.sh"
make_text 200 >text.txt
make_model model.json
make_config run.yaml

columns() { grep -o '"step": [0-9]*, "loss": [^,]*, "grad_norm": [^,]*' "$1/metrics.jsonl"; }
scales() { grep -o '"loss_scale": [^,]*\(, "skipped": true\)\?' "$1/metrics.jsonl" | sed 's/"loss_scale": //; s/, "skipped": true/ skipped/' | paste -sd, ; }

# train FOLDER ARGUMENTS...
train() {
    local out=$1
    shift
    "$tessera" train run.yaml job.dump_folder="$out" training.steps=8 checkpoint.interval=4 model.save_dtype=float32 "$@" >log 2>&1 ||
        { fail "$*: $(tail -n 3 log)"; return 1; }
}

# same NAME A B: runs with the same columns and weights.
same() {
    if cmp -s <(columns "$2") <(columns "$3") && cmp -s "$2/model/model.safetensors" "$3/model/model.safetensors"; then
        pass "$1"
    else
        fail "$1: the columns or the weights differ: $(diff <(columns "$2") <(columns "$3") | head -n 3)"
    fi
}

equal() { [ "$2" = "$3" ] && pass "$1" || fail "$1: $2, expected $3"; } # NAME GOT WANT

train plain
train scaled training.loss_scale=1024 -n 2
same "a fixed scale changes no bit" scaled plain

train out training.loss_scale=1024 -n 2 parallelism.pipeline_parallel_degree=2
same "a fixed scale changes no bit of a pipeline" out plain
train passes training.passes=2
rm -rf out
train out training.passes=2 training.loss_scale=1024 -n 2
same "a fixed scale changes no bit of passes" out passes
rm -rf out

half="training.mixed_precision_reduce=float16 training.loss_scale=0 training.loss_scale_init=262144 training.loss_scale_interval=2"
train half $half
first=$(scales half | cut -d, -f1)
equal "sums of gradients overflow at first" "$first" "262144 skipped"
for layout in "-n 2" "-n 4 parallelism.shard_strategy=none"; do
    rm -rf out
    train out $half $layout
    same "float16, $layout" out half
    equal "its scales" "$(scales out)" "$(scales half)"
done
rm -rf out/checkpoint/step-00000008 out/model
train out $half -n 3
has_text log 'resumed from step 4' && pass "it goes on" || fail "it did not go on: $(tail -n 3 log)"
same "float16, stopped and resumed" out half
equal "its scales" "$(scales out)" "$(scales half)"

rm -rf out
train out $half -n 2 recovery.enable=true fault.spec="rank=1 step=3 point=phase:judged kind=sigkill"
has_text log 'replaced in' && pass "a rank was lost" || fail "no rank was lost: $(tail -n 3 log)"
same "float16, a rank lost" out half
equal "its scales" "$(scales out)" "$(scales half)"

# The rule of torch.amp.GradScaler: halved by the infinite gradients of steps 2 and 5, doubled after two steps without one.
rm -rf out
train out training.loss_scale=0 training.loss_scale_init=1024 training.loss_scale_interval=2 -n 2 \
    "fault.spec=rank=0 step=2 point=gradient kind=inf; rank=1 step=5 point=gradient kind=inf"
equal "planted infinities" "$(scales out)" "1024,1024 skipped,512,512,1024 skipped,512,512,1024"

# DeepSpeed's rule: the first of two is endured, on a resumed run too.
rm -rf out
hysteresis="training.loss_scale=0 training.loss_scale_init=1024 training.loss_scale_interval=9 training.loss_scale_hysteresis=2"
infinite="rank=0 step=2 point=gradient kind=inf; rank=0 step=5 point=gradient kind=inf life=0"
train out $hysteresis -n 2 "fault.spec=$infinite"
equal "the first infinity is endured" "$(scales out)" "1024,1024 skipped,1024,1024,1024 skipped,512,512,512"
rm -rf out/checkpoint/step-00000008 out/model
train out $hysteresis "fault.spec=$infinite"
has_text log 'resumed from step 4' && equal "it is remembered" "$(scales out)" "1024,1024 skipped,1024,1024,1024 skipped,512,512,512" ||
    fail "it did not go on: $(tail -n 3 log)"
expect the_least_scale_ends_the_run 2 "with a loss scale of 1024, the least (training.loss_scale_min)" \
    "$tessera" train run.yaml job.dump_folder=out2 training.loss_scale=0 training.loss_scale_init=1024 training.loss_scale_min=1024 \
    "fault.spec=rank=0 step=2 point=gradient kind=inf"
rm -rf out2

# float16 of everything: the loss follows float32's, whatever the layout.
half="training.mixed_precision_param=float16 training.mixed_precision_reduce=float16 training.loss_scale=0 training.loss_scale_init=512"
rm -rf out half
train half $half
train out $half -n 3
same "float16 parameters, -n 3" out half
train float32 training.mixed_precision_param=float32
awk 'NR == FNR { want[FNR] = $4; next } { off = $4 / want[FNR] - 1; if (off > 1e-2 || off < -1e-2) exit 1 }' \
    <(columns float32 | tr -d ,) <(columns half | tr -d ,) && pass "float16 follows float32" ||
    fail "float16 is far from float32: $(diff <(columns float32) <(columns half) | head -n 4)"

expect float8_parameters_are_refused 2 "no kernel computes in float8_e4m3" \
    "$tessera" train run.yaml job.dump_folder=out2 training.mixed_precision_param=float8_e4m3
expect an_odd_scale_is_refused 2 "training.loss_scale: 1000 is no power of two" \
    "$tessera" train run.yaml job.dump_folder=out2 training.loss_scale=1000
[ ! -e out2 ] && pass "nothing was written" || fail "out2 was written"
finish
