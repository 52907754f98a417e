#!/usr/bin/env bash
# Spare hosts: they wait at the rendezvous, and take the place of a host that is lost. The hosts are names
# (TESSERA_HOST) on this machine's loopback; where root can make network namespaces, a link is cut, too.
. "$(dirname "$0")/support.sh"
make_text 600 >text.txt
make_model model.json
make_config run.yaml
sed -i 's/steps: 30/steps: 12/; s/interval: 15/interval: 2/' run.yaml
train=(train run.yaml job.dump_folder=out model.save_dtype=float32 validation.enable=false)
export TESSERA_IFNAME=lo TESSERA_SECRET_FILE=$work/secret
head -c 24 /dev/urandom | od -An -tx1 | tr -d ' \n' >secret
next_port() { port=$((20000 + RANDOM % 12000)); }
"$tessera" "${train[@]}" job.dump_folder=reference >log 2>&1 || { cat log; exit 1; }

spares=1 restarts=3 after=3 flags=() first=localhost exec=''
# host K [COMMAND OPTION...]: starts one host's part in the background; its process is pids[K].
host() {
    TESSERA_HOST=h$(($1 + 1)) ${exec:+"$hosts" exec h$(($1 + 1))} "$tessera" launch --rdzv "$first:$port" --nnodes 2 --spares "$spares" \
        --node-rank "$1" -n 2,1 --restarts "$restarts" --spare-after $after "${flags[@]}" -- "${train[@]}" "${@:2}" \
        >>log.$1 2>&1 </dev/null &
    pids[$1]=$!
}
begin() { # N: hosts that start
    local k
    rm -rf out log.*
    next_port
    for ((k = $1 - 1; k >= 0; k--)); do host $k "${slow[@]}"; done
}
# ended NAME K...: hosts K end with code 0, and the weights are those of the undisturbed run.
ended() {
    local name=$1 k code
    shift
    for k in "$@"; do
        code=0
        wait "${pids[$k]}" || code=$?
        [ $code = 0 ] || fail "$name: host $k ends with $code: $(tail -n 4 log.$k)"
    done
    if ! cmp -s <(columns out) <(columns reference); then
        fail "$name: the columns differ: $(diff <(columns out) <(columns reference) | head -n 3)"
    elif ! cmp -s out/model/model.safetensors reference/model/model.safetensors; then
        fail "$name: the weights differ"
    else
        pass "$name: the weights of an undisturbed run"
    fi
}
said() { # NAME FILE TEXT
    grep -qF -- "$3" "$2" && pass "$1" || fail "$1: expected \"$3\" in $(tail -n 8 "$2")"
}
descendants() { # PID: it and all processes below it
    local pid
    echo "$1"
    for pid in $(pgrep -P "$1"); do descendants "$pid"; done
}
lose() { kill -KILL "${pids[$1]}"; wait "${pids[$1]}" 2>/dev/null; } # its ranks die with it

# ---- A rank dies, and its host does not: the spare is not needed, and ends with the job
after=60
slow=(fault.spec="rank=2 step=6 point=phase:backward kind=sigkill")
begin 3
ended "a spare that is not needed" 0 1 2
said "it says that it waits" log.2 "node 2 on host h3 waits as a spare"
said "node 0 says so, too" log.0 "node 2 on host h3 waits as a spare"
said "the host starts its ranks again" log.1 "node 1: the ranks of this host ended with code 137: it asks node 0 again"
grep -q "takes its place" log.0 && fail "it keeps its place: $(grep "its place" log.0)" || pass "it keeps its place"
after=3

