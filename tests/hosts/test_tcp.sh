#!/usr/bin/env bash
# Hosts without an MPI: ranks meet over TCP. The hosts are names (TESSERA_HOST) on this machine's loopback, so most of
# this needs neither root nor an MPI.
. "$(dirname "$0")/support.sh"
make_text 600 >text.txt
make_model model.json
make_config run.yaml
sed -i 's/steps: 30/steps: 6/; s/interval: 15/interval: 6/' run.yaml
train=(train run.yaml job.dump_folder=out model.save_dtype=float32)
export TESSERA_IFNAME=lo TESSERA_SECRET_FILE=$work/secret
head -c 24 /dev/urandom | od -An -tx1 | tr -d ' \n' >secret
next_port() { port=$((20000 + RANDOM % 12000)); }

# node K N RANKS COMMAND...: one host's part of a job.
node() {
    TESSERA_HOST=h$(($1 + 1)) "$tessera" launch --rdzv "localhost:$port" --nnodes "$2" --node-rank "$1" -n "$3" \
        --restarts "${restarts:-0}" -- "${@:4}"
}
# nodes N RANKS COMMAND...: all hosts at once; the output of each is in log.K; the code is that of host 0.
nodes() {
    local n=$1 k pids=()
    next_port
    for ((k = n - 1; k > 0; k--)); do
        node $k "$@" >log.$k 2>&1 </dev/null &
        pids+=($!)
    done
    node 0 "$@" 2>&1
    local code=$?
    wait "${pids[@]}"
    return $code
}

export tessera
export -f node nodes next_port
over_tcp=(bash -c 'nodes "$@"' nodes)

"$tessera" "${train[@]}" job.dump_folder=reference >log 2>&1 || { cat log; exit 1; }
[ "$(columns reference | wc -l)" = 6 ] || { fail "6 steps in metrics.jsonl"; finish; }
strategy=parallelism.shard_strategy
same "2 hosts x 1" reference "${over_tcp[@]}" 2 1 "${train[@]}"
grep -q '^ranks: 2 (tcp)' log && pass "the run says that it is over TCP" ||
    fail "the run says that it is over TCP: $(cat log)"
same "2 + 1 ranks, zero1" reference "${over_tcp[@]}" 2 2,1 "${train[@]}" $strategy=zero1
same "2 hosts x 2, hybrid" reference "${over_tcp[@]}" 2 2 "${train[@]}" $strategy=hybrid \
    parallelism.data_parallel_replicate_degree=2
same "4 hosts x 2, stages between hosts" reference "${over_tcp[@]}" 4 2 "${train[@]}" \
    parallelism.pipeline_parallel_degree=2
restarts=1 same "all start again when a rank is killed" reference "${over_tcp[@]}" 2 2 "${train[@]}" checkpoint.interval=2 \
    fault.spec="rank=3 step=4 point=phase:backward kind=sigkill"
grep -q 'node 0: its ranks ended with code 137; they start again in 1 s: restart 1 of 1' log && grep -q 'resumed from step 2' log &&
    pass "on both hosts, from the newest checkpoint" || fail "on both hosts, from the newest checkpoint: $(cat log)"
same "2 hosts x 2, encrypted" reference "${over_tcp[@]}" 2 2 "${train[@]}" comm.tls=true
grep -q '^ranks: 4 (tcp, encrypted)' log && pass "the run says that it is encrypted" ||
    fail "the run says that it is encrypted: $(grep '^ranks' log)"

