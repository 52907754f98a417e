#!/usr/bin/env bash
# tessera plan: memory, volume and time in text and JSON, machines, measured times and corrections; bad input is refused
# with the fix.
set -uo pipefail
source "$(dirname "$0")/support.sh"

settings="model.config=llama-5m training.seq_len=64 training.local_batch_size=2 training.global_batch_size=8"
plan() { "$tessera" plan --cache "$work/cache" "$@"; }

expect "a plan of this machine" 0 "time of a step:" plan $settings -n 2
grep -q "^memory of the rank that needs most, rank 0" output && grep -q "most is in use in " output &&
    grep -q "  dp_shard         all_gather_pieces " output && pass "has memory, moment and volume" || fail "$(cat output)"
expect "nobody measured here" 0 "not measured" plan $settings
expect "a machine of the data sheets" 0 "on NVIDIA H100 SXM5 80GB, 8 in a host" plan $settings -n 8 --machine h100-sxm
expect "a team over hosts uses the network" 0 "infiniband" plan $settings -n 16 --machine h100-sxm training.global_batch_size=64
# Eight GPUs at 3 an hour: 24 divided by the millions of tokens of an hour.
plan $settings -n 8 --machine h100-sxm --price 3 --json >price.json
python3 - <<'P' && pass "the price of a million tokens" || fail "$(cat price.json)"
import json
time = json.load(open("price.json"))["time"]
exit(abs(time["price_per_million"] * time["tokens_per_s"] * 3600 / 1e6 / 24 - 1) > 1e-9 or time["currency"] != "USD")
P
expect "the price of this machine" 0 "USD for a million tokens" plan $settings --price 2
expect "failures" 0 "goodput" plan $settings --failures 4 --save-time 60 --restart-time 300
expect "products in FP8" 0 "time of a step:" plan $settings -n 8 --machine h100-sxm --fp8-products
expect "a machine without them" 2 "give compute.fp8_tflops" plan $settings --machine a100-80gb --fp8-products
# The file of slower kernels of bench/plan_published.py makes kernels of counted machines slower, too.
python3 - "$project" "$tessera" <<'P' && pass "slower kernels" || fail "slower kernels"
import json, subprocess, sys
sys.path.insert(0, sys.argv[1] + "/bench")
sys.dont_write_bytecode = True
import plan_published
ms = []
for factor in 1, 2:
    open("slower.yaml", "w").write(plan_published.slower("h100_sxm", factor))
    words = "model.config=llama-5m training.seq_len=1024 training.local_batch_size=8 training.global_batch_size=8"
    out = subprocess.run([sys.argv[2], "plan", *words.split(), "--machine", "slower.yaml", "--json"], capture_output=True)
    ms.append({k["name"]: k["ms"] for k in json.loads(out.stdout)["time"]["kernels"]})
shares = {k: ms[1][k] / ms[0][k] for k in ms[0] if "attention" in k}
exit(not shares or not all(1.8 < s < 2.2 for s in shares.values()))
P
sed 's/host_gb: 2048/host_gb: 0.001/' "$project/src/plan/machines/machine_h100_sxm.yaml" >host.yaml
expect "a host with too little memory" 2 "of a host's memory are needed, 977 KiB are there" plan $settings -n 8 --machine host.yaml
printf 'moves na\377me 1000000\n' >names.log
expect "a name that is not UTF-8" 0 "na?me" "$tessera" plan launches names.log
plan $settings -n 2 --json >plan.json
for text in '"tokens_per_s":' '"alive":' '"reduce_scatter_pieces"' '"kernel'; do
    expect "JSON has $text" 0 "$text" cat plan.json
done
expect_metrics "metrics" 0 plan $settings -n 2

expect "an unknown machine" 2 "did you mean 'h100_sxm'" plan $settings --machine h100-sxn
cat >small.yaml <<'Y'
machine:
  name: small
  devices: 2
compute:
  bf16_tflops: 100
memory:
  gb: 0.05
  gb_per_s: 1000
Y
expect "a missing link is named" 2 "give it a section nvlink, shared_memory or pcie" plan $settings -n 2 --machine small.yaml
printf 'pcie:\n  gb_per_s: 10\n' >>small.yaml
expect "too little memory, and what would fit" 2 "too little. It would fit with" plan $settings -n 2 --machine small.yaml
plan $settings -n 2 --machine small.yaml >output 2>&1
grep -qE "^time of a step: [1-9][0-9.]* ms" output && pass "a file without figures of float32 has times" || fail "$(cat output)"
sed -i 's/gb: 0.05/gb: 0.0001/' small.yaml
expect "nothing fits" 2 "use more ranks" plan $settings -n 2 --machine small.yaml
sed -i 's/gb_per_s: 10$/gb_per_sec: 10/' small.yaml
expect "a wrong key" 2 "small.yaml:10" plan $settings -n 2 --machine small.yaml
expect "hosts that do not divide" 2 "do not divide evenly" plan $settings -n 3 --hosts 2
expect "no configuration" 2 "name a configuration" plan
expect "steps of another machine" 2 "leave --machine out" plan $settings --measure --machine epyc

expect "without measured kernels nothing is stored" 0 "is not stored" plan $settings --measure --steps 1

# Calls are measured once; then nothing of the plan is a guess.
expect "kernels are measured" 0 "of kernels" plan $settings --calibrate
plan $settings --json >plan.json
python3 - <<'P' && pass "all calls of kernels were measured" || fail "$(cat plan.json)"
import json
kernels = json.load(open("plan.json"))["time"]["kernels"]
exit(any(k["estimated"] for k in kernels if not k["name"].startswith("stream_")))
P
expect "predicted and measured" 0 "processor" plan $settings --measure --steps 2 --no-corrections
plan $settings --measure --steps 2 --json >measured.json
plan $settings --json >corrected.json
plan $settings --json --no-corrections >again.json
python3 - <<'P' && pass "pools are equal, and the correction is used" || fail "$(cat measured.json)"
import json
rows = {r["name"]: r for r in json.load(open("measured.json"))["rows"]}
pools = [rows[p] for p in ("params", "grads", "activations", "comm")]
step = [json.load(open(f))["time"]["step_ms"] for f in ("corrected.json", "again.json", "plan.json")]
measured = rows["step"]["measured"]
exit(any(p["predicted"] != p["measured"] for p in pools) or abs(step[0] / measured - 1) > 0.001 or step[1] != step[2])
P
expect "a correction is labelled" 0 "corrected: all times are" plan $settings
plan $settings --no-corrections >output
grep -q corrected output && fail "--no-corrections" || pass "--no-corrections uses none"
truncate -s 100 cache/times-*.json
expect "a damaged file of times" 2 "cache/times-" plan $settings
expect "other machines need no times" 0 "tokens/s" plan $settings --machine epyc
expect "a calibration replaces it, and its corrections" 0 "of kernels" plan $settings --calibrate
plan $settings >output
grep -q corrected output && fail "an old correction" || pass "corrections of old times are gone"
finish
