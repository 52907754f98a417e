#!/usr/bin/env bash
# Mixtures of experts train, evaluate and generate with the same bits in any layout, and keep them in files.
. "$(dirname "$0")/support.sh"
make_text 600 >text.txt
cat >model.json <<JSON
{"model_type": "mixtral", "vocab_size": 301, "hidden_size": 42, "intermediate_size": 29, "num_hidden_layers": 4,
 "num_attention_heads": 3, "num_key_value_heads": 1, "head_dim": 14, "max_position_embeddings": 64,
 "num_local_experts": 6, "num_experts_per_tok": 2, "output_router_logits": true, "router_aux_loss_coef": 0.01,
 "router_z_loss_coef": 0.001, "initializer_range": 0.2}
JSON
cat >qwen.json <<JSON
{"model_type": "qwen2_moe", "vocab_size": 301, "hidden_size": 42, "intermediate_size": 53, "num_hidden_layers": 4,
 "num_attention_heads": 3, "num_key_value_heads": 1, "head_dim": 14, "max_position_embeddings": 64,
 "num_experts": 12, "num_experts_per_tok": 3, "moe_intermediate_size": 13, "mlp_only_layers": [1],
 "shared_expert_intermediate_size": 17,
 "initializer_range": 0.2}
JSON
cat >oss.json <<JSON
{"model_type": "gpt_oss", "vocab_size": 301, "hidden_size": 42, "intermediate_size": 29, "num_hidden_layers": 4,
 "num_attention_heads": 3, "num_key_value_heads": 1, "head_dim": 14, "max_position_embeddings": 64, "sliding_window": 9,
 "num_local_experts": 8, "num_experts_per_tok": 2, "swiglu_limit": 0.5, "initializer_range": 0.2,
 "rope_parameters": {"rope_type": "default", "rope_theta": 1000}}
JSON
cat >latents.json <<JSON
{"model_type": "deepseek_v3", "vocab_size": 301, "hidden_size": 42, "intermediate_size": 29, "num_hidden_layers": 3,
 "num_attention_heads": 5, "num_key_value_heads": 5, "kv_lora_rank": 19, "q_lora_rank": 23, "qk_nope_head_dim": 6,
 "qk_rope_head_dim": 4, "v_head_dim": 7, "max_position_embeddings": 64, "n_routed_experts": 6, "n_group": 2,
 "topk_group": 1, "num_experts_per_tok": 2, "moe_intermediate_size": 13, "first_k_dense_replace": 1,
 "initializer_range": 0.2}
JSON
make_config run.yaml
same="the same bits: this layout gives what one rank gives"
one=training.threads=1 tp=parallelism.tensor_parallel_degree pp=parallelism.pipeline_parallel_degree
ep=parallelism.expert_parallel_degree
verify() {
    expect "bits: $*" 0 "$same" "$tessera" verify run.yaml --steps 2 $one -n "$@"
}
float32=training.mixed_precision_param=float32
verify 2
verify 3 $float32 parallelism.shard_strategy=zero2
verify 4 parallelism.shard_strategy=hybrid parallelism.data_parallel_replicate_degree=2
verify 2 $tp=2
verify 3 $tp=3 $float32
verify 3 $tp=3 parallelism.enable_sequence_parallel=true activation_checkpoint.mode=full
verify 4 $tp=2 $pp=2 parallelism.pipeline_parallel_schedule=zb_h1
verify 2 $pp=2 parallelism.pipeline_parallel_schedule=zb_h1 activation_checkpoint.mode=selective \
    activation_checkpoint.recompute=feed_forward
verify 3 model.config=qwen.json $pp=3
rate=training.router_bias_update_rate=0.25
verify 4 model.config=latents.json $tp=2 $ep=2 $float32 $rate
verify 3 model.config=latents.json $tp=3 $rate training.global_batch_size=10
verify 4 model.config=latents.json $ep=2 $pp=2 $rate parallelism.shard_strategy=zero2
verify 4 model.config=oss.json $tp=2 $pp=2 parallelism.pipeline_parallel_schedule=zb_h1
verify 4 $ep=4 model.config=oss.json training.global_batch_size=10
verify 8 $tp=2 $ep=4 model.config=oss.json $float32 parallelism.shard_strategy=hybrid \
    parallelism.data_parallel_replicate_degree=2
