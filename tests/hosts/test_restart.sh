#!/usr/bin/env bash
# `tessera launch` restarts a failed job on two hosts from its newest checkpoint; the warden that names the root cause
# reports what failed and where. The weights are those of an undisturbed run.
. "$(dirname "$0")/support.sh"
needs openmpi
make_text 300 >text.txt
make_model model.json
make_config run.yaml
export TESSERA_IFNAME=eth0 OMPI_MCA_btl_tcp_if_include=eth0 OMPI_MCA_oob_tcp_if_include=eth0
export OMPI_MCA_odls_base_sigkill_timeout=0 UCX_TLS=tcp,self UCX_NET_DEVICES=eth0
small=(training.steps=6 checkpoint.interval=2 validation.enable=false training.threads=1 metrics.log_freq=1 recovery.enable=true
    recovery.backoff_s=0.1)

# launch MPI FOLDER ARGUMENTS...: on h1 and h2; its exit code is in $code.
launch() {
    local mpi=$1 folder=$2
    shift 2
    code=0
    TESSERA_LAUNCH_AGENT=$("$hosts" agent) "$hosts" exec h1 "$tessera" launch --mpi "$mpi" --hosts h1:1,h2:1 -- \
        train run.yaml job.dump_folder="$folder" "${small[@]}" "$@" >"$folder.out" 2>&1 </dev/null || code=$?
}
is_well() { # NAME FOLDER
    if [ $code != 0 ]; then
        fail "$1: exit code $code: $(tail -n 4 "$2.out")"
    elif ! cmp -s "$2/model/model.safetensors" alone/model/model.safetensors; then
        fail "$1: other weights"
    else
        pass "$1"
    fi
}
says() { if grep -qE -- "$2" "$1.out"; then pass "$3"; else fail "$3: expected /$2/ in: $(grep ^tessera: "$1.out" | tail -n 4)"; fi; }

"$tessera" train run.yaml -n 2 job.dump_folder=alone "${small[@]}" >alone.out 2>&1 || fail "a run on one host"
hosts_up 2

launch openmpi killed fault.spec="rank=1 step=4 point=phase:backward kind=sigkill; rank=0 step=6 point=step kind=exit"
is_well "a rank on another host is killed, and all start again" killed
says killed "^tessera: rank 1 on host h2 was killed by signal 9 \(SIGKILL\) .* of step 4; all ranks start again from the newest checkpoint at once; failure 1, 3 within 3600 s end the job" "it says so"
says killed "^resumed from step 2 of " "and they go on from the checkpoint"
says killed "^warning: fault 2 never happened on rank 0: .* \(it is for life 1 of the rank, which ends in its life 2\)" \
    "a fault of a rank that was started anew meanwhile is warned of"
if grep -q "fault 1 never" killed.out; then fail "so is the one that happened"; else pass "the one that happened is not"; fi
if grep -q "tessera-faults" killed.out; then fail "the launcher prints what wardens report to it"; fi
grep -q '"event":"recovery","state":"restarted"' killed/alerts.jsonl || fail "no alert is written"

launch openmpi crashing fault.spec="rank=1 step=4 point=step kind=crash life=0"
[ $code = 139 ] || fail "a crash that comes again: exit code $code"
says crashing "the same \(crash\) at step 4 for the second time: it would come again, the job stops" "a crash that comes again ends the job"
says crashing "2 failures in all:" "with a report"

launch openmpi off recovery.enable=false fault.spec="rank=1 step=4 point=phase:backward kind=sigkill"
[ $code = 137 ] || fail "without recovery: exit code $code"
if grep -q "start again" off.out; then fail "a job starts again where that is off"; else pass "recovery.enable=false ends it at the first"; fi

# A chosen micro-batch: a life that begins without a checkpoint must not choose another one.
launch openmpi chosen training.local_batch_size=auto training.global_batch_size=12 training.passes=5 \
    fault.spec="rank=1 step=1 point=phase:backward kind=sigkill"
[ $code = 0 ] && pass "a chosen micro-batch" || fail "a chosen micro-batch: exit code $code: $(tail -n 4 chosen.out)"
says chosen "^training.local_batch_size=auto: 6 rows, which need" "the first life chooses it"
[ "$(grep -c "in micro-batches of 6$" chosen.out)" = 2 ] && [ "$(grep -c "local_batch_size=auto: " chosen.out)" = 1 ] &&
    pass "the second one gets it from the launcher" || fail "lives differ: $(cat chosen.out)"
if grep -q "tessera-micro-batch" chosen.out; then fail "the launcher prints what rank 0 reports to it"; fi
launch openmpi open training.local_batch_size=auto training.global_batch_size=0
says open "over several hosts: set training.global_batch_size \(the step must" "a step that would change with the hosts is refused"

# The evaluation would end ranks in each life, so the third one leaves it out, and the repeated failure does not stop the
# job.
make_text 90 >held.txt
launch openmpi evaluation validation.enable=true validation.files=held.txt validation.interval=4 \
    fault.spec="rank=1 step=4 point=phase:validation kind=crash life=0"
is_well "an evaluation that ends a rank on another host is left out" evaluation
says evaluation "all ranks start again from the newest checkpoint .*; the evaluation of step 4 is left out" "it says so"
says evaluation "^validation: step: *4  missing: ranks were lost in it twice: it is not tried again" "and the next life does so"
grep -q '"step": 4, "validation_loss": null' evaluation/metrics.jsonl || fail "it is missing in the metrics"

# Rank 0: a drill must name an existing rank.
launch openmpi host elastic.min_ranks=1 fault.spec="rank=0 step=4 point=phase:backward kind=sigkill life=1; rank=0 step=4 point=phase:optimizer kind=sigkill life=2"
is_well "a host where ranks keep failing is left out" host
says host "host h1 failed 2 times and is left out: 1 rank goes on from the newest checkpoint" "it is named"
says host "^ranks: 1 " "the other goes on alone"

if command -v mpirun.mpich >/dev/null && [ -e "$(dirname "$tessera")/libtessera_mpi_mpich.so" ]; then
    launch mpich killed2 fault.spec="rank=1 step=4 point=phase:backward kind=sigkill"
    is_well "MPICH: a rank on another host is killed, and all start again" killed2
fi
finish