# ---- A waiting spare is lost, then a host, then the spare that took its place; the first host is back by then
spares=2
slow=(fault.spec="rank=all step=6 point=phase:backward kind=sleep ms=4000; \
rank=all step=9 point=phase:backward kind=sleep ms=6000 life=2")
begin 4
await "${pids[0]}" has_text log.0 "node 2 on host h3 waits" || fail "the spare comes: $(tail -n 3 log.0)"
lose 2
await "${pids[0]}" has_lines out/metrics.jsonl 5 || fail "the job starts: $(tail -n 3 log.0)"
said "a spare that is lost is named" log.0 "node 2 on host h3 is not a spare any more: its connection closed"
lose 1
await "${pids[0]}" has_lines out/metrics.jsonl 8 || fail "the job goes on: $(tail -n 3 log.0)"
said "a spare takes the place of a lost host" log.0 "node 1 on host h2 is lost: the spare host h4 (node 3) takes its place"
said "the spare says so, too" log.3 "node 3 on host h4 takes the place of node 1"
grep -q 'resumed from step 4' log.0 && pass "from the newest checkpoint" || fail "from the newest checkpoint: $(cat log.0)"
host 1 "${slow[@]}"
await "${pids[0]}" has_text log.0 "node 1 on host h2 is back, and waits as a spare: host h4 has its place" ||
    fail "a host that is back is a spare: $(tail -n 3 log.0)"
lose 3
ended "three hosts were lost" 0 1
said "the first host has its place again" log.0 "node 1 on host h4 is lost: the spare host h2 (node 1) takes its place"

# ---- Who may wait
slow=()
rm -rf out log.*
next_port
host 0
(TESSERA_SECRET_FILE='' TESSERA_SECRET=not-the-secret-of-the-job host 1; wait "${pids[1]}") && fail "a stranger may wait"
said "a host that does not know the secret is refused" log.1 "refuses this host: it does not know the job's secret"
said "and node 0 says so" log.0 "a caller from 127.0.0.1 was refused: it does not know the job's secret"
(spares=3 host 2) # another number of spares
await "${pids[0]}" has_text log.0 "nnodes or --spares are not those of node 0" &&
    pass "another number of spares is refused" || fail "another number of spares is refused: $(tail -n 3 log.0)"
kill -TERM "${pids[0]}"
wait "${pids[0]}"
[ $? = 130 ] && pass "node 0 heeds a request to stop while it waits" || fail "node 0 heeds a request to stop while it waits"

expect "parts of checkpoints on hosts are refused" 2 "a spare host does not have the lost host's part" \
    "$tessera" launch --rdzv "localhost:$port" --nnodes 2 --spares 1 --node-rank 0 -- "${train[@]}" checkpoint.host_local=true

# ---- A request to stop in the pause between two starts
TESSERA_HOST=h1 "$tessera" launch --rdzv "localhost:$port" --nnodes 2 --node-rank 0 --restarts 9 -- run -- false >log.0 2>&1 &
job=$!
await $job has_text log.0 "start again in 4 s" || fail "there is a pause: $(tail -n 3 log.0)"
begun=$(date +%s%N)
kill -TERM $job
wait $job
code=$? ms=$((($(date +%s%N) - begun) / 1000000))
[ $code = 130 ] && [ $ms -lt 2500 ] && pass "a request to stop ends the pause ($ms ms)" ||
    fail "a request to stop ends the pause: code $code after $ms ms: $(tail -n 2 log.0)"

# ---- A silent host: its link is cut, where hosts can be network namespaces; else all its processes stand still
spares=1 after=2
slow=(fault.spec="rank=all step=6 point=phase:backward kind=sleep ms=3000" comm.timeout_s=300)
if [ "$(id -u)" = 0 ] && "$hosts" up 3 >up.log 2>&1; then
    export TESSERA_IFNAME=eth0
    exec=1
    first=$("$hosts" exec h1 ip -4 -o addr show eth0 | awk '{ sub("/.*", "", $4); print $4; exit }')
fi
begin 3
await "${pids[0]}" has_lines out/metrics.jsonl 5 || fail "the job starts: $(tail -n 3 log.0)"
silent=$(descendants "${pids[1]}")
if [ -n "$exec" ]; then "$hosts" cut h2; else kill -STOP $silent; fi
ended "a silent host${exec:+ behind a cut link}" 0 2
said "its ranks are not waited for" log.0 "node 1 on host h2 has been lost for 2 s: the ranks that wait for it are ended"
said "its place is given away" log.0 "node 1 on host h2 is lost: the spare host h3 (node 2) takes its place"
kill -KILL $silent 2>/dev/null
finish
