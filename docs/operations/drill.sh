#!/usr/bin/env bash
# drill.sh [PLACE ...]: a disaster on a small run, and the way back. It trains with copies in the places (two temporary folders),
# kills the job, destroys its folder, damages one copy, and starts the same command again. Succeeds if the run goes on from the
# newest checkpoint and ends with the bits of an undisturbed run. TESSERA is the command. docs/operations/disaster.md explains it.
set -u
tessera=$(command -v "${TESSERA:-tessera}") || { echo "drill: no command tessera: set TESSERA=FILE"; exit 2; }
tessera=$(realpath "$tessera")
work=$(mktemp -d)
job=
places=()
for place in "$@"; do
    mkdir -p "$place" && places+=("$(mktemp -d "$(realpath "$place")/drill.XXXXXX")") || exit 2
done
[ ${#places[@]} -gt 0 ] || places=("$work/second" "$work/third")
trap 'rm -rf "$work" "${places[@]}"' EXIT
cd "$work" || exit 2
failed() { echo "drill: FAILED: $1"; tail -n 5 log 2>/dev/null; exit 1; }

# A text that any machine can make, and a model small enough for a minute.
awk 'BEGIN { srand(1); for (i = 0; i < 3000; i++) { for (k = 0; k < 9; k++) printf "%s ", substr("abcdefghijklmnop", 1 + int(13 * rand()), 3)
     print "" } }' >text.txt
cat >model.json <<'MODEL'
{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 301, "hidden_size": 64, "intermediate_size": 128,
 "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "hidden_act": "silu", "max_position_embeddings": 64,
 "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "tie_word_embeddings": false}
MODEL
cat >run.yaml <<'RUN'
model: {config: model.json}
data: {files: [text.txt]}
training: {seq_len: 64, local_batch_size: 2, global_batch_size: 8, steps: 400}
lr_scheduler: {warmup_steps: 5}
checkpoint: {interval: 20}
validation: {enable: false}
metrics: {enable_tensorboard: false}
RUN
copies=checkpoint.copies=$(IFS=,; echo "${places[*]}")
train() { "$tessera" train run.yaml -n 2 "$@" >>log 2>&1; }
steps() { grep -c '"loss"' out/metrics.jsonl 2>/dev/null || true; }

train job.dump_folder=undisturbed || failed "a run without a disaster"
: >log
setsid "$tessera" train run.yaml -n 2 "$copies" >>log 2>&1 &
job=$!
# Wait for copies of a checkpoint in all places, and a few more steps.
for _ in $(seq 1200); do
    n=$(grep -c 'copies of checkpoints: step .* was copied' log)
    [ "$n" -ge $((2 * ${#places[@]})) ] && break
    kill -0 $job 2>/dev/null || failed "the run ended early"
    sleep 0.05
done
kill -KILL -- -$job # all processes of the job at once
wait $job 2>/dev/null
before=$(steps)
newest=$(for place in "${places[@]}"; do "$tessera" ckpt ls "$place"; done | grep -o 'step-[0-9]*' | sort | tail -n 1)
[ -n "$newest" ] || failed "no copy"
echo "drill: killed after step ${before:-0}; the newest copy is $newest; the run's folder and one copy are destroyed"
rm -rf out
last=${places[${#places[@]} - 1]}/$newest
first=${places[0]}/$newest
# One copy of the newest checkpoint is damaged, if there is another one.
if [ "$first" != "$last" ] && [ -d "$first" ] && [ -d "$last" ]; then
    printf 'damage' | dd of="$first/rank-00000.data" bs=1 seek=32 conv=notrunc status=none
fi
: >log
begin=$(date +%s%N)
step=$((10#${newest#step-}))
train "$copies" || failed "the way back"
grep -q "resumed from step $step " log || failed "the run did not go on from step $step"
echo "drill: $(grep -o 'step [0-9]* was brought from .*' log | head -n 1)"
echo "drill: $(((${before:-0} - step) > 0 ? before - step : 0)) steps were lost; the way back and the rest took $((($(date +%s%N) - begin) / 1000000)) ms"
cmp -s out/model/model.safetensors undisturbed/model/model.safetensors || failed "the weights differ from those of an undisturbed run"
echo "drill: the weights are those of an undisturbed run, bit for bit"
