#!/usr/bin/env bash
# Ranks that divide the tokens of rows (cp): training.context_leaves says the tree of sums over tokens, so other leaves
# give other bits, and every layout of ranks gives the bits of one rank. No number of ranks divides the rows.
. "$(dirname "$0")/layouts.sh"
. "$(dirname "$0")/support.sh"
make_text 600 >text.txt
make_config run.yaml
make_model llama.json
sed -i 's/"num_attention_heads": 3, "num_key_value_heads": 1/"num_attention_heads": 6, "num_key_value_heads": 3/' llama.json
cat >qwen3.json <<JSON
{"model_type": "qwen3", "vocab_size": 301, "hidden_size": 42, "intermediate_size": 53, "num_hidden_layers": 3,
 "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 14, "max_position_embeddings": 64,
 "tie_word_embeddings": true, "initializer_range": 0.2, "sliding_window": 9, "use_sliding_window": true,
 "max_window_layers": 1}
JSON
cat >gpt2.json <<JSON
{"model_type": "gpt2", "vocab_size": 301, "n_embd": 42, "n_layer": 3, "n_head": 3, "n_positions": 64}
JSON
# Mixtures of experts: auxiliary losses; sinks, windows and experts in one tensor; latents and sigmoids.
cat >mixtral.json <<JSON
{"model_type": "mixtral", "vocab_size": 301, "hidden_size": 42, "intermediate_size": 29, "num_hidden_layers": 3,
 "num_attention_heads": 6, "num_key_value_heads": 3, "head_dim": 14, "max_position_embeddings": 64,
 "num_local_experts": 8, "num_experts_per_tok": 2, "output_router_logits": true, "router_aux_loss_coef": 0.01,
 "router_z_loss_coef": 0.001, "initializer_range": 0.2}
JSON
cat >oss.json <<JSON
{"model_type": "gpt_oss", "vocab_size": 301, "hidden_size": 42, "intermediate_size": 29, "num_hidden_layers": 3,
 "num_attention_heads": 6, "num_key_value_heads": 3, "head_dim": 14, "max_position_embeddings": 64, "sliding_window": 9,
 "num_local_experts": 5, "num_experts_per_tok": 2, "swiglu_limit": 0.5, "initializer_range": 0.2,
 "rope_parameters": {"rope_type": "default", "rope_theta": 1000}}
JSON
cat >latents.json <<JSON
{"model_type": "deepseek_v3", "vocab_size": 301, "hidden_size": 42, "intermediate_size": 29, "num_hidden_layers": 3,
 "num_attention_heads": 5, "num_key_value_heads": 5, "kv_lora_rank": 19, "q_lora_rank": 23, "qk_nope_head_dim": 6,
 "qk_rope_head_dim": 4, "v_head_dim": 7, "max_position_embeddings": 64, "n_routed_experts": 6, "n_group": 2,
 "topk_group": 1, "num_experts_per_tok": 2, "moe_intermediate_size": 13, "first_k_dense_replace": 1,
 "initializer_range": 0.2}
JSON
settings="training.threads=1 model.save_dtype=float32 training.steps=4 validation.interval=3 training.local_batch_size=3
    training.global_batch_size=15 training.seq_len=61"
cp=parallelism.context_parallel_degree tp=parallelism.tensor_parallel_degree pp=parallelism.pipeline_parallel_degree
ep=parallelism.expert_parallel_degree leaves=training.context_leaves
gather=parallelism.context_parallel_method=gather ring=parallelism.context_parallel_method=ring
balancer=parallelism.context_parallel_load_balancer
strategy=parallelism.shard_strategy
half="training.mixed_precision_param=bfloat16" single="training.mixed_precision_param=float32"
llama="model.config=llama.json $half $leaves=4" qwen3="model.config=qwen3.json $half $leaves=4"
gpt2="model.config=gpt2.json $single $leaves=8" apart="model.config=llama.json $half $leaves=4 $balancer=contiguous"
sed 's/"num_key_value_heads": 2/"num_key_value_heads": 1/; s/embeddings": 64/embeddings": 512/; s/window": 9/window": 150/' qwen3.json >long.json
long="model.config=long.json $half $leaves=8 training.seq_len=473 training.local_batch_size=1 training.global_batch_size=2
    training.steps=2 validation.enable=false"
reference chain model.config=llama.json $half
reference llama $llama
reference qwen3 $qwen3
reference gpt2 $gpt2
reference apart $apart
for pair in "chain llama" "chain apart" "llama apart"; do
    set -- $pair
    cmp -s "$1/model/model.safetensors" "$2/model/model.safetensors" && fail "$1 and $2: leaves change nothing" ||
        pass "$1 and $2 differ"
done

same "one leaf, stated" chain 1 model.config=llama.json $half $leaves=1
same "cp 2" llama 2 $llama $cp=2
grep -q "warning: 73 tokens without targets fill up the leaves of each micro-batch of 183: training.seq_len=128 needs none" log &&
    pass "a length without filling is named" || fail "no length: $(grep -i fill log)"
