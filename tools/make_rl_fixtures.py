#!/usr/bin/env python3
"""Writes tests/rl/fixtures: losses of reinforcement learning and their gradients by torch's autograd in float64, and
advantages. Needs torch, trl and verl (any of their dependencies that an import asks for): what these two can express
is computed by them as well, and must agree to 1e-9.

Inputs are short decimals that the tests read as float32; the formulas here see those float32 values."""
import collections
import json
import pathlib
import types
from unittest import mock

import numpy as np
import torch
from torch.nn import functional as F
from trl import DPOTrainer, GRPOTrainer
from verl.trainer.ppo import core_algos, rollout_corr_helper
from verl.workers.config import ActorConfig

FOLDER = pathlib.Path(__file__).parent.parent / "tests/rl/fixtures"
VERL_REDUCTION = {"token_mean": "token-mean", "seq_mean_token_mean": "seq-mean-token-mean",
                  "seq_mean_token_sum": "seq-mean-token-sum", "constant": "seq-mean-token-sum-norm"}
TRL_LOSS = {"token_mean": "bnpo", "seq_mean_token_mean": "grpo", "constant": "dr_grpo"}


def wide(values):
    """Short decimals as the float64 of their float32."""
    return torch.tensor(np.array(values, dtype=np.float32).astype(np.float64))


def plain(x):
    if isinstance(x, torch.Tensor):
        x = x.detach().tolist()
    return [plain(y) for y in x] if isinstance(x, list) else float(f"{x:.12g}") if isinstance(x, float) else x


def close(what, a, b, tolerance=1e-9):
    a, b = torch.as_tensor(a, dtype=torch.float64), torch.as_tensor(b, dtype=torch.float64)
    worst = (a - b).abs().max().item() if a.numel() else 0
    assert worst <= tolerance * max(1, b.abs().max().item() if b.numel() else 1), (what, worst, a, b)


# ---- Policy gradients -------------------------------------------------------------------------------------------

# Responses: plain; with the output of a tool; none; one token; long. As (prompt rows, masks of the others).
SHAPES = [(2, "1111"), (1, "1100111"), (3, ""), (1, "1"), (2, "111111")]
MASK = [[0] * prompt + [int(c) for c in rest] for prompt, rest in SHAPES]
CU = [0]
for sequence in MASK:
    CU.append(CU[-1] + len(sequence))
FLAT = [m for sequence in MASK for m in sequence]
ADVANTAGES = {"sequence": [1.25, -0.75, 0.5, -2.0, 0.625], "zero": [0.0, 0.0, 1.0, 0.0, 0.0]}
# log p - log p_old: ties at 0, within and beyond the clips on both sides, beyond the dual clip
NEAR = [0, 0, 0, 0.05, -0.3, 0.4, 0.1, 0.3, 1.5, 0.7, 0.9, -0.1, 0.2, -0.5, 0, 0, 0, 0.1, 1.4, 0, 0, 0.25, -0.25, 0, 0.15, 0.6,
        -0.7]
EXTREME = [25 if v == 1.5 else -25 if v == -0.5 else 21.5 if v == 0.6 else v for v in NEAR]
assert len(NEAR) == CU[-1]


def rows(spread, advantage, seed):
    rng = np.random.default_rng(seed)
    old = np.round(-rng.exponential(1.2, CU[-1]), 3)
    logprob = np.round(old + np.array(spread), 3)
    rollout = np.round(old + rng.normal(0, 0.5, CU[-1]) * (rng.random(CU[-1]) < 0.6), 3)
    reference = np.round(logprob + rng.normal(0, 0.6, CU[-1]) * (rng.random(CU[-1]) < 0.8), 3)
    if spread is EXTREME:
        reference[4], reference[5] = logprob[4] + 3.5, logprob[5] + 30  # k3 beyond 10, and beyond its exponent
    if advantage == "token":
        by_row = np.round(rng.normal(0, 1, CU[-1]), 3)
    else:
        by_row = np.repeat(ADVANTAGES[advantage], np.diff(CU))
    entropy = np.round(rng.random(CU[-1]) * 3, 3)
    return {name: values.tolist() for name, values in
            [("logprob", logprob), ("old", old), ("rollout", rollout), ("reference", reference), ("advantage", by_row),
             ("entropy", entropy)]}


