# Shared by the test of the golden bits and the command that records them. A model's file (llama.txt) holds, for each
# dtype and each group of kernel tables that must agree, the loss and the gradient norm of 30 steps with all their digits,
# and the SHA-256 of the trained weights in float32. Sourced after tests/cli/support.sh, in its folder $work.
golden=$project/tests/golden
models=(llama mistral qwen2 qwen3 gpt2)
tables=(ref avx2 avx512 avx512_bf16 amx)

# Rows of float16 are those of float32 with converted operands, so one family stands for all.
dtypes_of() { # MODEL
    echo float32 bfloat16
    [ "$1" != qwen3 ] || echo float16
}

# record_of DTYPE TABLE: the tables that share the record, as the laws have it. A product in float32 is one FMA for each k
# on every table. One in bfloat16 follows the instructions, and the first three tables multiply in float32.
record_of() {
    case $1:$2 in
    float32:* | float16:*) echo "ref avx2 avx512 avx512_bf16 amx" ;;
    bfloat16:ref | bfloat16:avx2 | bfloat16:avx512) echo "ref avx2 avx512" ;;
    *) echo "$2" ;;
    esac
}

has_table() { TESSERA_CPU=$1 "$tessera" info >/dev/null 2>&1; }

# Sizes that neither a vector nor the ranks divide; 67 tokens are more than one block of keys, and of 8 micro-batches each of
# 4 ranks adds two.
model_config() {
    local common='"vocab_size": 261, "max_position_embeddings": 80, "rms_norm_eps": 1e-6, "hidden_act": "silu"'
    case $1 in
    llama)
        echo '{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 14, "intermediate_size": 19,
            "num_hidden_layers": 2, "num_attention_heads": 3, "num_key_value_heads": 1, "head_dim": 6,
            "rope_theta": 10000.0, "tie_word_embeddings": false,' "$common}" ;;
    mistral)
        echo '{"architectures": ["MistralForCausalLM"], "model_type": "mistral", "hidden_size": 18,
            "intermediate_size": 23, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
            "head_dim": 10, "rope_theta": 10000.0, "sliding_window": 5, "tie_word_embeddings": false,' "$common}" ;;
    qwen2)
        echo '{"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_size": 20, "intermediate_size": 31,
            "num_hidden_layers": 3, "num_attention_heads": 2, "num_key_value_heads": 2, "rope_theta": 1000.0,
            "use_sliding_window": true, "sliding_window": 4, "max_window_layers": 1, "tie_word_embeddings": true,' \
            "$common}" ;;
    qwen3)
        echo '{"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 18, "intermediate_size": 25,
            "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 14,
            "rope_theta": 1000000.0, "tie_word_embeddings": false,' "$common}" ;;
    gpt2)
        echo '{"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "vocab_size": 261, "n_embd": 15, "n_layer": 2,
            "n_head": 3, "n_positions": 80, "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5,
            "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "tie_word_embeddings": true}' ;;
    esac
}

prepare() { # MODEL
    make_text 120 >text.txt
    model_config "$1" >model.json
    cat >run.yaml <<YAML
model: {config: model.json, save_dtype: float32}
data: {files: [text.txt]}
training: {steps: 30, local_batch_size: 1, global_batch_size: 8, seq_len: $([ "$1" = llama ] && echo 67 || echo 7), threads: 1}
optimizer: {lr: 3e-3}
lr_scheduler: {warmup_steps: 5}
metrics: {log_freq: 30, enable_tensorboard: false}
validation: {enable: false}
checkpoint: {enable: false}
recovery: {enable: false}
debug: {trace: false}
YAML
}

# bits TABLE DTYPE RANKS STRATEGY RECOMPUTE: trains, where RECOMPUTE names nothing ("none"), all ("full"), or groups of a layer, and prints a record: "STEP LOSS GRAD_NORM" 30 times, "weights SHA256".
bits() {
    local replicas=-1 header mode=$5
    case $5 in none | full) ;; *) mode="selective activation_checkpoint.recompute=$5" ;; esac
    [ "$4" = hybrid ] && replicas=2
    rm -rf out
    TESSERA_CPU=$1 timeout 300 "$tessera" train run.yaml -n "$3" job.dump_folder=out \
        training.mixed_precision_param="$2" parallelism.shard_strategy="$4" \
        parallelism.data_parallel_replicate_degree=$replicas activation_checkpoint.mode=$mode >log 2>&1 </dev/null || return 1
    sed -E 's/^\{"step": ([0-9]+), "loss": ([^,]*), "grad_norm": ([^,]*),.*/\1 \2 \3/' out/metrics.jsonl
    header=$(od -An -t u8 -N 8 out/model/model.safetensors) # of the JSON before the tensors
    echo "weights $(tail -c +$((9 + header)) out/model/model.safetensors | sha256sum | cut -d ' ' -f 1)"
}

# recorded MODEL DTYPE TABLES: the record as bits prints it; "not recorded" for none.
recorded() {
    awk -v head="record $2: $3" '$0 == head { found = 1; next } /^record / { found = 0 } found && NF > 0' "$golden/$1.txt"
}