verify 2 optimizer.name=muon
# Ranks divide the experts: neighbours in the batch, tensor-parallel ranks, and both.
verify 2 $ep=2 $float32
verify 3 $tp=3 $ep=3 activation_checkpoint.mode=full
verify 4 $ep=4 training.global_batch_size=10 model.config=qwen.json parallelism.fsdp_unit_blocks=2
verify 4 $ep=2 $pp=2 parallelism.pipeline_parallel_schedule=zb_h1
verify 6 $ep=2 training.global_batch_size=22 parallelism.shard_strategy=hybrid \
    parallelism.data_parallel_replicate_degree=3 model.config=qwen.json $float32
verify 8 $tp=2 $ep=4 model.config=qwen.json parallelism.enable_sequence_parallel=false
verify 4 $ep=4 model.config=qwen.json training.seq_len=2 training.local_batch_size=1 # most experts have no token
verify 2 $ep=2 offload.folder="$work" offload.activations=true offload.params=true offload.grads=true job.device=cpu
TESSERA_FAR_DELAYS=3:200 verify 4 $pp=2 $ep=2 job.device=far parallelism.pipeline_parallel_schedule=zb_h1
TESSERA_DEVICE=far TESSERA_SHARDS=device verify 4 $tp=2 $ep=4 model.config=qwen.json
verify 2 training.fp8=true
verify 2 offload.folder="$work" offload.activations=true offload.params=true job.device=cpu
verify 2 training.mixed_precision_param=float16 training.loss_scale=0
verify 2 $tp=2 model.sum_leaves=4

expect "all layouts of 4 ranks" 0 "the same bits: " "$tessera" verify run.yaml --steps 1 \
    $one -n 4 --layouts all

expect "training and generation are one policy" 0 "exactly on-policy: " "$tessera" verify on-policy run.yaml $one
expect "so are those of a model with both kinds of layers" 0 "exactly on-policy: " "$tessera" verify on-policy \
    run.yaml $one model.config=qwen.json

# ---- Files: begun by one rank, resumed by others, as by one rank throughout
run() {
    "$tessera" train run.yaml $one training.steps=4 checkpoint.interval=2 checkpoint.keep_latest_k=0 model.save_dtype=float32 "$@" \
        >log 2>&1 || { tail -n 5 log; fail "train $*"; }
}
# The metrics of the last two steps, with those of the experts.
figures() { grep -o '"step": [0-9]*, "loss": .*"aux_loss": [^,]*' "$1/metrics.jsonl" | tail -n 2; }
run job.dump_folder=whole
expect "the log has the loads of experts" 0 "max/mean, " cat log
expect "the metrics have them, too" 0 '"idle_experts": ' figures whole
for layout in "3 $tp=3" "2 $pp=2" "4 $ep=2"; do
    rm -rf resumed
    mkdir resumed
    cp -r whole/checkpoint resumed/
    rm -rf resumed/checkpoint/step-00000004
    # shellcheck disable=SC2086
    run job.dump_folder=resumed -n $layout
    cmp -s whole/model/model.safetensors resumed/model/model.safetensors && pass "resumed on $layout" || fail "resumed on $layout"
    [ "$(figures whole)" = "$(figures resumed)" ] && pass "loads on $layout" || fail "loads on $layout"
done
pools resumed | awk '$2 > $3 { off = 1 } END { exit off || NR == 0 }' && pass "no pool takes more than foretold" ||
    fail "more than foretold: $(pools resumed)"
# Biases of routers move with the loads. They are saved as float32, and once if a rank dies in the middle of an update.
biased() { run model.config=latents.json training.router_bias_update_rate=0.01 model.save_dtype=bfloat16 "$@"; }
biased job.dump_folder=biased
grep -aq 'mlp.gate.e_score_correction_bias":{"dtype":"F32"' biased/model/model.safetensors && pass "a bias is saved as float32" ||
    fail "a bias is not float32"
biased job.dump_folder=killed -n 2 $ep=2 recovery.enable=true recovery.hot=true recovery.backoff_s=0.1 \
    fault.spec="rank=1 step=3 point=phase:judged kind=sigkill"
cmp -s biased/model/model.safetensors killed/model/model.safetensors && pass "biases after a rank died" || fail "biases after a rank died"
verify 8 model.config= model.path=whole/model lora.rank=3 $tp=2 # the last shard has none of the 3 rows of a factor
for words in "training.threads=2" "$tp=2 lora.targets=[w1,w2]" "$pp=2" "$ep=2"; do
    # shellcheck disable=SC2086
    verify 2 model.config= model.path=whole/model lora.rank=3 $words
done

