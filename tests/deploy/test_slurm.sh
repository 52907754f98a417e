#!/usr/bin/env bash
# Slurm itself: slurmctld, five slurmd and munged in a temporary folder (slurm_cluster.sh has the configuration). Scripts of
# `tessera slurm` run over four nodes while the time limit comes, a node is lost, another job takes the nodes, and a node is
# set down: the weights are those of an undisturbed run. `make test-slurm`; root, some five minutes.
. "$(dirname "$0")/../hosts/support.sh"
. "$project/tests/cli/doctor_report.sh"
. "$project/tests/deploy/slurm_cluster.sh"
slurm_packages
needs openmpi mpich
echo "$(slurmctld -V), munge $(munged --version | sed -n 's/^munge-\([0-9.]*\).*/\1/p'), $(mpirun.openmpi --version | head -n 1)"
start_cluster 5

make_text 600 >text.txt
make_model model.json
make_config run.yaml
sed -i 's/interval: 15/interval: 10/; s/log_freq: 10/log_freq: 1/' run.yaml
"$tessera" train run.yaml -n 2 job.dump_folder=reference training.steps=200 >log 2>&1 || fail "the reference: $(tail -n 1 log)"
"$tessera" train run.yaml -n 2 job.dump_folder=short >log 2>&1 || fail "the short reference: $(tail -n 1 log)"
slow='fault.spec=rank=1 point=phase:optimizer kind=sleep ms=200 times=0'

# submit SCRIPT: prints the number of the job.
submit() { on h1 sbatch --parsable "$1"; }
weights_are() { # NAME REFERENCE FOLDER
    if cmp -s "$2/model/model.safetensors" "$3/model/model.safetensors"; then pass "$1"; else fail "$1: other weights"; fi
}
# ends JOB STATE
ends() { await $$ is_in_state "$1" "$2" && pass "job $1 ends: $2" || fail "job $1 ends with $2, not $(state_of "$1")"; }
# goes_on WHAT N: the job has been queued again N times, and makes steps.
goes_on() {
    cp "$log" "$1.log"
    if await $$ has_restarted "$job" "$2" && await $$ has_lines run/metrics.jsonl $(($(wc -l <run/metrics.jsonl) + 5)); then
        pass "it goes on after: $1"
    else
        fail "it goes on after: $1: $(state_of "$job"), restarts $(restarts_of "$job"): $(tail -n 3 "$log")"
        finish
    fi
}
# restarted N: Slurm or the script has queued the job again.
queued_again() { [ "$(restarts_of "$job")" = "$1" ]; }
# says WHAT ID TEXT: what `tessera doctor log` says is the root cause in the log of the job so far.
says() {
    read_logs "$1.log"
    if ids_with_role cause | grep -qw -- "$2" && grep -qF -- "$3" headline; then
        pass "doctor log: $1"
    else
        fail "doctor log: $1: $(cat headline), causes $(ids_with_role cause)"
    fi
}

# ---- One job, five ends

"$tessera" slurm run.yaml job.dump_folder=run training.steps=200 "$slow" checkpoint.emergency_grace_s=40 \
    recovery.enable=true --nodes 4 --time 2 --partition low >job.sh || fail "tessera slurm"
job=$(submit job.sh)
log=slurm-run-$job.log
await $$ has_lines run/metrics.jsonl 5 && pass "job $job over four nodes makes steps" || fail "job $job: $(cat "$log")"

# USR1 comes 100 s before the limit of 2 min.
await $$ queued_again 1 && grep -q "interrupted after step .*: saved" "$log" && pass "it saves before the time limit" ||
    fail "it saves before the time limit: $(tail -n 3 "$log")"
goes_on time-limit 1
says time-limit tessera-interrupted "asked to stop"
on h1 scontrol update JobId="$job" TimeLimit=60

"$hosts" kill h3
await $$ queued_again 2
goes_on node-lost 2
says node-lost slurm-node-fail "host h3: Slurm lost a host"
# The lost node still has the folder that PMIx made for the first step of this job, and refuses to make it again: the try
# there fails, and the next one goes on as step 1.
start_node h3
await $$ nodes_are idle 1

