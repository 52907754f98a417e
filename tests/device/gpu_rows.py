#!/usr/bin/env python3
"""gpu_rows.py STEP.LOG PLAN.JSON...: prints the rows of the table in src/plan/gpu/gpu_rows.c, from what the interpreter has counted.

STEP.LOG is that of tools/gpu-step, and PLAN.JSON the plan of the same step on h100-sxm (gpu_step.sh makes both). Give a log and a
plan of several models, one pair after the other; a row is taken from the first that has it.
"""
import json
import sys

# Parts of kernels' names, the longest first, and the row that launches them. `layernorm` stands for the model's kind of norm.
KERNELS = {"add_kernel": "add", "adamw": "adamw", "lookup": "embedding_forward", "exact_sum": "exact_sum", "normalize": "exact_sum",
           "row_sumsq": "row_sumsq", "add_tokens": "embedding_backward", "place_tokens": "embedding_backward",
           "clear_counts": "embedding_backward", "rank_tokens": "embedding_backward", "add_up_counts": "embedding_backward",
           "norm_forward": "layernorm_forward", "norm_backward": "layernorm_backward", "cross_entropy": "cross_entropy",
           "reduce_floats": "reduce", "convert": "convert", "tensor_stats": "attention_backward", "tensor_forward": "attention_forward",
           "tensor_backward": "attention_backward", "rope": "rope", "act_": "gemm_fused", "glu_": "gemm_fused"}
# Places of the counts in a line of the log (src/plan/gpu/launch_log.c), and what an exact quotient or root takes more.
SPECIAL, TENSOR, INSTRUCTIONS, READ, WRITTEN = 10, 15, 17, 26, 27
SPECIAL_ISSUES, WARP, MMA_FLOPS = 8, 32, 128


def row_of(kernel, rows):
    if "column" in kernel:
        name = "layernorm_backward" if "norm" in kernel else "column_sum"
    else:
        name = next((KERNELS[k] for k in sorted(KERNELS, key=len, reverse=True) if k in kernel), None)
    other = name.replace("layernorm", "rmsnorm") if name else None
    return other if other in rows and name not in rows else name


def count(log, rows):
    """Returns the sums of the launches of each row: launches, instructions, bytes, flops on tensor cores."""
    sums, unknown = {}, set()
    for line in open(log):
        w = line.split()
        if w[0] != "launch":
            continue
        name = row_of(w[1], rows)
        if name not in rows:
            unknown.add(w[1])
            continue
        s = sums.setdefault(name, [0, 0, 0, 0])
        s[0] += 1
        s[1] += float(w[INSTRUCTIONS]) + float(w[SPECIAL]) / WARP * SPECIAL_ISSUES
        s[2] += float(w[READ]) + float(w[WRITTEN])
        s[3] += float(w[TENSOR]) * MMA_FLOPS
    return sums, unknown


def main():
    if len(sys.argv) < 3 or len(sys.argv) % 2 == 0:
        sys.exit(__doc__)
    done = set()
    for log, plan in zip(sys.argv[1::2], sys.argv[2::2]):
        rows = {k["name"]: k for k in json.load(open(plan))["time"]["kernels"]}
        sums, unknown = count(log, rows)
        for name, (launches, instructions, moved, tensor) in sorted(sums.items()):
            k = rows[name]
            stated, flops = (k["gbs"] or 0) * k["ms"] * 1e6, (k["tflops"] or 0) * k["ms"] * 1e9
            if name in done:
                continue
            done.add(name)
            a_byte, a_flop = (0, instructions / flops) if tensor else (instructions / stated, 0)
            print("{TESS_ROW_%s, %.3g, %.2f, %.3g, %.3g, %.2f}," % (name, launches / k["calls"], 1 if tensor else moved / stated,
                                                                  a_byte, a_flop, tensor / flops if tensor else 0))
        for kernel in sorted(unknown):
            print("no row of the plan launches", kernel, file=sys.stderr)


main()
