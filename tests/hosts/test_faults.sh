#!/usr/bin/env bash
# A fault on the other host while four ranks on two hosts train: every remaining rank returns soon after the deadline, the
# job ends with an error, and one line names the culprit.
. "$(dirname "$0")/support.sh"
needs openmpi
make_text 600 >text.txt
make_model model.json
make_config run.yaml
long="training.steps=100000 validation.enable=false checkpoint.interval=100000"

# Ranks on host $1, recognized by the environment that their wardens set.
ranks_on() {
    local pid
    for pid in $(ip netns pids "$TESS_HOSTS_PREFIX-$1"); do
        grep -qsz ^TESSERA_GUARD_FD= "/proc/$pid/environ" && echo "$pid"
    done | sort -n
}

# The default of mpirun is to notice after nine minutes that a host is gone. A link on which it has sent something since the cut is
# lost after a quarter of an hour, so it must notice in the first seconds, whether or not the ranks are faster.
keepalive="--mca oob_tcp_keepalive_time 2 --mca oob_tcp_keepalive_intvl 1 --mca oob_tcp_keepalive_probes 2"

# start [DEADLINE]: a long run in the background; returns after a few steps. If the machine stands still for as long as the
# deadline, the run ends before: it is tried again with a longer one.
start() {
    for deadline in ${1:-3 30 120}; do
        rm -rf out log
        "$hosts" mpirun --mpi-args "-q $keepalive" -np 4 "$tessera" train run.yaml job.dump_folder=out $long \
            comm.timeout_s=$deadline >log 2>&1 </dev/null &
        mpirun=$!
        await $mpirun has_lines out/metrics.jsonl 3 && return 0
    done
    fail "a run on two hosts starts: $(tail -n 3 log)"
    return 1
}

# No rank is left except $stopped.
are_gone() { [ -z "$({ ranks_on h1; ranks_on h2; } | grep -vxF "${stopped:-none}")" ]; }

# The wardens' report of how the job ended. Before it they may name who keeps others waiting, the watch on health may say
# that a rank is silent, and a warden that mpirun, which may miss a host sooner, asks the remaining ranks to stop.
verdicts() {
    grep '^tessera: ' log | grep -vE 'ha(s|ve) kept .* waiting for|rank [0-9]+ has come after|stack: |: asked to stop: |health: '
}

# expect_verdict NAME PATTERN: after the fault. PATTERN: of the one line.
expect_verdict() {
    local name=$1 pattern=$2 begin code=0
    begin=$(date +%s%N)
    if await $$ are_gone; then
        pass "$name: ranks return ($((($(date +%s%N) - begin) / 1000000)) ms after it, deadline $deadline s)"
    else
        fail "$name: ranks do not return"
    fi
    timeout $patience_s tail --pid=$mpirun -f /dev/null || { fail "$name: mpirun does not end"; kill -KILL $mpirun; }
    wait $mpirun || code=$?
    if [ $code != 0 ]; then pass "$name: the job fails ($code)"; else fail "$name: the job ends with 0"; fi
    if [ "$(verdicts | grep -cE "$pattern")" = 1 ]; then
        pass "$name: $(verdicts | grep -E "$pattern")"
    else
        fail "$name: expected one line /$pattern/ in"
        sed 's/^/    /' log | tail -n 15
    fi
    if [ "$(verdicts | wc -l)" = 1 ]; then
        pass "$name: it is the only line"
    else
        fail "$name: more than one root cause: $(verdicts)"
    fi
}

# mpirun's daemon on host $1.
daemon_on() {
    local pid
    for pid in $(ip netns pids "$TESS_HOSTS_PREFIX-$1"); do
        grep -qsx orted "/proc/$pid/comm" && echo "$pid"
    done
}

# The daemon of the lost host stands still. Otherwise it notices the cut, too, and mpirun, which sees its end because both hosts are
# one machine, kills the others, perhaps before they have told the cause.
hosts_up 2
start && {
    daemon=$(daemon_on h2)
    kill -STOP $daemon
    "$hosts" cut h2
    expect_verdict "cut link" "host h2"
    kill -KILL $daemon
    "$hosts" mend h2
}

# Now mpirun notices first, as the ranks would wait for ten minutes more. All of the lost host stands still.
hosts_up 2
start 600 && {
    stopped=$(ranks_on h2)
    lost=$(ip netns pids "$TESS_HOSTS_PREFIX-h2")
    kill -STOP $lost
    "$hosts" cut h2
    expect_verdict "cut link that mpirun notices first" "rank [23] on host h2 was lost with its host .nothing was heard of it"
    kill -KILL $lost
    "$hosts" mend h2
    stopped=
}

hosts_up 2
start && {
    kill -KILL "$(ranks_on h2 | tail -n 1)"
    expect_verdict "killed remote rank" "rank [23].*host h2.*SIGKILL|rank [23].*SIGKILL.*host h2"
}

# Rank 0's host reports it: the call site of a rank there is named from the program here.
"$hosts" mpirun --mpi-args "-q" -np 4 "$tessera" train run.yaml job.dump_folder=out $long checkpoint.resume=false \
    fault.spec="rank=3 step=3 point=after:barrier kind=sigkill" >log 2>&1 </dev/null
if verdicts | grep -E "rank 3 on host h2 .*SIGKILL.* (after|in) barrier .*\(called by [a-z_]+ \([a-z_]+\.c:[0-9]+\)\)"; then
    pass "the call site on the other host has its file and line"
else
    fail "the call site on the other host has its file and line: $(verdicts)"
fi

hosts_up 2
start && {
    "$hosts" kill h2
    expect_verdict "killed host" "host h2"
}

hosts_up 2
start && {
    stopped=$(ranks_on h2 | tail -n 1)
    number=$(tr '\0' '\n' <"/proc/$stopped/environ" | sed -n 's/^OMPI_COMM_WORLD_RANK=//p')
    kill -STOP "$stopped"
    expect_verdict "stopped remote rank" "rank $number on host h2 .*it is .*stopped .state T"
}
finish
