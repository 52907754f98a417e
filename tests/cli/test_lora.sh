#!/usr/bin/env bash
# Adapters and frozen parameters: the same bits however the work was shared, stopped or disturbed; files in and out; and
# what is refused, before anything is written. (Values: tests/nn/test_lora.c. Memory: tests/plan/test_memory_need.c.)
. "$(dirname "$0")/support.sh"
make_text 200 >text.txt
make_model model.json
make_config run.yaml
"$tessera" train run.yaml job.dump_folder=base training.steps=5 validation.enable=false model.save_dtype=float32 >log 2>&1 ||
    { cat log; exit 1; }
sed 's|config: model.json|path: base/model|' run.yaml >lora.yaml
few="training.steps=10 checkpoint.interval=5 validation.enable=false model.save_dtype=float32"
lora="$few lora.rank=4 lora.alpha=8"

columns() { grep -o '"step": [0-9]*, "loss": [^,]*, "grad_norm": [^,]*' "$1/metrics.jsonl"; }

# same NAME REFERENCE WORDS...: a run in "out", whose losses and files are those of the folder REFERENCE.
same() {
    local name=$1 reference=$2 file
    shift 2
    if ! "$tessera" train "$@" job.dump_folder=out >log 2>&1; then
        fail "$name: $(tail -n 3 log)"
        return
    fi
    for file in adapter/adapter_model model/model; do
        [ -e "$reference/$file.safetensors" ] || continue
        if cmp -s <(columns out) <(columns "$reference") && cmp -s "out/$file.safetensors" "$reference/$file.safetensors"; then
            pass "$name"
        else
            fail "$name: losses or files differ"
        fi
    done
}

fresh() { rm -rf out && same "$@"; }

# ---- An adapter
f32=training.mixed_precision_param=float32
"$tessera" train lora.yaml job.dump_folder=bf16 $lora >bf16.log 2>&1 || { cat bf16.log; exit 1; }
"$tessera" train lora.yaml job.dump_folder=f32 $lora $f32 >log 2>&1 || { cat log; exit 1; }
expect "what trains is told" 0 "6.78 k parameters train (10.19%)" cat bf16.log
expect "a checkpoint has the adapter alone" 0 "126 tensors" "$tessera" ckpt verify bf16/checkpoint
fresh "2 ranks, full" bf16 -n 2 lora.yaml $lora
fresh "4 ranks, zero1" bf16 -n 4 lora.yaml $lora parallelism.shard_strategy=zero1
fresh "8 ranks, hybrid, checkpointed activations" bf16 -n 8 lora.yaml $lora parallelism.shard_strategy=hybrid \
    parallelism.data_parallel_replicate_degree=2 activation_checkpoint.mode=full
fresh "2 stages, split backward" bf16 -n 2 lora.yaml $lora parallelism.pipeline_parallel_degree=2 \
    parallelism.pipeline_parallel_schedule=zb_h1
fresh "2 ranks share layers, and the stream" bf16 -n 2 lora.yaml $lora parallelism.tensor_parallel_degree=2
fresh "4 ranks, 2 share layers, of two stages" bf16 -n 4 lora.yaml $lora parallelism.tensor_parallel_degree=2 \
    parallelism.enable_sequence_parallel=false parallelism.pipeline_parallel_degree=2
fresh "float32: 4 ranks, 2 share layers" f32 -n 4 lora.yaml $lora $f32 parallelism.tensor_parallel_degree=2 \
    parallelism.shard_strategy=zero2 activation_checkpoint.mode=full
fresh "float32: 4 ranks, none" f32 -n 4 lora.yaml $lora $f32 parallelism.shard_strategy=none
fresh "a device apart" bf16 lora.yaml $lora job.device=far
expect "weights without masters are shared out as planned" 0 "the same bits: this layout" "$tessera" verify lora.yaml -n 3 --steps 1 \
    lora.rank=4 parallelism.shard_strategy=none
