#!/usr/bin/env python3
"""Predicts published runs of other programs, and prints the predictions next to what was published (docs/planning.md).

Kernels of other programs are faster or slower than ours on paper. So the first row of each group gives the speed of the
kernels: the rates and latencies of kernels in the machine's file are scaled by the factor with which that row is
predicted exactly. The other rows of the group are predictions with this factor. Links, bubbles and overlap are never fitted.

Usage: bench/plan_published.py TESSERA [WORD ...]   only groups whose name has one of the words
"""
import json
import os
import re
import subprocess
import sys
import tempfile

MACHINES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "src", "plan", "machines")
LIMIT_S = 1200  # of one plan


def llama(hidden, feed_forward, layers, heads, **more):
    return {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": hidden,
            "intermediate_size": feed_forward, "num_hidden_layers": layers, "num_attention_heads": heads,
            "num_key_value_heads": 8, "vocab_size": 128256, "max_position_embeddings": 1 << 20, "rms_norm_eps": 1e-5,
            "rope_theta": 500000.0, "tie_word_embeddings": False, "hidden_act": "silu", **more}


def gpt(hidden, layers, heads):
    """As many parameters and operations as a GPT: a gated feed-forward of 8/3, not 4 times the hidden size. Ranks that
    share layers have the joined keys and queries of our GPT-2 whole, and its learned positions are not Megatron's."""
    return {**llama(hidden, hidden * 8 // 3 // 64 * 64, layers, heads), "num_key_value_heads": heads,
            "vocab_size": 131072}


MODELS = {
    "8b": llama(4096, 14336, 32, 32),
    "70b": llama(8192, 28672, 80, 64),
    "405b": llama(16384, 53248, 126, 128),
    # Attention of Llama 8B and little else: what benchmarks of attention alone measure.
    "attention": llama(32, 32, 2, 32, head_dim=128, vocab_size=64),
    "qwen3_235b": {
        "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "hidden_size": 4096,
        "intermediate_size": 12288, "moe_intermediate_size": 1536, "num_hidden_layers": 94, "num_attention_heads": 64,
        "num_key_value_heads": 4, "head_dim": 128, "num_experts": 128, "num_experts_per_tok": 8,
        "norm_topk_prob": True, "decoder_sparse_step": 1, "mlp_only_layers": [], "vocab_size": 151936,
        "max_position_embeddings": 40960, "rms_norm_eps": 1e-6, "rope_theta": 1e6, "tie_word_embeddings": False,
        "hidden_act": "silu"},
    "deepseek_v3": {
        "architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3", "hidden_size": 7168,
        "intermediate_size": 18432, "moe_intermediate_size": 2048, "num_hidden_layers": 61, "num_attention_heads": 128,
        "num_key_value_heads": 128, "kv_lora_rank": 512, "q_lora_rank": 1536, "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64, "v_head_dim": 128, "n_routed_experts": 256, "n_shared_experts": 1, "n_group": 8,
        "topk_group": 4, "num_experts_per_tok": 8, "first_k_dense_replace": 3, "norm_topk_prob": True,
        "routed_scaling_factor": 2.5, "vocab_size": 129280, "max_position_embeddings": 163840, "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0, "tie_word_embeddings": False, "hidden_act": "silu"},
}


class Run:
    """A published run: its speed, GiB at the peak (None: not published), ranks and settings. The speed is that of a GPU
    in tokens per second, in 10^12 operations per second (Megatron-LM), or in iterations per second (attention)."""

    def __init__(self, name, model, ranks, tokens, gib, **settings):
        self.name, self.model, self.ranks, self.published, self.gib = name, model, ranks, tokens, gib
        self.settings = settings
        self.of_attention = settings.pop("of_attention", False)
        self.a_token = settings.pop("a_token", 1)  # factor from tokens to the published unit

    def words(self):
        return [f"model.config={self.model}.json"] + [f"{KEYS[k]}={v}" for k, v in self.settings.items()]


KEYS = {
    "seq": "training.seq_len", "micro": "training.local_batch_size", "batch": "training.global_batch_size",
    "dp": "parallelism.data_parallel_shard_degree", "replicas": "parallelism.data_parallel_replicate_degree",
    "tp": "parallelism.tensor_parallel_degree", "pp": "parallelism.pipeline_parallel_degree",
    "cp": "parallelism.context_parallel_degree", "ep": "parallelism.expert_parallel_degree",
    "leaves": "training.context_leaves", "method": "parallelism.context_parallel_method",
    "reduce": "training.mixed_precision_reduce",
    "order": "parallelism.context_parallel_load_balancer", "strategy": "parallelism.shard_strategy",
    "keep": "parallelism.fsdp_reshard_after_forward", "schedule": "parallelism.pipeline_parallel_schedule",
    "a_stage": "parallelism.pipeline_parallel_layers_per_stage",
    "points": "parallelism.pipeline_parallel_split_points", "recompute": "activation_checkpoint.mode",
    "parts": "activation_checkpoint.recompute",
}


def ring(n):
    return {"cp": n, "leaves": 2 * n, "method": "ring"} if n > 1 else {}


def interleaved(a_stage):
    return {"schedule": "interleaved", "a_stage": a_stage}


def split_points(layers, stages):
    """The first layer of each stage but the first, as torchtitan divides them: the first and the last have fewest."""
    at, extra, points = layers // stages, layers % stages, []
    for _ in range(stages - 1):
        points.append(f"layers.{at}")
        at += layers // stages + (extra > 0)
        extra -= extra > 0
    return ",".join(points)


# torchtitan's selective recomputation computes every second product again; nearest is that of the feed-forward.
SELECTIVE = {"recompute": "selective", "parts": "feed_forward"}


# torchtitan, the page llama3_h100_202412_torchtitan of its benchmarks, at the commit 9dec370 that the page names. A
# pipeline has as many micro-batches as stages and keeps gathered weights (its defaults): 32 rows of a rank are 8
# micro-batches of 4.
def titan(name, ranks, tokens, gib, **settings):
    return Run(name, "405b", ranks, tokens, gib, tp=8, pp=8, keep=0, recompute="full", **settings)


def titan_cp(n, tokens, gib):
    return Run(f"CP {n}", "8b", 8, tokens, gib, seq=32768 * n, micro=1, batch=8 // n, recompute="full", **ring(n))


def titan_4d(n, tokens, gib):
    return titan(f"CP {n}", 512, tokens, gib, seq=32768 * n, micro=1, batch=64 // n, points=split_points(126, 8),
                 **ring(n))


# Megatron-LM, README.md, images/model_table.png. A row has the model's operations per second of a GPU. Megatron counts
# 72 l h^2 + 12 l h s + 6 h V operations a token, attention without the mask. The page does not name micro-batches: here
# they have all rows of a replica, and one row in a pipeline. Nor does it name the stages of a rank: here each layer is
# one, because the page says that messages of the pipeline overlap.
def megatron(size, heads, hidden, layers, tp, pp, ranks, batch, tflops):
    name = f"gpt_{size}"
    MODELS[name] = gpt(hidden, layers, heads)
    a_token = 72 * layers * hidden**2 + 12 * layers * hidden * 4096 + 6 * hidden * 131072
    pipeline = interleaved(1) if pp > 1 else {}
    return Run(f"{size}, TP {tp} PP {pp}, {ranks} GPUs", name, ranks, tflops, None, seq=4096, a_token=a_token / 1e12,
               micro=batch * tp // ranks if pp == 1 else 1, batch=batch, tp=tp, pp=pp, strategy="zero2", **pipeline)


# Megatron-Bridge, the pages performance-summary and performance-summary-archive of its docs. DDP with the distributed
# optimizer: its sums of gradients run during backward, as ours do with zero2. Gradients are sent in bfloat16, but those
# of experts in float32, as ours must be.
def bridge(name, model, ranks, tokens, batch, seq=8192, micro=1, **settings):
    return Run(name, model, ranks, tokens, None, seq=seq, micro=micro, batch=batch,
               **{"strategy": "zero2", "reduce": "float32" if "ep" in settings else "bfloat16", **settings})


# ring-flash-attention, README.md, forward and backward of one layer's attention, rows of 8,192 tokens a GPU. Its
# figures are iterations per second.
def attention(name, iterations, n, **settings):
    return Run(name, "attention", max(n, 1), iterations, None, seq=8192 * n, micro=1, batch=1, of_attention=True,
               **settings)


GROUPS = [  # name, machine, products in FP8, runs
    ("torchtitan 8B, FSDP", "h100_hbm2e_96gb", False, [
        Run("8 GPUs", "8b", 8, 5762, 82.4, seq=8192, micro=2, **SELECTIVE),
        Run("128 GPUs", "8b", 128, 5605, 67.0, seq=8192, micro=2, **SELECTIVE)]),
    ("torchtitan 8B, FSDP, Float8", "h100_hbm2e_96gb", True, [
        Run("8 GPUs", "8b", 8, 8532, 76.8, seq=8192, micro=2, **SELECTIVE),
        Run("128 GPUs", "8b", 128, 8380, 61.8, seq=8192, micro=2, **SELECTIVE),
        Run("70B, TP 8, 256 GPUs", "70b", 256, 829, 71.9, seq=8192, micro=16, batch=512, tp=8, recompute="full"),
        Run("the same with AsyncTP", "70b", 256, 876, 67.6, seq=8192, micro=16, batch=512, tp=8, recompute="full")]),
    ("torchtitan 8B, context", "h100_hbm2e_96gb", True, [
        titan_cp(1, 3890, 83.9), titan_cp(2, 2540, 84.2), titan_cp(4, 1071, 84.0), titan_cp(8, 548, 84.5)]),
    ("torchtitan 405B, 512 GPUs", "h100_hbm2e_96gb", True, [
        titan("1F1B", 512, 100, 82.5, seq=8192, micro=4, batch=256, points=split_points(126, 8)),
        titan("interleaved", 512, 128, 72.7, seq=8192, micro=4, batch=256, schedule="interleaved",
              points=split_points(126, 16))]),
    ("torchtitan 405B, context", "h100_hbm2e_96gb", True, [
        titan_4d(1, 76, 75.3), titan_4d(2, 47, 75.9), titan_4d(4, 31, 77.1), titan_4d(8, 16, 84.9)]),
    ("Megatron-LM, GPT", "h100_sxm", False, [
        megatron("1.7B", 16, 2048, 24, 1, 1, 48, 192, 408.8), megatron("7.1B", 32, 4096, 30, 2, 1, 96, 192, 465.9),
        megatron("16B", 48, 6144, 32, 4, 1, 192, 192, 489.1), megatron("32B", 56, 7168, 48, 8, 1, 384, 192, 459.6),
        megatron("70B", 64, 8192, 84, 8, 2, 768, 384, 419.7), megatron("119B", 80, 10240, 92, 8, 4, 1536, 768, 420.5),
        megatron("177B", 96, 12288, 96, 8, 6, 2304, 1152, 432.8),
        megatron("314B", 128, 16384, 96, 8, 8, 3072, 1536, 474.4),
        megatron("462B", 144, 18432, 112, 8, 16, 6144, 3072, 459.9)]),
    ("Megatron-Bridge 26.04.01, H100, FP8", "h100_sxm", True, [
        bridge("70B, TP 4 PP 8, 64 GPUs", "70b", 64, 1664, 256, tp=4, pp=8, **interleaved(2)),
        bridge("405B, TP 8 CP 2 PP 8, 1,024 GPUs", "405b", 1024, 328, 1536, tp=8, pp=8, **ring(2), **interleaved(4))]),
    ("Megatron-Bridge 25.11, H100, FP8", "h100_sxm", True, [
        bridge("8B, FSDP, 8 GPUs", "8b", 8, 14451, 128, strategy="full"),
        bridge("70B, TP 4 PP 8, 64 GPUs", "70b", 64, 1602, 128, tp=4, pp=8, **interleaved(2)),
        bridge("405B, TP 8 CP 2 PP 8, 1,024 GPUs", "405b", 1024, 292, 512, tp=8, pp=8, **ring(2), **interleaved(4))]),
    ("Megatron-Bridge 26.04.01, GB300, FP8", "gb300", True, [
        bridge("70B, FSDP, 64 GPUs", "70b", 64, 5248, 256, micro=2, strategy="full"),
        bridge("70B, PP 4, 64 GPUs", "70b", 64, 4864, 256, pp=4, **interleaved(4)),
        bridge("405B, TP 4 PP 8, 256 GPUs", "405b", 256, 1024, 1536, tp=4, pp=8, **interleaved(4))]),
    ("Megatron-Bridge 26.08, GB300, MXFP8", "gb300", True, [
        bridge("Qwen3 235B, 256 GPUs", "qwen3_235b", 256, 8816, 8192, seq=4096, micro=2, pp=4, ep=32,
               **interleaved(3)),
        bridge("DeepSeek-V3, 256 GPUs", "deepseek_v3", 256, 6288, 4096, seq=4096, pp=2, ep=32, **interleaved(4))]),
    ("ring-flash-attention, batch API", "h800_sxm", False, [
        attention("one GPU", 154.7, 1),
        attention("ring", 10.4, 8, **ring(8), order="contiguous"),
        attention("zigzag ring", 17.4, 8, **ring(8))]),
    ("ring-flash-attention, varlen API", "h800_sxm", False, [
        attention("one GPU", 225.4, 1),
        attention("ring", 14.4, 8, **ring(8), order="contiguous"),
        attention("zigzag ring", 21.4, 8, **ring(8)),
        attention("llama3", 16.4, 8, **{**ring(8), "method": "gather"}, order="contiguous")]),
]


def slower(machine, factor):
    """The file of a machine whose kernels take `factor` times as long. Machines with counts of our kernels have rates of
    tensor cores, multiprocessors and caches, and latencies, besides efficiencies."""
    text = open(os.path.join(MACHINES, f"machine_{machine}.yaml")).read()
    kernels, links = text.split("\ncost:", 1)
    kernels = re.sub(r"efficiency: (\S+)", lambda m: f"efficiency: {min(1, float(m[1]) / factor):.9f}", kernels)
    kernels = re.sub(r"(mma_tflops|clock_ghz|cache_gb_per_s): (\S+)",
                     lambda m: f"{m[1]}: {float(m[2]) / factor:.9f}", kernels)
    kernels = re.sub(r"(launch_us|latency_ns): (\S+)", lambda m: f"{m[1]}: {float(m[2]) * factor:.9f}", kernels)
    # A job on racks of 72 GPUs has 64 of each, so that no group lies in two of them.
    return kernels + "\ncost:" + links.replace("reach: 72", "reach: 64")


def plan(tessera, run, machine, fp8, factor):
    with open("machine.yaml", "w") as f:
        f.write(slower(machine, factor))
    command = [tessera, "plan", *run.words(), "-n", str(run.ranks), "--machine", "machine.yaml", "--json"]
    done = subprocess.run(command + ["--fp8-products"] * fp8, capture_output=True, text=True, timeout=LIMIT_S)
    if not done.stdout.startswith("{"):
        sys.exit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return json.loads(done.stdout)


def rate(run, got):
    time = got["time"]
    if not run.of_attention:
        return time["tokens_per_s_rank"] * run.a_token
    kernels = sum(k["ms"] for k in time["kernels"] if "attention" in k["name"])
    exposed = sum(t["exposed_ms"] for t in time["teams"] if t["axis"] == "cp")
    return 2000 / (kernels + exposed)  # two layers


LEAST = .7  # of the factor: products reach the peak


def calibrate(tessera, run, machine, fp8):
    """The factor of the kernels' times with which the run is predicted, by secants of the step's time over it. If
    kernels at the peak of the machine are too slow, also a factor of all steps of the group."""
    def step_s(factor):
        return 1 / rate(run, plan(tessera, run, machine, fp8, factor))

    wanted, known = 1 / run.published, {f: step_s(f) for f in (1.0, LEAST)}
    if known[LEAST] > wanted:
        return LEAST, known[LEAST] / wanted
    a, b = LEAST, 1.0
    for _ in range(6):
        a, b = b, max(b + (wanted - known[b]) * (b - a) / (known[b] - known[a]), LEAST)
        known[b] = step_s(b)
        if abs(known[b] / wanted - 1) < 1e-3:
            break
    return b, 1


def show(tessera, group):
    name, machine, fp8, runs = group
    factor, faster = calibrate(tessera, runs[0], machine, fp8)
    of_first = f"kernels {factor:.2f}" + (f", step {1 / faster:.2f}" if faster > 1 else "")
    unseen = None  # bytes of memory that the plan does not count
    rows = []
    for run in runs:
        got = plan(tessera, run, machine, fp8, factor)
        gib, tokens = got["memory"]["bytes"] / 2**30, rate(run, got) * faster
        unseen = unseen if unseen is not None or run.gib is None else run.gib - gib
        error = of_first if run is runs[0] else f"{tokens / run.published - 1:+.0%}"
        of_memory = f"{run.gib} | {gib:.1f} | " + (f"{(gib + unseen) / run.gib - 1:+.0%}" if run is not runs[0] else
                                                  f"{unseen:+.1f} GiB") if run.gib else f"- | {gib:.1f} | -"
        rows.append((run.published, tokens))
        print(f"| {name} | {run.name} | {run.published:.5g} | {tokens:.4g} | {error} | {of_memory} |", flush=True)
    order = sorted(range(len(rows)), key=lambda i: rows[i][0]) == sorted(range(len(rows)), key=lambda i: rows[i][1])
    print(f"{name}: {'the order is right' if order else 'THE ORDER IS WRONG'}", file=sys.stderr, flush=True)


def main():
    tessera, words = os.path.abspath(sys.argv[1]), sys.argv[2:]
    print("| group | run | published | predicted | error | published GiB | counted GiB | error |")
    print("|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as work:
        os.chdir(work)
        for name, model in MODELS.items():
            with open(f"{name}.json", "w") as f:
                json.dump(model, f)
        for group in GROUPS:
            if not words or any(w.lower() in group[0].lower() for w in words):
                show(tessera, group)


if __name__ == "__main__":
    main()
