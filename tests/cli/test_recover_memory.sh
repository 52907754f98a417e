#!/usr/bin/env bash
# A job with too little memory finds settings that fit, and computes the same.
. "$(dirname "$0")/support.sh"
make_text 300 >text.txt
make_config run.yaml
cat >model.json <<JSON
{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 301, "hidden_size": 64,
 "intermediate_size": 192, "num_hidden_layers": 12, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
 "hidden_act": "silu", "max_position_embeddings": 256, "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
 "tie_word_embeddings": true}
JSON

# A memory control group below ours, of either version.
if own=$(awk -F: '$2 ~ /(^|,)memory(,|$)/ {print $3}' /proc/self/cgroup) && [ -n "$own" ]; then
    group=/sys/fs/cgroup/memory$own/tessera-test-$$ limit=memory.limit_in_bytes peak=memory.max_usage_in_bytes
else
    group=/sys/fs/cgroup$(awk -F: '$1 == 0 {print $3}' /proc/self/cgroup)/tessera-test-$$ limit=memory.max peak=memory.peak
fi
if ! mkdir "$group" 2>/dev/null || ! [ -w "$group/$limit" ] || ! [ -r "$group/$peak" ]; then
    rmdir "$group" 2>/dev/null
    echo "SKIPPED: no right to make a memory control group here"
    exit 0
fi
trap 'rmdir "$group"; rm -rf "$work"' EXIT

# train FOLDER ARGUMENTS...: trains in the group.
train() {
    local folder=$1
    shift
    timeout 600 bash -c 'echo $$ >"$1/cgroup.procs"; shift; exec "$@"' _ "$group" \
        "$tessera" train run.yaml -n 2 job.dump_folder="$folder" training.steps=2 training.local_batch_size=8 \
        training.seq_len=256 lr_scheduler.warmup_steps=1 checkpoint.enable=false validation.enable=false \
        debug.trace=false training.threads=1 recovery.enable=true "$@" >"$folder.out" 2>&1 </dev/null
}
losses() { cut -d, -f1-3 "$1/metrics.jsonl" | tail -n 2; }

train narrow activation_checkpoint.mode=full || fail "with all activations checkpointed: $(tail -n 2 narrow.out)"
least=$(cat "$group/$peak")
train wide || fail "without a limit: $(tail -n 2 wide.out)"
echo $((least + (12 << 20))) >"$group/$limit"
train refused && fail "with $((least / 1048576 + 12)) MiB it was not refused"
if grep -q "but its control group has .* left .* It would fit with .*activation_checkpoint.mode=full" refused.out; then
    pass "with $((least / 1048576 + 12)) MiB it is refused, with the setting that fits"
else
    fail "the refusal: $(tail -n 3 refused.out)"
fi
train fitted job.ignore_memory=true || fail "with $((least / 1048576 + 12)) MiB: $(tail -n 3 fitted.out)"
grep "memory ran out" fitted.out | sed 's/^/    /'
if grep -qF "activation_checkpoint.mode=full from here on: slower, the same bits" fitted.out; then
    pass "with $((least / 1048576 + 12)) MiB it climbs to the setting that fits"
else
    fail "it did not climb: $(tail -n 3 fitted.out)"
fi
if diff <(losses wide) <(losses fitted) && cmp wide/model/model.safetensors fitted/model/model.safetensors; then
    pass "losses and weights are those of the run that had enough"
else
    fail "other losses or weights"
fi
finish
