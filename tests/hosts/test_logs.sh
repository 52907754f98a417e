#!/usr/bin/env bash
# Output and endings of jobs over several hosts. The hosts are names (TESSERA_HOST) on this machine's loopback.
. "$(dirname "$0")/support.sh"
make_text 200 >text.txt
make_model model.json
make_config run.yaml
export TESSERA_IFNAME=lo TESSERA_SECRET_FILE=$work/secret
head -c 24 /dev/urandom | od -An -tx1 | tr -d ' \n' >secret
field() { python3 -c 'import json, sys; print(json.load(open(sys.argv[1])).get(sys.argv[2]))' "$1" "$2"; }

# nodes RANKS WORDS...: two hosts; each in its own folder h1, h2 if OWN is set. Output in log.0 and log.1.
node() (
    [ -z "$OWN" ] || cd "$work/h$(($1 + 1))"
    TESSERA_HOST=h$(($1 + 1)) "$tessera" launch --rdzv "localhost:$port" --nnodes 2 --node-rank "$1" -n "$2" $flags -- \
        train run.yaml "${@:3}" >"$work/log.$1" 2>&1 </dev/null
)
nodes() {
    port=$((20000 + RANDOM % 12000))
    node 1 "$@" &
    node 0 "$@"
    local code=$?
    wait $!
    return $code
}
short="training.steps=4 comm.timeout_s=20 checkpoint.enable=false"
kill_3="fault.spec=rank=3 step=2 point=step kind=sigkill"

flags="--log-dir logs --tee 3" nodes 2 $short || fail "$(cat log.0 log.1)"
expect "shown with host and rank" 0 "[h1:rank0]: step: " cat log.0
[ -e logs/attempt_0/0/stdout.log ] && pass "kept by rank" || fail "logs: $(find logs)"
[ -e out/error.json ] && fail "a job that ended well has a record" || pass "no record of a good end"

flags="--log-dir killed" nodes 2 $short "$kill_3" && fail "a killed rank is no failure"
expect "a rank on another host" 0 3 field out/error.json rank
expect "its host" 0 h2 field out/error.json host
expect "its signal" 0 9 field out/error.json signal
expect "the cause" 0 "rank 3 on host h2 was killed by signal 9 (SIGKILL)" field out/error.json cause

# Each host has its own folder.
mkdir h1 h2 && for h in h1 h2; do cp text.txt model.json run.yaml $h; done
flags="--log-dir logs --tee 3" OWN=1 nodes 2 training.steps=4 comm.timeout_s=20 checkpoint.host_local=true "$kill_3" &&
    fail "a killed rank is no failure"
for h in h1 h2; do
    expect "$h has a record" 0 "rank 3 on host h2 was killed" field $h/out/error.json cause
done
[ -d h1/logs/attempt_0/0 ] && [ ! -d h1/logs/attempt_0/3 ] && [ -d h2/logs/attempt_0/3 ] &&
    pass "each host has the files of its ranks" || fail "files: $(find h1/logs h2/logs)"

# The agents are killed, too, as when the system kills a whole host's processes: only the launcher is left.
rm -f log.0
flags= nodes 1 $short training.steps=100000 &
job=$!
await $job has_text log.0 "step: *[1-9]" || fail "the job does not start: $(cat log.0)"
sleep 0.2
kill -KILL $(grep -lsza "^TEST_WORK=$work\$" /proc/[0-9]*/environ | tr -dc '0-9\n' | while read -r pid; do
    tr '\0' ' ' <"/proc/$pid/cmdline" | grep -q "tessera train" && echo "$pid"
done)
wait $job
if [ -e out/error.json ]; then
    pass "the launcher leaves a record where no agent could"
else
    fail "no record: $(tail -n 2 log.0)"
fi

# mpirun
if command -v mpirun.openmpi >/dev/null && [ -e "$(dirname "$tessera")/libtessera_mpi_openmpi.so" ]; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    cat >rank.sh <<SH
export TESSERA_HOST=h\$((OMPI_COMM_WORLD_RANK / 2 + 1))
exec "$tessera" train run.yaml "\$@"
SH
    timeout 300 mpirun.openmpi -q --oversubscribe --bind-to none -np 4 bash rank.sh $short --log-dir mpi -t 3 "$kill_3" \
        >log 2>&1 && fail "a killed rank is no failure"
    expect "mpirun: the record" 0 3 field out/error.json rank
    expect "mpirun: prefixes" 0 "[h1:rank0]: step: " cat log
    # ranks that print long before they join the job
    cat >late.sh <<SH
export TESSERA_HOST=h\$((OMPI_COMM_WORLD_RANK + 1))
exec "$tessera" run --log-dir late -t 3 -- bash -c 'echo early; sleep 1.5; exec "$tessera" train run.yaml $short'
SH
    timeout 300 mpirun.openmpi -q --oversubscribe --bind-to none -np 2 bash late.sh >log 2>&1 || fail "$(cat log)"
    expect "a rank that joins late has its host" 0 "[h1:rank0]: step: " cat log
    expect "its early lines are kept, too" 0 early head -n 1 late/attempt_0/1/stdout.log
    [ -d mpi/attempt_0/3 ] && pass "mpirun: files" || fail "mpirun: $(find mpi)"
fi
finish
