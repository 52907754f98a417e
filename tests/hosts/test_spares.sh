#!/usr/bin/env bash
# Spare hosts: they wait at the rendezvous, and take the place of a host that is lost. The hosts are names
# (TESSERA_HOST) on this machine's loopback; where root can make network namespaces, a link is cut, too.
. "$(dirname "$0")/support.sh"
make_text 600 >text.txt
make_model model.json
make_config run.yaml
sed -i 's/steps: 30/steps: 12/; s/interval: 15/interval: 2/' run.yaml
train=(train run.yaml job.dump_folder=out model.save_dtype=float32 validation.enable=false)
training=("${train[@]}")
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
# quits NAME K CODE: host K ends with this code, and soon.
quits() {
    local code=0 begun=$SECONDS
    timeout 40 tail --pid="${pids[$2]}" -f /dev/null
    [ $((SECONDS - begun)) -lt 35 ] || kill -KILL "${pids[$2]}"
    wait "${pids[$2]}" || code=$?
    [ $code = "$3" ] && pass "$1" || fail "$1: host $2 ends with $code: $(tail -n 4 log.$2)"
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
spares=3 host 2
quits "another number of spares is refused for good" 2 2
said "the host says why" log.2 "refuses this host: --nnodes or --spares are not those of node 0"
said "and node 0 does, too" log.0 "a caller from 127.0.0.1 was refused: --nnodes or --spares are not those of node 0"
for k in 1 2 3 4 5 6 7 8; do (TESSERA_SECRET_FILE='' TESSERA_SECRET=not-the-secret-of-the-job host 1; wait "${pids[1]}"); done
[ "$(grep -c "was refused" log.0)" = 8 ] && pass "node 0 reports the first eight refusals" ||
    fail "node 0 reports the first eight refusals: $(cat log.0)"
said "it says that it stops there" log.0 "further ones are not reported"
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

# ---- Flags without effect
launch=("$tessera" launch)
expect "--spares needs --rdzv" 2 "--spares has no effect without --rdzv" "${launch[@]}" --hosts localhost:1 --spares 2 --dry-run -- run -- true
expect "--restarts needs --rdzv" 2 "--restarts has no effect without --rdzv" "${launch[@]}" --hosts localhost:1 --restarts 2 --dry-run -- run -- true
expect "--wait needs --spares" 2 "--wait has no effect without --spares" "${launch[@]}" --rdzv localhost:1 --nnodes 2 --node-rank 0 --wait 2 -- run -- true
expect "--dry-run needs --hosts" 2 "--dry-run has no effect without --hosts" "${launch[@]}" --rdzv localhost:1 --nnodes 2 --node-rank 0 --dry-run -- run -- true

# ---- Programs that do not talk to each other, so that only the launchers know of each other. Ranks 0 and 1 are on node 0.
program() { printf '%s\n' "$@" >program.sh; train=(run -- sh program.sh); }
slow=() spares=1 restarts=1 after=2
program '[ "$RANK" != 0 ] || sleep 4'
begin 3
quits "a host that has finished is not lost" 0 0
quits "it ends with the job" 1 0
quits "and so does the spare" 2 0
grep -q "lost" log.0 && fail "no host is lost: $(cat log.0)" || pass "no host is lost"

program '[ "$RANK" = 2 ] && sleep 3; exit 0'
begin 3
quits "node 0 waits for ranks that still run" 0 0
quits "they end well" 1 0
quits "the spare ends with them" 2 0
after=60

program '[ "$TESSERA_LIVES_BEFORE" = 1 ] && exit 0; [ "$RANK" = 2 ] && exit 3; exec sleep 100'
begin 3
quits "node 0 does not wait for ranks that have ended" 0 0
quits "they start again" 1 0
said "node 0 says why" log.0 "the ranks of node 1 on host h2 have ended with code 3: the ranks that wait for it are ended"
quits "the spare ends, too" 2 0

program '[ "$TESSERA_LIVES_BEFORE" = 1 ] && exit 0; echo "$RANK" >>started; exec sleep 100'
rm -f started
begin 2
await "${pids[0]}" has_lines started 3 || fail "the ranks start"
lose 1
host 1
quits "node 0 does not wait for ranks of a launcher that started anew" 0 0
quits "it takes part" 1 0
said "node 0 says that it did" log.0 "the launcher of node 1 on host h2 has started anew: the ranks that wait for it are ended"

restarts=0
program '[ "$RANK" = 2 ] && exec sleep 100; sleep 1; exit 2'
begin 3
quits "node 0 has bad input" 0 2
quits "the end of the job ends the ranks of other hosts" 1 2
quits "a spare has the same code" 2 2
program '[ "$RANK" = 2 ] && exit 2; exec sleep 100'
begin 3
quits "another host has bad input" 0 2
quits "it ends with that code" 1 2
quits "the spare ends with it, too" 2 2

restarts=1 after=2
program '[ "$TESSERA_LIVES_BEFORE" = 1 ] && { sleep 1; exit 0; }; [ "$RANK" = 2 ] && exec sleep 100; exit 1'
begin 3
quits "a slow host has lost its place" 0 0
quits "it ends with the job's code" 1 0
quits "so does the spare that has its place" 2 0
said "a slow host is not called lost" log.0 "node 1 on host h2 was not ready within 2 s: the spare host h3 (node 2) takes its place"

program 'echo "$RANK ${TESSERA_LIVES_BEFORE-none}" >>lives' '[ -e again ] && exit 0; [ "$TESSERA_LIVES_BEFORE" = 1 ] || exit 1' \
    'until [ -e again ]; do sleep 0.1; done; exit 1'
rm -f lives again
begin 2
await "${pids[0]}" has_text lives "2 1" || fail "the ranks start again: $(tail -n 3 log.0)"
lose 0
: >lives
: >again
host 0
quits "node 0's launcher starts anew" 0 0
quits "the other host goes on with it" 1 0
[ "$(sort lives)" = $'0 none\n1 none\n2 none' ] && pass "no variable of an earlier life is left" ||
    fail "no variable of an earlier life is left: $(cat lives)"

program 'exec sleep 6'
begin 2
sleep 2
mine=${pids[1]}
host 1
quits "a second host with the same number is refused" 1 2
said "it says why" log.1 "has --node-rank 1, and so has host h2 (process $mine): each host needs its own"
pids[1]=$mine
quits "the job goes on" 0 0
quits "with the first host of that number" 1 0
[ "$(grep -c "each host needs its own" log.0)" = 1 ] && pass "node 0 says so once" || fail "node 0 says so once: $(cat log.0)"
train=("${training[@]}")

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
