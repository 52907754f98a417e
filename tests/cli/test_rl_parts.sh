#!/usr/bin/env bash
# Reinforcement learning of a policy whose layers are shared by ranks (tensor parallelism), divided over them (a
# pipeline), or both: journal, weights and metrics are those of one rank, and no token's log-probability differs.
source "$(dirname "$0")/support.sh"
source "$project/tests/cli/rl.sh"
tp=parallelism.tensor_parallel_degree
pp=parallelism.pipeline_parallel_degree
ep=parallelism.expert_parallel_degree

# parts NAME PLAIN N ARGUMENTS...: N ranks have the bits of the folder PLAIN.
parts() {
    local name=$1 plain=$2 n=$3
    shift 3
    rm -rf run
    rl run -n "$n" "$@" || fail "$name: $(tail -n 1 run.out)"
    same "$name" run "$plain"
    grep -qE "logprob_diff 0 \(0 of [1-9]|margin: " run.out || fail "$name: $(grep -m 1 logprob_diff run.out)"
}
# journals NAME PLAIN: the run has the journals of PLAIN, byte by byte.
journals() {
    diff -r "$2/rl" run/rl >difference 2>&1 && pass "$1: the same journals" || fail "$1: $(head -n 1 difference)"
}

# ---- Layouts ----
rl plain -n 1 || fail "one rank: $(tail -n 1 plain.out)"
parts "the query heads of one key head on 2 ranks" plain 2 $tp=2
journals "tp 2" plain
memory run
parts "3 stages" plain 3 $pp=3
journals "pp 3" plain
memory run
parts "2 stages x 2 ranks" plain 4 $pp=2 $tp=2
journals "pp 2 x tp 2" plain
memory run
order=parallelism.rank_order
parts "2 stages x 2 ranks in an order of their own" plain 4 $pp=2 $tp=2 $order=0-2:2,1-3:2
journals "pp 2 x tp 2 in an order" plain
memory run
parts "4 ranks in an order, and one that draws" plain 5 $order=0,3,1-2 rollout.ranks=1

# Eight heads with four key heads, which 3 ranks do not divide, a tied table, and four layers.
cat >heads.json <<JSON
{"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "vocab_size": 301, "hidden_size": 40,
 "intermediate_size": 53, "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 6,
 "hidden_act": "silu", "max_position_embeddings": 64, "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
 "tie_word_embeddings": true}
JSON
heads=(model.path= model.config=heads.json tokenizer.path=sft/model training.mixed_precision_param=bfloat16
    training.steps=2 validation.interval=2)
rl heads -n 1 "${heads[@]}" || fail "one rank: $(tail -n 1 heads.out)"
parts "4 key heads on 3 ranks, few pages" heads 3 "${heads[@]}" $tp=3 rollout.cache_bytes=60000 rollout.pass_tokens=7
parts "interleaved stages" heads 2 "${heads[@]}" $pp=2 parallelism.pipeline_parallel_schedule=interleaved1f1b
journals "interleaved stages" heads
parts "stages of a V x 2 ranks" heads 4 "${heads[@]}" $pp=2 $tp=2 parallelism.pipeline_parallel_schedule=zbv

# Ranks that divide the tokens of samples. A loss that grades rows by themselves, with log-probabilities computed again
# and a reference; then losses that need all rows of a sample, an adapter, and experts.
cp=parallelism.context_parallel_degree
divided=(training.context_leaves=4 training.steps=2 validation.enable=false)
rl divided -n 1 "${divided[@]}" rl.kl_beta=0.05 rl.correction=tis rl.updates=2 || fail "one rank: $(tail -n 1 divided.out)"
parts "divided samples" divided 2 "${divided[@]}" rl.kl_beta=0.05 rl.correction=tis rl.updates=2 $cp=2
journals "divided samples" divided
memory run less
parts "divided samples, 2 stages x 2, gather" divided 4 "${divided[@]}" rl.kl_beta=0.05 rl.correction=tis rl.updates=2 \
    $cp=2 $pp=2 parallelism.context_parallel_method=gather
