#!/usr/bin/env bash
# Law 1 across hosts: losses, gradient norms and weights of 12 steps are those of one rank, for every starter,
# placement and sharding.
. "$(dirname "$0")/support.sh"
needs openmpi mpich
make_text 600 >text.txt
make_model model.json
make_config run.yaml
sed -i 's/steps: 30/steps: 12/; s/interval: 15/interval: 6/' run.yaml
train=("$tessera" train run.yaml job.dump_folder=out model.save_dtype=float32)
strategy=parallelism.shard_strategy
"$tessera" train run.yaml job.dump_folder=reference model.save_dtype=float32 >log 2>&1 || { cat log; exit 1; }
[ "$(columns reference | wc -l)" = 12 ] || { fail "12 steps in metrics.jsonl"; finish; }

same "4 ranks over shared memory" reference "${train[@]}" -n 4
same "mpirun.openmpi -np 4" reference mpirun.openmpi -q --allow-run-as-root --oversubscribe -np 4 "${train[@]}"
same "mpirun.mpich -n 4" reference mpirun.mpich -n 4 "${train[@]}"

hosts_up 2
for s in none zero1 zero2 full; do
    same "2 hosts x 2, $s" reference "$hosts" mpirun -np 4 "${train[@]}" $strategy=$s
done
same "2 hosts x 2, hybrid" reference "$hosts" mpirun -np 4 "${train[@]}" $strategy=hybrid \
    parallelism.data_parallel_replicate_degree=2
same "2 hosts x 2, MPICH" reference "$hosts" mpirun --mpich -np 4 "${train[@]}"
same "2 hosts x 1" reference "$hosts" mpirun -np 2 "${train[@]}"
same "2 + 1 ranks on 2 hosts" reference "$hosts" mpirun -np 3 "${train[@]}"
same "3 + 2 ranks on 2 hosts, zero1" reference "$hosts" mpirun -np 5 "${train[@]}" $strategy=zero1
same "2 hosts x 3, hybrid" reference "$hosts" mpirun -np 6 "${train[@]}" $strategy=hybrid \
    parallelism.data_parallel_replicate_degree=2
same "2 hosts x 2, tessera launch" reference "$hosts" exec h1 env TESSERA_LAUNCH_AGENT="$("$hosts" agent)" \
    "$tessera" launch --mpi openmpi --hosts h1:2,h2:2 -- "${train[@]:1}"
uneven=("$hosts" exec h1 env TESSERA_LAUNCH_AGENT="$("$hosts" agent)" "$tessera" launch --mpi openmpi)
same "1 + 3 ranks on 2 hosts" reference "${uneven[@]}" --hosts h1:1,h2:3 -- "${train[@]:1}"
same "3 + 1 ranks on 2 hosts, hybrid: one team of shards is inside a host" reference "${uneven[@]}" --hosts h1:3,h2:1 -- \
    "${train[@]:1}" $strategy=hybrid parallelism.data_parallel_replicate_degree=2
stages=parallelism.pipeline_parallel_degree
same "2 hosts x 2, stages between hosts" reference "$hosts" mpirun -np 4 "${train[@]}" $stages=2
same "2 hosts x 3, three stages, one of them on both hosts" reference "$hosts" mpirun -np 6 "${train[@]}" $stages=3
same "2 + 1 ranks on 2 hosts, three stages, MPICH" reference "$hosts" mpirun --mpich -np 3 "${train[@]}" $stages=3
tp=parallelism.tensor_parallel_degree
same "2 hosts x 2, layers shared inside hosts" reference "$hosts" mpirun -np 4 "${train[@]}" $tp=2
same "2 hosts x 2, layers shared inside hosts, stages between them" reference "$hosts" mpirun -np 4 "${train[@]}" $tp=2 \
    $stages=2
same "2 + 1 ranks on 2 hosts, layers shared by all, MPICH" reference "$hosts" mpirun --mpich -np 3 "${train[@]}" $tp=3
same "2 hosts x 2, stages inside hosts" reference "$hosts" mpirun -np 4 "${train[@]}" $stages=2 parallelism.inside_hosts=pp
grep -q "pp stays inside a host" log && pass "they are inside" || fail "stages are not inside hosts: $(grep hosts log)"
same "2 hosts x 2, layers shared between hosts" reference "$hosts" mpirun -np 4 "${train[@]}" $tp=2 \
    parallelism.rank_order=0-2:2,1-3:2
same "2 + 1 ranks on 2 hosts, an order of ranks, MPICH" reference "$hosts" mpirun --mpich -np 3 "${train[@]}" \
    parallelism.rank_order=0,2,1

hosts_up 4
for s in zero2 full; do
    same "4 hosts x 1, $s" reference "$hosts" mpirun -np 4 "${train[@]}" $strategy=$s
done
same "4 hosts x 1, hybrid" reference "$hosts" mpirun -np 4 "${train[@]}" $strategy=hybrid \
    parallelism.data_parallel_replicate_degree=2
# Groups of 2 keep half of the bfloat16 parameters on each of 4 ranks: the bytes of all float32 shards, and padding.
# Buffers of the network come on top of every prediction.
pool_of() { grep -o "\"$1\": {[^}]*" out/memory.jsonl | tail -n 1 | grep -o "\"$2\": [0-9]*" | grep -o '[0-9]*'; }
reshard=parallelism.fsdp_reshard_after_forward
for n in 1 2; do
    same "4 hosts x 1, resharded to groups of $n" reference "$hosts" mpirun -np 4 "${train[@]}" $reshard=$n
    peak[n]=$(pool_of peak comm) predicted[n]=$(pool_of predicted comm)
done
kept=$((peak[2] - peak[1])) shards=$(pool_of peak params)
[ $kept = $((predicted[2] - predicted[1])) ] && [ $kept -ge $shards ] && [ $kept -le $((shards * 102 / 100)) ] &&
    pass "groups of 2 keep half of the parameters, as predicted" ||
    fail "groups of 2 keep $kept bytes; the shards have $shards, predicted was $((predicted[2] - predicted[1]))"
same "4 hosts x 2, resharded to groups of two hosts" reference "$hosts" mpirun -np 8 "${train[@]}" $reshard=4
finish