def per_sequence(x):
    return [x[CU[i]:CU[i + 1]] for i in range(len(MASK))]


def sequence_mean(x, mask):
    """The mean over each sequence's response, at each of its rows."""
    parts = [(a * m).sum() / m.sum().clamp(min=1) * torch.ones_like(a) for a, m in zip(per_sequence(x), per_sequence(mask))]
    return torch.cat(parts)


def reduce(terms, mask, reduction, constant):
    parts = [(a * m, m.sum()) for a, m in zip(per_sequence(terms), per_sequence(mask)) if m.sum() > 0]
    if reduction == "token_mean":
        return sum(a.sum() for a, _ in parts) / sum(n for _, n in parts)
    if reduction == "seq_mean_token_mean":
        return sum(a.sum() / n for a, n in parts) / len(parts)
    return sum(a.sum() for a, _ in parts) / len(parts) / (constant if reduction == "constant" else 1)


def weight(o, t, mask):
    w = (t["old"] - t["rollout"]).exp()
    low, high = o.get("correction_low", 0), o.get("correction_high", 0)
    if o.get("correction") == "tis":
        return w.clamp(low, high)
    if o.get("correction") == "icepop":
        return w * ((w >= low) & (w <= high))
    if o.get("correction") == "sequence_mask":
        s = sequence_mean(t["old"] - t["rollout"], mask).exp()
        return w * ((s >= low) & (s <= high))
    return torch.ones_like(w)


def policy_terms(o, t, mask):
    logprob, A = t["logprob"], t["advantage"]
    gap = logprob - t["old"]
    log_ratio = gap if o["kind"] != "gspo" else sequence_mean(gap, mask).detach() + logprob - logprob.detach()
    ratio = log_ratio.clamp(-20, 20).exp()
    clipped = ratio.clamp(1 - o["clip_low"], 1 + o["clip_high"])
    if o["kind"] == "reinforce":
        pg = -A * logprob
    elif o["kind"] == "cispo":
        pg = -clipped.detach() * A * logprob
    else:
        pg = torch.maximum(-ratio * A, -clipped * A)
    if o.get("dual_clip"):
        pg = torch.where(A < 0, torch.minimum(-o["dual_clip"] * A, pg), pg)
    if o.get("opsm_delta"):
        pg = pg * ~((A < 0) & (sequence_mean(-gap, mask) > o["opsm_delta"]))
    return pg * weight(o, t, mask)


def kl_terms(o, t):
    d = t["logprob"] - t["reference"]
    if o["kl"] == "k3":
        e = (-d).clamp(-20, 20)
        return (e.exp() - e - 1).clamp(-10, 10)
    return d if o["kl"] == "k1" else d * d / 2


def policy_case(name, which, o, reduction, constant=0):
    data = ROWS[which]
    mask = torch.tensor(FLAT, dtype=torch.float64)
    t = {key: wide(values) for key, values in data.items()}
    t["logprob"].requires_grad_()
    t["entropy"].requires_grad_()
    pg = reduce(policy_terms(o, t, mask), mask, reduction, constant)
    loss = pg - o.get("entropy_coef", 0) * reduce(t["entropy"], mask, reduction, constant)
    want = {"pg_loss": pg.item()}
    if o.get("kl"):
        kl = reduce(kl_terms(o, t), mask, reduction, constant)
        loss = loss + o["kl_beta"] * kl
        want["kl_loss"] = kl.item()
    loss.backward()
    gap = (t["logprob"] - t["old"]).detach()
    want |= {"loss": loss.item(), "dlogprob": t["logprob"].grad, "dentropy": t["entropy"].grad if t["entropy"].grad is not None
             else torch.zeros_like(gap), "ppo_kl": ((-gap * mask).sum() / mask.sum()).item(),
             "diff": (((t["logprob"] - t["rollout"]).abs() * mask).sum() / mask.sum()).item()}
    check_with_verl(name, t, o, reduction, constant, mask, want)
    check_with_trl(name, t, o, reduction, constant, want)
    return {"name": name, "options": o | {"reduction": reduction, "constant": constant}, "rows": which,
            "want": {key: plain(value) for key, value in want.items()}}


def padded(x):
    width = max(len(sequence) for sequence in MASK)
    return torch.stack([F.pad(a, (0, width - len(a))) for a in per_sequence(x)])