preempt() { on h1 sbatch -p high -N 5 --exclusive --time=1 -o other.log --wrap 'sleep 2' >/dev/null; }
preempt
await $$ queued_again 3 && grep -c "interrupted after step .*: saved" "$log" | grep -qx 2 && pass "it saves in the grace of a preemption" ||
    fail "it saves in the grace of a preemption: $(tail -n 3 "$log")"
goes_on preempted 3

on h1 scontrol update PartitionName=low GraceTime=0
preempt
await $$ queued_again 4
goes_on preempted-at-once 4
says preempted-at-once slurm-preempted "a job of higher priority took the hosts"

on h1 scontrol update NodeName=h4 State=DOWN Reason=test
await $$ queued_again 5
goes_on node-down 5
says node-down slurm-node-fail "Slurm lost a host"

ends "$job" COMPLETED
weights_are "five restarts: the weights of an undisturbed run" reference run
cp "$log" all.log
read_logs all.log
[ -z "$(ids_with_role cause)" ] && pass "doctor log: the whole log has no root cause" || fail "doctor log: $(cat headline)"

# ---- A rank is killed: the next try goes on, on the same nodes

"$tessera" slurm run.yaml job.dump_folder=killed recovery.enable=true "$slow" --nodes 2 --ranks-per-node 2 --partition low >killed.sh
job=$(submit killed.sh)
await $$ has_lines killed/metrics.jsonl 12
for pid in $(ip netns pids "$TESS_HOSTS_PREFIX-h2"); do
    grep -qsz ^TESSERA_GUARD_FD= "/proc/$pid/environ" && kill -KILL "$pid" && break
done
ends "$job" COMPLETED
grep -q "restart 0, try 2" "slurm-run-$job.log" && pass "a second try" || fail "a second try: $(tail -n 5 "slurm-run-$job.log")"
weights_are "a killed rank: the weights" short killed

# ---- Arrays, secrets, PMI2, MPI within an allocation, heterogeneous jobs

for lr in 1e-3 3e-3; do
    "$tessera" train run.yaml -n 2 job.dump_folder=lr-$lr optimizer.lr=$lr >log 2>&1 || fail "reference of $lr"
done
echo "SECRET_OF_TEST=found" >secrets
chmod 600 secrets
"$tessera" slurm run.yaml job.dump_folder=array --nodes 2 --array optimizer.lr=1e-3,3e-3 --env-file secrets --mpi pmi2 \
    --sbatch=--wait >array.sh
sed -i 's/^for ((try/echo "secret: $SECRET_OF_TEST"\n&/' array.sh
expect "an array ends" 0 "Submitted" on h1 sbatch array.sh
weights_are "array, first value, PMI2" lr-1e-3 array/0
weights_are "array, second value, PMI2" lr-3e-3 array/1
[ "$(cat slurm-run-*-[01].log | grep -c 'secret: found')" = 2 ] && pass "secrets come from their file" || fail "secrets"
chmod 644 secrets
expect "a file that others can read" 2 "" on h1 sbatch array.sh
grep -q "secrets: others can read it: chmod 600" slurm-run-*-0.log && pass "and it says so" || fail "$(cat slurm-run-*-0.log)"

expect "srun without PMI is refused" 2 "without the PMI that an MPI needs: srun --mpi=pmix" \
    on h1 srun -N 2 -n 2 "$tessera" train run.yaml job.dump_folder=bare
cat >launch.sh <<SH
#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=2 --wait --output=launch.log
mpirun.openmpi --allow-run-as-root --bind-to none "$tessera" train run.yaml job.dump_folder=by-mpirun &&
    "$tessera" launch --hosts "\$(scontrol show hostnames | sed 's/\$/:2/' | paste -sd,)" -- train run.yaml job.dump_folder=by-launch
SH
expect "mpirun and tessera launch in an allocation" 0 "Submitted" on h1 sbatch launch.sh
weights_are "mpirun in an allocation" short by-mpirun
weights_are "tessera launch in an allocation" short by-launch
cat >unequal.sh <<SH
#!/bin/bash
#SBATCH --nodes=1 --ntasks=2 --wait --output=unequal.log
#SBATCH hetjob
#SBATCH --nodes=1 --ntasks=1
srun --het-group=0,1 --mpi=pmix "$tessera" train run.yaml job.dump_folder=unequal
SH
expect "a heterogeneous job" 0 "Submitted" on h1 sbatch unequal.sh
weights_are "a heterogeneous job: 2 ranks and 1" short unequal
finish