rm -rf out/checkpoint/step-00000010 out/adapter
same "resumed with 3 ranks" bf16 -n 3 lora.yaml $lora

# Each optimizer treats the matrices of an adapter as matrices of layers.
optimizer() { # NAME STATE RANK: an adapter of RANK has STATE, not AdamW's moments alone; the same bits on other ranks
    local set="$lora lora.rank=$3 lora.targets=up_proj optimizer.name=$1" layout
    rm -rf "$1"
    "$tessera" train lora.yaml job.dump_folder="$1" $set >log 2>&1 || { fail "$1: $(tail -n 3 log)"; return; }
    expect "$1: the state of an adapter" 0 "up_proj.lora_A.weight.$2" grep -a -o "up_proj.lora_A.weight.$2" \
        "$1/checkpoint/step-00000010/manifest.json"
    for layout in "-n 3" "-n 2 parallelism.tensor_parallel_degree=2" "-n 2 parallelism.pipeline_parallel_degree=2"; do
        fresh "$1: $layout" "$1" lora.yaml $layout $set
    done
}
optimizer muon momentum_buffer 4
optimizer adamw8bit exp_avg_absmax 128
"$tessera" train lora.yaml job.dump_folder=original $lora lora.targets=up_proj optimizer.name=muon \
    optimizer.muon_rate=original >log 2>&1
cmp -s muon/adapter/adapter_model.safetensors original/adapter/adapter_model.safetensors &&
    fail "muon_rate changes nothing" || pass "muon: its options count"

fresh "a rank that is lost is replaced" bf16 -n 3 lora.yaml $lora recovery.enable=true \
    "fault.spec=rank=1 step=6 point=phase:shard:2 kind=sigkill"
expect "another alpha does not go on" 2 "trained with lora.alpha=8" "$tessera" train lora.yaml job.dump_folder=out $lora \
    lora.alpha=4 training.steps=11

# ---- Files
loss() { "$tessera" eval "$@" --data text.txt --dtype float32 --json | grep -o '"loss": [0-9.]*'; }
expect "an adapter merges" 0 "safetensors to hf, read again and equal" "$tessera" convert base/model merged --adapter bf16/adapter
if awk -v a="$(loss base/model --adapter bf16/adapter)" -v b="$(loss merged)" -v c="$(loss base/model)" 'BEGIN {
    split(a, x, " "); split(b, y, " "); split(c, z, " "); d = x[2] - y[2]; e = x[2] - z[2]
    exit !(d < 1e-6 && d > -1e-6 && (e > 1e-3 || e < -1e-3)) }'; then
    pass "merged, or beside its model, it gives the same loss"
else
    fail "losses: $(loss base/model --adapter bf16/adapter), merged $(loss merged), without $(loss base/model)"
fi
# A NaN in an adapter, or in weights to begin with, is named where they are read.
cp -r bf16/adapter broken
size=$(stat -c %s broken/adapter_model.safetensors)
printf '\377\377\377\377' | dd of=broken/adapter_model.safetensors bs=1 seek=$((size - 64)) conv=notrunc status=none
for command in "eval base/model --data text.txt" "convert base/model unmerged --to hf"; do
    expect "a NaN in an adapter: ${command%% *}" 0 "lora_B.weight' holds NaN or infinite values" "$tessera" $command --adapter broken
done
cp -r base/model weights
size=$(stat -c %s weights/model.safetensors)
printf '\377\377\377\377' | dd of=weights/model.safetensors bs=1 seek=$((size - 64)) conv=notrunc status=none
"$tessera" train run.yaml $few job.dump_folder=warm checkpoint.initial_load_path=weights tokenizer.path=base/model/tokenizer.json \
    >warm.out 2>&1
grep -qF "holds NaN or infinite values" warm.out && pass "a NaN in weights that a run starts from" ||
    fail "a NaN in weights that a run starts from: $(tail -n 3 warm.out)"