def check_with_verl(name, t, o, reduction, constant, mask, want):
    if o["kind"] == "reinforce" or o.get("opsm_delta"):
        return
    check_weight_with_verl(name, t, o, mask)
    config = ActorConfig(strategy="fsdp", rollout_n=1, ppo_micro_batch_size_per_gpu=1, clip_ratio=o["clip_low"],
                         clip_ratio_low=o["clip_low"], clip_ratio_high=o["clip_high"], clip_ratio_c=o.get("dual_clip") or 1e9,
                         loss_agg_mode=VERL_REDUCTION[reduction])
    config.global_batch_info.update({"loss_scale_factor": constant} if reduction == "constant" else {})
    logprob = t["logprob"].detach().clone().requires_grad_()
    grade = core_algos.get_policy_loss_fn({"ppo": "vanilla"}.get(o["kind"], o["kind"]))
    loss, metrics = grade(padded(t["old"]), padded(logprob), padded(t["advantage"]), padded(mask), VERL_REDUCTION[reduction],
                          config, padded(weight(o, t, mask)))
    close(name + " verl pg_loss", loss.item(), want["pg_loss"], 1e-7)
    want["clipfrac"] = metrics["actor/pg_clipfrac"]
    want["clipfrac_dual"] = metrics["actor/pg_clipfrac_lower"]
    if o.get("kl"):
        kl = core_algos.kl_penalty(padded(logprob), padded(t["reference"]), o["kl"])
        kl = core_algos.agg_loss(kl, padded(mask), VERL_REDUCTION[reduction], **config.global_batch_info)
        close(name + " verl kl_loss", kl.item(), want["kl_loss"], 1e-7)
        loss = loss + o["kl_beta"] * kl
    loss.backward()
    close(name + " verl gradient", logprob.grad, want["dlogprob"], 1e-7)
    CHECKED["verl"] += 1


def check_weight_with_verl(name, t, o, mask):
    limits = {"icepop": f"{o.get('correction_low')}_{o.get('correction_high')}", "tis": o.get("correction_high")}
    threshold = limits.get(o.get("correction"))
    if threshold is None or (o["correction"] == "tis" and o["correction_low"] > 0):
        return
    theirs, _ = rollout_corr_helper.compute_rollout_correction_weights(padded(t["old"] - t["rollout"]), padded(mask), "token",
                                                                       threshold)
    close(name + " verl weights", theirs, padded(weight(o, t, mask) * mask))
    CHECKED["verl weights"] += 1


def check_with_trl(name, t, o, reduction, constant, want):
    """trl has no clamps of log-ratios and counts empty sequences, so it gets those with tokens and moderate ratios."""
    gap = (t["logprob"] - t["old"]).abs().max().item()
    if reduction not in TRL_LOSS or o["kind"] not in ("ppo", "gspo") or o.get("dual_clip") or o.get("correction") or \
            gap > 5 or o.get("kl") not in (None, "k3"):
        return
    by_token = any(a.unique().numel() > 1 for a in per_sequence(t["advantage"]))
    if by_token and o["kind"] == "gspo":  # there the derivative is not that of the token form
        return
    keep = [i for i, m in enumerate(MASK) if sum(m) > 0]
    mask = padded(torch.tensor(FLAT, dtype=torch.float64))[keep]
    logprob = t["logprob"].detach().clone().requires_grad_()
    entropy = t["entropy"].detach()
    stub = mock.MagicMock()
    stub.top_entropy_quantile, stub.off_policy_mask_threshold = 1.0, o.get("opsm_delta")
    stub.beta, stub.get_off_policy_mask = o.get("kl_beta", 0.0), GRPOTrainer.get_off_policy_mask
    stub.importance_sampling_level = "sequence" if o["kind"] == "gspo" else "token"
    stub.loss_type, stub.epsilon_low, stub.epsilon_high = TRL_LOSS[reduction], o["clip_low"], o["clip_high"]
    stub.args.delta, stub.args.use_bias_correction_kl, stub.use_vllm = None, False, False
    stub.max_completion_length, stub.current_gradient_accumulation_steps = constant, 1
    stub._entropy_bonus_enabled = stub.aux_loss_enabled = stub.tools = False
    stub.model.training = True
    stub.accelerator.gather = lambda x: x
    stub._metrics = collections.defaultdict(lambda: collections.defaultdict(list))
    stub._get_per_token_logps_and_entropies = lambda *a, **k: (padded(logprob)[keep], padded(entropy)[keep], None)
    ids = torch.zeros(mask.shape, dtype=torch.long)
    inputs = {"prompt_ids": ids, "prompt_mask": ids, "completion_ids": ids, "completion_mask": mask,
              "advantages": padded(t["advantage"])[keep], "old_per_token_logps": padded(t["old"])[keep],
              "ref_per_token_logps": padded(t["reference"])[keep]}
    if o["kind"] == "gspo":
        inputs["advantages"] = inputs["advantages"][:, 0]
    loss = GRPOTrainer._compute_loss(stub, None, inputs)
    loss.backward()
    without_entropy = want["pg_loss"] + o.get("kl_beta", 0) * want.get("kl_loss", 0)
    close(name + " trl loss", loss.item(), without_entropy)
    close(name + " trl gradient", logprob.grad, want["dlogprob"])
    CHECKED["trl"] += 1


