#!/usr/bin/env bash
# tessera trace reads and writes dumps of PyTorch's Flight Recorder: test_flight_recorder.sh TESSERA SOURCE_DIR
set -u
source "$(dirname "$0")/support.sh"
fixtures=$project/tests/doctor/fixtures
nccl="missing_rank: rank 2 keeps ranks 0 1 3 waiting in all_reduce #5"
gloo="missing_rank: rank 1 keeps ranks 0 2 waiting in all_reduce #5"

expect "nccl names the rank that is short" 3 "$nccl" "$tessera" trace "$fixtures/nccl" --flight-recorder nccl \
    --perfetto nccl.json
expect "nccl shows the call site" 3 "at step (train.py:18)" "$tessera" trace "$fixtures/nccl"
expect "gloo names the rank that sleeps" 3 "$gloo" "$tessera" trace "$fixtures/gloo" --flight-recorder gloo \
    --perfetto gloo.json
for backend in nccl gloo; do
    text=${!backend}
    expect "$backend: the same verdict from written JSON" 3 "$text" "$tessera" trace $backend
    expect "$backend: the same verdict from written pickles" 3 "$text" "$tessera" trace $backend/pickle
    expect "$backend: waits are in the timeline" 0 '"wait: all_reduce"' cat $backend.json
done

cp -r "$fixtures/nccl" cut
head -c 700 "$fixtures/nccl/nccl_trace_rank_2" > cut/nccl_trace_rank_2
expect "a dump that was cut off is told" 3 "cut/nccl_trace_rank_2: offset 688" "$tessera" trace cut
rm cut/nccl_trace_rank_2
expect "so is one that is missing" 3 "rank 2: there is no dump of it in cut" "$tessera" trace cut

cp -r "$fixtures/gloo" part
rm part/nccl_trace_rank_0
expect "whose dump is missing is not blamed where others went on" 3 \
    "missing_rank: rank 1 keeps rank 2 waiting in all_reduce #5" "$tessera" trace part

mkdir evil
printf '\200\002}X\007\000\000\000entriescos\nsystem\nX\013\000\000\000touch pwned\205Rs.' > evil/rank_0
expect "what Python would execute is refused" 2 "it names 'os.system'" "$tessera" trace evil
expect "and was not executed" 2 "pwned" ls pwned
finish
