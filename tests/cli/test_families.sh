#!/usr/bin/env bash
# Each kind of layer trains, evaluates and generates as one policy, and gives the bits of one rank on ranks that share
# layers and on stages of a pipeline.
. "$(dirname "$0")/support.sh"
make_text 300 >text.txt
make_config run.yaml
for family in smollm3 granite ministral3 phi3 olmo2 olmo3 starcoder2 stablelm gemma gemma2 gemma3 glm4 exaone4 cohere2; do
    sed 's/"vocab_size": 97/"vocab_size": 301/' "$project/tests/nn/fixtures/$family/config.json" >model.json
    expect "$family: one policy" 0 "exactly on-policy" "$tessera" verify on-policy run.yaml --against-kernels none \
        --new-tokens 4
    expect "$family: ranks that share layers" 0 "the same bits" "$tessera" verify run.yaml -n 3 --steps 1 \
        training.threads=1 parallelism.tensor_parallel_degree=3 activation_checkpoint.mode=full
    expect "$family: stages" 0 "the same bits" "$tessera" verify run.yaml -n 4 --steps 1 training.threads=1 \
        parallelism.tensor_parallel_degree=2 parallelism.pipeline_parallel_degree=2
done
finish