CHECKED = collections.Counter()
ROWS = {"near": rows(NEAR, "sequence", 1), "token": rows(NEAR, "token", 2), "zero": rows(NEAR, "zero", 3),
        "extreme": rows(EXTREME, "sequence", 4)}


def policy_cases():
    near, token, zero, extreme = ROWS
    clip = {"clip_low": 0.2, "clip_high": 0.28}
    ppo = {"kind": "ppo", **clip}
    full = {**ppo, "kl": "k3", "kl_beta": 0.02, "entropy_coef": 0.01}
    tie = {"kind": "ppo", "clip_low": 0.0, "clip_high": 0.0}
    yield policy_case("ppo, token mean", near, ppo, "token_mean")
    for reduction, constant in [("token_mean", 0), ("seq_mean_token_mean", 0), ("seq_mean_token_sum", 0), ("constant", 8)]:
        yield policy_case(f"ppo with k3 and entropy, {reduction}", near, full, reduction, constant)
    yield policy_case("ppo, token advantages", token, ppo, "seq_mean_token_mean")
    yield policy_case("ppo, every advantage 0", zero, full, "token_mean")
    yield policy_case("ppo, ratio 1 on the edge of its clips", near, tie, "token_mean")
    yield policy_case("ppo, log-ratios beyond 20", extreme, full, "token_mean")
    yield policy_case("ppo, dual clip", near, {**ppo, "dual_clip": 3.0}, "token_mean")
    yield policy_case("ppo, dual clip, log-ratios beyond 20", extreme, {**ppo, "dual_clip": 3.0}, "seq_mean_token_mean")
    for kl in ("k1", "k2", "k3"):
        yield policy_case(f"ppo with {kl} of far references", extreme, {**ppo, "kl": kl, "kl_beta": 0.5}, "token_mean")
    for reduction in ("seq_mean_token_mean", "token_mean"):
        yield policy_case(f"gspo, {reduction}", near, {"kind": "gspo", "clip_low": 3e-4, "clip_high": 4e-4}, reduction)
        yield policy_case(f"gspo, wide clips, {reduction}", near, {"kind": "gspo", **clip}, reduction)
    yield policy_case("gspo, token advantages", token, {"kind": "gspo", **clip}, "seq_mean_token_mean")
    yield policy_case("gspo with k3 and tis", near, {**full, "kind": "gspo", "correction": "tis", "correction_low": 0.5,
                                                     "correction_high": 1.5}, "constant", 8)
    yield policy_case("cispo", near, {"kind": "cispo", **clip}, "token_mean")
    yield policy_case("cispo without a lower clip", near, {"kind": "cispo", "clip_low": 1.0, "clip_high": 0.28}, "token_mean")
    yield policy_case("cispo, log-ratios beyond 20", extreme, {"kind": "cispo", **clip}, "token_mean")
    yield policy_case("reinforce", near, {"kind": "reinforce", **clip}, "token_mean")
    yield policy_case("reinforce, token advantages, k2", token, {"kind": "reinforce", **clip, "kl": "k2", "kl_beta": 0.1},
                      "seq_mean_token_sum")
    yield policy_case("ppo, tis", near, {**ppo, "correction": "tis", "correction_low": 0.0, "correction_high": 2.0}, "token_mean")
    yield policy_case("ppo, tis with both limits", near, {**ppo, "correction": "tis", "correction_low": 0.8,
                                                          "correction_high": 1.1}, "token_mean")
    yield policy_case("ppo, icepop", near, {**ppo, "correction": "icepop", "correction_low": 0.7, "correction_high": 1.3},
                      "token_mean")
    yield policy_case("ppo, sequence mask", near, {**ppo, "correction": "sequence_mask", "correction_low": 0.9,
                                                   "correction_high": 1.05}, "token_mean")
    yield policy_case("ppo, opsm", near, {**ppo, "opsm_delta": 1e-4}, "token_mean")
    yield policy_case("ppo, opsm at a delta between sequences", token, {**ppo, "opsm_delta": 0.05}, "seq_mean_token_mean")
    yield policy_case("gspo, opsm", token, {"kind": "gspo", **clip, "opsm_delta": 0.05}, "seq_mean_token_mean")


