#!/usr/bin/env bash
# Exercise 18 (examples/monitor.sh): a real Prometheus reads a run, and its alert fires when the run ends.
. "$(dirname "$0")/support.sh"
make_model model.json
make_text 60 >text.txt
make_config run.yaml
cp "$project"/examples/monitor* .
port=$((20000 + RANDOM % 12000))
sed -i "s/9400/$port/" monitor.yaml
sed -i 's/for: 10s/for: 2s/' monitor_rules.yaml
"$tessera" train run.yaml -n 2 training.steps=1000000 checkpoint.enable=false >run.log 2>&1 &
run=$!
await $run has_text run.log "step: *[1-9]" || fail "the run does not start: $(cat run.log)"
bash monitor.sh "$tessera" out $port &
page=http://127.0.0.1:$port/metrics.txt
fetch() { python3 -c 'import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1], timeout=5).read().decode())' "$1"; }
comes() { fetch "$page" >page 2>/dev/null; }
await $run comes || fail "no page"
expect "the page has the run" 0 "tessera_up 1" cat page
# Each metric that the dashboard draws is on the page.
for metric in $(grep -o '"expr": "[a-z_]*' monitor_dashboard.json | cut -d'"' -f4); do
    grep -q "^$metric[ {]" page && pass "the dashboard's $metric" || fail "the page has no $metric"
done
if command -v prometheus >/dev/null && command -v promtool >/dev/null; then
    expect "the rules" 0 "SUCCESS" promtool check config monitor.yaml
    promtool check metrics <page >checked 2>&1 || grep -q "error" checked && fail "the page: $(cat checked)"
    web=$((port + 1))
    prometheus --config.file=monitor.yaml --storage.tsdb.path=data --web.listen-address=127.0.0.1:$web >prometheus.log 2>&1 &
    prometheus=$!
    asks() { fetch "http://127.0.0.1:$web/api/v1/query?query=$1" 2>/dev/null | grep -qE -- "$2"; }
    await $prometheus asks tessera_loss '"value":\[[0-9.]+,"[0-9]' && pass "Prometheus has the loss" || fail "no loss"
    kill -INT $run
    wait $run
    await $prometheus asks 'ALERTS{alertname="TesseraEnded",alertstate="firing"}' '"value"' &&
        pass "the alert fires when the run ends" || fail "no alert: $(tail -n 3 prometheus.log)"
    kill $prometheus
fi
finish
