#!/usr/bin/env bash
# The page of a run: what short runs of one and two ranks write when they end, and what `tessera report -o` makes of runs that
# failed, that were stopped, and of several.
. "$(dirname "$0")/support.sh"
make_text 300 >text.txt
make_model model.json
make_config run.yaml
cat >>run.yaml <<'YAML'
health:
  alert_command: ["true", "-H", "Authorization: hunter2", "http://hooks.example/T0/hunter2"]
YAML
options=(training.steps=6 training.threads=1 metrics.log_freq=2 validation.enable=false checkpoint.interval=3)
train() { timeout 600 "$tessera" train run.yaml -n "$1" job.dump_folder="$2" "${options[@]}" "${@:3}" >"$2.out" 2>&1 </dev/null; }
# parts NAME FILE WANTED...: the page is well-formed, is small, and has exactly these sections.
parts() {
    local name=$1 file=$2
    shift 2
    if python3 "$project/tests/cli/run_page.py" "$file" "$@" >fault 2>&1; then pass "$name"; else fail "$name: $(head -n 5 fault)"; fi
}
usual=(figures curves times timeline collectives memory config machine)

train 1 one || fail "a run: $(tail -n 3 one.out)"
parts "a run of one rank ends with a page" one/report.html "${usual[@]}"
train 2 two optimizer.lr=1e-3 || fail "a run of two: $(tail -n 3 two.out)"
parts "a run of two ranks ends with a page" two/report.html "${usual[@]}"
grep -q 'by_rank": {"params": \[[1-9][0-9]*, [1-9][0-9]*\]' two/memory.jsonl && pass "it records the memory of each rank" ||
    fail "memory.jsonl: $(tail -n 2 two/memory.jsonl)"
grep -q 'steps</th><td>1 to 6</td>' two/report.html && pass "the page has all steps" || fail "steps: $(grep -o 'steps</th>.\{30\}' two/report.html)"
grep -q '>optimizer.lr</th><td>0.001</td><td>3e-4</td>' two/report.html && pass "and what differs from the defaults" ||
    fail "the configuration: $(grep -o 'optimizer.lr</th>.\{60\}' two/report.html)"
grep -rq hunter2 two/run.json two/report.html && fail "secrets of a command are shown" || pass "arguments of commands are hidden"
grep -q '"true"' two/run.json && pass "their programs are not" || fail "no program: $(grep alert_command two/run.json)"
train 2 without metrics.report=false
[ -s without/metrics.jsonl ] && [ ! -e without/report.html ] && pass "metrics.report=false: no page" || fail "metrics.report=false: $(ls without)"

expect "several runs on one page" 0 "both.html: 2 runs, " "$tessera" report one two -o both.html
parts "with what differs between them" both.html differences "${usual[@]}"

train 2 failed recovery.enable=false fault.spec="rank=1 step=4 point=phase:forward kind=crash" && fail "the run that fails does not"
parts "a run that failed has a page" failed/report.html figures curves events times timeline collectives memory config machine
grep -q 'failed with exit code 139' failed/report.html && grep -q 'rank 1 was killed by signal 11' failed/report.html &&
    pass "which says why" || fail "the failure: $(grep -o 'state</th>.\{60\}' failed/report.html)"
train 2 recovered recovery.enable=true fault.spec="rank=1 step=4 point=phase:forward kind=crash" || fail "a recovery: $(tail -n 3 recovered.out)"
parts "a run that recovered has events" recovered/report.html events "${usual[@]}"

# The process that writes the page stops, as it does when a file system is lost. Reading all these alerts takes a second.
mkdir stuck && yes '{"event": "none", "text": "many"}' | head -n 1500000 >stuck/alerts.jsonl
"$tessera" train run.yaml -n 2 job.dump_folder=stuck "${options[@]}" recovery.enable=false \
    fault.spec="rank=1 step=4 point=phase:forward kind=crash" >stuck.out 2>&1 </dev/null &
launcher=$!
until helper=$(pgrep -P $launcher -x tessera-report); do kill -0 $launcher || break; done
kill -STOP "$helper" || fail "no process writes the page: $(tail -n 3 stuck.out)"
wait $launcher
[ $? = 139 ] && grep -q 'report.html is not written: .* takes too long' stuck.out && pass "a folder that blocks does not keep a run from ending" ||
    fail "a folder that blocks: $(tail -n 3 stuck.out)"

: >full && mkdir nowhere && train 1 refused data.files=gone.txt && fail "a run without data succeeds"
[ ! -e refused ] && pass "a run that is refused writes nothing" || fail "a refused run: $(ls refused)"
rm one/report.html && mkdir one/report.html # it cannot be written
train 1 one training.steps=8 || fail "a run whose page cannot be written fails: $(tail -n 3 one.out)"
grep -q 'warning: report.html is not written: ' one.out && pass "a page that cannot be written is a warning" || fail "no warning: $(tail -n 3 one.out)"
expect "a folder without a run" 2 "nowhere holds no run" "$tessera" report nowhere -o none.html
expect "a folder that is missing" 2 "absent is no folder" "$tessera" report absent -o none.html
expect "-o with other flags" 2 "give it without other flags" "$tessera" report two -o none.html --cost
expect "two folders without -o" 2 "one run at a time" "$tessera" report one two
[ ! -e none.html ] && pass "nothing is written then" || fail "none.html is written"
finish
