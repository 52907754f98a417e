#!/usr/bin/env bash
# tessera plan search: the best layouts, why, why not another one, and a configuration that can be trained.
source "$(dirname "$0")/support.sh"
settings="model.config=llama-5m training.seq_len=64 training.global_batch_size=16"
search() { "$tessera" plan search $settings "$@"; }

expect "eight ranks of a GPU" 0 "1: limited by" search -n 8 --machine h100-sxm
grep -q "the next one is" output && grep -qE "^[0-9]+ layouts of 8 ranks on h100-sxm, 16 rows of 64 tokens a step: [1-9][0-9]* fit" output &&
    pass "with reasons" || fail "$(cat output)"
expect "why not tp=4" 0 "why not tp=4: tp 4" search -n 8 --machine h100-sxm --why-not tp=4
grep -q "% slower: " output && pass "in percent" || fail "$(cat output)"
expect "why not the best one" 0 "it is the best one" search -n 8 --machine h100-sxm --only tp=4,dp_shard=2,micro=1,strategy=full \
    --why-not tp=4,dp_shard=2,micro=1,strategy=full
expect "why not a faster one" 0 "faster than the best one" search -n 8 --machine h100-sxm --only tp=4,pp=2 --why-not dp_shard=8
expect "JSON" 0 '"type": "tessera-search"' search -n 4 --machine h100-sxm --json --top 1
expect "a wrong condition" 2 "did you mean" search -n 4 --machine h100-sxm --only tpp=2
expect "a model without rows" 2 "no layout of 3 ranks" search -n 3 --machine h100-sxm --only dp_shard=3

cat >small.yaml <<'Y'
machine:
  name: small
  devices: 4
compute:
  bf16_tflops: 100
memory:
  gb: 0.03
  gb_per_s: 1000
nvlink:
  gb_per_s: 100
infiniband:
  gb_per_s: 25
Y
cat >unlinked.yaml <<'Y'
machine:
  name: unlinked
  devices: 8
compute:
  bf16_tflops: 989
memory:
  gb: 80
  gb_per_s: 3350
nvlink:
  gb_per_s: 450
Y
expect "hosts that are not full" 2 "do not divide evenly" search -n 12 --machine h100-sxm training.global_batch_size=12
expect "nothing fits, and what would" 0 "too many" search -n 2 --machine small.yaml
grep -q "it would fit on [0-9]* ranks: " output && pass "names the ranks" || fail "$(cat output)"
expect "nothing to write" 2 "no layout fits" search -n 2 --machine small.yaml --write none.yaml
[ ! -e none.yaml ] && pass "and nothing is written" || fail "none.yaml is there"

# Large clusters take a second of computation, because bounds leave out most plans.
large="model.config=llama-405b training.seq_len=8192 training.global_batch_size=512"
expect "405B on 512 GPUs" 0 "layouts of 512 ranks on h100-sxm" "$tessera" plan search $large -n 512 --machine h100-sxm
grep -qE ": [0-9]{1,2} fit, [1-9][0-9]{3,5} are slower by their bounds" output && pass "few layouts were planned" || fail "$(cat output)"
expect "hosts without a link" 2 "which are on different hosts: give it a section" \
    "$tessera" plan search $large -n 512 --machine unlinked.yaml
expect "too large for the cluster" 0 "too many" \
    "$tessera" plan search $large training.global_batch_size=8 -n 8 --machine h100-sxm

same_pools() {
    awk '/ bytes$/ {n++; same += $2 == $3} END {exit !(n >= 5 && same == n)}' output && pass "count the pools of the plan" ||
        fail "$(cat output)"
}
# Real ranks count the pools of a layout such as the best ones of 405B, at a small size.
expect "real ranks" 0 "activations" "$tessera" plan model.config=llama-5m training.seq_len=64 -n 4 --measure \
    training.global_batch_size=4 training.local_batch_size=4 parallelism.tensor_parallel_degree=2 \
    parallelism.context_parallel_degree=2 parallelism.context_parallel_method=ring training.context_leaves=4 \
    activation_checkpoint.mode=full --cache .
same_pools

