#!/usr/bin/env bash
# Training gives a token the log-probability that it was drawn with, bit for bit: for models with every feature, on every
# kernel table, in both dtypes, at any temperature, however drawing is cut into passes and pages, and on 8 ranks.
source "$(dirname "$0")/support.sh"
source "$project/tests/cli/rl.sh"

# family NAME JSON [POSITIONS]: a model of random weights, with the tokenizer of the trained one.
family() {
    cat >"$1.json" <<JSON
{"vocab_size": 301, "hidden_size": 42, "intermediate_size": 53, "num_hidden_layers": 2, "num_attention_heads": 3,
 "num_key_value_heads": 1, "head_dim": 14, "hidden_act": "silu", "max_position_embeddings": ${3:-256},
 "rms_norm_eps": 1e-6, "rope_theta": 10000.0, $2}
JSON
}
family qwen3 '"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "tie_word_embeddings": true'
family qwen2 '"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2"'
family mistral '"architectures": ["MistralForCausalLM"], "model_type": "mistral", "sliding_window": 9'
family dynamic '"architectures": ["LlamaForCausalLM"], "model_type": "llama",
    "rope_scaling": {"rope_type": "dynamic", "factor": 4.0}' 32

# exact NAME ARGUMENTS...: two steps, each with no token that differs.
exact() {
    local name=$1
    shift
    rm -rf run
    if ! rl run validation.enable=false checkpoint.enable=false training.steps=2 "$@"; then
        fail "$name: $(tail -n 1 run.out)"
    elif [ "$(grep -cE 'logprob_diff 0 \(0 of [1-9][0-9,]* tokens\)' run.out)" != 2 ]; then
        fail "$name: $(grep logprob_diff run.out | head -n 1)"
    else
        pass "$name"
    fi
}

long=(training.seq_len=120 rollout.max_new_tokens=100 training.local_batch_size=2 rollout.prompts=2 rollout.n=3)
tables=$(for t in ref avx2 avx512 avx512_bf16 amx; do TESSERA_CPU=$t "$tessera" info >/dev/null 2>&1 && echo $t; done)
for table in $tables; do
    export TESSERA_CPU=$table
    for dtype in float32 bfloat16; do
        exact "$table, $dtype" training.mixed_precision_param=$dtype
        exact "$table, $dtype, mistral beyond a page" model.path= model.config=mistral.json tokenizer.path=sft/model \
            training.mixed_precision_param=$dtype "${long[@]}"
    done
done
unset TESSERA_CPU
for model in qwen3 qwen2 dynamic; do
    exact "$model, bfloat16" model.path= model.config=$model.json tokenizer.path=sft/model \
        training.mixed_precision_param=bfloat16 model.max_length=128 "${long[@]}"
done
for temperature in 0.6 1.3; do
    exact "temperature $temperature" rollout.temperature=$temperature
done
exact "few pages, texts that give theirs back" model.path= model.config=qwen3.json tokenizer.path=sft/model "${long[@]}" \
    rollout.cache_bytes=60000 rollout.pass_tokens=7
# Pages of keys and values on the device, shared and given back there.
TESSERA_FAR_DELAYS=3:200 exact "few pages, on a device apart" rollout.cache_bytes=60000 rollout.pass_tokens=7 job.device=far
fake=$TESS_CUDA_FAKE
TESSERA_CUDA=$fake/libtessera_cuda.so LD_LIBRARY_PATH=$fake TESSERA_CUBLAS=off exact "on what plays a GPU" job.device=cuda \
    rollout.prompts=2 rollout.n=2
exact "recomputed activations" activation_checkpoint.mode=full
exact "8 ranks" -n 8
exact "hybrid, 4 ranks" -n 4 parallelism.shard_strategy=hybrid parallelism.data_parallel_replicate_degree=2
# Samples are short, so that steps have other numbers of micro-batches than the plan's largest, which all ranks share.
exact "hybrid, uneven steps" -n 4 parallelism.shard_strategy=hybrid parallelism.data_parallel_replicate_degree=2 \
    rollout.prompts=4 rollout.n=4
pools run | grep -q '^grads [1-9][0-9]* [0-9]* 0$' && pass "hybrid: gradients take the bytes foretold" ||
    fail "hybrid: gradients: $(pools run | grep grads)"

# ---- A difference ends the run by name, or is warned of, or corrected ----
# Here another model learns from the samples than drew them.
rl drawn rl.phase=rollout training.steps=2 validation.enable=false
learn() {
    rm -rf "$1"
    mkdir "$1"
    cp -r drawn/rl "$1/rl"
    shift
}
other=(model.path= model.config=qwen3.json tokenizer.path=sft/model rl.phase=train training.steps=2 validation.enable=false
    checkpoint.enable=false)
learn stopped
expect "a difference ends the run" 2 "training and rollout disagree: " "$tessera" rl rl.yaml job.dump_folder=stopped "${other[@]}"
grep -q "the first is token [0-9]* of sample [0-9]*, drawn with -" output && pass "its first token is named" || fail "no token named"
learn warned
expect "or is shown" 0 "steps in" "$tessera" rl rl.yaml job.dump_folder=warned "${other[@]}" rl.on_mismatch=warn
grep -qE 'logprob_diff [0-9.]+ \(1[0-9][0-9] of 1[0-9][0-9] tokens\)' output && pass "with its size" || fail "$(grep logprob output)"
learn corrected
expect "or corrected" 0 "steps in" "$tessera" rl rl.yaml job.dump_folder=corrected "${other[@]}" rl.on_mismatch=correct
grep -q '"train/tis": [0-9.]*' corrected/metrics.jsonl && pass "by weights" || fail "no weights of the correction"
finish
