#!/usr/bin/env bash
# A job on two hosts is asked to stop, in every way that schedulers use: one save, agreed by all ranks, within the grace.
. "$(dirname "$0")/support.sh"
needs openmpi
make_text 300 >text.txt
make_model model.json
make_config run.yaml
export TESSERA_IFNAME=eth0 OMPI_MCA_btl_tcp_if_include=eth0 OMPI_MCA_oob_tcp_if_include=eth0
export UCX_TLS=tcp,self UCX_NET_DEVICES=eth0
export OMPI_MCA_odls_base_sigkill_timeout=0 # mpirun kills its ranks without delay

# The ranks' parents on both hosts: their wardens.
guards() {
    local pid host
    for host in h1 h2; do
        for pid in $(ip netns pids "$TESS_HOSTS_PREFIX-$host"); do
            grep -qsz "^OMPI_COMM_WORLD_RANK=\|^PMI_RANK=" "/proc/$pid/environ" &&
                ! grep -qsz ^TESSERA_GUARD_FD= "/proc/$pid/environ" && echo "$pid"
        done
    done
}

# start MPI ARGUMENTS...: starts a long run in the background; returns after a few steps.
start() {
    local mpi=$1
    shift
    rm -rf out log
    TESSERA_LAUNCH_AGENT=$("$hosts" agent) "$hosts" exec h1 "$tessera" launch --mpi "$mpi" --hosts h1:1,h2:1 -- \
        train run.yaml job.dump_folder=out training.steps=100000 validation.enable=false training.threads=1 \
        checkpoint.interval=100000 checkpoint.emergency_grace_s=600 comm.timeout_s=600 "$@" >log 2>&1 </dev/null &
    launch=$!
    await "$launch" has_lines out/metrics.jsonl 2 || fail "a run on two hosts starts: $(tail -n 3 log)"
    mpirun=$(pgrep -P "$launch")
}

ends() { # NAME CODE
    local got=0
    wait "$launch" || got=$?
    if [ "$got" = "$2" ]; then pass "$1 ends with $2"; else fail "$1: exit code $got, not $2: $(tail -n 4 log)"; fi
}
says() { if grep -qE -- "$1" log; then pass "$2"; else fail "$2: expected /$1/ in: $(tail -n 4 log)"; fi; }
saves() { # NAME
    ends "$1" 130
    says "interrupted after step [0-9]+ .*: saved" "$1: saved"
    [ "$(grep -c "have 600 s to finish their step" log)" = 1 ] || fail "$1: the grace is told $(grep -c "have 600 s" log) times"
}

hosts_up 2
start openmpi
kill -TERM "$launch"
saves "SIGTERM to the launcher"

start openmpi
kill -HUP "$launch"
saves "SIGHUP to the launcher"

# Wardens that stood still have heard nothing of each other for longer than a host may be silent, and yet none is lost.
start openmpi
kill -STOP $(guards)
sleep 2.5
kill -TERM $(guards)
kill -CONT $(guards)
saves "SIGTERM to wardens that stood still"

start openmpi
kill -USR1 $(guards) "$mpirun" "$launch"
saves "SIGUSR1 to every process"

start openmpi
kill -TERM $(guards) "$mpirun" "$launch"
saves "SIGTERM to every process"

start openmpi
kill -TERM "$mpirun"
saves "SIGTERM to mpirun alone"

# start_stuck ARGUMENTS...: the same, returned once rank 1 stands still in a step.
is_stuck() {
    local pid
    for pid in $(ip netns pids "$TESS_HOSTS_PREFIX-h2"); do
        grep -qsz ^TESSERA_GUARD_FD= "/proc/$pid/environ" && has_text "/proc/$pid/status" '^State:.T' && return 0
    done
    return 1
}
start_stuck() {
    start openmpi fault.spec="rank=1 step=4 point=step kind=sigstop" "$@"
    await "$launch" is_stuck || fail "rank 1 stands still: $(tail -n 3 log)"
}

start_stuck checkpoint.emergency_grace_s=1
kill -TERM "$launch"
ends "a job that is not done in time" 143
says "not done within 1 s of being asked to stop: the ranks are killed, the newest complete checkpoint stands" "it says so"

start_stuck
kill -TERM "$launch"
await "$launch" grep -q "have 600 s to finish" log || fail "the request is told: $(tail -n 3 log)"
sleep 4 # two requests within a second count as one, and a slow machine may delay the first
kill -TERM "$launch"
ends "a job that is asked twice" 143
says "asked to stop twice: the ranks were killed" "it says so"

# unread MPI STREAMS: a run whose standard output, or both streams, go to a reader that ends after one line.
unread() {
    local name="$1, $2 unread" code
    rm -rf out code err
    {
        if [ "$2" = both ]; then exec 2>&1; else exec 2>err; fi
        TESSERA_LAUNCH_AGENT=$("$hosts" agent) "$hosts" exec h1 "$tessera" launch --mpi "$1" --hosts h1:1,h2:1 -- \
            train run.yaml job.dump_folder=out training.threads=1 metrics.log_freq=1 </dev/null
        echo $? >code
    } | head -n 1 >log
    code=$(cat code)
    if [ "$code" = 0 ]; then pass "$name: ends well"; else fail "$name: exit code $code"; fi
    if has_text out/console.log '^step:    30 ' && has_text out/console.log '^30 steps in '; then
        pass "$name: the lines are in the run's folder"
    else
        fail "$name: console.log: $(tail -n 3 out/console.log 2>&1)"
    fi
    [ -d out/checkpoint/step-00000030 ] || fail "$name: the run is saved"
}
unread openmpi both

if command -v mpirun.mpich >/dev/null && [ -e "$(dirname "$tessera")/libtessera_mpi_mpich.so" ]; then
    start mpich
    kill -USR1 $(guards) "$mpirun" "$launch"
    saves "MPICH: SIGUSR1 to every process"

    unread mpich stdout
    if [ "$(grep -c "nobody reads standard output: the run goes on, and its lines go to out/console.log" err)" = 1 ]; then
        pass "it is told once"
    else
        fail "it is told once: $(tail -n 3 err)"
    fi
fi
finish
