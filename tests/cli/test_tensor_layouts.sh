#!/usr/bin/env bash
# Law 1 where ranks share layers: tensor parallelism by every degree, inside data-parallel strategies and pipelines, on
# sizes that nothing divides, gives the loss and grad_norm columns, the evaluations and the weights of one rank.
# `test_tensor_layouts.sh TESSERA PROJECT all` crosses all of them.
. "$(dirname "$0")/layouts.sh"
. "$(dirname "$0")/support.sh"
all=${3:-}
make_text 600 >text.txt
make_config run.yaml
make_model llama.json # with as many key heads as neither 2 nor 4 divide
sed -i 's/"num_attention_heads": 3, "num_key_value_heads": 1/"num_attention_heads": 6, "num_key_value_heads": 3/' llama.json
make_model qwen3.json true
sed -i 's/LlamaForCausalLM/Qwen3ForCausalLM/; s/"llama"/"qwen3"/; s/"num_attention_heads": 3/"num_attention_heads": 4/
    s/"num_key_value_heads": 1/"num_key_value_heads": 2/' qwen3.json
make_model mqa.json true # one key head, which all query heads share
cat >gpt2.json <<JSON
{"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "vocab_size": 301, "n_embd": 42, "n_inner": 53,
 "n_layer": 3, "n_head": 3, "n_positions": 64, "n_ctx": 64, "layer_norm_epsilon": 1e-5,
 "activation_function": "gelu_new", "tie_word_embeddings": true}
JSON
settings="training.threads=1 model.save_dtype=float32 training.steps=5 validation.interval=3 training.local_batch_size=1"

tp=parallelism.tensor_parallel_degree pp=parallelism.pipeline_parallel_degree
schedule=parallelism.pipeline_parallel_schedule whole=parallelism.enable_sequence_parallel=false strategy=parallelism.shard_strategy
replicas=parallelism.data_parallel_replicate_degree prefetch=parallelism.fsdp_prefetch
recompute="activation_checkpoint.mode=full"
selective="activation_checkpoint.mode=selective activation_checkpoint.recompute=residual,feed_forward"
partition="$whole activation_checkpoint.partition=true"
half="training.mixed_precision_param=bfloat16" single="training.mixed_precision_param=float32"
for model in llama qwen3 gpt2 mqa; do
    reference $model-bf16 model.config=$model.json $half
    reference $model-fp32 model.config=$model.json $single
done

# shared MODEL-DTYPE RANKS DEGREE OPTIONS...
shared() {
    local reference=$1 ranks=$2 degree=$3 precision=$half
    shift 3
    [ "${reference#*-}" = fp32 ] && precision=$single
    same "$reference, $ranks ranks, tp $degree $*" "$reference" "$ranks" model.config="${reference%-*}.json" $precision \
        $tp="$degree" "$@"
}

if [ -n "$all" ]; then
    for run in llama-bf16 llama-fp32 qwen3-bf16 qwen3-fp32 gpt2-bf16 gpt2-fp32 mqa-bf16 mqa-fp32; do
        for degree in 2 3 4 8; do
            shared $run $degree $degree
            shared $run $degree $degree $recompute
            shared $run $degree $degree $whole
            shared $run $degree $degree $selective
            shared $run $degree $degree $selective $partition
        done
        for s in none zero1 zero2 full; do
            shared $run 4 2 $strategy=$s
            shared $run 6 2 $strategy=$s $prefetch=3
            shared $run 6 3 $strategy=$s $whole $recompute
            shared $run 6 3 $strategy=$s $partition $recompute
            shared $run 6 3 $strategy=$s parallelism.fsdp_reshard_after_forward=0
        done
        shared $run 8 2 $strategy=hybrid $replicas=2
        for s in gpipe 1f1b zb_h1; do
            shared $run 4 2 $pp=2 $schedule=$s
            shared $run 8 2 $pp=2 $schedule=$s $recompute
            shared $run 4 2 $pp=2 $schedule=$s $whole
            shared $run 4 2 $pp=2 $schedule=$s $partition $recompute
            shared $run 6 2 $pp=3 $schedule=$s
        done
    done
    finish
