#!/usr/bin/env bash
# The processes that copy a run's checkpoints: one job has a place, a program gets a checkpoint once, and the request to
# end reaches a process to which a service manager has sent a SIGTERM.
. "$(dirname "$0")/support.sh"
make_text 600 >text.txt
make_model model.json
make_config config.yaml
sed -i 's/steps: 30/steps: 4/; s/interval: 15/interval: 2/' config.yaml
train=("$tessera" train config.yaml -n 2 validation.enable=false)

# ---- Two jobs with one place
"${train[@]}" job.dump_folder=first training.steps=100000 checkpoint.copies=place >first.log 2>&1 &
first=$!
await $first has_text first.log "was copied to place" || fail "the first job makes copies: $(tail -n 3 first.log)"
expect "a second job is refused while the first one has the place" 2 "keeps the copies of another job in 'place', since" \
    "${train[@]}" job.dump_folder=second checkpoint.copies=other,place
[ ! -e second/metrics.jsonl ] && pass "it did not begin" || fail "it did not begin"
kill -TERM $first
wait $first
"${train[@]}" job.dump_folder=second training.steps=100000 checkpoint.copies=place >second.log 2>&1 &
second=$!
await $second has_text second.log "resumed from step" && grep -q "was brought from place" second.log &&
    pass "and starts when the first one has ended" || fail "and starts when the first one has ended: $(tail -n 3 second.log)"
kill -KILL $second

# ---- A program: each checkpoint once
mkdir store
cat >store.sh <<'SH'
#!/bin/sh
set -e
echo "$1" >>store.log
[ ! -e slow ] || [ "$1" != put ] || sleep 3
case $1 in
put) rm -rf "store/$3"; cp -r "$2" "store/$3" ;;
get) cp "store/$2"/* "$3" ;;
list) ls store ;;
move) mv "store/$2" "store/$3" ;;
remove) rm -r "store/$2" ;;
esac
SH
chmod +x store.sh
copies=(checkpoint.copy_command=./store.sh checkpoint.copy_wait_s=20)
expect "a program stores the checkpoints of a run" 0 "step 4 was copied to ./store.sh" "${train[@]}" "${copies[@]}"
n=$(grep -c put store.log)
expect "a run that is done already" 0 "" "${train[@]}" "${copies[@]}"
[ "$(grep -c put store.log)" = "$n" ] && pass "gives it nothing again" ||
    fail "gives it nothing again: $(tr '\n' ' ' <store.log)"

# ---- The request to end, after a SIGTERM of another process
touch slow
"${train[@]}" "${copies[@]}" training.steps=6 >log 2>&1 &
job=$!
await $job has_text log "interval|ranks:" || fail "the job starts: $(tail -n 3 log)"
copier() { pgrep -P $job -f . | while read -r pid; do grep -qsx tessera-copies "/proc/$pid/comm" && echo "$pid"; done; }
for ((i = 0; i < 200; i++)); do
    pid=$(copier | head -n 1)
    [ -z "$pid" ] || [ -z "$(pgrep -P "$pid")" ] || break # it runs the program
    sleep 0.02
done
[ -n "$pid" ] && kill -TERM "$pid" || fail "there is a process that copies"
begun=$SECONDS
code=0
wait $job || code=$?
[ $code = 0 ] && [ $((SECONDS - begun)) -lt 20 ] && pass "the job ends when the copy is made ($((SECONDS - begun)) s)" ||
    fail "the job ends when the copy is made: code $code after $((SECONDS - begun)) s"
[ -d store/step-00000006 ] && pass "the newest checkpoint has arrived" || fail "the newest checkpoint has arrived: $(ls store)"
finish
