#!/usr/bin/env bash
# model.sum_leaves: sums over the feed-forward channels are a tree that the model says, so other leaves are another model,
# and every layout of ranks gives the bits of one rank.
. "$(dirname "$0")/layouts.sh"
. "$(dirname "$0")/support.sh"
make_text 600 >text.txt
make_config run.yaml
make_model llama.json
sed -i 's/"num_attention_heads": 3, "num_key_value_heads": 1/"num_attention_heads": 6, "num_key_value_heads": 3/
    s/"intermediate_size": 53/"intermediate_size": 331/' llama.json # 11 units: leaves of 3, 3, 3 and nearly 2
cat >gpt2.json <<JSON
{"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "vocab_size": 301, "n_embd": 42, "n_inner": 200,
 "n_layer": 3, "n_head": 3, "n_positions": 64, "n_ctx": 64, "layer_norm_epsilon": 1e-5,
 "activation_function": "gelu_new", "tie_word_embeddings": true}
JSON
settings="training.threads=1 model.save_dtype=float32 training.steps=5 validation.interval=3 training.local_batch_size=1"
tp=parallelism.tensor_parallel_degree recompute=activation_checkpoint.mode=full strategy=parallelism.shard_strategy
half="model.config=llama.json training.mixed_precision_param=bfloat16"
single="model.config=llama.json training.mixed_precision_param=float32"
gpt2="model.config=gpt2.json training.mixed_precision_param=bfloat16"
four=model.sum_leaves=4 eight=model.sum_leaves=8

reference chain $half
reference half $half $four
reference single $single $four
reference gpt2 $gpt2 $eight
reference gpt2_chain $gpt2
reference other $half $eight

same "one leaf, stated" chain 1 $half model.sum_leaves=1
for pair in "half chain" "half other" "gpt2 gpt2_chain"; do
    set -- $pair
    cmp -s <(columns "$1") <(columns "$2") && fail "$1 and $2: leaves change nothing" || pass "$1 and $2 differ"
done

same "bf16, 2 ranks" half 2 $half $four
same "bf16, 4 ranks" half 4 $half $four
same "bf16, tp 2" half 2 $half $four $tp=2
same "bf16, tp 3" half 3 $half $four $tp=3
same "bf16, 4 ranks, tp 2, recompute" half 4 $half $four $tp=2 $recompute
same "bf16, recompute, 2 threads" half 1 $half $four $recompute training.threads=2
same "bf16, 4 ranks, tp 2, split backward" half 4 $half $four $tp=2 parallelism.pipeline_parallel_degree=2 \
    parallelism.pipeline_parallel_schedule=zb_h1
same "fp32, 4 ranks, zero1" single 4 $single $four $strategy=zero1
same "fp32, tp 3, recompute" single 3 $single $four $tp=3 $recompute
same "fp32, 2 ranks of 2 threads" single 2 $single $four training.threads=2
same "gpt2, 4 ranks" gpt2 4 $gpt2 $eight
same "gpt2, tp 2, recompute" gpt2 2 $gpt2 $eight $tp=2 $recompute
TESSERA_DEVICE=far TESSERA_FAR_DELAYS=3:100 same "far, tp 2" half 2 $half $four $tp=2

# ---- Leaves that are whole subtrees of each rank: partial sums are exchanged
sed 's/"intermediate_size": 331/"intermediate_size": 256/' llama.json >even.json
even="model.config=even.json training.mixed_precision_param=bfloat16 $eight"
reference even $even
same "partial sums, tp 2" even 2 $even $tp=2
same "partial sums, tp 8" even 8 $even $tp=8
same "partial sums, 8 ranks, tp 4, recompute" even 8 $even $tp=4 $recompute
same "partial sums, tp 2, the stream whole" even 4 $even $tp=2 parallelism.enable_sequence_parallel=false
same "operands, tp 3" even 3 $even $tp=3
TESSERA_DEVICE=far TESSERA_FAR_DELAYS=3:100 same "partial sums, far, tp 2" even 2 $even $tp=2

# ---- The key is part of the model
go() { "$tessera" train run.yaml job.dump_folder="$@" $settings; }
for n in 3 0 128; do
    expect "$n leaves are refused" 2 "model.sum_leaves" go bad $half model.sum_leaves=$n
done
expect "and why" 2 "must be a power of two" go bad $half model.sum_leaves=3
rm -rf out
for at in "2 2" "4 4"; do
    set -- $at
    go out -n "$1" $half $four checkpoint.interval="$2" fault.spec="rank=0 step=$(($2 + 1)) point=step kind=exit" >log 2>&1
done
expect "a run does not go on with other leaves" 2 "made with model.sum_leaves=4, now it is 8" go out $half $eight
expect "nor without" 2 "made with model.sum_leaves=4, now it is 1" go out $half
go out -n 3 $half $four $tp=3 >log 2>&1
equal out half && pass "resumed under other layouts" || fail "resumed: $(tail -n 3 log)"

expect "the folder of the model says it" 0 '"tessera_sum_leaves": 4' cat half/model/config.json
grep -q tessera_sum_leaves chain/model/config.json && fail "one leaf is told" || pass "one leaf is not worth a word"
score() { "$tessera" eval "$1" --data text.txt --dtype bfloat16 --seq-len 19 --per-token 2>/dev/null; }
cp -r half/model stripped
sed -i '/tessera_sum_leaves/d' stripped/config.json
score half/model >a && score stripped >b || fail "eval: $(tail -n 1 b)"
cmp -s a b && fail "eval does not read it" || pass "eval computes as the run did"
expect "a warm start takes the run's" 0 "5 steps in" go warm model.config= model.path=half/model \
    tokenizer.path=half/tokenizer.json model.sum_leaves=2
expect "and hands it on" 0 '"tessera_sum_leaves": 2' cat warm/model/config.json
sed 's/{/{"tessera_sum_leaves": 5, /' llama.json >five.json
expect "config.json cannot say anything" 2 "tessera_sum_leaves: a sum of 5 leaves" go bad model.config=five.json
finish
