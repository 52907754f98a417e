#!/usr/bin/env bash
# Ranks that divide the tokens of rows (cp) together with adapters of fused maps, tied tables in pipelines, passes,
# gradients that are rounded before they travel, float16, and a ring with experts: the bits of one rank.
# A third argument runs more layouts.
. "$(dirname "$0")/layouts.sh"
. "$(dirname "$0")/support.sh"
all=${3:-${TESS_TEST_ALL:-}}
make_text 600 >text.txt
make_config run.yaml
settings="training.threads=1 model.save_dtype=float32 training.steps=3 validation.interval=3 training.local_batch_size=3
    training.global_batch_size=9 training.seq_len=61 lr_scheduler.warmup_steps=1"
cp=parallelism.context_parallel_degree tp=parallelism.tensor_parallel_degree pp=parallelism.pipeline_parallel_degree
ep=parallelism.expert_parallel_degree leaves=training.context_leaves
gather=parallelism.context_parallel_method=gather ring=parallelism.context_parallel_method=ring
schedule=parallelism.pipeline_parallel_schedule
half="training.mixed_precision_param=bfloat16" single="training.mixed_precision_param=float32"
wide() { [ -z "$all" ] || same "$@"; } # a layout of the wide matrix
foretold_here() {
    foretold out && pass "$1: every pool as foretold" ||
        fail "$1: not as foretold: $(pools out)"
}
cat >phi3.json <<JSON
{"model_type": "phi3", "vocab_size": 301, "hidden_size": 60, "intermediate_size": 53, "num_hidden_layers": 2,
 "num_attention_heads": 6, "num_key_value_heads": 3, "max_position_embeddings": 64, "initializer_range": 0.2,
 "pad_token_id": 0, "rope_theta": 10000.0}
JSON
cat >gpt2.json <<JSON
{"model_type": "gpt2", "vocab_size": 301, "n_embd": 42, "n_layer": 3, "n_head": 3, "n_positions": 64}
JSON
cat >latents.json <<JSON
{"model_type": "deepseek_v3", "vocab_size": 301, "hidden_size": 42, "intermediate_size": 29, "num_hidden_layers": 2,
 "num_attention_heads": 5, "num_key_value_heads": 5, "kv_lora_rank": 19, "q_lora_rank": 23, "qk_nope_head_dim": 6,
 "qk_rope_head_dim": 4, "v_head_dim": 7, "max_position_embeddings": 64, "n_routed_experts": 6, "n_group": 2,
 "topk_group": 1, "num_experts_per_tok": 2, "moe_intermediate_size": 13, "first_k_dense_replace": 1,
 "initializer_range": 0.2}
JSON
cat >qwen3.json <<JSON
{"model_type": "qwen3", "vocab_size": 301, "hidden_size": 42, "intermediate_size": 53, "num_hidden_layers": 4,
 "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 14, "max_position_embeddings": 64,
 "tie_word_embeddings": true, "initializer_range": 0.2}
JSON
make_model llama.json
sed -i 's/"num_attention_heads": 3, "num_key_value_heads": 1/"num_attention_heads": 6, "num_key_value_heads": 3/; s/layers": 3/layers": 2/' llama.json
cat >mixtral.json <<JSON
{"model_type": "mixtral", "vocab_size": 301, "hidden_size": 42, "intermediate_size": 29, "num_hidden_layers": 2,
 "num_attention_heads": 6, "num_key_value_heads": 3, "head_dim": 14, "max_position_embeddings": 64,
 "num_local_experts": 8, "num_experts_per_tok": 2, "output_router_logits": true, "router_aux_loss_coef": 0.01,
 "router_z_loss_coef": 0.001, "initializer_range": 0.2}
JSON
cat >oss.json <<JSON
{"model_type": "gpt_oss", "vocab_size": 301, "hidden_size": 42, "intermediate_size": 29, "num_hidden_layers": 2,
 "num_attention_heads": 6, "num_key_value_heads": 3, "head_dim": 14, "max_position_embeddings": 64, "sliding_window": 9,
 "num_local_experts": 6, "num_experts_per_tok": 2, "swiglu_limit": 0.5, "initializer_range": 0.2,
 "rope_parameters": {"rope_type": "default", "rope_theta": 1000}}
