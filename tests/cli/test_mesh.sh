#!/usr/bin/env bash
# tessera mesh: the mesh of a configuration or of --mesh, in text and JSON; what makes no mesh is refused with the fix.
set -uo pipefail
source "$(dirname "$0")/support.sh"

expect "the axes alone say how many ranks there are" 0 "mesh 2 x 4 (dp, tp): 8 ranks on one host; rank = 4 dp + tp" \
    "$tessera" mesh --mesh dp=2,tp=4
expect "-1 takes what is left" 0 "mesh 3 x 2 (dp, tp): 6 ranks" "$tessera" mesh --mesh dp=-1,tp=2 -n 6
expect "an axis that crosses hosts is told" 0 "dp       2       4      4  crosses hosts" \
    "$tessera" mesh --mesh dp=2,tp=4 --hosts h1:4,h2:4
expect "the picture shows hosts" 0 "dp 1  4  5  6  7   h2" "$tessera" mesh --mesh dp=2,tp=4 --hosts h1:4,h2:4
expect "the picture of one axis" 0 "dp  0  1  2  3" "$tessera" mesh --mesh dp=4
grep -q '^dp  0  1' output && grep -q '^    0  1' output && pass "begins at the left" || fail "$(cat output)"
expect "a run's mesh" 0 "mesh 1 x 6 (dp_replicate, dp_shard): 6 ranks" "$tessera" mesh -n 6
make_config c.yaml
expect "a configuration's mesh, one replica a host" 0 "mesh 2 x 3 (dp_replicate, dp_shard): 6 ranks on 2 hosts" \
    "$tessera" mesh c.yaml parallelism.shard_strategy=hybrid --hosts h1:3,h2:3
expect "a model's file that does not exist" 0 "parameters: not known (open model.json: No such file" "$tessera" mesh c.yaml
make_model model.json
expect "the placement of a parameter" 0 \
    "model.layers.0-2.mlp.up_proj.weight               [53, 42]          Replicate     Shard(0)      Shard(0)      [14, 42]" \
    "$tessera" mesh c.yaml -n 4 parallelism.tensor_parallel_degree=2
"$tessera" mesh c.yaml -n 4 parallelism.pipeline_parallel_degree=2 --json >mesh.json
for text in '"parameters":' '"name": "model.layers.2.mlp.up_proj.weight"' '"dp_shard": "Shard(0)"' '"largest_part":'; do
    expect "JSON has $text" 0 "$text" cat mesh.json
done
expect "stages that begin at named layers" 0 "pp 1    stage 1: layers 2, head" \
    "$tessera" mesh c.yaml -n 2 parallelism.pipeline_parallel_degree=2 parallelism.pipeline_parallel_split_points=layers.2
expect "the example in three dimensions" 0 "pp 1    stage 1: layers 4-5, head" \
    sh -c "cd '$project' && '$tessera' mesh examples/kjv_3d.yaml -n 8"
expect "parts of a model by torchtitan's other key" 2 "did you mean 'parallelism.pipeline_parallel_split_points'?" \
    "$tessera" mesh c.yaml -n 2 parallelism.module_fqns_per_model_part=x
expect "what ranks that divide tokens cost" 0 \
    "2  gather   contiguous" "$tessera" mesh c.yaml --context training.seq_len=64 training.local_batch_size=1
grep -q "^    4  ring     zigzag  *64 " output && pass "rows are filled up" || fail "4 ranks: $(cat output)"
expect "and how long it takes" 0 '"step_ms":' "$tessera" mesh c.yaml --context --tflops 1 --link 10 --json
expect "of a number of ranks of its own" 0 "   16  ring     contiguous" \
    "$tessera" mesh c.yaml --context parallelism.context_parallel_degree=16
expect "times need both speeds" 2 "times need both" "$tessera" mesh c.yaml --context --link 3
rm model.json
expect "the cost without a model" 2 "--context: the configuration names no model" "$tessera" mesh --context
expect "the groups of one axis" 0 "dp    [0 2] [1 3]" "$tessera" mesh --mesh dp=2,tp=2 --axis dp
expect "an axis is kept inside hosts" 0 "pp    [0 1] [2 3] [4 5] [6 7]" \
    "$tessera" mesh --mesh pp=2,tp=4 --hosts h1:4,h2:4 --inside pp
expect "and the other one then crosses them" 0 "tp       4       2      2  crosses hosts" \
    "$tessera" mesh --mesh pp=2,tp=4 --hosts h1:4,h2:4 --inside pp
expect "an axis that cannot stay inside hosts" 2 "the host of rank 0 has 3 ranks, which groups of 2 do not divide" \
    "$tessera" mesh --mesh dp=3,tp=2 --hosts h1:3,h2:3 --inside tp
expect "a run has a key for it" 2 "--inside tp orders the ranks of --mesh: in a configuration, set parallelism.inside_hosts=tp" \
    "$tessera" mesh c.yaml --inside tp
tp=parallelism.tensor_parallel_degree order=parallelism.rank_order inside=parallelism.inside_hosts
expect "a run's order of ranks" 0 "tp            [0 5] [1 4] [2 3]" "$tessera" mesh -n 6 $tp=2 $order=0,5,1,4,2-3
expect "the grid has it" 0 "dp_replicate 0 dp_shard 1  1  4" "$tessera" mesh -n 6 $tp=2 $order=0,5,1,4,2-3
expect "axes in Megatron's other order" 0 "tp            [0 3] [1 4] [2 5]" "$tessera" mesh -n 6 $tp=2 $order=dp-tp
expect "a run's axis inside hosts" 0 "dp_shard         3       2      1  stays inside a host" \
    "$tessera" mesh --hosts h1:3,h2:3 $tp=2 $inside=dp_shard