expect "generation with an adapter" 0 "ship" "$tessera" generate base/model --adapter bf16/adapter --prompt "the ship" \
    --max-new-tokens 4 --temperature 0
expect "a run begins with an adapter" 0 "adapter: rank 4, counted 2 times" "$tessera" train lora.yaml $few \
    lora.path=bf16/adapter job.dump_folder=next

# ---- A part of the model
freeze="training.freeze=model.embed_tokens,model.layers.[0-1]"
"$tessera" train run.yaml job.dump_folder=part $few "$freeze" >part.log 2>&1 || { cat part.log; exit 1; }
expect "frozen: what trains is told" 0 "parameters train (" cat part.log
fresh "frozen: 3 ranks, zero2" part -n 3 run.yaml $few "$freeze" parallelism.shard_strategy=zero2
fresh "frozen: 2 ranks share layers" part -n 2 run.yaml $few "$freeze" parallelism.tensor_parallel_degree=2
fresh "frozen: 2 stages" part -n 2 run.yaml $few "$freeze" parallelism.pipeline_parallel_degree=2
rm -rf out/checkpoint/step-00000010 out/model
same "frozen: resumed" part run.yaml $few "$freeze"

expect "frozen: another part does not go on" 2 "training.freeze: the checkpoint of step 10 was made with another" "$tessera" \
    train run.yaml $few job.dump_folder=out training.steps=11 training.freeze=lm_head
expect "frozen: another part, with new moments" 0 "resumed from step 10" "$tessera" train run.yaml $few job.dump_folder=out \
    training.steps=11 training.freeze=lm_head checkpoint.exclude_from_loading=optimizer
expect "frozen: and none" 0 "resumed from step 11" "$tessera" train run.yaml $few job.dump_folder=out training.steps=12 \
    checkpoint.exclude_from_loading=optimizer

# ---- Refused, with nothing written
cp -r bf16/adapter half
truncate -s 6000 half/adapter_model.safetensors
refuse() { # NAME TEXT WORDS...
    local name=$1 text=$2
    shift 2
    expect "$name" 2 "$text" "$@"
    [ ! -e bad ] || { fail "$name: something was written"; rm -rf bad; }
}
train=("$tessera" train lora.yaml job.dump_folder=bad)
refuse "an unknown target" "'c_attn' is no linear map of this model's layers: they are q_proj" "${train[@]}" lora.rank=4 \
    lora.targets=q_proj,c_attn
cp -r bf16/adapter headed
sed 's/"target_modules": *\[/&"lm_head", /' bf16/adapter/adapter_config.json >headed/adapter_config.json
for words in "train lora.yaml job.dump_folder=bad lora.path=headed" "convert base/model bad --adapter headed"; do
    refuse "an adapter of lm_head: ${words%% *}" "headed/adapter_config.json: target_modules: 'lm_head' is no linear map" \
        "$tessera" $words
    grep -qF "merged into its model with PEFT (merge_and_unload)" output && pass "and what to do" || fail "the fix: $(cat output)"
done
refuse "rank 0" "lora.rank: it is 0, which is no adapter" "${train[@]}" lora.alpha=8
refuse "dropout" "lora.dropout: 0.1; supported: 0" "${train[@]}" lora.rank=4 lora.dropout=0.1
refuse "an adapter of another model" "are not of the same model" "${train[@]}" \
    "lora.path=$project/tests/nn/fixtures/lora_qwen2"
refuse "half an adapter" "half/adapter_model.safetensors" "${train[@]}" lora.path=half
refuse "half an adapter, merged" "half/adapter_model.safetensors" "$tessera" convert base/model bad --adapter half
refuse "no adapter" "adapter_config.json: no such file" "$tessera" eval base/model --data text.txt --adapter base/model
refuse "a pattern that fits nothing" "training.freeze: 'layers.9' fits no parameter" "${train[@]}" training.freeze=layers.9
refuse "nothing trains" "training.freeze: nothing is left that trains" "${train[@]}" "training.freeze=*"
finish
