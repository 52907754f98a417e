#!/usr/bin/env python3
"""Writes tests/engine/loss_scale_torch.h: the scales of torch.amp.GradScaler over steps of which some have an infinite
gradient. Needs torch."""
import pathlib

import torch

INIT, INTERVAL, STEPS = 65536.0, 4, 48
OVERFLOWS = {0, 1, 2, 9, 15, 16, 21, 30}
weight = torch.nn.Parameter(torch.ones(1))
optimizer = torch.optim.SGD([weight], lr=0.0)
scaler = torch.amp.GradScaler("cpu", init_scale=INIT, growth_interval=INTERVAL)
scales = []
for step in range(STEPS):
    optimizer.zero_grad()
    scaler.scale((weight * (float("inf") if step in OVERFLOWS else 1.0)).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    scales.append(scaler.get_scale())
flags = ", ".join(str(int(step in OVERFLOWS)) for step in range(STEPS))
text = f"""/* Made by tools/make_loss_scale_fixture.py: torch.amp.GradScaler, whose scale begins at {INIT} and grows after {INTERVAL}
 * steps: which steps overflow, and the scale after each. */
#ifndef TESS_TESTS_TRAIN_LOSS_SCALE_TORCH_H
#define TESS_TESTS_TRAIN_LOSS_SCALE_TORCH_H

enum {{ SCALE_STEPS = {STEPS}, SCALE_INTERVAL = {INTERVAL} }};
static const double scale_begin = {INIT};
static const bool scale_overflows[SCALE_STEPS] = {{{flags}}};
static const double scale_after[SCALE_STEPS] = {{{", ".join(repr(s) for s in scales)}}};

#endif
"""
(pathlib.Path(__file__).parent.parent / "tests/engine/loss_scale_torch.h").write_text(text)