# ---- A router of NaN in one step: `numbers` decides, as for a dense model
router=model.layers.1.block_sparse_moe.gate.weight
expect "a step with a router of NaN is skipped until max_skips" 2 "its update is skipped (1 so far)" "$tessera" train run.yaml $one -n 2 \
    training.steps=8 validation.enable=false checkpoint.enable=false numbers.on_nonfinite=skip \
    numbers.max_skips=1 job.dump_folder=skipped fault.spec="rank=1 step=5 point=parameter kind=nan tensor=$router"
expect "a router of NaN is named" 2 "weight '$router' is nan at row" "$tessera" train run.yaml $one -n 2 \
    training.steps=8 validation.enable=false checkpoint.enable=false job.dump_folder=stopped \
    fault.spec="rank=1 step=5 point=parameter kind=nan tensor=$router"

expect "info shows the experts" 0 "  6 experts of 29 channels in 4 layers, 2 for each token; 3.65 k parameters each, " "$tessera" info model.json
expect "and the rows that they exchange" 0 "  experts                  all_to_all_v " "$tessera" info run.yaml -n 2 $ep=2

# ---- A router that is finite, but too large
cp -r whole/model huge
size=$(od -An -tu8 -N8 huge/model.safetensors)
at=$(grep -aoP "\"$router\":[^}]*\"data_offsets\":\[\K[0-9]+" huge/model.safetensors)
head -c 168 /dev/zero | tr '\0' '\177' |
    dd of=huge/model.safetensors conv=notrunc status=none bs=1 seek=$((8 + size + at))
named="router probabilities of 'model.layers.1' (row "
expect "generate names it" 2 "$named" "$tessera" generate huge --prompt the
expect "eval names it" 0 "$named" "$tessera" eval huge --data text.txt --seq-len 40
expect "train names it" 2 "micro-batch 0 of 0..7: router probabilities 'model.layers.1' is nan at row" "$tessera" train run.yaml \
    $one model.config= model.path=huge job.dump_folder=huge_run

# ---- Bad input
bad() {
    sed "$2" model.json >bad.json
    expect "bad: $1" 2 "$1" "$tessera" verify run.yaml model.config=bad.json
}
bad "num_experts_per_tok is 7; there are 6 experts" 's/per_tok": 2/per_tok": 7/'
bad "'num_local_experts' is 0; it must be at least 1" 's/experts": 6/experts": 0/'
refused() {
    expect "refused: $1" 2 "$1" "$tessera" train run.yaml -n "${@:2}"
}
refused "a power of two that divides data_parallel_shard_degree (3)" 3 $ep=3
refused "they cannot have as many of the 6 experts each; choose a parallelism.expert_parallel_degree that divides 6" 4 $ep=4
refused "expert_tensor_parallel_degree: 2; ranks that divide experts have whole ones" 2 $ep=2 \
    parallelism.expert_tensor_parallel_degree=2
refused "training.mixed_precision_reduce: an expert's gradient is summed over 2 micro-batches" 2 $ep=2 \
    training.mixed_precision_reduce=bfloat16
refused "fsdp_reshard_after_forward: 2 does not divide the 3 ranks that share a copy of the same experts" 6 $ep=2 \
    parallelism.fsdp_reshard_after_forward=2
refused "experts.3.w1.weight', of the next of 2 ranks that divide the experts, must both train or neither" 2 $ep=2 \
    training.freeze=[model.layers.0.block_sparse_moe.experts.0]
expect "of a family's own tensors the one that differs is named" 1 "weight 'model.layers.0.mlp.shared_expert.up_proj.weight'" \
    "$tessera" train run.yaml -n 4 $ep=2 model.config=qwen.json checkpoint.enable=false job.dump_folder=bad training.steps=6 \
    parallelism.shard_strategy=hybrid parallelism.data_parallel_replicate_degree=2 numbers.replica_check_interval=1 \
    fault.spec="rank=2 step=3 point=state kind=flip tensor=model.layers.0.mlp.shared_expert.up_proj.weight"
refused "only routers of deepseek_v3 have a bias" 2 training.router_bias_update_rate=0.01
refused "training.passes: an expert sums the gradients of several micro-batches" 2 $ep=2 training.passes=2
expect "ranks that divide experts wait for one" 1 "rank 1 has kept rank 0 waiting" "$tessera" train run.yaml $one -n 2 $ep=2 \
    checkpoint.enable=false comm.timeout_s=3 fault.spec="rank=1 step=5 point=before:all_to_all_v kind=sleep ms=600000"
expect "the trace of it names their team" 3 "experts" "$tessera" trace out
bad "hidden_act is 'relu'; supported: silu" 's/{/{"hidden_act": "relu", /'
bad "'router_jitter_noise' is 0.1; it must be at most 0" 's/{/{"router_jitter_noise": 0.1, /'
finish
