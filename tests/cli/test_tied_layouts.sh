#!/usr/bin/env bash
# Law 1 where a pipeline parts the embedding from a head with tied weights: every schedule, strategy and optimizer gives
# the loss and grad_norm columns, the evaluations and the weights of one rank. `test_tied_layouts.sh TESSERA PROJECT all`
# crosses schedules and strategies.
. "$(dirname "$0")/layouts.sh"
. "$(dirname "$0")/support.sh"
make_text 600 >text.txt
make_model llama.json true
sed -i 's/"num_hidden_layers": 3/"num_hidden_layers": 8/' llama.json
cat >gpt2.json <<JSON
{"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "vocab_size": 301, "n_embd": 42, "n_inner": 53,
 "n_layer": 6, "n_head": 3, "n_positions": 64, "n_ctx": 64, "layer_norm_epsilon": 1e-5,
 "activation_function": "gelu_new", "tie_word_embeddings": true}
JSON
make_config run.yaml
all=${3:-}

settings="training.threads=1 model.save_dtype=float32 training.steps=4 lr_scheduler.warmup_steps=1 validation.interval=3
    training.local_batch_size=1"
pp=parallelism.pipeline_parallel_degree schedule=parallelism.pipeline_parallel_schedule
tp=parallelism.tensor_parallel_degree strategy=parallelism.shard_strategy
replicas=parallelism.data_parallel_replicate_degree
units="parallelism.fsdp_unit_mixed=true parallelism.fsdp_unit_blocks"
recompute="activation_checkpoint.mode=full"
half="training.mixed_precision_param=bfloat16" single="training.mixed_precision_param=float32"
llama="model.config=llama.json" gpt2="model.config=gpt2.json"

# staged REFERENCE RANKS STAGES SCHEDULE OPTIONS...: the reference has the options of its own, of[REFERENCE], alone.
staged() {
    local reference=$1 ranks=$2 stages=$3 kind=$4
    shift 4
    same "$reference: $ranks ranks, $stages stages, $kind $*" "$reference" "$ranks" $pp="$stages" $schedule="$kind" \
        ${of[$reference]} "$@"
}

declare -A of
of[llama-bf16]="$llama $half"
of[llama-fp32]="$llama $single"
of[gpt2-bf16]="$gpt2 $half"
of[gpt2-fp32]="$gpt2 $single"
of[fp16]="$llama training.mixed_precision_param=float16"
of[muon]="$llama $half optimizer.name=muon training.max_norm=0.5"
of[adam8bit]="$gpt2 $half optimizer.name=adamw8bit training.max_value=0.01"
of[sgd]="$llama $single optimizer.name=sgd training.max_norm=0.3"
of[bf16-state]="$gpt2 $half optimizer.state_dtype=bfloat16"
of[frozen-table]="$llama $half training.freeze=model.embed_tokens"
of[frozen-layers]="$gpt2 $half training.freeze=transformer.h.[0-1],transformer.wpe"
for name in "${!of[@]}"; do reference "$name" ${of[$name]}; done
of[lora]="model.path=llama-bf16/model model.config= $half lora.rank=4"
reference lora ${of[lora]}

if [ -n "$all" ]; then
    for run in llama-bf16 llama-fp32 gpt2-bf16 gpt2-fp32; do
        for kind in gpipe 1f1b interleaved zb_h1 zbv dualpipev; do
            staged $run 2 2 $kind
            [ $kind != interleaved ] && staged $run 3 3 $kind
            staged $run 2 2 $kind $recompute
            for s in none zero1 zero2 full; do
                staged $run 4 2 $kind $strategy=$s
                staged $run 6 2 $kind $strategy=$s $units=2 parallelism.fsdp_prefetch=3
            done
            staged $run 8 2 $kind $strategy=hybrid $replicas=2
            staged $run 4 2 $kind $tp=2
            staged $run 8 2 $kind $tp=2 parallelism.enable_sequence_parallel=false
        done
    done
    for run in fp16 muon adam8bit sgd bf16-state frozen-table frozen-layers lora; do
        for kind in gpipe 1f1b interleaved zb_h1 zbv dualpipev; do
            staged $run 4 2 $kind
            staged $run 4 2 $kind $strategy=zero2
        done
    done
    finish
fi

staged llama-bf16 2 2 gpipe
staged llama-bf16 6 2 1f1b $strategy=zero1
staged llama-fp32 4 2 1f1b $units=2 parallelism.fsdp_reshard_after_forward=0
staged llama-bf16 8 2 interleaved $strategy=hybrid $replicas=2 $units=99
staged llama-fp32 4 4 zb_h1 $strategy=none
staged llama-fp32 6 3 zb_h1 $strategy=zero2 $recompute $units=2
staged llama-bf16 8 4 zbv
staged llama-fp32 2 2 interleaved parallelism.pipeline_parallel_layers_per_stage=2
staged llama-fp32 6 2 dualpipev $strategy=zero2
staged llama-bf16 8 2 1f1b $tp=2
staged gpt2-bf16 3 3 1f1b
staged gpt2-bf16 4 2 zb_h1 $strategy=zero2 $units=2
staged gpt2-fp32 2 2 dualpipev
staged gpt2-fp32 6 2 zb_h1 $tp=3 parallelism.enable_sequence_parallel=false
staged fp16 4 2 1f1b
staged muon 4 2 zb_h1 $strategy=none
staged adam8bit 4 2 1f1b
staged sgd 2 2 zbv
staged bf16-state 6 3 1f1b $strategy=zero1
staged frozen-table 4 2 zb_h1
staged frozen-layers 2 2 1f1b
staged lora 4 2 1f1b
TESSERA_DEVICE=far TESSERA_FAR_DELAYS=3:100 staged llama-bf16 4 2 zb_h1
TESSERA_DEVICE=far TESSERA_SHARDS=device staged gpt2-bf16 4 2 1f1b

mkdir state
# State on disk, and both ranks with a table lost in turn.
staged gpt2-fp32 4 2 1f1b offload.params=true offload.optimizer=true offload.folder="$work/state"
for rank in 0 1; do
    staged gpt2-bf16 2 2 1f1b recovery.enable=true "fault.spec=rank=$rank step=3 point=phase:optimizer kind=sigkill"
    staged gpt2-bf16 2 2 1f1b recovery.enable=true "fault.spec=rank=$rank step=3 point=phase:updated kind=sigkill"
done

# Saved under one layout, killed, resumed under the next.
rm -rf out
for at in "4 2 1 zbv" "1 1 2 1f1b" "3 3 3 zb_h1"; do
    set -- $at
    "$tessera" train run.yaml -n "$1" job.dump_folder=out $settings ${of[gpt2-bf16]} $pp="$2" $schedule="$4" \
        checkpoint.interval="$3" fault.spec="rank=0 step=$(($3 + 1)) point=step kind=exit" >log 2>&1
    grep -q "checkpoint" log || fail "no checkpoint of $at: $(tail -n 3 log)"
    expect "a checkpoint of $1 ranks has the table once" 0 "228 tensors" "$tessera" ckpt verify out/checkpoint
done
"$tessera" train run.yaml -n 4 job.dump_folder=out $settings ${of[gpt2-bf16]} $pp=4 >log 2>&1
equal out gpt2-bf16 && pass "resumed under four layouts" || fail "resumed: $(tail -n 3 log)"

# The plan, and the result.
expect "verify plans the table for the stage that owns it" 0 "the same bits: this layout" "$tessera" verify run.yaml -n 4 --steps 2 \
    ${of[gpt2-bf16]} $pp=2 training.local_batch_size=1 lr_scheduler.warmup_steps=1
finish
