#!/usr/bin/env python3
"""Writes tests/optim/adamw_torch.h (weights after each step of torch.optim.AdamW in float64) and
tests/optim/optimizer_references.h: the same of torch.optim.Adam, SGD and Muon (whose iteration is kept from its cast to
bfloat16), and the 8-bit maps by the formulas of bitsandbytes' create_dynamic_map in float32. Needs torch 2.9 or newer."""
import pathlib

import torch

TESTS = pathlib.Path(__file__).parent.parent / "tests/optim"
STEPS, LR, BETAS, EPS, DECAY = 6, 3e-3, (0.9, 0.999), 1e-8, 0.1
start = [0.5, -1.25, 3.0e-3, 40.0, -2.0e-6, 0.0, 1.0]
gradients = [[((i * 37 + s * 11) % 23 - 11) / 7 * 10.0 ** ((i + s) % 5 - 3) for i in range(len(start))] for s in range(STEPS)]
for row in gradients:
    row[6] = 0.0  # decay alone moves it


def run(make):
    weight = torch.nn.Parameter(torch.tensor(start, dtype=torch.float64))
    optimizer = make([weight])
    after = []
    for row in gradients:
        weight.grad = torch.tensor(row, dtype=torch.float64)
        optimizer.step()
        after.append(weight.detach().tolist())
    return after


# ---- Muon ----
MUON_LR, MUON_DECAY, MUON_MOMENTUM, MUON_STEPS = 0.02, 0.1, 0.95, 3
SHAPES = ((4, 6), (6, 4), (5, 5))


def values(shape, seed):
    n = shape[0] * shape[1]
    return torch.tensor([((i * 2654435761 + seed * 40503) % 65536) / 32768 - 1 for i in range(n)], dtype=torch.float64).reshape(shape)


def muon(shape, nesterov, match_rms):
    weight, after = torch.nn.Parameter(values(shape, 1)), []
    optimizer = torch.optim.Muon([weight], lr=MUON_LR, weight_decay=MUON_DECAY, momentum=MUON_MOMENTUM, nesterov=nesterov,
                                 adjust_lr_fn="match_rms_adamw" if match_rms else "original")
    for step in range(MUON_STEPS):
        weight.grad = values(shape, 10 + step)
        optimizer.step()
        after.append(weight.detach().flatten().tolist())
    return after


torch.bfloat16 = torch.float64  # what Muon casts its iteration to


# ---- 8 bits ----
def dynamic_map(signed):
    data = []
    for i in range(7):
        bounds = torch.linspace(0.1, 1, 2 ** (i if signed else i + 1) + 1, dtype=torch.float32)
        means = (bounds[:-1] + bounds[1:]) / 2.0
        data += (10.0 ** (i - 6) * means).tolist()
        if signed:
            data += (-(10.0 ** (i - 6)) * means).tolist()
    return sorted(data + [0.0, 1.0])


def table(name, rows):
    lines = ",\n".join("    {" + ", ".join(repr(x) for x in row) + "}" for row in rows)
    return f"static const double {name}[{len(rows)}][{len(rows[0])}] = {{\n{lines},\n}};\n"


adamw = f"""/* Made by tools/make_optimizer_fixtures.py with torch.optim.AdamW in float64:
 * lr {LR}, betas {BETAS}, eps {EPS}, weight_decay {DECAY}. */
#ifndef TESS_TESTS_OPTIM_ADAMW_TORCH_H
#define TESS_TESTS_OPTIM_ADAMW_TORCH_H

enum {{ TORCH_STEPS = {STEPS}, TORCH_ELEMENTS = {len(start)} }};
static const double torch_start[{len(start)}] = {{{", ".join(repr(x) for x in start)}}};
{table("torch_gradients", gradients)}{table("torch_weights", run(lambda p: torch.optim.AdamW(p, lr=LR, betas=BETAS, eps=EPS, weight_decay=DECAY)))}
#endif
"""
(TESTS / "adamw_torch.h").write_text(adamw)

sgd = {"torch_sgd": dict(), "torch_sgd_momentum": dict(momentum=0.9), "torch_sgd_nesterov": dict(momentum=0.9, nesterov=True)}
text = f"""/* Made by tools/make_optimizer_fixtures.py. Adam and SGD: from the start and the gradients of adamw_torch.h, torch.optim in
 * float64, lr {LR}, betas {BETAS}, eps {EPS}, weight_decay {DECAY}, momentum 0.9. Muon: torch.optim.Muon in float64,
 * its iteration too, lr {MUON_LR}, weight_decay {MUON_DECAY}, momentum {MUON_MOMENTUM}. Maps: bitsandbytes' create_dynamic_map, float32. */
#ifndef TESS_TESTS_OPTIM_OPTIMIZER_REFERENCES_H
#define TESS_TESTS_OPTIM_OPTIMIZER_REFERENCES_H

"""
text += table("torch_adam", run(lambda p: torch.optim.Adam(p, lr=LR, betas=BETAS, eps=EPS, weight_decay=DECAY)))
for name, options in sgd.items():
    text += table(name, run(lambda p: torch.optim.SGD(p, lr=LR, weight_decay=DECAY, **options)))
text += f"enum {{ MUON_STEPS = {MUON_STEPS} }};\n"
for rows, columns in SHAPES:
    for nesterov, match_rms in ((True, True), (False, False)):
        name = f"muon_{rows}x{columns}_{'nesterov' if nesterov else 'plain'}"
        text += table(name, muon((rows, columns), nesterov, match_rms))
text += table("maps_8bit", [dynamic_map(True), dynamic_map(False)])
text += "\n#endif\n"
(TESTS / "optimizer_references.h").write_text(text)