# ---- Preference pairs -------------------------------------------------------------------------------------------

def dpo_cases():
    rng = np.random.default_rng(7)
    masks = [[0, 1, 1, 1], [0, 1, 1, 0, 1], [1, 1], [0, 0], [0, 0, 1], [1, 1, 1], [1, 1], [0, 1, 1]]
    cu = np.cumsum([0] + [len(m) for m in masks]).tolist()
    mask = torch.tensor([v for m in masks for v in m], dtype=torch.float64)
    logprob = np.round(-rng.exponential(1.0, cu[-1]), 3)
    reference = np.round(logprob + rng.normal(0, 0.7, cu[-1]), 3)
    logprob[cu[2]:cu[3]], reference[cu[2]:cu[3]] = [-2, -3], [-8, -7]  # a margin of 10 against an empty side
    logprob[cu[6]:cu[8]], reference[cu[6]:cu[8]] = [-1, -2, -1, -1, -2], [-1, -2, -1, -1, -2]  # a tie
    for kind, beta, smoothing in [("sigmoid", 0.1, 0.0), ("sigmoid", 0.5, 0.1), ("sigmoid", 20.0, 0.0), ("ipo", 0.1, 0.0),
                                  ("ipo", 0.5, 0.0), ("hinge", 0.1, 0.0), ("hinge", 1.0, 0.0)]:
        x = wide(logprob.tolist()).requires_grad_()
        gap = (x - wide(reference.tolist())) * mask
        sums = torch.stack([gap[cu[i]:cu[i + 1]].sum() for i in range(len(masks))])
        n = torch.tensor([float(sum(m)) for m in masks]).clamp(min=1)
        h = (sums / n if kind == "ipo" else sums).view(-1, 2)
        h = h[:, 0] - h[:, 1]
        if kind == "sigmoid":
            losses = -F.logsigmoid(beta * h) * (1 - smoothing) - F.logsigmoid(-beta * h) * smoothing
        else:
            losses = (h - 1 / (2 * beta)) ** 2 if kind == "ipo" else torch.relu(1 - beta * h)
        losses.mean().backward()
        rewards = beta * sums.detach().view(-1, 2)
        want = {"loss": losses.mean().item(), "dlogprob": x.grad, "chosen": rewards[:, 0].mean().item(),
                "rejected": rewards[:, 1].mean().item(),
                "accuracy": (rewards[:, 0] > rewards[:, 1]).double().mean().item()}
        if smoothing == 0:
            check_dpo_with_trl(f"dpo {kind} {beta}", kind, beta, masks, cu, logprob, reference, want)
        yield {"name": f"{kind}, beta {beta}, smoothing {smoothing}", "kind": kind, "beta": beta, "label_smoothing": smoothing,
               "cu": cu, "mask": [int(v) for v in mask.tolist()], "logprob": logprob.tolist(), "reference": reference.tolist(),
               "want": {key: plain(value) for key, value in want.items()}}


