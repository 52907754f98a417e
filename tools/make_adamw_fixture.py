#!/usr/bin/env python3
"""Writes tests/optim/adamw_torch.h: weights after each step of torch.optim.AdamW in float64. Needs torch."""
import pathlib

import torch

STEPS, LR, BETAS, EPS, DECAY = 6, 3e-3, (0.9, 0.999), 1e-8, 0.1
start = [0.5, -1.25, 3.0e-3, 40.0, -2.0e-6, 0.0, 1.0]
gradients = [[((i * 37 + s * 11) % 23 - 11) / 7 * 10.0 ** ((i + s) % 5 - 3) for i in range(len(start))] for s in range(STEPS)]
for row in gradients:
    row[6] = 0.0  # decay alone moves it

weight = torch.nn.Parameter(torch.tensor(start, dtype=torch.float64))
optimizer = torch.optim.AdamW([weight], lr=LR, betas=BETAS, eps=EPS, weight_decay=DECAY)
after = []
for row in gradients:
    weight.grad = torch.tensor(row, dtype=torch.float64)
    optimizer.step()
    after.append(weight.detach().tolist())


def table(name, rows):
    lines = ",\n".join("    {" + ", ".join(repr(x) for x in row) + "}" for row in rows)
    return f"static const double {name}[{len(rows)}][{len(start)}] = {{\n{lines},\n}};\n"


text = f"""/* Made by tools/make_adamw_fixture.py with torch.optim.AdamW in float64:
 * lr {LR}, betas {BETAS}, eps {EPS}, weight_decay {DECAY}. */
#ifndef TESS_TESTS_ADAMW_TORCH_H
#define TESS_TESTS_ADAMW_TORCH_H

enum {{ TORCH_STEPS = {STEPS}, TORCH_ELEMENTS = {len(start)} }};
static const double torch_start[{len(start)}] = {{{", ".join(repr(x) for x in start)}}};
{table("torch_gradients", gradients)}{table("torch_weights", after)}
#endif
"""
(pathlib.Path(__file__).parent.parent / "tests/optim/adamw_torch.h").write_text(text)