fi

shared llama-bf16 2 2
shared llama-fp32 3 3 $recompute
shared llama-bf16 4 4 $strategy=none
shared llama-fp32 8 8
shared llama-fp32 3 3 $whole
shared llama-bf16 6 2 $strategy=zero1 $prefetch=3
shared llama-fp32 4 2 $strategy=zero2 training.threads=2
shared llama-bf16 4 2 parallelism.fsdp_reshard_after_forward=0
shared llama-fp32 8 2 $strategy=hybrid $replicas=2
shared llama-bf16 8 2 $pp=2 $schedule=zb_h1
shared llama-bf16 4 2 $pp=2 $schedule=zb_h1 $whole
shared llama-fp32 6 3 $pp=2
shared qwen3-bf16 4 2
shared qwen3-fp32 3 3 $selective
shared gpt2-bf16 2 2
shared gpt2-bf16 4 4 $partition $recompute
shared llama-bf16 4 2 $pp=2 $partition $selective
# All four axes at once, and 16 ranks = tp 4 x pp 2 x 2 shards.
shared llama-bf16 16 2 $pp=2 $strategy=hybrid $replicas=2
shared llama-bf16 16 4 $pp=2 $recompute
# More ranks than key heads share these.
shared mqa-bf16 2 2
shared mqa-fp32 3 3 $recompute
shared mqa-bf16 4 4 $strategy=none
shared mqa-fp32 8 4 $pp=2 $schedule=zb_h1
shared mqa-bf16 6 3 $whole $strategy=zero2 $selective
shared qwen3-bf16 3 3 $whole
shared qwen3-fp32 8 4 $prefetch=3
shared gpt2-fp32 6 3 $strategy=zero1
# ZeRO-1 inside stages whose ranks share layers.
shared llama-bf16 8 2 $pp=2 $strategy=zero1
shared gpt2-fp32 8 2 $pp=2 $schedule=gpipe $strategy=zero1 $recompute
shared mqa-bf16 12 3 $pp=2 $schedule=zb_h1 $strategy=zero1
shared llama-bf16 8 2 $pp=2 $strategy=zero1 parallelism.pipeline_parallel_split_points=layers.2 parallelism.rank_order=tp-pp-dp
shared qwen3-fp32 6 2 parallelism.rank_order=0-4:2,1-5:2
TESSERA_DEVICE=far TESSERA_FAR_DELAYS=3:100 shared llama-bf16 2 2
TESSERA_DEVICE=far TESSERA_FAR_DELAYS=5:100 shared mqa-bf16 2 2
expect "what ranks share is told" 0 "each has 1 to 2 of 3 query heads" cat log

# Passes of a micro-batch are the same numbers on one rank.
reference passes model.config=llama.json $half training.local_batch_size=2 training.passes=2
same "passes" passes 4 model.config=llama.json $half $tp=2 training.local_batch_size=2 training.passes=2

# Saved under one layout, killed, resumed under the next.
rm -rf out
for at in "4 2 2" "6 3 3" "1 1 4"; do
    set -- $at
    "$tessera" train run.yaml -n "$1" job.dump_folder=out $settings model.config=llama.json $half $tp="$2" \
        checkpoint.interval="$3" fault.spec="rank=0 step=$(($3 + 1)) point=step kind=exit" >log 2>&1
    grep -q "checkpoint" log || fail "no checkpoint of $at: $(tail -n 3 log)"
done
"$tessera" train run.yaml -n 8 job.dump_folder=out $settings model.config=llama.json $half $tp=4 >log 2>&1
equal out llama-bf16 && pass "resumed under four layouts" || fail "resumed: $(tail -n 3 log)"
finish
