#!/usr/bin/env bash
# The bench of collectives measures every collective on the given numbers of ranks, and compares reports.
. "$(dirname "$0")/support.sh"
bench="$tessera bench comm --quick --ranks 2 --mpi none --max-bytes 1024 --factor 4"

expect "every collective has its row" 0 "barrier, 2 ranks" $bench --json=report.json
for name in "all_reduce sum float32 256 B, 2 ranks" "reduce_scatter sum bfloat16 1.00 KiB, 2 ranks" \
    "reduce_scatter_pieces sum float32 1.00 KiB, 2 ranks" "all_gather_pieces bfloat16 256 B, 2 ranks" \
    "all_to_all float32 256 B, 2 ranks" "broadcast float32 256 B, 2 ranks" "gather float32 256 B, 2 ranks" \
    "scatter float32 256 B, 2 ranks" "send_recv bfloat16 1.00 KiB, 2 ranks"; do
    if grep -qF "\"name\": \"$name\"" report.json; then pass "$name"; else fail "$name is in the report"; fi
done
expect "a filter keeps the other rows out" 0 "gather_pieces float32 256 B" $bench --filter "pieces float32 256 B"
if grep -q "1.00 KiB\|all_reduce" output; then fail "a filtered row is there"; else pass "no other rows"; fi
# An old report slower than any machine, so that noise cannot fail the comparison.
awk '$1 == "\"time\":" { $2 = $2 * 1e4 "," } { print }' report.json >slower.json
expect "an older report is compared with" 0 "broadcast float32 256 B, 2 ranks" \
    $bench --filter broadcast --compare slower.json
expect "a device's memory has rows of its own" 0 "all_gather_pieces bfloat16 1.00 KiB, 2 ranks" \
    $bench --device far --min-bytes 1024 --filter "gather_pieces bfloat16"
expect "so do messages between devices" 0 "send_recv bfloat16 1.00 KiB, 2 ranks" \
    $bench --device far --min-bytes 1024 --filter "send_recv bfloat16"
expect "the ways of bytes are listed" 0 "the highest score that fits is taken" $bench --list --json=ways.json
for name in self shm mpi "device windows" nccl "through the host"; do
    if grep -qF "\"name\": \"$name\"" ways.json; then pass "the way '$name'"; else fail "the way '$name' is in the list"; fi
done
if grep -q "GB/s" output; then fail "the list measures"; else pass "the list measures nothing"; fi
expect "the host's memory is no device's" 2 "leave --device out" $bench --device cpu --filter "gather_pieces bfloat16"
expect "one rank has nobody to meet" 2 "name numbers from 2 on" $bench --ranks 1
expect "a peer that does not run is told" 2 "did not run under mpirun" $bench --mpi ./nothing
finish
