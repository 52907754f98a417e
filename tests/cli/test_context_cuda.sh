#!/usr/bin/env bash
# Ranks that divide the tokens of rows (cp) on a GPU, with the driver that plays GPUs ($TESS_CUDA_FAKE): every method has the
# bits of one rank with the same leaves on the same kernels, and exact kernels have those of the CPU's `ref`.
. "$(dirname "$0")/layouts.sh"
. "$(dirname "$0")/support.sh"
make_text 200 >text.txt
make_config run.yaml
fake=$TESS_CUDA_FAKE
unset TESSERA_DEVICE CUDA_VISIBLE_DEVICES
export TESSERA_CUDA=$fake/libtessera_cuda.so LD_LIBRARY_PATH=$fake CUDA_FAKE=devices=2,ipc=1
# One key head; a window in one of two layers.
cat >model.json <<JSON
{"model_type": "qwen3", "vocab_size": 301, "hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 2,
 "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16, "max_position_embeddings": 512,
 "tie_word_embeddings": true, "initializer_range": 0.2, "sliding_window": 70, "use_sliding_window": true,
 "max_window_layers": 1}
JSON
cat >experts.json <<JSON
{"model_type": "mixtral", "vocab_size": 301, "hidden_size": 32, "intermediate_size": 24, "num_hidden_layers": 2,
 "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": 512,
 "num_local_experts": 4, "num_experts_per_tok": 2, "output_router_logits": true, "router_aux_loss_coef": 0.01,
 "initializer_range": 0.2}
JSON
# The kernels run on the host, so tensor cores have a layer alone.
for model in model experts; do
    sed 's/"num_hidden_layers": 2/"num_hidden_layers": 1/; s/"max_window_layers": 1/"max_window_layers": 0/' $model.json >$model-1.json
done
# No number of ranks divides the rows. In a row of 173 tokens leaves end inside of the parts of 128 keys.
settings="model.config=model.json training.threads=1 model.save_dtype=float32 training.steps=1 validation.enable=false
    training.local_batch_size=1 training.global_batch_size=2 training.seq_len=173 lr_scheduler.warmup_steps=1"
cp=parallelism.context_parallel_degree ep=parallelism.expert_parallel_degree
gather=parallelism.context_parallel_method=gather ring=parallelism.context_parallel_method=ring
leaves=training.context_leaves contiguous=parallelism.context_parallel_load_balancer=contiguous
single="training.mixed_precision_param=float32 $leaves=8" gpu=job.device=cuda
half="training.mixed_precision_param=bfloat16 model.config=model-1.json $leaves=4 training.global_batch_size=1 training.seq_len=100"

# ---- float32, by exact kernels
TESSERA_CPU=ref reference single $single job.device=cpu
export TESSERA_CUBLAS=off
same "one rank" single 1 $single $gpu
grep -q "^device cuda" log && pass "on a GPU" || fail "not on a GPU: $(head -n 5 log)"
same "ring, cp 2" single 2 $single $gpu $cp=2 $ring
grep -qE '"leaves": \{"received": [1-9]' out/metrics.jsonl && pass "leaves are counted" || fail "no leaves: $(tail -n 1 out/metrics.jsonl)"
# The last run's counters of devices are those of the plan: params, grads, optimizer, comm. "activations" have work space
# of kernels, which the plan leaves out.
as_planned() { # OPTIONS...
    local planned counted
    planned=$("$tessera" info run.yaml --json -n 2 $settings "$@" | tr -d ' \n' | grep -o '"devices":.*' | grep -o '"gib":\[[^]]*' |
        awk -F '[][,]' '{ for (i = 2; i < 7; i++) sum[i] += $i * 1048576 } END { print sum[2], sum[3], sum[4], sum[6] }')
    counted=$(grep 'memory of all devices' log | sed -E 's/activations [^,]*,//' | awk -F '[:,]' '{ for (i = 2; i < 6; i++) {
        split($i, x, " "); printf "%s ", x[2] * (x[3] == "MiB" ? 1024 : x[3] == "B" ? 1 / 1024 : 1) } }')
    awk -v planned="$planned" -v counted="$counted" 'BEGIN { n = split(planned, p, " "); split(counted, c, " ")
        for (i = 1; i <= n; i++) if (c[i] < 0.995 * p[i] || c[i] > 1.005 * p[i]) exit 1; exit n != 4 }' &&
        pass "memory as planned: $planned KiB" || fail "planned $planned KiB, counted $counted"
}
as_planned $single $gpu $cp=2 $ring
CUDA_FAKE=devices=2 same "ring, cp 4, recompute, shards of the host, GPUs that do not read each other" single 4 $single $gpu $cp=4 $ring activation_checkpoint.mode=full job.shards=host
same "gather, cp 2" single 2 $single $gpu $cp=2 $gather
as_planned $single $gpu $cp=2 $gather

# ---- bfloat16, on tensor cores: with as many leaves as ranks, a rank has a single leaf
export TESSERA_CUBLAS=own
reference half $half $contiguous $gpu
grep -q "kernels cuda-tc" log && pass "tensor cores" || fail "no tensor cores: $(head -n 5 log)"
same "tensor cores, ring, cp 4, one leaf each" half 4 $half $contiguous $gpu $cp=4 $ring
same "tensor cores, gather, cp 2" half 2 $half $contiguous $gpu $cp=2 $gather
same "tensor cores, ulysses, cp 2" half 2 $half $contiguous $gpu $cp=2
# A row of 1,100 tokens has two chunks of keys. The ring keeps the sums of the first one between calls. A chunk ends inside
# the last leaf.
sed 's/"num_attention_heads": 2/"num_attention_heads": 1/; s/512/4096/; s/"use_sliding_window": true/"use_sliding_window": false/; s/, "sliding_window": 70//' \
    model-1.json >long.json
long="$half model.config=long.json training.seq_len=1100"
reference long $long $gpu
same "tensor cores, ring, cp 2, several chunks" long 2 $long $gpu $cp=2 $ring
reference narrow $half $gpu model.config=experts-1.json
same "tensor cores, experts, ring, cp 2, ep 2" narrow 2 $half $gpu model.config=experts-1.json $cp=2 $ep=2 $ring

# ---- bfloat16, products by cuBLAS: not those of leaves, also where a rank has a single one
export TESSERA_CUBLAS=$fake/cublas/libcublasLt.so.13
reference library $half $contiguous $gpu
grep -q "kernels cuda-tc .* lt" log && pass "cuBLAS" || fail "no cuBLAS: $(head -n 5 log)"
same "cuBLAS, ring, cp 4, one leaf each" library 4 $half $contiguous $gpu $cp=4 $ring
finish