def check_dpo_with_trl(name, kind, beta, masks, cu, logprob, reference, want):
    order = list(range(0, len(masks), 2)) + list(range(1, len(masks), 2))  # trl: all chosen, then all rejected
    width = max(len(m) for m in masks)
    x = wide(logprob.tolist()).requires_grad_()

    def table(values):
        return torch.stack([F.pad(values[cu[i]:cu[i + 1]], (1, width - len(masks[i]))) for i in order])

    mask = table(torch.tensor([float(v) for m in masks for v in m], dtype=torch.float64))
    stub = mock.MagicMock()
    stub.model.training, stub.aux_loss_enabled, stub.ld_alpha, stub.precompute_ref_logps = True, False, None, True
    stub.f_divergence_type, stub.beta, stub.loss_types, stub.loss_weights = "reverse_kl", beta, [kind], [1.0]
    stub.use_weighting = False
    stub.accelerator.gather_for_metrics = stub.accelerator.gather = lambda v: v
    stub._metrics = collections.defaultdict(lambda: collections.defaultdict(list))
    outputs = mock.MagicMock()
    outputs.log_probs = outputs.mean_logits = outputs.entropy = (table(x) * mask)[:, 1:]
    outputs.is_top1 = mask[:, 1:] > 0
    sums = (table(wide(reference.tolist())) * mask).sum(1)
    half = len(masks) // 2
    inputs = {"completion_mask": mask, "attention_mask": mask, "input_ids": torch.zeros(mask.shape, dtype=torch.long),
              "ref_chosen_logps": sums[:half], "ref_rejected_logps": sums[half:]}
    loss = DPOTrainer._compute_loss(stub, lambda **k: outputs, inputs, False)
    loss.backward()
    close(name + " trl loss", loss.item(), want["loss"])
    close(name + " trl gradient", x.grad, want["dlogprob"])
    for ours, theirs in [("chosen", "rewards/chosen"), ("rejected", "rewards/rejected"), ("accuracy", "rewards/accuracies")]:
        close(f"{name} trl {theirs}", stub._metrics["train"][theirs][0], want[ours], 1e-7)
    CHECKED["trl dpo"] += 1


# ---- Values -----------------------------------------------------------------------------------------------------

def value_cases():
    # within the clip, beyond it on both sides, on its edge, and the tie of both squares (1, 0, 0.75 at 0.5); masked
    value, old = [0.1, 0.9, -0.8, 0.5, 1.0, 0.3, 2.0, 0.0], [0.0, 0.0, 0.0, 0.0, 0.0, 0.3, 1.75, 0.0]
    ret, mask = [0.4, 1.5, 0.1, 0.2, 0.75, 0.3, -1.0, 0.6], [1, 1, 1, 1, 1, 1, 0, 1]
    for clip in (0.0, 0.2, 0.5):
        v = wide(value).requires_grad_()
        m = torch.tensor(mask, dtype=torch.float64)
        o, r = wide(old), wide(ret)
        squares = (v - r) ** 2, (o + (v - o).clamp(-clip, clip) - r) ** 2
        loss = (torch.max(*squares) if clip else squares[0])[m > 0].mean() / 2
        loss.backward()
        theirs = v.detach().clone().requires_grad_()
        again, clipped = core_algos.compute_value_loss(theirs[None], r[None], o[None], m[None], clip or 1e9)
        again.backward()
        close("verl value loss", again.item(), loss.item())
        off_edge = ((v - o).abs() - clip).abs() > 1e-6  # there verl's nested minimum and maximum make other halves
        close("verl value gradient", theirs.grad[off_edge], v.grad[off_edge])
        keep = m > 0
        explained = 1 - torch.var(r[keep] - v[keep]) / torch.var(r[keep])
        yield {"clip": clip, "value": value, "old": old, "ret": ret, "mask": mask,
               "want": {"loss": plain(loss.item()), "dvalue": plain(v.grad), "clipfrac": plain(clipped.item()),
                        "explained": plain(explained.item())}}


# ---- Advantages -------------------------------------------------------------------------------------------------

def advantage_cases():
    groups = {"several": ([1.0, 0.0, 0.25, 1.0, 0.5, 0.5, 0.5, -1.5, 2.0, 0.1, 0.3], [4, 3, 1, 3]),
              "equal tenths": ([0.1] * 7, [3, 3, 1])}
    for name, (rewards, sizes) in groups.items():
        index = np.repeat(np.arange(len(sizes)), sizes)
        scores, ones = torch.tensor(rewards, dtype=torch.float64)[:, None], torch.ones(len(rewards), 1, dtype=torch.float64)
        grpo, _ = core_algos.compute_grpo_outcome_advantage(scores.clone(), ones, index, 1e-9)
        dr, _ = core_algos.compute_grpo_outcome_advantage(scores.clone(), ones, index, 1e-9, norm_adv_by_std_in_grpo=False)
        rloo, _ = core_algos.compute_rloo_outcome_advantage(scores.clone(), ones, index)
        mean = torch.cat([r.mean().expand(len(r)) if len(r) > 1 else torch.zeros(1) for r in scores[:, 0].split(sizes)])
        spread = scores.std() + 1e-9 if scores.max() > scores.min() else 1.0
        yield {"name": name, "eps": 1e-9, "reward": rewards, "sizes": sizes,
               "want": {"grpo": plain(grpo[:, 0]), "dr_grpo": plain(dr[:, 0]), "rloo": plain(rloo[:, 0]),
                        "batch_std": plain((scores[:, 0] - mean) / spread)}}


