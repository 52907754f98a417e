#!/usr/bin/env bash
# Times Tessera's own TCP links next to iperf3, in turns: two hosts, which are network namespaces of this machine, joined
# by a link of a given rate (tc's tbf). Each turn measures iperf3 in both directions at once, then all_gather and
# reduce_scatter plain and encrypted, in an order that alternates. All figures are Gbit/s of payload in one direction;
# the medians over the turns are printed with their ranges, and the ratios within a turn. Needs root and iperf3.
#
#   bench/tcp.sh build/tessera [TURNS] [RATE] [BYTES]        5 turns, 1gbit, 67108864
set -euo pipefail
tessera=$(realpath "$1") turns=${2:-5} rate=${3:-1gbit} bytes=${4:-67108864}
project=$(realpath "$(dirname "$0")/..")
command -v iperf3 >/dev/null || { echo "bench/tcp.sh: iperf3 is missing (Debian package: iperf3)" >&2; exit 77; }
work=$(mktemp -d)
export TESS_HOSTS_PREFIX=b$$ TESS_HOSTS_OWNER=$$ TESSERA_IFNAME=eth0 TESSERA_SECRET_FILE=$work/secret
hosts=$project/tools/hosts
mkdir "$work/running"
# Ends what runs in the background, which would otherwise stay if the other side fails. A subshell starts it, so its
# process number is the name of a file.
end_running() {
    local file pid
    for file in "$work"/running/*; do
        [ -e "$file" ] || continue
        pid=${file##*/}
        kill "$pid" 2>/dev/null || true
        timeout 20 tail --pid="$pid" -f /dev/null || kill -KILL "$pid" 2>/dev/null || true
    done
    "$hosts" down
    rm -rf "$work"
}
trap end_running EXIT

head -c 24 /dev/urandom | od -An -tx1 | tr -d ' \n' >"$work/secret"
"$hosts" up 2 --rate "$rate" || exit $?
address=$("$hosts" exec h1 ip -4 -o addr show eth0 | awk '{ sub("/.*", "", $4); print $4; exit }')

# iperf: Gbit/s that arrive, the smaller of the two directions.
iperf() {
    "$hosts" exec h1 iperf3 -s -1 >/dev/null 2>&1 &
    local server=$!
    : >"$work/running/$server"
    sleep 0.5
    "$hosts" exec h2 iperf3 -c "$address" -t 4 -O 1 --bidir -J >"$work/iperf.json" || { cat "$work/iperf.json" >&2; exit 1; }
    wait $server
    rm "$work/running/$server"
    jq '[.end.sum_received.bits_per_second, .end.sum_received_bidir_reverse.bits_per_second] | min / 1e9' "$work/iperf.json"
}

# links ROW [--tls]: Gbit/s of payload that crosses in one direction.
links() {
    local k side code=0 port=$((20000 + RANDOM % 12000)) sides=()
    for k in 1 0; do
        "$hosts" exec h$((k + 1)) "$tessera" launch --rdzv "$address:$port" --nnodes 2 --node-rank $k -- bench comm \
            --filter "$1" --min-bytes "$bytes" --max-bytes "$bytes" --threads 1 "${@:2}" \
            --json="$work/report.$k" >"$work/log.$k" 2>&1 &
        sides+=($!)
        : >"$work/running/$!"
    done
    # If one side fails, the other one loses its peer and ends too.
    for side in "${sides[@]}"; do
        wait "$side" || code=$?
        rm "$work/running/$side"
    done
    [ $code = 0 ] || { cat "$work"/log.* >&2; exit 1; }
    jq --arg name "$1" '[.tables[].rows[] | select(.name | startswith($name)) | .link] | max' "$work/report.0"
}

names=(iperf3 all_gather reduce_scatter all_gather_tls reduce_scatter_tls)
measure() {
    case $1 in
    iperf3) iperf ;;
    all_gather) links "all_gather float32" ;;
    reduce_scatter) links "reduce_scatter sum float32" ;;
    all_gather_tls) links "all_gather float32" --tls ;;
    reduce_scatter_tls) links "reduce_scatter sum float32" --tls ;;
    esac
}
for ((turn = 0; turn < turns; turn++)); do
    for ((i = 0; i < ${#names[@]}; i++)); do
        name=${names[turn % 2 == 0 ? i : ${#names[@]} - 1 - i]}
        figure=$(measure "$name")
        echo "$turn $name $figure" | tee -a "$work/figures" >&2
    done
done

# median TEXT FORMAT: of the numbers on standard input.
median() {
    sort -g | awk -v text="$1" -v format="$2" '{ v[NR] = $1 } END {
        m = NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2
        printf "%-44s " format "  (" format " to " format ")\n", text, m, v[1], v[NR] }'
}
for name in "${names[@]}"; do
    awk -v n="$name" '$2 == n { print $3 }' "$work/figures" | median "$name, Gbit/s" "%.3f"
done
# ratio A B: within a turn, in percent.
ratio() {
    awk -v a="$1" -v b="$2" '$2 == a { x[$1] = $3 } $2 == b { y[$1] = $3 } END { for (t in x) print 100 * x[t] / y[t] }' \
        "$work/figures" | median "$1 by $2, percent" "%.1f"
}
for name in "${names[@]:1}"; do ratio "$name" iperf3; done
ratio all_gather_tls all_gather
ratio reduce_scatter_tls reduce_scatter
