#!/usr/bin/env bash
# tessera plan draw: bars, the time line and scaling in the terminal, in JSON, and on a page that a browser opens.
set -uo pipefail
source "$(dirname "$0")/support.sh"

model="model.config=llama-5m training.seq_len=64 training.local_batch_size=2 training.global_batch_size=32"
draw() { "$tessera" plan draw $model --machine h100-sxm "$@"; }

expect "bars of layouts" 0 "parallelism.shard_strategy=zero2" draw -n 8
grep -qE "^   2 p+g+o+a+c+ +[0-9.]+ [KMG]iB$" output && grep -qE "^   1 k+e*o+ +[0-9.]+ ms, " output && pass "have letters for parts" ||
    fail "$(cat output)"
expect "a time line of a pipeline" 0 "waiting for data" draw -n 8 parallelism.pipeline_parallel_degree=4
[ "$(grep -cE '^  rank +[0246] [-fbro. ]+$' output)" = 4 ] && pass "has a row for each stage" || fail "$(cat output)"
[ "$(awk '/^   ranks  strong/ { on = 1; next } on { print $1 }' output | tr '\n' ' ')" = "4 8 " ] &&
    pass "scaling begins with the fewest ranks that are possible" || fail "$(cat output)"
expect "layouts of the user" 0 "refused: " draw -n 8 --layout "parallelism.tensor_parallel_degree=3" --layout "activation_checkpoint.mode=full"
seventeen=()
for i in {1..16}; do seventeen+=(--layout "debug.seed=$i"); done
expect "as many layouts as an option may be given" 0 "17 debug.seed=16" draw -n 2 "${seventeen[@]}"
in_order="training.seq_len=512 training.context_leaves=8 parallelism.context_parallel_degree=4
    parallelism.context_parallel_method=ring parallelism.context_parallel_load_balancer=contiguous"
expect "a time line without waits says so" 0 "ms of waits for ranks with more attention" draw -n 4 $in_order
draw -n 4 $in_order --html >in-order.html
grep -qE 'Without [0-9.]+ ms of waits for ranks with more attention' in-order.html && pass "and so does its page" ||
    fail "the page of a time line without waits"
expect "a layout that is none" 2 "did you mean" draw -n 8 --layout "parallelism.tensor_degree=3"
expect "the configuration's own layout is refused" 2 "tensor_parallel_degree" draw -n 8 parallelism.tensor_parallel_degree=3
expect "no configuration" 2 "name a configuration" "$tessera" plan draw
expect_metrics "metrics" 0 draw -n 2

# The bars are those of a plan, and the spans of each row follow each other and fill the step.
draw -n 8 parallelism.pipeline_parallel_degree=4 --json >draw.json
"$tessera" plan $model --machine h100-sxm -n 8 parallelism.pipeline_parallel_degree=4 --json >plan.json
python3 - <<'P' && pass "figures are those of the plan" || fail "figures of the plan"
import json
drawn, plan = json.load(open("draw.json")), json.load(open("plan.json"))
first, line = drawn["layouts"][0], drawn["timeline"]
assert first["memory"] == plan["memory"]["pools"], (first["memory"], plan["memory"]["pools"])
assert abs(first["step_ms"] / plan["time"]["step_ms"] - 1) < 0.02, (first["step_ms"], plan["time"]["step_ms"])
assert not line["cut"] and abs(line["end_ms"] / plan["time"]["step_ms"] - 1) < 1e-9
for row in range(4):
    at = 0
    for _, kind, begin, end in sorted((s for s in line["spans"] if s[0] == row), key=lambda s: s[2]):
        assert abs(begin - at) < 1e-9 and end > begin, (row, begin, at)
        at = end
    assert 0.5 * line["end_ms"] < at <= line["end_ms"] * (1 + 1e-9)
assert drawn["scaling"][-1]["strong"] == drawn["scaling"][-1]["weak"]  # the same run
P

# A step of many spans is drawn by columns.
"$tessera" plan draw model.config=gpt2-124m training.seq_len=64 training.local_batch_size=1 training.global_batch_size=64 -n 8 \
    --machine h100-sxm parallelism.pipeline_parallel_degree=4 --layout activation_checkpoint.mode=full --json >many.json
python3 - <<'P' && pass "a step of many spans" || fail "a step of many spans"
import json
line = json.load(open("many.json"))["timeline"]
rows = [[s for s in line["spans"] if s[0] == row] for row in range(4)]
assert all(50 < len(row) <= 480 for row in rows), [len(row) for row in rows]
for row in rows:
    assert row[0][2] == 0 and all(a[3] == b[2] for a, b in zip(row, row[1:]))
P

draw -n 8 --html >page.html
grep -q '<section id="scaling">' page.html && ! grep -qE 'src=|href="http|url\(http' page.html && pass "the page is one file" || fail "the page"
TESS_SCREENSHOTS= python3 "$project/tests/readers/browser" "$tessera" "$project" plans >browser 2>&1
case $? in
0) pass "a browser reads the pages" ;;
77) pass "there is no browser: skipped" ;;
*) fail "$(cat browser)" ;;
esac
finish
