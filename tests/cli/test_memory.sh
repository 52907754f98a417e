#!/usr/bin/env bash
# Memory seen: before a run starts, against its peak when it ends, and a pool that leaks. (The bytes themselves:
# tests/plan/test_memory_need.c.)
. "$(dirname "$0")/support.sh"
family() {
    local sizes='"vocab_size": 320, "hidden_size": 96, "intermediate_size": 160, "num_hidden_layers": 2, "head_dim": 16,
        "num_attention_heads": 6, "num_key_value_heads": 2, "hidden_act": "silu", "max_position_embeddings": 64,
        "rms_norm_eps": 1e-6, "rope_theta": 10000.0'
    case $1 in
    llama) echo '{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "tie_word_embeddings": false,' "$sizes}" ;;
    mistral) echo '{"architectures": ["MistralForCausalLM"], "model_type": "mistral", "sliding_window": 5,' "$sizes}" ;;
    qwen2) echo '{"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "tie_word_embeddings": true,' "$sizes}" ;;
    qwen3) echo '{"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "tie_word_embeddings": false,' "$sizes}" ;;
    gpt2) echo '{"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "vocab_size": 320, "n_embd": 96,
        "n_layer": 2, "n_head": 6, "n_positions": 64, "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5,
        "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "tie_word_embeddings": true}' ;;
    esac >model.json
}
make_text 120 >text.txt
family llama
cat >run.yaml <<YAML
model: {config: model.json}
data: {files: [text.txt]}
training: {steps: 2, local_batch_size: 1, global_batch_size: 8, seq_len: 32, threads: 1}
lr_scheduler: {warmup_steps: 1}
metrics: {log_freq: 2, enable_tensorboard: false}
validation: {enable: false}
checkpoint: {enable: false}
recovery: {enable: false}
YAML

# ---- Before
expect "info shows a row a rank" 0 "memory of 4 ranks at the peak, in GiB, sharding full" "$tessera" info run.yaml -n 4
expect "and units" 0 "units        3 of 4 blocks, the largest 277 KiB when gathered" \
    "$tessera" info run.yaml -n 2 parallelism.fsdp_unit_blocks=2
expect "and the volume of a step" 0 "  dp_shard                 reduce_scatter_pieces " "$tessera" info run.yaml -n 2
expect "and stages" 0 "stage 1 of 2" "$tessera" info run.yaml -n 2 parallelism.pipeline_parallel_degree=2
expect "and ranks that only draw" 0 "draws" "$tessera" info run.yaml -n 2 rollout.ranks=1 tokenizer.path=. \
    rollout.max_new_tokens=9
expect "a rank without bytes on disk has a cell for them" 0 "       0.000   draws" "$tessera" info run.yaml -n 2 \
    rollout.ranks=1 tokenizer.path=. rollout.max_new_tokens=9 offload.optimizer=true offload.folder="$work"
expect "and what train would refuse" 2 "training.global_batch_size: 8 rows are not a multiple" \
    "$tessera" info run.yaml -n 1 training.local_batch_size=3
expect "but options alone need no number of ranks" 0 "memory: not of 1 rank (-n RANKS): " \
    "$tessera" info run.yaml parallelism.pipeline_parallel_degree=2
[ -e out ] && fail "info started something" || pass "info starts nothing"

# ---- After: every pool of every rank to the byte
exactly() { # FAMILY WORDS...
    local name="$*"
    family "$1"
    shift
    "$tessera" train run.yaml "$@" >log 2>&1 || { fail "$name: $(tail -n 1 log)"; return; }
    foretold out && pass "$name" || fail "$name: $(pools out)"
}
exactly llama -n 1
exactly llama -n 4 parallelism.shard_strategy=none activation_checkpoint.mode=full
exactly gpt2 -n 2 parallelism.shard_strategy=zero1 parallelism.fsdp_unit_blocks=2 parallelism.fsdp_unit_mixed=true
exactly qwen2 -n 2 parallelism.fsdp_unit_bytes=200KiB parallelism.tensor_parallel_degree=2
exactly qwen3 -n 2 parallelism.pipeline_parallel_degree=2 optimizer.name=muon
exactly qwen3 -n 4 parallelism.tensor_parallel_degree=4
exactly qwen2 -n 4 parallelism.pipeline_parallel_degree=2
exactly mistral -n 4 parallelism.shard_strategy=hybrid parallelism.data_parallel_replicate_degree=2
hybrid="parallelism.shard_strategy=hybrid parallelism.data_parallel_replicate_degree"
exactly llama -n 4 $hybrid=2 training.global_batch_size=1 # the second replica has no micro-batch
exactly llama -n 4 $hybrid=2 training.global_batch_size=3
exactly llama -n 4 $hybrid=2 training.global_batch_size=37 # the replicas divide the sums
exactly llama -n 3 $hybrid=3 training.global_batch_size=2
exactly llama -n 4 parallelism.pipeline_parallel_degree=2 training.global_batch_size=1
exactly llama -n 1 optimizer.name=adamw8bit training.mixed_precision_param=float32
"$tessera" train run.yaml job.dump_folder=base model.save_dtype=float32 >log 2>&1 || fail "a base: $(tail -n 1 log)"
sed -i 's|config: model.json|path: base/model|' run.yaml
exactly llama -n 2 lora.rank=2
exactly llama -n 4 lora.rank=3 parallelism.tensor_parallel_degree=2
expect "an adapter's target that is none" 2 "'nowhere' is no linear map" "$tessera" info run.yaml -n 1 lora.rank=2 lora.targets=nowhere

# ---- A leak
leak="training.steps=56 training.global_batch_size=2 training.seq_len=8"
"$tessera" train run.yaml $leak >log 2>&1 || fail "$(tail -n 1 log)"
grep -q "memory leaks" log && fail "a leak where there is none: $(grep "memory leaks" log)" || pass "no leak is found where there is none"
"$tessera" train run.yaml $leak "fault.spec=rank=0 point=step kind=leak bytes=30000 times=0" >log 2>&1 || fail "$(tail -n 1 log)"
expect "and so is what was not predicted" 0 "memory against its prediction: params +0.0%, grads +0.0%" cat log
expect "a leak is named" 0 "pool comm of this rank has grown by 29.3 KiB a step" cat log
expect "and what was allocated" 0 "not freed is 'an injected leak'" cat log
expect "once" 0 1 grep -c "memory leaks" log
expect "the pools over time" 0 "memory of all ranks in use, steps 1 to 56" "$tessera" top out --memory
expect "no run" 2 "nothing/memory.jsonl: No such file" "$tessera" top nothing --memory
finish
