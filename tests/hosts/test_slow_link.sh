#!/usr/bin/env bash
# Over a link of 1 Gbit/s, 2 ms and 0.1% loss a run is slower and has the same bits.
. "$(dirname "$0")/support.sh"
needs openmpi
make_text 600 >text.txt
make_model model.json
make_config run.yaml
train=("$tessera" train run.yaml job.dump_folder=out model.save_dtype=float32)
"$tessera" train run.yaml job.dump_folder=reference model.save_dtype=float32 >log 2>&1 || { cat log; exit 1; }

hosts_up 2 --rate 1gbit --delay 2ms --loss 0.1%
same "2 hosts x 2, full" reference "$hosts" mpirun -np 4 "${train[@]}"
same "2 hosts x 2, zero2" reference "$hosts" mpirun -np 4 "${train[@]}" parallelism.shard_strategy=zero2
same "2 hosts x 2, hybrid" reference "$hosts" mpirun -np 4 "${train[@]}" parallelism.shard_strategy=hybrid \
    parallelism.data_parallel_replicate_degree=2
finish