same "cp 2, 6 ranks, zero2" llama 6 $llama $cp=2 $strategy=zero2
same "cp 2, hybrid, 2 threads" llama 4 $llama $cp=2 $strategy=hybrid parallelism.data_parallel_replicate_degree=2 \
    training.threads=2
same "cp 2, tp 2, pp 2" llama 8 $llama $cp=2 $tp=2 $pp=2 parallelism.pipeline_parallel_schedule=zb_h1
same "cp 2, tp 3, the stream whole, recompute" llama 6 $llama $cp=2 $tp=3 parallelism.enable_sequence_parallel=false \
    activation_checkpoint.mode=full
same "cp 2 from the left, headtail" llama 2 $llama $cp=2 $balancer=headtail
same "gather, cp 2" llama 2 $llama $cp=2 $gather
same "gather, cp 2, tp 3, 6 ranks, recompute" llama 6 $llama $cp=2 $tp=3 $gather activation_checkpoint.mode=full
same "gather, contiguous, cp 4" apart 4 $apart $cp=4 $gather
same "gather, windows and a tied table, cp 2, tp 2, 2 threads" qwen3 4 $qwen3 $cp=2 $tp=2 $gather training.threads=2
same "gather, gpt2, cp 2, several pieces for each run" gpt2 2 $gpt2 $cp=2 $gather
same "ring, cp 2" llama 2 $llama $cp=2 $ring
same "ring, cp 2, tp 3, 6 ranks, recompute, 2 threads" llama 6 $llama $cp=2 $tp=3 $ring activation_checkpoint.mode=full \
    training.threads=2
same "ring, cp 2, pp 2, as torchtitan calls it" llama 4 $llama $cp=2 $pp=2 parallelism.context_parallel_method=alltoall
same "ring, contiguous, cp 4" apart 4 $apart $cp=4 $ring
same "ring, windows and a tied table, cp 2, tp 2" qwen3 4 $qwen3 $cp=2 $tp=2 $ring
reference long $long
same "ring, a long row with a window and 1 key head, cp 4, 2 threads" long 4 $long $cp=4 $ring training.threads=2
grep -qE '"leaves": \{"received": [1-9][0-9]*, "in_time": [0-9]+\}' out/metrics.jsonl && pass "leaves are counted" ||
    fail "no leaves: $(tail -n 1 out/metrics.jsonl)"
"$tessera" trace out --perfetto=trace.json >/dev/null 2>&1
grep -q '"for":"keys 1"' trace.json && pass "the timeline shows leaves" || fail "no leaves in $(ls -l trace.json)"
same "ring, gpt2, cp 4, 8 ranks, zero2" gpt2 8 $gpt2 $cp=4 $ring $strategy=zero2
same "contiguous, cp 4, more ranks than key heads" apart 4 $apart $cp=4
same "windows and a tied table, cp 2, 4 ranks" qwen3 4 $qwen3 $cp=2
same "windows and a tied table, cp 2, tp 2" qwen3 4 $qwen3 $cp=2 $tp=2
same "gpt2, cp 4, 8 ranks, zero1" gpt2 8 $gpt2 $cp=4 $strategy=zero1
same "gpt2, cp 2, pieces without tokens" gpt2 2 $gpt2 $cp=2
pools out | awk '$2 > $3 { off = 1 } END { exit off || NR == 0 }' && pass "no pool takes more than foretold" ||
    fail "more than foretold: $(pools out)"
TESSERA_DEVICE=far TESSERA_FAR_DELAYS=3:100 same "far, cp 2" llama 2 $llama $cp=2
TESSERA_DEVICE=far TESSERA_FAR_DELAYS=3:100 same "ring, far, cp 4" apart 4 $apart $cp=4 $ring
expect "cp in every layout" 0 "the same bits: " "$tessera" verify run.yaml --steps 1 $settings $llama -n 4 --layouts cp=2,cp=4,method=ring
grep -q "^cp            2: \([0-9]*\) of \1$" output && pass "cp has a line" || fail "no line: $(tail -n 8 output)"

# ---- Mixtures of experts: the loads and the auxiliary losses are those of one rank, too
mixtral="model.config=mixtral.json $half $leaves=8" oss="model.config=oss.json $half $leaves=4"
latents="model.config=latents.json $single $leaves=4"
reference mixtral $mixtral
reference oss $oss
reference latents $latents
same "experts, cp 2" mixtral 2 $mixtral $cp=2
same "experts, cp 2, tp 3, 6 ranks" mixtral 6 $mixtral $cp=2 $tp=3
same "experts, cp 4, ep 8, 8 ranks, recompute" mixtral 8 $mixtral $cp=4 $ep=8 activation_checkpoint.mode=full
loads() { grep -o '"expert_load": .*"aux_loss": [^,]*' "$1/metrics.jsonl"; }
cmp -s <(loads out) <(loads mixtral) && [ -n "$(loads out)" ] && pass "loads and auxiliary losses" ||
    fail "other loads: $(diff <(loads out) <(loads mixtral) | head -n 2)"
