#!/usr/bin/env bash
# Metrics for Prometheus: an address and a file, also while a rank hangs; requests that are refused; what is told when the
# port is taken.
. "$(dirname "$0")/support.sh"
command -v curl >/dev/null && command -v python3 >/dev/null || { echo "SKIPPED: curl or python3 is missing"; exit 77; }
make_text 600 >text.txt
make_model model.json
make_config run.yaml
long="training.steps=1000000 validation.enable=false checkpoint.interval=20"
check=$project/tests/support/check_metrics.py

expect "an address that others reach is refused" 2 "metrics.prometheus_public=true" \
    "$tessera" train run.yaml metrics.prometheus_listen=0.0.0.0:0
expect "a name is no address" 2 "such as 127.0.0.1:9464" "$tessera" train run.yaml metrics.prometheus_listen=node17:9464

"$tessera" train run.yaml -n 2 $long job.dump_folder='a"b' metrics.prometheus_listen=127.0.0.1:0 \
    metrics.prometheus_file=run.prom metrics.prometheus_interval_s=0.1 health.disk_bytes=1e18 recovery.enable=true >log 2>&1 </dev/null &
launcher=$!
if ! await $launcher has_text log 'http://127.0.0.1:[0-9]*/metrics'; then
    if grep -q "need libmicrohttpd" log; then
        kill -INT $launcher
        echo "SKIPPED: libmicrohttpd is missing"
        exit 77
    fi
    fail "the address is told: $(tail -n 3 log)"
    finish
fi
port=$(sed -n 's/.*127.0.0.1:\([0-9]*\)\/metrics.*/\1/p' log | head -n 1)
url=http://127.0.0.1:$port
get() { curl -sS --max-time 60 "$@"; }
code() { get -o answer -w '%{http_code}' "$@"; }
has_sample() { get $url/metrics >page && has_text page "$1"; }

# ---- The page
await $launcher has_sample '^tessera_checkpoint_step[{].* [0-9]+$' && pass "a checkpoint is shown" ||
    fail "the checkpoint: $(grep checkpoint page)"
needed="tessera_build_info tessera_up tessera_restarts_total tessera_notices_total tessera_health_alerts_total tessera_stalled
    tessera_loss tessera_grad_norm tessera_learning_rate tessera_tokens_total tessera_tokens_per_second tessera_mfu_ratio
    tessera_step tessera_step_seconds tessera_last_step_timestamp_seconds tessera_phase_seconds_total tessera_waiting_seconds
    tessera_memory_bytes tessera_collective_bytes_total tessera_collective_seconds_total tessera_wait_seconds_total
    tessera_resident_memory_bytes tessera_host_memory_used_ratio tessera_checkpoint_timestamp_seconds"
expect "the page is in Prometheus' format" 0 "samples of" python3 "$check" page $needed
expect "ranks are labels" 0 'rank="1"} ' grep '^tessera_step{' page
expect "the run's name is escaped" 0 'a\"b' grep '^tessera_up{' page
expect "health alerts are counted" 0 'state="degraded"} 1' grep '^tessera_health_alerts_total{' page
expect "it says what it is" 0 'text/plain; version=0.0.4' get -D - -o answer $url/metrics
# Both ranks get bytes from the other one.
expect "bytes are counted by axis" 0 "counted" awk '/^tessera_collective_bytes_total[{].*axis="world"/ { n += $NF > 0 } END { if (n == 2) print "counted" }' page
await $launcher test -s run.prom
expect "the file is in Prometheus' format" 0 "samples of" python3 "$check" run.prom tessera_up tessera_page_interval_seconds