# Ranks that divide the tokens of rows, some of them on another host: leaves of keys travel over the network.
cp=parallelism.context_parallel_degree ring=parallelism.context_parallel_method=ring leaves=training.context_leaves
"$tessera" "${train[@]}" job.dump_folder=leaves $leaves=8 >log 2>&1 || fail "one rank with leaves: $(tail -n 3 log)"
same "a ring over 2 hosts x 1" leaves "${over_tcp[@]}" 2 1 "${train[@]}" $leaves=8 $cp=2 $ring
same "a ring over 2 hosts x 2, encrypted" leaves "${over_tcp[@]}" 2 2 "${train[@]}" $leaves=8 $cp=4 $ring comm.tls=true
same "a ring in each of 2 hosts" leaves "${over_tcp[@]}" 2 2 "${train[@]}" $leaves=8 $cp=2 $ring
same "gather over 2 hosts x 1" leaves "${over_tcp[@]}" 2 1 "${train[@]}" $leaves=8 $cp=2 \
    parallelism.context_parallel_method=gather

# ---- Who may come
refused() { # NAME TEXT FILE
    if grep -qF -- "$2" "$3"; then pass "$1"; else fail "$1: expected \"$2\" in $(tail -n 5 "$3")"; fi
}
next_port
(TESSERA_SECRET_FILE='' TESSERA_SECRET=not-the-secret-of-the-job node 1 2 1 "${train[@]}") >log.1 2>&1 &
stranger=$!
node 0 2 1 "${train[@]}" comm.timeout_s=7 >log.0 2>&1
code=$?
wait $stranger && fail "a stranger fails"
[ $code = 1 ] && pass "time is up" || fail "time is up: exit code $code"
refused "a process that does not know the secret is refused" \
    "refuses this process: it does not know the job's secret" log.1
refused "and rank 0 says so" "a caller from 127.0.0.1 was refused: it does not know the job's secret" log.0
grep -qE 'has waited [5-6] s for 1 of 2 ranks: 1 \(missing: node 1 of 2\)' log.0 && pass "who is missing is said" ||
    fail "who is missing is said: $(cat log.0)"
refused "and in the end" "has waited 7 s for 1 of 2 ranks: 1 (missing: node 1 of 2)" log.0
# met NAME TEXT VALUE_OF_0 VALUE_OF_1 SECRET_OF_1: rank 1 is refused, and says why.
met() {
    next_port
    node 0 2 1 "${train[@]}" comm.timeout_s=7 comm.tls="$3" >log.0 2>&1 &
    local first=$!
    (TESSERA_SECRET_FILE=$5 node 1 2 1 "${train[@]}" comm.timeout_s=30 comm.tls="$4") >log.1 2>&1 &&
        fail "$1: rank 1 succeeds"
    wait $first && fail "$1: rank 0 succeeds"
    refused "$1" "refuses this process: $2" log.1
    refused "$1, says rank 0" "a caller from 127.0.0.1 was refused: $2" log.0
}
mixed="one side has comm.tls=true, and the other has not"
met "rank 0 alone encrypts" "$mixed" true false "$TESSERA_SECRET_FILE"
met "rank 1 alone encrypts" "$mixed" false true "$TESSERA_SECRET_FILE"
echo another-secret-than-that-of-the-job >other
met "TLS with another secret" "TLS: one side does not know the job's secret" true true "$PWD/other"
expect "no secret" 2 "ranks of several hosts need a secret" env -u TESSERA_SECRET_FILE TESSERA_HOST=h2 \
    "$tessera" launch --rdzv localhost:$port --nnodes 2 --node-rank 1 -- "${train[@]}"

# clash NAME TEXT RANKS_OF_0 NODES_OF_1 NODE_OF_1 RANKS_OF_1
clash() {
    next_port
    node 0 3 "$3" "${train[@]}" >log.0 2>&1 &
    local first=$!
    node 1 3 "$3" "${train[@]}" comm.timeout_s=10 >log.1 2>&1 & # it may come too late to be told
    local second=$!
    node "$5" "$4" "$6" "${train[@]}" >log.2 2>&1
    wait $first
    [ $? = 2 ] || fail "$1: exit code of node 0"
    wait $second
    refused "$1" "$2" log.0
    refused "$1, on the other host" "$2" log.2
}
clash "two hosts are one node" "two processes are rank 1: process " 1 3 1 1
clash "two sizes of the job" "has WORLD_SIZE=4, but rank 0 on host h1 has 3" 1 3 2 1,1,2
expect "hosts differ in their configuration" 1 "ranks differ in their configuration: rank 1 on host h2" bash -c '
    TESSERA_HOST=h2 "$0" launch --rdzv localhost:$1 --nnodes 2 --node-rank 1 -- "${@:2}" optimizer.lr=1 >log.1 2>&1 &
    TESSERA_HOST=h1 "$0" launch --rdzv localhost:$1 --nnodes 2 --node-rank 0 -- "${@:2}"; code=$?; wait; exit $code' \
    "$tessera" $((port + 100)) "${train[@]}"

