#!/usr/bin/env bash
# metrics.command: what it gets, and that no run waits for it or ends with it.
source "$(dirname "$0")/support.sh"
make_text 400 >text.txt
make_model model.json
make_config run.yaml
sed -i 's/interval: 15/interval: 10/' run.yaml

# train FOLDER ARGUMENTS...
train() {
    local folder=$1
    shift
    timeout 300 "$tessera" train run.yaml job.dump_folder="$folder" "$@" >"$folder.out" 2>&1 </dev/null
}
# The lines of metrics.jsonl in a file of received lines.
lines() { grep '^{"step": ' "$1" | grep -v '"event"'; }

# ---- All lines, in order, between a header and the end ----
cat >keep <<'SH'
#!/bin/sh
env | grep ^TESSERA_METRICS_ >"$1.env"
exec cat >>"$1"
SH
chmod +x keep
hostile='$(touch injected)`touch injected`;touch injected;"'\''<b>'
mkdir "$hostile"
train "$hostile/run" metrics.command="[./keep,got]" job.description="$hostile" || fail "a run: $(tail -n 3 "$hostile/run.out")"
cmp -s <(lines got) "$hostile/run/metrics.jsonl" && pass "it gets all lines" || fail "$(wc -l got "$hostile/run/metrics.jsonl")"
head -n 1 got | grep -q '^{"event":"run","version":1,"name":"run".*"step":0,"steps":30,.*"training.seq_len":19' && pass "after a header" ||
    fail "$(head -n 1 got | cut -c1-300)"
[ "$(tail -n 1 got)" = '{"event":"end","status":"finished","code":0,"step":30}' ] && pass "before the end" || fail "$(tail -n 1 got)"
[ "$(grep -c injected "$hostile/run/run.json")" = 1 ] && [ ! -e injected ] && [ ! -e "$hostile/run/injected" ] &&
    pass "names and texts of the run are no words of a shell" || fail "something was injected"
grep -qxF "TESSERA_METRICS_RUN=run" got.env && grep -qxF "TESSERA_METRICS_FOLDER=$work/$hostile/run" got.env &&
    pass "its environment names the run" || fail "$(cat got.env)"

# ---- Resumption, and a rank that dies ----
train out metrics.command="[./keep,first]" training.steps=20 || fail "20 steps"
train out -n 2 metrics.command="[./keep,second]" || fail "30 steps"
head -n 1 second | grep -q '"step":20,"steps":30,"ranks":2' && pass "a resumed run names its step" || fail "$(head -n 1 second | cut -c1-200)"
cmp -s <(lines first; lines second) out/metrics.jsonl && pass "and only later lines follow" || fail "$(wc -l first second out/metrics.jsonl)"
train back -n 2 metrics.command="[./keep,third]" recovery.enable=true recovery.hot=false recovery.backoff_s=0 \
    fault.spec="rank=1 step=18 point=step kind=exit" || fail "a run that goes back: $(tail -n 3 back.out)"
[ "$(grep -c '"event":"run"' third)" = 2 ] && grep '"event":"run"' third | tail -n 1 | grep -q '"step":10,"steps":30' &&
    pass "a run that goes back tells the step" || fail "$(grep '"event"' third | cut -c1-200)"
sed '1,/"event":"run".*"step":10,/d' third | grep '^{"step": ' | head -n 1 | grep -q '^{"step": 11, ' && pass "and goes on after it" ||
    fail "$(sed '1,/"step":10,/d' third | head -n 2)"
grep -q '^{"event": "alert", "alert": {.*"event":"recovery"' third && pass "it gets alerts" || fail "$(grep alert third | cut -c1-200)"

train hot -n 2 metrics.command="[./keep,fourth]" recovery.enable=true fault.spec="rank=0 step=18 point=step kind=sigkill" || fail "a lost rank 0"
cmp -s <(lines fourth) hot/metrics.jsonl && [ "$(grep -c '"event":"run"' fourth)" = 2 ] && pass "a replaced rank 0 repeats no line" ||
    fail "$(wc -l fourth hot/metrics.jsonl)"

