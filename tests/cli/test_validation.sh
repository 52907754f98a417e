#!/usr/bin/env bash
# Evaluation that goes wrong costs its result, never the training: deadline, retries, partial and missing results.
. "$(dirname "$0")/support.sh"

make_text 200 >text.txt
make_text 90 >held.txt
make_model model.json
make_config config.yaml
train() {
    "$tessera" train config.yaml -n "$1" validation.files=held.txt validation.interval=4 training.steps=8 \
        lr_scheduler.warmup_steps=2 checkpoint.enable=false job.dump_folder="$2" "${@:3}"
}
losses() { grep -o '"step": [0-9]*, "loss": [^,]*, "grad_norm": [^,]*' "$1/metrics.jsonl"; }
# The metrics of the evaluation of step 4.
at_4() { grep '"step": 4, "validation' "$1/metrics.jsonl"; }
same_training() { expect "$1: the training is that of a run without evaluation" 0 same cmp_losses "$1"; }
cmp_losses() { cmp <(losses plain) <(losses "$1") && cmp plain/model/model.safetensors "$1/model/model.safetensors" && echo same; }

expect "without evaluation" 0 "8 steps" train 2 plain validation.enable=false
expect "undisturbed" 0 "validation: step:     4  loss:" train 2 good
same_training good

# A rank fails to read: all continue where it failed, with smaller micro-batches, to the same digits.
expect "one failure is made good" 0 \
    "rank 1: the held-out text: an injected failure; retry 1 of 3, with micro-batches of 1 row" \
    train 2 retried fault.spec="rank=1 step=4 point=phase:validation kind=fail"
expect "and leaves no trace" 0 "same" bash -c "cmp <(grep validation good/metrics.jsonl) <(grep validation retried/metrics.jsonl) && echo same"
same_training retried
expect "in the middle too" 0 "retry 2 of 3" \
    train 2 middle fault.spec="rank=0 step=5 point=phase:forward:2 kind=fail; rank=1 step=5 point=phase:forward:1 kind=fail n=2"
expect "and leaves no trace there" 0 "same" bash -c "cmp <(grep validation good/metrics.jsonl) <(grep validation middle/metrics.jsonl) && echo same"

# A rank that keeps failing.
expect "a failure that stays" 0 "validation: step:     4  missing: rank 3: the held-out text: an injected failure" \
    train 4 missing metrics.enable_tensorboard=true fault.spec="rank=3 step=4 point=phase:validation kind=fail n=4"
expect "is missing in the metrics" 0 '"validation_loss": null, "validation_perplexity": null, "validation_bits_per_byte": null, "validation_tokens": 0, "validation_error": "rank 3:' at_4 missing
expect "the next evaluation is whole" 0 "same" \
    bash -c "cmp <(grep '\"step\": 8, \"validation' good/metrics.jsonl) <(grep '\"step\": 8, \"validation' missing/metrics.jsonl) && echo same"
# The first name in TensorBoard's file is that of the hyperparameters' metric.
expect "TensorBoard has that one alone" 0 "1" \
    bash -c "grep -ao validation_metrics/loss missing/tb/events* | tail -n +2 | wc -l"
same_training missing
expect "what was read before counts as partial" 0 "tokens of about" \
    train 2 half fault.spec="rank=1 step=5 point=phase:forward:2 kind=fail n=4"
expect "and is marked" 0 '"validation_partial": true, "validation_tokens_all":' at_4 half

# The deadline: no rank goes on alone. It passes in the first micro-batch, unless the machine stands still for longer
# before that.
for seconds in 1 10 60; do
    train 2 late validation.timeout_s=$seconds metrics.enable_tensorboard=true \
        fault.spec="rank=1 step=5 point=phase:forward:1 kind=sleep ms=${seconds}100" >late.log 2>&1
    at_4 late | grep -q '"validation_loss": null' || break
    rm -rf late
done
expect "the deadline" 0 "of about" cat late.log
expect "is told" 0 "validation.timeout_s=$seconds passed" at_4 late
expect "a part is no point of the curve" 0 "validation_metrics/partial_loss" \
    bash -c "grep -ao 'validation_metrics/[a-z_]*loss' late/tb/events* | sed -n 2p"
same_training late
expect "before the first micro-batch nothing is known" 0 "validation: step:     4  missing: validation.timeout_s=0.1 passed" \
    train 2 nothing validation.timeout_s=0.1 fault.spec="rank=1 step=4 point=phase:validation kind=sleep ms=200"
same_training nothing

# An evaluation that ends a rank each time: the third life leaves it out, hot or restarted.
for hot in true false; do
    expect "a crash in it, hot=$hot" 0 "missing: ranks were lost in it twice" train 2 "crash-$hot" recovery.enable=true \
        recovery.hot=$hot fault.spec="rank=1 step=4 point=phase:validation kind=crash life=0"
    expect "is missing" 0 '"validation_loss": null' at_4 "crash-$hot"
    same_training "crash-$hot"
done

# ---- Early stopping: with min_delta=10 nothing is better than the first evaluation
patience=(validation.files=held.txt validation.interval=2 validation.patience=2 validation.min_delta=10 training.steps=20
    lr_scheduler.warmup_steps=2 lr_scheduler.decay_type=constant checkpoint.interval=1)
