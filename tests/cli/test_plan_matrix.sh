#!/usr/bin/env bash
# tessera plan matrix: what recomputation, offload and divided tokens save is measured, and memory and volume are those
# of the plan, byte for byte.
set -uo pipefail
source "$(dirname "$0")/support.sh"

make_model model.json
sed -i 's/"num_hidden_layers": 3/"num_hidden_layers": 8/' model.json
run="model.config=model.json training.seq_len=61 training.local_batch_size=3 training.global_batch_size=12 training.threads=1"
matrix() { "$tessera" plan matrix $run --rounds 1 --steps 1 "$@"; }

mkdir disk
matrix -n 2 --folder "$work/disk" --json >matrix.json 2>errors
python3 - <<'P' && pass "rows of recomputation and offload" || fail "$(cat matrix.json errors)"
import json
rows = json.load(open("matrix.json"))["rows"]
assert len(rows) == 8 and all(r["as_planned"] and r["exchanged"] == 0 for r in rows), rows
none, parts, half, full, activations, optimizer, state, lean = (r["activations"] for r in rows)
# Eight layers: every other one keeps its activations, and each of the rest only its input.
assert full < half < none and parts < none, (none, parts, half, full)
assert 0.4 < rows[2]["activations_change"] / rows[3]["activations_change"] < 0.6 and rows[3]["activations_change"] < -0.35
assert activations < none and optimizer == none == state and lean == full
assert rows[0]["activations_change"] == rows[0]["step_change"] == rows[0]["cpu_change"] == 0
assert all(r["step_ms"] > 0 and r["cpu_ms"] > 0 for r in rows)
P
[ -z "$(ls disk)" ] && pass "nothing stays in the folder" || fail "$(ls disk)"

matrix -n 4 --context --json >context.json 2>errors
python3 - <<'P' && pass "ranks that divide tokens" || fail "$(cat context.json errors)"
import json
rows = json.load(open("context.json"))["rows"]
assert [r["settings"].split()[0][-1] for r in rows] == ["1", "2", "4"]
assert all(r["as_planned"] and not r["exchanged_off"] for r in rows), rows  # bytes of a step equal counters
one, two, four = rows
assert one["exchanged"] == 0 < two["exchanged"] < four["exchanged"]
assert four["activations"] < two["activations"] < one["activations"]
P

expect "in words" 0 "exactly" matrix -n 2 --layout "" --layout "training.passes=3" --layout "parallelism.tensor_parallel_degree=5"
grep -q "refused: " output && pass "a refused row says why" || fail "$(cat output)"
expect "a setting that is none" 2 "did you mean" matrix --layout "training.pases=3"
expect "no configuration" 2 "name a configuration" "$tessera" plan matrix
finish