JSON

# ---- Adapters of maps that are several in one: A's gradient is the sum of the views, leaf by leaf
for model in phi3 gpt2 latents; do
    reference base_$model model.config=$model.json training.steps=1 validation.enable=false
done
phi3="model.config= model.path=base_phi3/model $half $leaves=8 lora.rank=3"
gpt2="model.config= model.path=base_gpt2/model $single $leaves=8 lora.rank=3"
latents="model.config= model.path=base_latents/model $single $leaves=8 lora.rank=3"
reference phi3 $phi3
reference gpt2 $gpt2
reference latents $latents
reference plain ${phi3/$leaves=8/$leaves=1}
cmp -s plain/adapter/adapter_model.safetensors phi3/adapter/adapter_model.safetensors && fail "leaves change nothing" ||
    pass "leaves change the adapter"
same "adapters of qkv_proj and gate_up_proj, cp 2" phi3 2 $phi3 $cp=2
foretold_here "adapters of fused maps"
same "cp 4, ring" phi3 4 $phi3 $cp=4 $ring
same "cp 2, tp 3" phi3 6 $phi3 $cp=2 $tp=3
same "adapters of c_attn, cp 4" gpt2 4 $gpt2 $cp=4
wide "adapters of c_attn, cp 2, tp 3, gather" gpt2 6 $gpt2 $cp=2 $tp=3 $gather
same "adapters of kv_a_proj_with_mqa and of experts, cp 2" latents 2 $latents $cp=2
wide "and cp 4, ring, recompute" latents 4 $latents $cp=4 $ring activation_checkpoint.mode=full
wide "and cp 2, ep 2, pp 2" latents 4 $latents $cp=2 $ep=2 $pp=2

# ---- A tied table in a pipeline: the leaves of the head wait for those of the embedding
tied="model.config=qwen3.json $half $leaves=8 training.global_batch_size=12"
reference tied $tied
same "a tied table, pp 2" tied 2 $tied $pp=2
foretold_here "a tied table"
same "a tied table, pp 2, cp 2" tied 4 $tied $pp=2 $cp=2
foretold_here "a tied table with cp"
same "a tied table, pp 2, cp 4, ring" tied 8 $tied $pp=2 $cp=4 $ring
same "a tied table on the rank of the first stage and the last, zbv" tied 4 $tied $pp=2 $cp=2 $schedule=zbv
wide "a tied table, interleaved, gather" tied 4 $tied $pp=2 $cp=2 $schedule=interleaved1f1b $gather
wide "a tied table, zb_h1, tp 2" tied 8 $tied $pp=2 $cp=2 $tp=2 $schedule=zb_h1
wide "a tied table, gpipe" tied 4 $tied $pp=2 $cp=2 $schedule=gpipe
expect "a tied table and a ring in layouts of a pipeline" 0 "the same bits: " "$tessera" verify run.yaml --steps 1 $settings \
    $tied -n 4 --layouts cp=2,pp=2,method=ring,strategy=full,schedule=1f1b,schedule=zbv

# ---- Passes, and gradients that are rounded before they travel: the parts of a micro-batch are summed first
passes="model.config=llama.json $half $leaves=8 training.passes=2"
rounded="model.config=llama.json $half $leaves=8 training.mixed_precision_reduce=bfloat16"
reference passes $passes
reference rounded $rounded
for pair in "passes rounded" "rounded tied"; do
    set -- $pair
    cmp -s "$1/model/model.safetensors" "$2/model/model.safetensors" && fail "$1 and $2 are equal" || pass "$1 and $2 differ"
done
same "2 passes, cp 2" passes 2 $passes $cp=2
foretold_here "passes"
same "2 passes, cp 2, 6 ranks, zero2" passes 6 $passes $cp=2 parallelism.shard_strategy=zero2
same "2 passes, cp 4, ring" passes 4 $passes $cp=4 $ring
wide "2 passes, cp 2, tp 3" passes 6 $passes $cp=2 $tp=3
wide "2 passes of rounded gradients, cp 2, none" passes 2 $passes $cp=2 parallelism.shard_strategy=none
same "bfloat16 gradients, cp 2" rounded 2 $rounded $cp=2
foretold_here "bfloat16 gradients"
same "bfloat16 gradients, cp 2, 6 ranks" rounded 6 $rounded $cp=2
same "bfloat16 gradients, cp 4, gather, hybrid" rounded 8 $rounded $cp=4 $gather parallelism.shard_strategy=hybrid \
    parallelism.data_parallel_replicate_degree=2
