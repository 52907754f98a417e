#!/usr/bin/env bash
# Preflight as ranks of mpirun checks every host, and what only several hosts have.
. "$(dirname "$0")/support.sh"
needs openmpi
hosts_up 2

ready=0
"$tessera" doctor preflight --only cores >cores || ready=4 # a quota of less than a core fails this check itself
expect "two hosts are ready" $ready "4 ranks on 2 hosts" "$hosts" mpirun -np 4 "$tessera" doctor preflight
grep -q "clock-offset: within " output && pass "clocks of one machine agree" || fail "clocks: $(grep clock-off output)"
grep -q "links[: ].* Gbit/s" output && pass "a link without limit: $(grep -o "links.*" output)" ||
    fail "links: $(grep links output)"
"$hosts" rate 50mbit h2
expect "a slow link" 0 "from host h1 to host h2: only 0.0" "$hosts" mpirun -np 4 "$tessera" doctor preflight --only links
expect "a variable that was not carried over" 0 "NCCL_ALGO is Ring on 2 ranks, nothing on rank 2, nothing on rank 3" \
    env NCCL_ALGO=Ring "$hosts" mpirun -np 4 "$tessera" doctor preflight --only environment
expect "a folder that no host can write" 4 "host h1 (and h2): TMPDIR /proc/self/gone" \
    "$hosts" mpirun -np 4 env TMPDIR=/proc/self/gone "$tessera" doctor preflight --only tmp
finish