early() { # FOLDER RANKS ARGUMENTS...
    "$tessera" train config.yaml -n "$2" "${patience[@]}" job.dump_folder="$1" "${@:3}"
}
plain() { # FOLDER STEPS
    "$tessera" train config.yaml validation.enable=false training.steps="$2" lr_scheduler.warmup_steps=2 lr_scheduler.decay_type=constant \
        checkpoint.enable=false job.dump_folder="$1"
}
expect "to the second step" 0 "2 steps" plain two 2
expect "to the sixth step" 0 "6 steps" plain six 6
ended() { # NAME FOLDER
    expect "$1 ends after two evaluations that are no better" 0 \
        "the run ends at step 6 of 20: 2 evaluations without a better loss (validation.patience)" cat "$2.log"
    expect "$1 names its best model" 0 "best: step 2, validation loss" cat "$2.log"
    cmp -s "$2/best/model.safetensors" two/model/model.safetensors && cmp -s "$2/model/model.safetensors" six/model/model.safetensors &&
        pass "$1: best/ is the model of step 2, model/ that of step 6" || fail "$1: best/ or model/ is another"
}
early one 1 >one.log 2>&1
ended "a run of one rank" one
early three 3 >three.log 2>&1
ended "a run of three ranks" three
early killed 2 fault.spec="rank=1 step=5 point=phase:forward:1 kind=crash" >killed.log 2>&1
early killed 3 >killed.log 2>&1
ended "a run that was killed and resumed" killed
early hot 2 recovery.enable=true fault.spec="rank=1 step=5 point=step kind=sigkill" >hot.log 2>&1
ended "a run that lost a rank" hot
# An evaluation that was cut off is repeated, on every way of going on, or the run would end later.
cut="rank=1 step=4 point=phase:validation"
early crashed 2 recovery.enable=true fault.spec="$cut kind=crash" >crashed.log 2>&1
ended "a crash in an evaluation" crashed
early restarted 2 recovery.enable=true recovery.hot=false checkpoint.interval=3 fault.spec="$cut kind=crash" >restarted.log 2>&1
ended "a restart after a crash in an evaluation" restarted
for ranks in 2 3; do
    early copies$ranks 2 checkpoint.memory_copies=true checkpoint.interval=100 \
        fault.spec="rank=all step=5 point=phase:forward:1 kind=sigkill" >copies$ranks.log 2>&1
    early copies$ranks $ranks checkpoint.memory_copies=true checkpoint.interval=100 >copies$ranks.log 2>&1
    ended "memory copies of an evaluation that was killed, for $ranks ranks" copies$ranks
done
# stop NAME POINT ARGUMENTS...: a run that is asked to stop while rank 1 stands still there, and goes on with 3 ranks.
stop() {
    "$tessera" train config.yaml -n 2 "${patience[@]}" job.dump_folder="$1" fault.spec="rank=1 $2 kind=sigstop" "${@:3}" \
        >"$1.log" 2>&1 &
    local launcher=$!
    await $launcher is_stopped $launcher 1
    kill -TERM $launcher
    await $launcher has_text "$1.log" "asked to stop"
    kill -CONT "$(rank $launcher 1)"
    wait $launcher
    early "$1" 3 "${@:3}" >"$1.log" 2>&1
}
stop asked_in_evaluation "step=5 point=phase:forward:1"
ended "a stop in an evaluation" asked_in_evaluation
stop asked_before "step=4 point=phase:backward"
ended "a stop in the step before an evaluation" asked_before
cmp -s <(grep validation one/metrics.jsonl | sed 's/, "validation_seconds.*//') \
    <(grep validation asked_before/metrics.jsonl | sed 's/, "validation_seconds.*//') && pass "with the same metrics" ||
    fail "other metrics: $(diff one/metrics.jsonl asked_before/metrics.jsonl)"
stop asked_at_the_end "step=7 point=phase:forward:1" training.steps=6
expect "a stop in the last evaluation" 0 "6 steps" tail -n 2 asked_at_the_end.log
expect "is of a run that is not finished" 0 "best: step 2, validation loss" cat asked_at_the_end.log
expect "it is over, and the same command says so" 0 "the run ends at step 6 of 20" early one 2
expect "with more patience it goes on" 0 "the run ends at step 8 of 20" early one 2 validation.patience=3
expect "without anything to evaluate on" 2 "validation.patience: there is nothing to evaluate on" early never 1 validation.enable=false
[ ! -e never ] || fail "patience without evaluation: something was written"

# A job that is asked to stop does not finish its evaluation: it reports the partial result, saves and ends.
"$tessera" train config.yaml -n 2 validation.files=held.txt validation.interval=4 training.steps=8 job.dump_folder=asked \
    lr_scheduler.warmup_steps=2 fault.spec="rank=1 step=5 point=phase:forward:1 kind=sigstop" >asked.log 2>&1 &
launcher=$!
await $launcher is_stopped $launcher 1
kill -TERM $launcher
await $launcher has_text asked.log "asked to stop"
kill -CONT "$(rank $launcher 1)"
code=0
wait $launcher || code=$?
[ "$code" = 130 ] && pass "a stop is heard" || fail "a stop is heard: exit code $code: $(tail -n 3 asked.log)"
expect "the evaluation ends there" 0 "of about" grep "the job was asked to stop" asked.log
expect "and the run has saved" 0 "interrupted after step 4" cat asked.log
finish