# Pages have all metrics of the dashboard and the alerts. Not every host has a control group with a limit.
for name in $(grep -ohE 'tessera_[a-z_]+' "$project"/deploy/grafana/*.json "$project"/deploy/prometheus/tessera-alerts.yaml | sort -u); do
    case $name in
    tessera_cgroup_memory_used_ratio) ;;
    *) grep -qE "^# TYPE $name " page run.prom || fail "deploy/ names $name, which no page has" ;;
    esac
done

# ---- Requests
for request in "200 /metrics" "200 /" "404 /metrics/" "404 /../../etc/passwd" "404 /%2e%2e/run.yaml"; do
    [ "$(code --path-as-is "$url${request#* }")" = "${request%% *}" ] && pass "GET ${request#* }" || fail "GET $request: $(head -n 3 answer)"
done
[ "$(code -X POST $url/metrics)" = 405 ] && pass "POST is refused" || fail "POST: $(cat answer)"
[ "$(code -I $url/metrics)" = 200 ] && pass "HEAD is answered" || fail "HEAD: $(cat answer)"
[ "$(code -H 'Host: evil.example' $url/metrics)" = 403 ] && pass "another host's name is refused" || fail "Host: $(cat answer)"
[ "$(code -X GET -d body $url/metrics)" = 400 ] && pass "a body is refused" || fail "a body: $(cat answer)"
[ "$(code -H "X-Long: $(printf '%40000s' | tr ' ' x)" $url/metrics)" = 431 ] && pass "a long request is refused" ||
    fail "a long request: $(head -c 300 answer)"

# ---- A rank hangs: the page is still there, and says whom the others wait for.
stopped=$(rank $launcher 1)
kill -STOP "$stopped"
await $launcher has_sample '^tessera_culprit_rank[{].* 1$' && pass "a rank that hangs is named" ||
    fail "a rank hangs: $(grep -E 'culprit|wait' page)"
expect "the job counts as stalled" 0 '} 1' grep '^tessera_stalled{' page
expect "and the rank as stopped" 0 'rank="1"} 1' grep '^tessera_rank_stopped{' page
expect "the page is still in Prometheus' format" 0 "samples of" python3 "$check" page $needed
kill -CONT "$stopped"
await $launcher has_sample '^tessera_stalled[{].* 0$' && pass "it goes on" || fail "it goes on: $(grep stalled page)"

# ---- A rank is lost: the job restarts, and counters go on.
tokens=$(awk '/^tessera_tokens_total[{]/ { print $NF }' page)
kill -KILL "$(rank $launcher 1)"
await $launcher has_sample '^tessera_restarts_total[{].* 1$' && pass "a restart is counted" || fail "a restart: $(grep restarts page)"
await $launcher has_sample '^tessera_tokens_total' && pass "ranks are back" || fail "ranks are back: $(grep up page)"
[ "$(awk '/^tessera_tokens_total[{]/ { print $NF }' page)" -ge "$tokens" ] && pass "tokens never fall" || fail "tokens: $tokens, $(grep tokens page)"

# ---- The port is taken: another run goes on without it.
expect "a taken port is told, and the run ends well" 0 "the run goes on without it; name another port" \
    "$tessera" train run.yaml job.dump_folder=second training.steps=2 validation.enable=false checkpoint.enable=false \
    metrics.prometheus_listen=127.0.0.1:$port
expect "a file that cannot be written is told" 0 "metrics.prometheus_file: " \
    "$tessera" train run.yaml -n 2 job.dump_folder=third training.steps=2 validation.enable=false checkpoint.enable=false \
    metrics.prometheus_file=nowhere/run.prom

# ---- The process that shows them is killed: another one takes its place.
helper=$(pgrep -P $launcher -x tessera-metrics)
kill -KILL "$helper"
await $launcher has_text log "another one takes its place" && pass "its end is told" || fail "its end: $(tail -n 3 log)"
is_replaced() { pgrep -P $launcher -x tessera-metrics >/dev/null; }
await $launcher is_replaced && pass "another one takes its place" || fail "no other one"
addresses() { sed -n 's/.*127.0.0.1:\([0-9]*\)\/metrics.*/\1/p' log; }
has_two() { [ "$(addresses | wc -l)" -ge 2 ]; }
await $launcher has_two || fail "it listens nowhere: $(tail -n 3 log)"
url=http://127.0.0.1:$(addresses | tail -n 1)
await $launcher has_sample '^tessera_tokens_total' && pass "at an address that the log names" || fail "its address: $(tail -n 3 log)"
helper=$(pgrep -P $launcher -x tessera-metrics)
ls -l /proc/$helper/fd | grep -q 'memfd:tessera (' && fail "it holds the job's memory" || pass "it does not hold the job's memory"
grep -q 'rw-s.*memfd:tessera (' /proc/$helper/maps && fail "it maps the job's memory as the launcher does" ||
    pass "and maps it for reading only"

kill -INT $launcher
wait $launcher
[ $? = 130 ] && pass "the run ends as asked" || fail "the run's end: $(tail -n 3 log)"
expect "the file says that it has ended" 0 '} 0' grep '^tessera_up{' run.prom
get --max-time 5 $url/metrics >answer 2>&1 && fail "somebody still listens" || pass "nobody listens any more"
finish