expect "whose hosts are those of the ranks" 0 "dp_replicate 0 dp_shard 2  2  5   h1,h2" \
    "$tessera" mesh --hosts h1:3,h2:3 $tp=2 $inside=dp_shard
expect "which it cannot be" 2 "parallelism.inside_hosts=tp: mesh: axis 'tp' cannot stay inside hosts: the host of rank 0 has 3" \
    "$tessera" mesh --hosts h1:3,h2:3 $tp=2 $inside=tp
expect "an order that crosses hosts" 2 "groups of tp cross hosts in the order of parallelism.rank_order" \
    "$tessera" mesh --hosts h1:2,h2:2 $tp=2 $inside=tp $order=0-2:2,1-3:2
expect "an order of other ranks" 2 "parallelism.rank_order: '0-3' has rank 3, but the ranks that train are 0 to 2" \
    "$tessera" mesh -n 3 $order=0-3
expect "ranks that only draw have hosts, too" 0 "mesh 1 x 3 (dp_replicate, dp_shard): 3 ranks on 2 hosts" \
    "$tessera" mesh --hosts h1:2,h2:3 rollout.ranks=2
expect "measured" 0 "all_reduce, all groups of an axis at once" "$tessera" mesh --mesh dp=2,tp=1 --measure --most 0
grep -q "^checked: along every axis ranks gather and sum what the groups say$" output && pass "and checked" ||
    fail "not checked: $(cat output)"

"$tessera" mesh --mesh dp=2,tp=2 --measure --most 0 --json >mesh.json
for text in '"world": 4' '"name": "tp"' '"crosses_hosts": false' '"checked": true' '"bus_bytes_per_s":' '"coordinates":'; do
    expect "JSON has $text" 0 "$text" cat mesh.json
done

expect "JSON has a version" 0 '"version": 1' cat mesh.json
expect "metrics" 0 'tessera_axes_size{name="tp"} 2' "$tessera" mesh --mesh dp=2,tp=2 --prometheus
expect_metrics "which can be read" 0 "$tessera" mesh c.yaml -n 4 parallelism.tensor_parallel_degree=2
expect "a page" 0 "<th>crosses_hosts<th>" "$tessera" mesh --mesh dp=2,tp=2 --html
expect "a large mesh is short" 0 "dp 63  504  505  506" "$tessera" mesh --mesh dp=64,tp=8 --hosts "$(seq -s, -f 'h%g:8' 64)"
[ "$(wc -l <output)" -lt 60 ] && grep -q '^ 511    63     7  h64$' output && grep -q '^\.\.\.$' output &&
    grep -qF '[7 15 23 31 39 47 55 63 71 79 87 95 103 111 119 127 ... 511]' output && pass "its last rank is shown" ||
    fail "512 ranks: $(cat output)"
expect "help of a command" 0 "usage: tessera mesh " "$tessera" help mesh
expect "help of a verb" 0 "usage: tessera ckpt ls " "$tessera" help ckpt ls
expect "help of no command" 2 "no command 'nosuch'" "$tessera" help nosuch

expect "a size with a unit" 0 "checked: along every axis" "$tessera" mesh --mesh dp=2 --measure --most 4KiB
expect "a size with another program's unit" 2 "--most: '4K' is no number of bytes, KiB, MiB" "$tessera" mesh --mesh dp=2 --measure --most 4K

expect "a product that is not the world" 2 "mesh: 2 x 2 = 4, but the job has 8 ranks: start 4, or give one axis the size -1" \
    "$tessera" mesh --mesh dp=2,tp=2 -n 8
expect "a degree of 0" 2 "axis 'dp' has size 0; give it 1 or more ranks, or -1" "$tessera" mesh --mesh dp=0,tp=2
expect "a degree of 0 in a configuration" 2 "parallelism.data_parallel_shard_degree: 0; -1 takes all ranks that are left" \
    "$tessera" mesh parallelism.data_parallel_shard_degree=0 -n 4
expect "an unknown axis" 2 "--axis: there is no axis 'cp'; the mesh has dp tp" "$tessera" mesh --mesh dp=2,tp=2 --axis cp
expect "no axis" 2 "'dp:2' is no axis; write NAME=SIZE" "$tessera" mesh --mesh dp:2
expect "ranks that are not those of the hosts" 2 "--hosts h1:4 has 4 ranks, but -n says 8: leave -n away" \
    "$tessera" mesh --mesh dp=8 --hosts h1:4 -n 8
expect "axes beside a configuration" 2 "stands beside a configuration" "$tessera" mesh c.yaml --mesh dp=2
expect "measuring hosts that are elsewhere" 2 "leave --hosts away" "$tessera" mesh --mesh dp=2 --hosts h1,h2 --measure
expect "the list of commands has it" 0 "which rank is where in a mesh" "$tessera" help
expect "a mesh without a number of ranks" 2 "--mesh dp=-1 does not say how many ranks there are" "$tessera" mesh --mesh dp=-1
expect "a product that no number of ranks can be" 2 "axis 'tp' makes it a job of 4294967296 ranks; at most 1048576 are possible" \
    "$tessera" mesh --mesh dp=65536,tp=65536
expect "a mesh of too many ranks" 2 "a job of 2147483647 ranks; at most 1048576 are possible" timeout 10 "$tessera" mesh --mesh dp=2147483647
finish