divided+=(training.steps=1)
rl gspo -n 1 "${divided[@]}" rl.algorithm=gspo || fail "one rank: $(tail -n 1 gspo.out)"
parts "divided samples, whose loss needs all rows" gspo 4 "${divided[@]}" rl.algorithm=gspo $cp=2
adapter=("${divided[@]}" lora.rank=3 rl.kl_beta=0.05)
for n in 1 4; do
    rl adapter$n -n $n "${adapter[@]}" $([ $n = 1 ] || echo $cp=2) || fail "an adapter, $n ranks: $(tail -n 1 adapter$n.out)"
done
cmp adapter1/adapter/adapter_model.safetensors adapter4/adapter/adapter_model.safetensors &&
    diff <(numbers adapter1) <(numbers adapter4) >difference && grep -q 'logprob_diff 0 (0 of [1-9]' adapter4.out &&
    pass "divided samples, an adapter" || fail "divided samples, an adapter: $(head -n 3 difference | cut -c1-300)"

# A mixture of experts, whose routing while it draws is that of training. Ranks have copies of all experts, parts of
# each, or, while they train, some of them.
cat >experts.json <<JSON
{"model_type": "mixtral", "vocab_size": 301, "hidden_size": 42, "intermediate_size": 29, "num_hidden_layers": 4,
 "num_attention_heads": 3, "num_key_value_heads": 1, "head_dim": 14, "max_position_embeddings": 64,
 "num_local_experts": 12, "num_experts_per_tok": 2, "initializer_range": 0.2}
JSON
experts=(model.path= model.config=experts.json tokenizer.path=sft/model training.mixed_precision_param=bfloat16
    training.steps=2 validation.enable=false reward.kind=regex "reward.regex=[aeiou]" rl.kl_beta=0.05
    reference.update_interval=1 reference.ema=0.5 rl.updates=2)