# ---- Programs that misbehave ----
train refused metrics.command=./absent
[ $? = 2 ] && grep -q "metrics.command: there is no program './absent' that can be run" refused.out && pass "a program that is not there" ||
    fail "$(cat refused.out)"
train dies metrics.command="[/bin/sh,-c,'read a; read b; echo it is broken >&2; exit 7']" || fail "a program that dies ended the run"
"$tessera" train run.yaml job.dump_folder=words training.steps=100000 \
    metrics.command="[/bin/sh,-c,'read a; read b; echo it is broken >&2; exit 7']" >words.out 2>&1 &
launcher=$!
await $launcher has_text words.out "warning: metrics.command: '/bin/sh' ended with exit code 7; its last words: 'it is broken'; it starts again in 1 s" &&
    pass "a program that dies is reported with its last words" || fail "$(grep metrics.command words.out)"
kill -TERM $launcher
wait $launcher
"$tessera" train run.yaml job.dump_folder=again training.steps=100000 metrics.command=/bin/false >again.out 2>&1 &
launcher=$!
await $launcher has_text again.out "does not start again: metrics.jsonl has all lines" && [ "$(grep -c "starts again" again.out)" = 3 ] &&
    pass "and given up after four starts" || fail "$(grep metrics again.out)"
kill -TERM $launcher
wait $launcher
[ "$(wc -l <dies/metrics.jsonl)" = "$(wc -l <out/metrics.jsonl)" ] && pass "the run goes on" || fail "$(wc -l dies/metrics.jsonl)"
begin=$SECONDS
train blocks metrics.command="[/bin/sleep,1000]" metrics.command_wait_s=1 || fail "a program that reads nothing"
grep -q "'/bin/sleep' did not finish in 1 s (metrics.command_wait_s) and is killed" blocks.out && [ $((SECONDS - begin)) -lt 60 ] &&
    pass "a program that reads nothing is killed at the end" || fail "$((SECONDS - begin)) s: $(tail -n 2 blocks.out)"
train prints metrics.command="[/bin/sh,-c,'yes | head -c 3000000; cat >printed']" || fail "a program that prints"
[ "$(wc -c <prints/metrics.command.log)" -le 1048576 ] && cmp -s <(lines printed) prints/metrics.jsonl && pass "what it prints goes to a bounded file" ||
    fail "$(wc -c prints/metrics.command.log) $(wc -l printed)"
train chatters metrics.command=yes metrics.command_wait_s=1 || fail "a program that never stops printing"
grep -q "'yes' did not finish in 1 s (metrics.command_wait_s) and is killed" chatters.out && pass "a program that never stops printing" ||
    fail "$(tail -n 2 chatters.out)"
"$tessera" train run.yaml job.dump_folder=asked training.steps=100000 metrics.command="[/bin/sleep,1000]" metrics.command_wait_s=60 \
    >asked.out 2>&1 &
launcher=$!
await $launcher has_text asked.out "step: *[1-9]"
begin=$SECONDS
kill -TERM $launcher
wait $launcher
[ $((SECONDS - begin)) -lt 20 ] && grep -q "did not finish in 4 s (the most for a run that is interrupted)" asked.out &&
    pass "an interrupted run does not wait for it" || fail "$((SECONDS - begin)) s: $(tail -n 2 asked.out)"
train slow metrics.command="[/bin/sh,-c,'while read -r line; do sleep 0.02; echo \"\$line\" >>slowly; done']" || fail "a slow program"
cmp -s <(lines slowly) slow/metrics.jsonl && pass "a slow program gets all lines" || fail "$(wc -l slowly)"

# A launcher that is killed: the program gets the end of its input.
"$tessera" train run.yaml -n 2 job.dump_folder=killed training.steps=100000 metrics.command="[/bin/sh,-c,'cat >ended.lines; echo yes >ended']" >killed.out 2>&1 &
launcher=$!
await $launcher has_lines ended.lines 5 && kill -KILL $launcher
await $$ test -s ended && ! grep -q '"event":"end"' ended.lines && pass "a killed launcher ends its input" || fail "the program did not end"
finish