# ---- The first host prepares for longer than others would wait: it verifies checkpoints, and a place answers late
printf '#!/bin/sh\n[ "$1" != list ] || sleep 7\n' >late.sh
chmod +x late.sh
late=(checkpoint.copy_command=./late.sh checkpoint.copy_check=false checkpoint.copy_wait_s=30 comm.timeout_s=4 training.steps=2)
rm -rf out
nodes 2 1 "${train[@]}" "${late[@]}" >log.0 2>&1 && pass "a host that prepares is waited for" ||
    fail "a host that prepares is waited for: $(tail -n 3 log.0 log.1)"
refused "and the others say why" "to reach rank 0 at localhost:$port: it verifies checkpoints" log.1

# ---- Faults: named within seconds
long=(training.steps=100000 validation.enable=false checkpoint.interval=100000 comm.timeout_s=12)
rank_process() { # RANK: the process of the rank itself, below its warden
    local pid
    for pid in $(grep -lsza "^TEST_WORK=$work\$" /proc/[0-9]*/environ | tr -dc '0-9\n'); do
        grep -qsza "^RANK=$1\$" "/proc/$pid/environ" && grep -qsza '^TESSERA_GUARD_FD=' "/proc/$pid/environ" &&
            echo "$pid"
    done | sort -n | head -n 1
}
# faulty NAME SIGNAL PATTERN [WORDS]
faulty() {
    local name=$1 signal=$2 pattern=$3 begin code=0
    shift 3
    rm -rf out
    nodes 2 2 "${train[@]}" "${long[@]}" "$@" >log.0 &
    local job=$!
    await $job has_lines out/metrics.jsonl 3 || { fail "$name: the run starts: $(tail -n 3 log.0)"; return; }
    begin=$(date +%s%N)
    kill -"$signal" "$(rank_process 3)" || { fail "$name: no process is rank 3"; kill "$job"; }
    wait $job || code=$?
    [ $code != 0 ] && pass "$name: the job fails ($code, $((($(date +%s%N) - begin) / 1000000)) ms later)" ||
        fail "$name: the job ends with 0"
    if [ "$(grep -cE "^tessera: .*$pattern" log.0)" = 1 ]; then
        pass "$name: $(grep -E "^tessera: .*$pattern" log.0)"
    else
        fail "$name: expected one line /$pattern/ in $(tail -n 8 log.0)"
    fi
}
faulty "killed rank, encrypted" KILL "rank 3 on host h2 was killed by signal 9" comm.tls=true
faulty "killed rank" KILL "rank 3 on host h2 was killed by signal 9"
faulty "stopped rank" STOP "rank 3 on host h2 .*stopped .state T"

# ---- Asked to stop: all save after the same step
rm -rf out
nodes 2 1 "${train[@]}" "${long[@]}" >log.0 &
job=$!
await $job has_lines out/metrics.jsonl 3
kill -TERM "$(pgrep -P $(pgrep -P $job -f 'node-rank 0' || echo $job) -f 'train run.yaml' | head -n 1)" ||
    { fail "no process is the launcher of host 0"; kill $job; }
wait $job
code=$?
[ $code = 130 ] && grep -q 'interrupted after step .*saved' log.0 && pass "a request to stop saves" ||
    fail "a request to stop saves: code $code, $(tail -n 4 log.0)"
finish