pools out | awk '$2 > $3 { off = 1 } END { exit off || NR == 0 }' && pass "experts take no more than foretold" ||
    fail "more than foretold: $(pools out)"
same "experts in one tensor, sinks, cp 2, tp 2, pp 2" oss 8 $oss $cp=2 $tp=2 $pp=2
same "experts in one tensor, sinks, gather, cp 2" oss 2 $oss $cp=2 $gather
same "latents, cp 2, ep 2, 4 ranks" latents 4 $latents $cp=2 $ep=2
same "latents, gather, cp 2, tp 2, ep 2, 2 threads" latents 4 $latents $cp=2 $tp=2 $ep=2 $gather training.threads=2
expect "experts in every layout with cp" 0 "the same bits: " "$tessera" verify run.yaml --steps 1 $settings $mixtral \
    -n 4 --layouts cp=2,pp=1,strategy=full
# 2 tokens, and 126 that fill up leaves: some experts of a layer have all tokens, the others none.
expect "experts without tokens" 0 "4 divide experts (ep)" "$tessera" verify run.yaml --steps 2 $settings $mixtral $leaves=4 \
    -n 4 $cp=2 $ep=4 training.seq_len=2 training.local_batch_size=1

# ---- Evaluation and generation: ranks divide batches and prompts
head -n 40 text.txt >few.txt
head -n 4 text.txt | sed 's|$| and the ship sailed on, and on, and on|' >prompts.txt
for model in qwen3 mixtral; do
    "$tessera" eval $model/model --data few.txt --seq-len 61 --per-token --threads 1 >want 2>log || fail "eval: $(cat log)"
    "$tessera" generate $model/model --prompts prompts.txt --jsonl --temperature 0 --max-new-tokens 4 --threads 1 >texts 2>log ||
        fail "generate: $(cat log)"
    for n in 2 4; do
        "$tessera" eval $model/model --data few.txt --seq-len 61 --per-token --threads 1 -n $n >got 2>log
        cmp -s want got && [ -s got ] && pass "$model: $n ranks evaluate" || fail "eval -n $n: $(diff want got | head -n 2) $(tail -n 1 log)"
    done
    for n in 2 3; do
        "$tessera" generate $model/model --prompts prompts.txt --jsonl --temperature 0 --max-new-tokens 4 --threads 1 -n $n >got 2>log
        cmp -s texts got && [ -s got ] && pass "$model: $n ranks generate" || fail "generate -n $n: $(diff texts got | head -n 2) $(tail -n 1 log)"
    done
done
expect "ranks that evaluate are a power of two" 2 "3 ranks: the tokens of a batch are divided among a power of two" \
    "$tessera" eval qwen3/model --data few.txt --seq-len 61 -n 3

# ---- A rank of a ring that stands still, or that is killed
expect "a ring that stands still" 1 "rank 1 has kept rank 0 waiting" "$tessera" train run.yaml -n 2 job.dump_folder=bad \
    $settings $llama $cp=2 $ring $strategy=none comm.timeout_s=3 \
    fault.spec="rank=1 step=3 point=phase:forward kind=sleep ms=600000"
grep -q "rank 1 never came to .* of team 'cp' for 'keys [0-9]*': .* 1, tag" output && pass "it names the rank and the leaf" ||
    fail "no rank or leaf: $(tail -n 3 output)"
same "killed in a ring" llama 2 $llama $cp=2 $ring recovery.enable=true recovery.backoff_s=0.01 checkpoint.interval=2 \
    fault.spec="rank=1 step=3 point=phase:backward kind=sigkill"
grep -q "replaced in .* s, going on from step" log && pass "replaced while the job ran" || fail "not replaced: $(tail -n 5 log)"

# ---- The leaves are part of the run
go() { "$tessera" train run.yaml job.dump_folder="$@"; }
rm -rf out
go out -n 2 $settings $llama $cp=2 checkpoint.interval=2 fault.spec="rank=0 step=3 point=step kind=exit" >log 2>&1
expect "a run does not go on with other leaves" 2 "made with training.context_leaves=4, now it is 8" go out $settings \
    $llama $leaves=8
expect "nor in another order" 2 "context_parallel_load_balancer=zigzag, now it is contiguous" go out $settings $apart
go out -n 3 $settings $llama >log 2>&1
equal out llama && pass "resumed without cp" || fail "resumed: $(tail -n 3 log)"

# ---- Bad input
refused() { expect "refused: $1" 2 "$1" "$tessera" train run.yaml job.dump_folder=bad $settings $llama "${@:2}"; }
refused "training.context_leaves: 3; it is a power of two" $leaves=3
refused "at least 4 with parallelism.context_parallel_degree=2 and context_parallel_load_balancer=zigzag: set it to 4" \
    -n 2 $cp=2 $leaves=2
refused "context_parallel_degree: 3; the tokens of a micro-batch are divided among a power of two of ranks" -n 3 $cp=3
refused "with 3 key heads, at most as many ranks share a layer" -n 6 $tp=6
finish
