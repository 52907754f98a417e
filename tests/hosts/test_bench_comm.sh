#!/usr/bin/env bash
# The bench of collectives in a job over two hosts: the facts, the bytes that cross a link by the table, and that the link
# carried no more than these.
tessera=$1 project=$2
. "$project/tests/cli/support.sh"
for mpi in openmpi mpich; do
    [ -e "$(dirname "$tessera")/libtessera_mpi_$mpi.so" ] && command -v mpirun.$mpi >/dev/null && with="$with $mpi"
done
[ -n "${with:-}" ] || { echo "SKIPPED: no mpirun with a plug-in for it (Debian packages: openmpi-bin, mpich)"; exit 77; }
export TESS_HOSTS_PREFIX=c$$
"$project/tools/hosts" up 2 || exit $?
trap '"$project/tools/hosts" down' EXIT
on_hosts="timeout 600 $project/tools/hosts mpirun -np 4 --per-host 2"

# Bytes that h1 has sent so far.
sent() { "$project/tools/hosts" exec h1 cat /proc/net/dev | awk '$1 == "eth0:" { print $10 }'; }

# MPICH's hydra kills the other ranks when the first has ended with an error. Tries again when that hides their own exit
# code.
refused() {
    local code
    for _ in 1 2 3 4 5; do
        code=0
        "$@" || code=$?
        [ $code = 9 ] || break
    done
    return $code
}

for mpi in $with; do
    bench="$on_hosts --$mpi $tessera bench comm --link 10 --iperf 20"
    expect "$mpi: ranks of the job measure" 0 "4 ranks on 2 hosts" $bench --filter "all_gather float32" \
        --min-bytes 1048576 --max-bytes 1048576
    for line in "hosts    2: h1 (2 ranks), h2 (2 ranks)" "paths    shared memory inside a host, messages of MPI"; do
        if grep -qF "$line" output; then pass "$mpi: $line"; else fail "$mpi: '$line' is printed"; fi
    done
    expect "$mpi: --ranks is refused" 2 "the job has 4 ranks already" refused $bench --ranks 2
    expect "$mpi: other benches are for one machine" 2 "measures one machine" \
        refused $on_hosts --$mpi $tessera bench machine
done

# 16 MiB over 2 hosts: 8 MiB each way for every sample (4 to 10 in windows, and as many in private memory). Crossing twice
# would be far above.
set -- $with
before=$(sent)
expect "a report as JSON" 0 "" $on_hosts --$1 "$tessera" bench comm --filter "all_gather float32" --min-bytes 16777216 \
    --max-bytes 16777216 --json=report.json
crossed=$(($(sent) - before)) per_call=8388608
if grep -q '"crossing": 8388608' report.json; then pass "a gather crosses once"; else fail "the crossing is 8 MiB"; fi
if [ $crossed -ge $((8 * per_call)) ] && [ $crossed -le $((20 * per_call * 11 / 10)) ]; then
    pass "the link carried $crossed bytes"
else
    fail "the link carried $crossed bytes, by the table $per_call a call, 8 to 20 calls"
fi

# The table that it writes can be read, and a run uses it.
expect "ways and round sizes are measured" 0 "way and bytes of a round" $on_hosts --$1 "$tessera" bench comm \
    --filter "broadcast" --min-bytes 262144 --max-bytes 262144 --tune "$work/table.json"
for text in '"tessera_tuning": 1' '"hosts": "2: h1 (2 ranks), h2 (2 ranks)"' '"broadcast": ['; do
    if grep -qF "$text" table.json; then pass "the table says $text"; else fail "the table says $text"; fi
done
TESSERA_TUNING=$work/table.json expect "the table is taken" 0 "4 ranks on 2 hosts" $on_hosts --$1 "$tessera" bench comm \
    --filter "broadcast float32" --min-bytes 262144 --max-bytes 262144
sed -i 's/"way": "[a-z]*"/"way": "swum"/' table.json
TESSERA_TUNING=$work/table.json expect "a bad table is refused" 2 "table.json: broadcast, row 1: 'way' is 'swum'" \
    refused $on_hosts --$1 "$tessera" bench comm --filter "broadcast float32" --max-bytes 1024
expect "one host needs no table" 2 "jobs over several hosts" "$tessera" bench comm --tune "$work/none.json"
finish
