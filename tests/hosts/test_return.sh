#!/usr/bin/env bash
# A host that was left out of a job is asked again, and used from the next checkpoint on once it answers: `tessera launch`
# tells the ranks to leave after that save, and starts them on all hosts.
. "$(dirname "$0")/support.sh"
needs openmpi
make_text 300 >text.txt
make_model model.json
make_config run.yaml
export TESSERA_IFNAME=eth0 OMPI_MCA_btl_tcp_if_include=eth0 OMPI_MCA_oob_tcp_if_include=eth0
export OMPI_MCA_odls_base_sigkill_timeout=0 UCX_TLS=tcp,self UCX_NET_DEVICES=eth0
# Many steps, so that the launcher's request to leave reaches the ranks while they train.
small=(training.steps=60 checkpoint.interval=2 validation.enable=false training.threads=1 metrics.log_freq=1 recovery.enable=true
    recovery.backoff_s=0.1 elastic.min_ranks=1 elastic.retry_s=0.1)
says() { if grep -qE -- "$2" "$1.out"; then pass "$3"; else fail "$3: expected /$2/ in: $(grep ^tessera: "$1.out" | tail -n 4)"; fi; }

# Launches from a third host, where nothing runs: its own host would not be probed. A host answers once there is a file `up`.
launch() { # MPI ARGUMENTS...
    TESSERA_LAUNCH_AGENT=$work/agent "$hosts" exec h3 "$tessera" launch --mpi "$1" --hosts h1:1,h2:1 -- train run.yaml "${@:2}" </dev/null
}

# The rank on h2 stands still.
is_still() {
    local pid
    for pid in $(ip netns pids "$TESS_HOSTS_PREFIX-h2"); do
        grep -qsz ^TESSERA_GUARD_FD= "/proc/$pid/environ" && has_text "/proc/$pid/status" '^State:.T' && still=$pid && return 0
    done
    return 1
}

"$tessera" train run.yaml -n 2 job.dump_folder=alone "${small[@]}" elastic.min_ranks=0 >alone.out 2>&1 || fail "a run on one host"
hosts_up 3
cat >agent <<SH
#!/bin/sh
case "\$*" in *--version*) echo >>$work/asked; [ -e $work/up ] || exit 255 ;; esac
exec $("$hosts" agent) "\$@"
SH
chmod +x agent

# The job's third life runs on h2 alone, and stands still until h1 was asked without an answer, and then has answered.
returns() { # MPI
    local mpi=$1 code=0
    rm -f asked up
    launch "$mpi" "${small[@]}" job.dump_folder="$mpi" fault.spec="rank=0 step=4 point=phase:backward kind=sigkill life=1; \
rank=0 step=4 point=phase:optimizer kind=sigkill life=2; rank=0 step=5 point=step kind=sigstop life=3" >"$mpi.out" 2>&1 &
    local launcher=$!
    await $launcher is_still || fail "$mpi: the rank that is left stands still: $(tail -n 3 "$mpi.out")"
    await $launcher has_lines asked 2 || fail "$mpi: the host is asked: $(tail -n 3 "$mpi.out")"
    grep -q "host h1 answers" "$mpi.out" && fail "$mpi: a host that says nothing is taken for one that answers"
    touch up
    await $launcher has_text "$mpi.out" "host h1 answers" || fail "$mpi: it answers: $(tail -n 3 "$mpi.out")"
    kill -CONT "$still"
    wait $launcher || code=$?
    if [ $code != 0 ]; then
        fail "$mpi: exit code $code: $(tail -n 4 "$mpi.out")"
    elif ! cmp -s "$mpi/model/model.safetensors" alone/model/model.safetensors; then
        fail "$mpi: other weights"
    else
        pass "$mpi: a host that was left out comes back"
    fi
    if grep -q "never happened" "$mpi.out"; then fail "$mpi: $(grep "never happened" "$mpi.out")"; else pass "$mpi: each fault happened in its life"; fi
    says "$mpi" "host h1 failed 2 times and is left out: 1 rank goes on from the newest checkpoint; it is asked again in 0.1 s" "$mpi: it is said when"
    says "$mpi" "there is room for more ranks: 2 instead of 1 go on from this checkpoint" "$mpi: and when it is there"
    says "$mpi" "^resumed from step ([6-9]|[1-5][0-9]) of" "$mpi: from the next checkpoint"
}
returns openmpi
if command -v mpirun.mpich >/dev/null && [ -e "$(dirname "$tessera")/libtessera_mpi_mpich.so" ]; then returns mpich; fi

# Impossible settings are refused before anything starts.
expect "places that there are not" 2 "elastic.max_ranks: 4, but the hosts have 2 places, all of them start" \
    launch openmpi elastic.max_ranks=4
expect "too few" 2 "elastic.min_ranks: 3 are more than the 2 places of the hosts" launch openmpi elastic.min_ranks=3
expect "hosts that keep their own part" 2 "every host keeps its own part, and none can be left out" \
    launch openmpi elastic.min_ranks=1 checkpoint.host_local=true
finish
