# tests/deploy/test_slurm.sh sources this: a Slurm of its own in the folder $cluster, on hosts of tools/hosts. h1 runs
# slurmctld, the others slurmd; munged serves all of them. Nothing is read from /etc/slurm, and nothing stays.
cluster=$work/cluster
export SLURM_CONF=$cluster/slurm.conf
unset SLURM_MPI_TYPE TESSERA_HOST

slurm_packages() {
    local tool
    for tool in slurmctld slurmd munged srun sbatch scontrol; do
        command -v $tool >/dev/null || skip "$tool is missing (Debian packages: slurm-wlm, munge)"
    done
}

# `on HOST COMMAND...` runs a command there. Ranks learn their host from its name alone.
on() { "$hosts" exec "$1" env -u TESSERA_HOST "${@:2}"; }

# Each node has a folder of its own for PMIx, whose names do not contain the node.
start_node() { # HOST
    mkdir -p "$cluster/spool/$1" "$cluster/pmix.$1"
    on "$1" sh -c "mount --bind '$cluster/pmix.$1' '$cluster/pmix' && exec slurmd"
}

slurm_conf() { # NODES
    cat <<CONF
ClusterName=test
SlurmctldHost=h1
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$cluster/munge.socket
CredType=cred/munge
StateSaveLocation=$cluster/state
SlurmdSpoolDir=$cluster/spool/%n
SlurmctldPidFile=$cluster/slurmctld.pid
SlurmdPidFile=$cluster/slurmd.%n.pid
SlurmctldLogFile=$cluster/slurmctld.log
SlurmdLogFile=$cluster/slurmd.%n.log
# no control groups: the processes of a step are those below its slurmstepd
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
SchedulerParameters=bf_interval=1,sched_interval=1,batch_sched_delay=0
# a job of partition high takes the nodes of jobs of partition low, which have 30 s to save
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
JobRequeue=1
KillWait=5
# a node that does not answer for 10 s is down
SlurmdTimeout=10
ReturnToService=2
NodeName=h[2-$1] CPUs=4 RealMemory=4000 State=UNKNOWN
PartitionName=low Nodes=ALL Default=YES PriorityTier=1 PreemptMode=REQUEUE GraceTime=30 State=UP
PartitionName=high Nodes=ALL PriorityTier=10 PreemptMode=OFF State=UP
CONF
}

stop_cluster() {
    [ ! -e "$cluster/munge/pid" ] || kill "$(cat "$cluster/munge/pid")"
    "$hosts" down
}

# start_cluster NODES: starts h1 and this many nodes.
start_cluster() {
    local last=$(($1 + 1)) host
    mkdir -p "$cluster/munge" "$cluster/state" "$cluster/pmix"
    chmod 755 "$work" "$cluster"
    chmod 700 "$cluster/munge"
    head -c 1024 /dev/urandom >"$cluster/munge/key"
    chmod 600 "$cluster/munge/key"
    slurm_conf "$last" >"$SLURM_CONF"
    echo "PMIxCliTmpDirBase=$cluster/pmix" >"$cluster/mpi.conf"
    hosts_up "$last"
    trap 'stop_cluster; rm -rf "$work"' EXIT
    munged --force --key-file="$cluster/munge/key" --socket="$cluster/munge.socket" --pid-file="$cluster/munge/pid" \
        --log-file="$cluster/munge/log" --seed-file="$cluster/munge/seed" || skip "munged does not start"
    on h1 slurmctld -c || skip "slurmctld does not start: $(tail -n 1 "$cluster/slurmctld.log")"
    for ((host = 2; host <= last; host++)); do start_node h$host; done
    await $$ nodes_are idle "$1" || { fail "all nodes are idle: $(on h1 sinfo -N)"; finish; }
}

nodes_are() { [ "$(on h1 sinfo -h -N -p low -t "$1" | wc -l)" = "$2" ]; }
state_of() { sleep 0.2; on h1 scontrol show job "$1" 2>/dev/null | sed -n 's/^ *JobState=\([A-Z_]*\).*/\1/p'; }
restarts_of() { sleep 0.2; on h1 scontrol show job "$1" | sed -n 's/.*Restarts=\([0-9]*\).*/\1/p'; }
is_in_state() { [ "$(state_of "$1")" = "$2" ]; }

# has_restarted JOB N: the job was queued again N times. Slurm starts it two minutes later: it is told not to wait.
has_restarted() {
    [ "$(restarts_of "$1")" = "$2" ] || return 1
    [ "$(state_of "$1")" != PENDING ] || on h1 scontrol update JobId="$1" StartTime=now 2>/dev/null
    [ "$(state_of "$1")" = RUNNING ]
}