wide "bfloat16 gradients, cp 2, pp 2, zb_h1" rounded 4 $rounded $cp=2 $pp=2 $schedule=zb_h1
wide "bfloat16 gradients, cp 2, tp 3, zero1" rounded 6 $rounded $cp=2 $tp=3 parallelism.shard_strategy=zero1

# ---- float16: a gradient that overflows on one rank is skipped on all
scale="training.loss_scale=0 training.loss_scale_interval=2 training.loss_scale_init"
whole="model.config=llama.json training.mixed_precision_param=float16 training.mixed_precision_reduce=float16 $leaves=8
    $scale=4096"
scales() { grep -o '"loss_scale": [^,]*\(, "skipped": true\)\?' "$1/metrics.jsonl"; }
reference whole $whole
scales whole | grep -q skipped && scales whole | grep -qv skipped && pass "some steps overflow, and some do not" ||
    fail "scales: $(scales whole)"
for method in ulysses gather ring; do
    same "float16, $method, cp 2" whole 2 $whole $cp=2 parallelism.context_parallel_method=$method
    cmp -s <(scales out) <(scales whole) && pass "$method: its scales" || fail "$method: $(scales out)"
done
same "float16, ring, cp 4, 2 threads" whole 4 $whole $cp=4 $ring training.threads=2
wide "float16, gather, cp 4" whole 4 $whole $cp=4 $gather
wide "float16, ring, cp 2, tp 3" whole 6 $whole $cp=2 $tp=3 $ring
sinks="model.config=oss.json training.mixed_precision_param=float16 $leaves=4"
reference sinks $sinks
same "float16, sinks, windows and a ring" sinks 2 $sinks $cp=2 $ring

# ---- A ring with experts
mixtral="model.config=mixtral.json $half $leaves=4"
oss="model.config=oss.json $half $leaves=4"
reference mixtral $mixtral
reference oss $oss
same "experts and a ring, cp 2, ep 2" mixtral 2 $mixtral $cp=2 $ep=2 $ring
loads() { grep -o '"expert_load": .*"aux_loss": [^,]*' "$1/metrics.jsonl"; }
cmp -s <(loads out) <(loads mixtral) && [ -n "$(loads out)" ] && pass "loads and auxiliary losses" || fail "other loads"
same "experts, sinks, windows and a ring, cp 2, ep 2" oss 2 $oss $cp=2 $ep=2 $ring
same "experts and a ring, cp 2, ep 2, dp 2" mixtral 4 $mixtral $cp=2 $ep=2 $ring
wide "experts, sinks and a ring, cp 2, ep 2, pp 2" oss 4 $oss $cp=2 $ep=2 $pp=2 $ring
expect "a ring with experts in every layout" 0 "the same bits: " "$tessera" verify run.yaml --steps 1 $settings $mixtral -n 4 \
    --layouts cp=2,method=ring,strategy=full,pp=1

# ---- A ring that evaluates
head -n 20 text.txt >few.txt
for model in tied oss; do
    "$tessera" eval $model/model --data few.txt --seq-len 61 --per-token --threads 1 >want 2>log || fail "eval: $(cat log)"
    for n in 2 4; do
        "$tessera" eval $model/model --data few.txt --seq-len 61 --per-token --threads 1 -n $n --context-method ring >got 2>log
        cmp -s want got && [ -s got ] && pass "$model: a ring of $n evaluates" ||
            fail "eval -n $n: $(diff want got | head -n 2) $(tail -n 1 log)"
    done
done
expect "an unknown method" 2 "'star' is neither gather, ulysses nor ring" "$tessera" eval oss/model --data few.txt -n 2 \
    --context-method star
expect "a method without ranks that divide tokens" 2 "--context-method ring: one rank has all tokens" "$tessera" eval \
    oss/model --data few.txt --context-method ring
finish
