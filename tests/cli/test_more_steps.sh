#!/usr/bin/env bash
# A run that is over and is started again: the same command, with more steps, with another learning rate, on other data.
. "$(dirname "$0")/support.sh"
make_text 200 >text.txt
make_model model.json
make_config run.yaml
train() {
    "$tessera" train run.yaml validation.enable=false checkpoint.interval=6 metrics.log_freq=1 debug.trace=false \
        training.steps=6 "$@"
}
rates() { grep -oE '"step": [0-9]+, |"lr": [^,]*' "$1/metrics.jsonl" | paste - - | sed 's/.*"step": //; s/, .*"lr": / /'; }

expect "a run" 0 "6 steps in" train job.dump_folder=out
expect "the same command says that it is finished" 0 \
    "finished before: the run is at step 6, and training.steps=6; raise that to train on" train job.dump_folder=out
for name in more kept less higher; do cp -r out $name; done

# A cosine over 12 steps does not go on from the lowest rate of one over 6.
expect "more steps change the schedule, which is told" 0 \
    "the learning rate has another schedule than until here: step 7 gets 0.002492, not 0.0003 (training.steps was 6, now 12); lr_scheduler.steps=6 keeps the schedule's length" \
    train job.dump_folder=more training.steps=12
[ "$(rates more | awk '$1 == 7 { print ($2 > 0.00249) }')" = 1 ] && pass "and is what the step gets" || fail "rates: $(rates more)"
expect "the schedule's own steps keep it" 0 "12 steps in" train job.dump_folder=kept training.steps=12 lr_scheduler.steps=6
grep -q "learning rate" output && fail "a change is told: $(grep "learning rate" output)" || pass "which is no change"
[ "$(rates kept | awk '$1 >= 6 && $2 > 0.00029 && $2 < 0.00031' | wc -l)" = 7 ] && pass "at the last rate" || fail "rates: $(rates kept)"
expect "another learning rate is told" 0 "step 7 gets 0.0001, not 0.0003 (optimizer.lr was 0.003, now 0.001; training.steps was 6, now 8; lr_scheduler.steps was 0, now 6)" \
    train job.dump_folder=higher training.steps=8 lr_scheduler.steps=6 optimizer.lr=1e-3
# The checkpoint of step 6 is complete before that of step 12 begins, however slow the machine is.
train job.dump_folder=rising training.steps=20 lr_scheduler.warmup_steps=10 fault.spec="rank=0 step=13 point=step kind=exit" >log 2>&1
expect "a shape that later steps get is told" 0 "(lr_scheduler.decay_type was cosine, now linear)" train job.dump_folder=rising \
    training.steps=20 lr_scheduler.warmup_steps=10 lr_scheduler.decay_type=linear
expect "fewer steps than are done" 0 "the run is at step 6, and training.steps=5" train job.dump_folder=less training.steps=5

make_text 100 >other.txt
expect "other data may have another folder" 2 "give this run another folder with job.dump_folder" \
    train job.dump_folder=out training.steps=12 data.files=other.txt
finish