# The axes of the best layouts of DeepSeek-V3 on 2,048 GPUs, with few ranks, layers and channels. Every token reads all
# experts, so the routing, and the memory that it needs, does not depend on weights.
cat >experts.json <<'J'
{"architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3", "hidden_size": 64, "intermediate_size": 96,
 "moe_intermediate_size": 32, "num_hidden_layers": 9, "num_attention_heads": 4, "num_key_value_heads": 4,
 "kv_lora_rank": 16, "q_lora_rank": 24, "qk_nope_head_dim": 8, "qk_rope_head_dim": 8, "v_head_dim": 8,
 "n_routed_experts": 16, "n_shared_experts": 1, "n_group": 1, "topk_group": 1, "num_experts_per_tok": 16,
 "first_k_dense_replace": 1, "norm_topk_prob": true, "routed_scaling_factor": 2.5, "vocab_size": 512,
 "max_position_embeddings": 256, "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "tie_word_embeddings": false,
 "hidden_act": "silu"}
J
for strategy in zero1 zero2 full; do
    expect "16 real ranks with experts, $strategy" 0 "activations" "$tessera" plan model.config=experts.json training.seq_len=64 \
        -n 16 --measure training.global_batch_size=32 training.local_batch_size=4 parallelism.tensor_parallel_degree=2 \
        parallelism.data_parallel_shard_degree=2 parallelism.pipeline_parallel_degree=4 \
        parallelism.expert_parallel_degree=4 parallelism.shard_strategy=$strategy activation_checkpoint.mode=full --cache .
    same_pools
done

# The configuration that it writes is trained.
make_text 400 >text.txt
make_model model.json
make_config run.yaml
expect "it writes the best one" 0 "next: tessera train best.yaml -n 2" \
    "$tessera" plan search run.yaml -n 2 --machine h100-sxm --write best.yaml training.steps=2 job.dump_folder=run
expect "and that trains" 0 "" "$tessera" train best.yaml -n 2

# The configurations of each axis are trained, too, with layers for four stages. The far device is apart from the host, as a GPU is.
sed -i 's/"num_hidden_layers": [0-9]*/"num_hidden_layers": 4/' model.json
axis() { # WORDS KEY VALUE [SETTINGS...]
    expect "$1" 0 "next: tessera train" "$tessera" plan search run.yaml -n 2 --machine h100-sxm --only "$1" --write axis.yaml \
        training.steps=1 lr_scheduler.warmup_steps=0 validation.enable=false checkpoint.enable=false job.dump_folder=axis
    grep -q "^  $2: $3$" axis.yaml && pass "its configuration says so" || fail "$(cat axis.yaml)"
    expect "it trains" 0 "" "$tessera" train axis.yaml -n 2 "${@:4}"
}
for schedule in gpipe interleaved zb_h1 zbv dualpipev; do
    axis "pp=2,schedule=$schedule" pipeline_parallel_schedule $schedule
done
axis tp=2,sp=off enable_sequence_parallel false
axis offload=optimizer optimizer true job.device=far
axis offload=all params true job.device=far
axis precision=fp32 mixed_precision_param float32
axis dp_shard=2,precision=fp8 fp8 true

expect "why not with offload" 0 "offload optimizer: " search -n 4 --machine h100-sxm --why-not offload=optimizer
expect "why not in FP8" 0 "precision fp8: " search -n 4 --machine h100-sxm --why-not precision=fp8
expect "precision, if it is asked for" 0 ", precision " search -n 2 --machine h100-sxm --axes precision
expect "no other axis" 2 "all other axes are varied anyway" search -n 2 --machine h100-sxm --axes sp
expect "no value of an axis" 2 "optimizer+grads" search -n 2 --machine h100-sxm --only offload=disk
expect "no FP8" 2 "no products in FP8" search -n 2 --machine a100-80gb --fp8-products

# The state of 8 B parameters does not fit into a GPU. It fits into the host.
expect "offload where nothing fits" 0 ", offload optimizer" "$tessera" plan search model.config=llama-8b training.seq_len=4096 \
    training.global_batch_size=2 -n 1 --machine h100-sxm
finish