rl experts -n 1 "${experts[@]}" || fail "one rank: $(tail -n 1 experts.out)"
parts "experts, 2 ranks x 2 that share the micro-batches" experts 4 "${experts[@]}" $tp=2 parallelism.shard_strategy=zero2
parts "experts, 2 stages x 2 that share the micro-batches" experts 4 "${experts[@]}" $pp=2
for layout in "4 $ep=4" "4 $ep=2 $pp=2" "4 $ep=4 $tp=2"; do
    # shellcheck disable=SC2086
    parts "experts divided over ranks: $layout" experts ${layout%% *} "${experts[@]}" ${layout#* }
    memory run less
done

# ---- Devices ----
# Streams, exchanges and pages are in memory of the device.
TESSERA_FAR_DELAYS=3:200 parts "2 stages x 2 ranks on a device apart" heads 4 "${heads[@]}" $pp=2 $tp=2 job.device=far
fake=$TESS_CUDA_FAKE
few=(training.steps=1 validation.enable=false rollout.prompts=2 rollout.n=2 rollout.max_new_tokens=5)
TESSERA_CPU=ref rl few -n 1 "${few[@]}" || fail "one rank: $(tail -n 1 few.out)"
TESSERA_CUDA=$fake/libtessera_cuda.so LD_LIBRARY_PATH=$fake TESSERA_CUBLAS=off CUDA_FAKE=devices=4 TESSERA_SHARDS=device \
    TESSERA_CPU=ref parts "2 stages x 2 ranks on what plays GPUs" few 4 "${few[@]}" $pp=2 $tp=2 job.device=cuda

TESSERA_DEVICE=far TESSERA_SHARDS=device parts "experts divided over ranks on a device apart" experts 4 "${experts[@]}" \
    $ep=4 $tp=2
few_experts=("${experts[@]}" "${few[@]}" rl.updates=1)
TESSERA_CPU=ref rl few_experts -n 1 "${few_experts[@]}" || fail "one rank: $(tail -n 1 few_experts.out)"
TESSERA_CUDA=$fake/libtessera_cuda.so LD_LIBRARY_PATH=$fake TESSERA_CUBLAS=off CUDA_FAKE=devices=4 TESSERA_SHARDS=device \
    TESSERA_CPU=ref parts "experts divided over what plays GPUs" few_experts 2 "${few_experts[@]}" $ep=2 job.device=cuda

# ---- A policy that is larger than a rank ----
cat >large.json <<JSON
{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 301, "hidden_size": 384,
 "intermediate_size": 1024, "num_hidden_layers": 8, "num_attention_heads": 6, "num_key_value_heads": 3, "head_dim": 64,
 "hidden_act": "silu", "max_position_embeddings": 64, "rms_norm_eps": 1e-6, "rope_theta": 10000.0}
JSON
large=(model.path= model.config=large.json tokenizer.path=sft/model training.threads=1 training.local_batch_size=2
    "${few[@]}")
limited() { (ulimit -d 200000 && "$@"); } # KiB of memory of its own that a process may have
if limited "$tessera" info >/dev/null 2>&1; then # a sanitizer reserves more
    limited rl short -n 1 "${large[@]}" && fail "one rank has enough memory"
    grep -q "cannot allocate" short.out && pass "one rank has too little memory" || fail "$(tail -n 1 short.out)"
    limited rl large -n 4 "${large[@]}" $pp=2 $tp=2 || fail "four ranks: $(tail -n 1 large.out)"
    grep -q "logprob_diff 0 (0 of [1-9]" large.out && pass "a policy that is larger than a rank" ||
        fail "a policy that is larger than a rank: $(grep -m 1 logprob_diff large.out)"
fi

# ---- Values of models, pairs, turns ----
scores=(rl.kl_beta=0.05 reference.update_interval=1 reference.ema=0.5 rl.updates=2 rl.correction=tis rollout.lag=1
    training.steps=4 validation.enable=false)
rl scores -n 1 "${scores[@]}" || fail "one rank: $(tail -n 1 scores.out)"
parts "a reference that follows, log-probabilities computed again" scores 4 "${scores[@]}" $pp=2 $tp=2
memory run less
values=(rl.algorithm=ppo training.steps=2 validation.enable=false)
for trunk in shared own; do
    rl values -n 1 "${values[@]}" critic.trunk=$trunk || fail "one rank: $(tail -n 1 values.out)"
    parts "values, trunk $trunk" values 2 "${values[@]}" critic.trunk=$trunk $pp=2
    memory run less # the micro-batches of values are as long as the answers, which follow from the kernels' bits
    rm -rf values
done
awk -F'"' 'NR <= 24 { split($4, p, " "); print "{\"prompt\": \"" $4 "\", \"chosen\": \"" $8 "\", \"rejected\": \"1+1\"}" }' \
    sft.jsonl >pairs.jsonl
pairs=(data.files=pairs.jsonl rl.algorithm=dpo training.steps=2 rollout.prompts=5 validation.enable=false)
rl pairs -n 1 "${pairs[@]}" || fail "one rank: $(tail -n 1 pairs.out)"
parts "pairs" pairs 4 "${pairs[@]}" $pp=2 $tp=2
experts+=(training.steps=1 rl.updates=1 reference.update_interval=0 reference.ema=0)
for kind in dpo ppo; do
    pairs=("${experts[@]}" rl.algorithm=$kind)
    [ $kind = dpo ] && pairs+=(data.files=pairs.jsonl)
    rm -rf pairs
    rl pairs -n 1 "${pairs[@]}" || fail "one rank: $(tail -n 1 pairs.out)"
    parts "$kind with experts divided over ranks" pairs 2 "${pairs[@]}" $ep=2
done
cat >world.sh <<'WORLD'
#!/bin/sh
while read -r line; do
    id=${line#*\"id\":}
    case $line in
    *\"turn\":0,*) echo "{\"id\": ${id%%,*}, \"observation\": \"=9:\"}" ;;
    *) echo "{\"id\": ${id%%,*}, \"observation\": null}" ;;
    esac
    echo >>"$1"
done
WORLD
chmod +x world.sh
turns=(rollout.max_new_tokens=14 training.seq_len=32 training.steps=1 validation.enable=false)
rl turns -n 1 "${turns[@]}" "rollout.env_command=[$work/world.sh,$work/asked1]" ||
    fail "one rank: $(tail -n 1 turns.out)"
parts "two turns" turns 4 "${turns[@]}" "rollout.env_command=[$work/world.sh,$work/asked4]" $pp=2 $tp=2
[ "$(wc -l <asked1)" = "$(wc -l <asked4)" ] && pass "the environment is asked once" ||
    fail "asked $(wc -l <asked1) times by one rank, $(wc -l <asked4) times by four"
sed -i 's/echo "{.*=9:.*/exit 3 ;;/' world.sh
expect "its failure is told" 2 "$work/world.sh" "$tessera" rl rl.yaml job.dump_folder=failed -n 4 "${turns[@]}" \
    "rollout.env_command=[$work/world.sh,$work/asked4]" $pp=2 $tp=2

# ---- Killed ----
rl cut -n 4 $pp=2 $tp=2 "fault.spec=rank=3 step=4 point=phase:backward kind=sigkill" && fail "killed: nothing was"
rl cut -n 3 $pp=3 "fault.spec=rank=1 step=5 point=phase:rollout kind=sigkill" && fail "killed: no rank that draws was"
rm -rf run
mv cut run
rl run -n 2 $tp=2 || fail "going on: $(tail -n 1 run.out)"
same "killed twice, and on in another layout" run plain
rm -rf run # its steps have 8 micro-batches, for the schedule's sake, and those of one rank have 6
rl run -n 4 "${heads[@]}" $pp=2 parallelism.pipeline_parallel_schedule=interleaved1f1b checkpoint.interval=1 \
    "fault.spec=rank=0 step=2 point=phase:backward kind=sigkill" && fail "killed: nothing was"
rl run -n 1 "${heads[@]}" || fail "going on: $(tail -n 1 run.out)"
same "killed, and on in a layout with fewer micro-batches" run heads
grep "rows until here" run.out && fail "a warning of a step's rows" || pass "a step has the rows of its samples"
parts "a rank that draws is replaced" plain 4 $pp=2 $tp=2 recovery.enable=true recovery.backoff_s=0.1 \
    "fault.spec=rank=2 step=3 point=phase:rollout kind=sigkill"
grep -q "replaced in " run.out && pass "and that is told" || fail "$(grep tessera: run.out)"

# ---- A rank that fails alone while the others wait for it in a pass ----
alone() {
    local name=$1 begin=$SECONDS
    shift
    rm -rf failed
    expect "$name fails alone, and the cause is told" 1 "drawing: an injected failure" "$tessera" rl rl.yaml \
        job.dump_folder=failed comm.timeout_s=120 "$@"
    [ $((SECONDS - begin)) -lt 60 ] && pass "at once" || fail "$name: after $((SECONDS - begin)) s"
}
alone "one of 2 ranks of a layer" -n 2 $tp=2 "fault.spec=rank=1 step=2 point=phase:rollout kind=fail"
alone "one of 2 stages x 2 ranks" -n 4 $pp=2 $tp=2 "fault.spec=rank=2 step=2 point=phase:rollout kind=fail"
alone "one of 2 stages, in an evaluation" -n 2 $pp=2 validation.interval=1 training.steps=1 \
    "fault.spec=rank=1 step=2 point=phase:rollout kind=fail"

# ---- What does not work ----
bad() { local name=$1 text=$2; shift 2; expect "$name" 2 "$text" "$tessera" rl rl.yaml job.dump_folder=bad "$@"; }
bad "ranks that only draw have the whole model" "rollout.ranks: ranks that only draw" -n 3 rollout.ranks=1 $tp=2
bad "and all experts" "and expert_parallel_degree=1" -n 3 rollout.ranks=1 $ep=2
bad "a value head is not cut" "another algorithm" -n 2 rl.algorithm=ppo critic.trunk=shared $tp=2
printf '0F0\n0F0\n' >order.csv
bad "an order of one number of micro-batches" "parallelism.pipeline_parallel_schedule_csv: its order" -n 2 $pp=2 \
    parallelism.pipeline_parallel_schedule_csv=order.csv
[ -e bad ] && fail "something was written" || pass "nothing was written"
finish