def token_cases():
    rng = np.random.default_rng(11)
    width, masks = 7, [[0, 1, 1, 0, 0, 1, 1], [1] * 7, [0, 0, 0, 1, 0, 0, 0], [0, 1, 1, 1, 1, 1, 0]]
    mask = torch.tensor(masks, dtype=torch.float64)
    terminal = [1.0, 0.0, -0.5, 0.75]
    logprob, reference = (np.round(-rng.exponential(1.0, (4, width)), 3) for _ in range(2))
    value = np.round(rng.normal(0.3, 0.4, (4, width)), 3)
    kl = core_algos.kl_penalty(wide(logprob.tolist()), wide(reference.tolist()), "k1") * mask
    scores = torch.zeros_like(mask)
    for i, row in enumerate(masks):
        scores[i, max(j for j, m in enumerate(row) if m)] = terminal[i]
    rewards = core_algos.compute_rewards(scores, wide(logprob.tolist()) * mask, wide(reference.tolist()) * mask, 0.05)
    close("token rewards", rewards, scores - 0.05 * kl)
    gae, ret = core_algos.compute_gae_advantage_return(rewards, wide(value.tolist()), mask, 0.99, 0.95)
    # verl's returns-to-go forget what is behind a tool's output; here they carry it, so the tool's rows are left out
    to_go, whitened = torch.zeros_like(mask), torch.zeros_like(mask)
    dense = torch.stack([F.pad(r[m > 0], (0, width - int(m.sum()))) for r, m in zip(rewards, mask)])
    ones = torch.stack([F.pad(m[m > 0], (0, width - int(m.sum()))) for m in mask])
    advantages, returns = core_algos.compute_reinforce_plus_plus_outcome_advantage(dense, ones,
                                                                                   types.SimpleNamespace(gamma=0.9))
    to_go[mask > 0], whitened[mask > 0] = returns[ones > 0], advantages[ones > 0]
    centred = torch.tensor(terminal, dtype=torch.float64) - torch.tensor(terminal, dtype=torch.float64).mean()
    baseline, _ = core_algos.compute_reinforce_plus_plus_baseline_outcome_advantage(
        scores, mask, np.zeros(4, dtype=int))
    close("baseline", baseline, core_algos.verl_F.masked_whiten(centred[:, None] * mask, mask) * mask)
    flat = lambda x: plain(x.reshape(-1))
    return {"cu": list(range(0, 4 * width + 1, width)), "mask": [m for row in masks for m in row], "terminal": terminal,
            "logprob": logprob.reshape(-1).tolist(), "reference": reference.reshape(-1).tolist(),
            "value": value.reshape(-1).tolist(), "beta": 0.05, "gamma": 0.99, "lambda": 0.95, "gamma_to_go": 0.9,
            "want": {"reward": flat(rewards * mask), "gae_whitened": flat(gae * mask), "ret": flat(ret * mask),
                     "to_go": flat(to_go), "to_go_whitened": flat(whitened), "baseline": flat(baseline)}}


def write(name, value):
    FOLDER.mkdir(parents=True, exist_ok=True)
    if isinstance(value, list):
        text = "[\n" + ",\n".join(json.dumps(item) for item in value) + "\n]\n"
    else:
        text = json.dumps(value) + "\n"
    (FOLDER / name).write_text(text)


def main():
    write("policy.json", [{"cu": CU, "mask": FLAT, "rows": ROWS}] + list(policy_cases()))
    write("dpo.json", list(dpo_cases()))
    write("value.json", list(value_cases()))
    write("advantage.json", list(advantage_cases()))
    write("token.json", token_cases())
    print("checked with", dict(CHECKED))


if __name__ == "__main__":
    main()
