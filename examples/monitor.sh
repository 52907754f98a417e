#!/usr/bin/env bash
# Exercise 18: the metrics of a training run in Prometheus and Grafana.
#
# Goal: see loss, speed and memory of a run as curves, and get an alert when it stands still.
# Steps:
#   1. tessera train run.yaml -n 2 &                      a run, which writes to its folder `out`
#   2. examples/monitor.sh build/tessera out 9400 &       its numbers, each 2 s, at http://127.0.0.1:9400/metrics.txt
#   3. prometheus --config.file=examples/monitor.yaml     reads them, and judges examples/monitor_rules.yaml
#   4. In Grafana: add the Prometheus server, then import examples/monitor_dashboard.json
# Expected: the query `tessera_loss` gives the loss of the newest step, and `tessera_up` is 1. When the run ends,
#   `tessera_up` is 0, and the alert TesseraEnded fires after its time.
# Pitfalls:
#   - The page is a copy. A dead run leaves no old numbers on it: they are removed when `tessera top` finds no job.
#   - The server listens on the loopback interface only. Prometheus runs on the same machine, or reaches it by a tunnel.
#   - Losses of several runs are one metric: give each run a port, and a target with a label in monitor.yaml.
set -euo pipefail
tessera=$1 run=$2 port=$3
page=$(mktemp -d)
trap 'rm -rf "$page"; kill $(jobs -p) 2>/dev/null' EXIT
write_page() {
    if "$tessera" top "$run" --once --prometheus >"$page/new" 2>/dev/null; then
        printf '# TYPE tessera_up gauge\ntessera_up 1\n' >>"$page/new"
    else
        printf '# TYPE tessera_up gauge\ntessera_up 0\n' >"$page/new"
    fi
    mv "$page/new" "$page/metrics.txt"
}
write_page
python3 -m http.server --bind 127.0.0.1 --directory "$page" "$port" >/dev/null 2>&1 &
while sleep 2; do write_page; done
