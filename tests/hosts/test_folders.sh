#!/usr/bin/env bash
# Folders and files of several hosts: shared ones are recognized, others are named at the start or used by each host alone.
# One machine simulates the hosts: TESSERA_HOST names a rank's host, and each host runs in its own folder.
. "$(dirname "$0")/support.sh"
needs openmpi
make_text 600 >text.txt
make_model model.json
make_config run.yaml
"$tessera" train run.yaml job.dump_folder=reference model.save_dtype=float32 >log 2>&1 || { cat log; exit 1; }

cat >rank.sh <<SH
export TESSERA_HOST=h\$((OMPI_COMM_WORLD_RANK / \${PER_HOST:-2} + 1))
[ -z "\$OWN" ] || cd "$work/\$TESSERA_HOST"
exec "$tessera" train run.yaml job.dump_folder=out model.save_dtype=float32 "\$@"
SH

# `on RANKS ARGUMENTS...` runs PER_HOST ranks a host (2); OWN=1: each host in its own folder.
on() { timeout 600 mpirun.openmpi -q --allow-run-as-root --oversubscribe --bind-to none -np "$1" bash rank.sh "${@:2}"; }
own() { OWN=1 on "$@" checkpoint.host_local=true; }
fresh() { rm -rf h1 h2 && mkdir h1 h2 && cp text.txt model.json run.yaml h1 && cp text.txt model.json run.yaml h2; }
same_model() {
    cmp -s h1/out/model/model.safetensors reference/model/model.safetensors &&
        cmp -s <(columns h1/out) <(columns reference)
}

expect "hybrid: replicas across hosts" 0 "dp_replicate crosses hosts, dp_shard stays inside a host" \
    on 4 parallelism.shard_strategy=hybrid
cmp -s <(columns out) <(columns reference) && pass "hybrid: same bits" || fail "hybrid: the columns differ"
fresh
expect "a folder of every host is named" 2 "host h2 (ranks 2-3) does not see what host h1 (ranks 0-1) writes there" \
    env OWN=1 bash -c "$(declare -f on); on 4"
[ -z "$(ls -A h1/out)" ] && pass "nothing is left of the question" || fail "left in h1/out: $(ls -A h1/out)"
echo more >>h2/text.txt
expect "text that differs is named" 2 "data.files: text.txt is not the same on all hosts" own 4
rm h2/text.txt
expect "text that is missing is named" 2 "text.txt cannot be read on host h2 (ranks 2-3)" own 4

for strategy in full hybrid; do
    fresh
    expect "$strategy, a folder for every host" 0 "step-00000030" own 4 parallelism.shard_strategy=$strategy
    same_model && pass "$strategy: the model of one host's folder" || fail "$strategy: the model differs"
    [ ! -e h2/out/model ] && pass "$strategy: and of no other" || fail "$strategy: h2 has a model"
    rm -rf h1/out/checkpoint/step-00000030 h1/out/model
    expect "$strategy, going on from the newest that all have" 0 "resumed from step 15" own 4 \
        parallelism.shard_strategy=$strategy
    grep -q "warning: step 30 is not complete on every host" output && pass "$strategy: told so" ||
        fail "$strategy: no warning"
    same_model && pass "$strategy: the same bits" || fail "$strategy: the bits differ"
done

fresh
own 4 >log 2>&1 || fail "$(tail -n 3 log)"
expect "other ranks on a host" 2 "host h1 (ranks 0-2) needs row 152 of 'model.model.embed_tokens.weight'" \
    env PER_HOST=3 bash -c "$(declare -f on own); own 4"
expect "hybrid, hosts of unequal size" 2 "host 0 has 3 ranks and host 1 has 1" \
    env PER_HOST=3 bash -c "$(declare -f on own); own 4 parallelism.shard_strategy=hybrid"
rm -rf h2/out
expect "a host that has lost its folder" 2 "host h2 (ranks 2-3) has no complete checkpoint there, but host h1" own 4
finish
