#!/usr/bin/env bash
# tessera slurm: the script of a training, what it says of the configuration, and what is refused. tests/deploy/test_slurm.sh
# runs such scripts under Slurm.
. "$(dirname "$0")/support.sh"
make_model model.json
make_config run.yaml
slurm() { "$tessera" slurm run.yaml "$@"; }

# has NAME LINE...: the script "job" has these lines.
has() {
    local name=$1 line
    shift
    for line in "$@"; do
        grep -qxF -- "$line" job || { fail "$name: no line '$line' in: $(cat job)"; return; }
    done
    pass "$name"
}

slurm "data.files=a b.txt" --nodes 2-4 --ranks-per-node 3 --cpus-per-rank 5 --time 1-02:30 --partition low \
    --sbatch=--gres=gpu:8 --env-file "$work/my secrets" --array 'optimizer.lr=1e-3,3e-3%1' >job || fail "a script"
has "its options" '#!/bin/bash' '#SBATCH --job-name=run' '#SBATCH --nodes=2-4' '#SBATCH --ntasks-per-node=3' \
    '#SBATCH --cpus-per-task=5' '#SBATCH --time=1-02:30' '#SBATCH --partition=low' '#SBATCH --signal=USR1@180' \
    '#SBATCH --requeue' '#SBATCH --open-mode=append' '#SBATCH --output=slurm-%x-%A-%a.log' '#SBATCH --gres=gpu:8' \
    '#SBATCH --array=0-1%1' 'values=(1e-3 3e-3)' "file='$work/my secrets'" 'for ((try = 1; try <= 1; try++)); do'
grep -q '^#SBATCH --mem=[1-9][0-9]*M$' job && pass "the memory of the plan" || fail "no memory: $(cat job)"
bash -n job && pass "bash reads it" || fail "bash does not read it"
if command -v shellcheck >/dev/null; then
    shellcheck job >output && pass "shellcheck finds nothing" || fail "shellcheck: $(cat output)"
fi

# The script itself, with an srun that only shows its arguments and ends with a code.
mkdir bin
printf '#!/bin/sh\nprintf "<%%s>" "$@" >>srun.log; echo >>srun.log; exit $(cat code)\n' >bin/srun
printf '#!/bin/sh\necho "$@" >>scontrol.log\n' >bin/scontrol
chmod +x bin/*
# runs CODE: job ends with that code when srun does; srun.log and scontrol.log have what it called.
runs() {
    rm -f srun.log scontrol.log
    echo "$1" >code
    PATH=$work/bin:$PATH SLURM_JOB_ID=77 SLURM_JOB_NODELIST=h1 SLURM_ARRAY_TASK_ID=1 bash job >output 2>&1
    [ $? = "$1" ] && pass "code $1" || fail "code $1: $(cat output)"
}
echo "NAME='a value'" >"my secrets"
chmod 600 "my secrets"
runs 0
grep -qF '<train><run.yaml><data.files=a b.txt><optimizer.lr=3e-3><job.dump_folder=out/1>' srun.log &&
    pass "words with spaces, the value of the array and its folder" || fail "$(cat srun.log)"
chmod 640 "my secrets"
rm srun.log
PATH=$work/bin:$PATH SLURM_ARRAY_TASK_ID=0 expect "secrets that others can read" 2 "others can read it: chmod 600" bash job
[ ! -e srun.log ] && pass "nothing is started" || fail "srun was called"
slurm recovery.enable=true --nodes 2 >job
runs 130
grep -qx "requeue 77" scontrol.log && has_lines srun.log 1 && pass "saved: queued again" || fail "$(cat scontrol.log srun.log)"
runs 2
[ "$(wc -l <srun.log)" = 1 ] && pass "what is refused is not tried again" || fail "$(cat srun.log)"
runs 137
[ "$(wc -l <srun.log)" = 3 ] && [ ! -e scontrol.log ] && pass "a failure is tried three times" || fail "$(cat srun.log)"

expect "no nodes" 2 "--nodes N" slurm
expect "nodes that are no number" 2 "--nodes: '4x'" slurm --nodes 4x
expect "a batch that would depend on the nodes" 2 "training.global_batch_size is 0" \
    slurm training.global_batch_size=0 --nodes 1-2
expect "a batch that the ranks cannot have" 2 "global_batch_size" slurm training.global_batch_size=3 --nodes 2
expect "no time to save" 2 "is not longer than the 180 s that the last save gets" slurm --nodes 2 --time 3
expect "a time that is none" 2 "--time: 'soon'" slurm --nodes 2 --time soon
expect "a name with a blank" 2 "--partition: 'a b'" slurm --nodes 2 --partition 'a b'
expect "an array without a key" 2 "--array: '0-3'" slurm --nodes 2 --array 0-3
expect "an array of a key that is none" 2 "optimizer.lrr" slurm --nodes 2 --array optimizer.lrr=1
expect "an array with a bad value" 2 "optimizer.lr" slurm --nodes 2 --array optimizer.lr=1e-3,fast
expect "a secret in --export" 2 "use --env-file" slurm --nodes 2 --sbatch=--export=ALL,TOKEN=x
expect "a heterogeneous job" 2 "all nodes of this script are alike" slurm --nodes 2 --sbatch=hetjob
expect "a secret in a URL" 2 "everyone on the nodes could read the secret" \
    slurm --nodes 2 'data.files=[https://me:secret@host/x]'
finish
