#!/usr/bin/env python3
"""Has DeepSpeed write checkpoints of ZeRO stages 0 to 3, each with `expected.safetensors`: the weights (float32) and the
moments that every tensor of it must have. Needs PyTorch, DeepSpeed and safetensors; no GPU.

usage: DS_ACCELERATOR=cpu make_deepspeed_fixtures.py tests/ckpt/fixtures"""
import os
import shutil
import socket
import sys

import deepspeed
import torch
import torch.multiprocessing as mp
from deepspeed.utils import safe_get_full_fp32_param, safe_get_full_optimizer_state
from safetensors.torch import save_file

N_RANKS = 2
# folder, stage, dtype, a frozen parameter, exclude_frozen_parameters
RUNS = [("deepspeed0", 0, "fp32", False, False), ("deepspeed1", 1, "bf16", False, False),
        ("deepspeed2", 2, "fp32", True, True), ("deepspeed3", 3, "fp32", True, False)]


def value_of(index, begin, shape):
    """A weight's values, a known function of the index."""
    n = torch.Size(shape).numel()
    return (((torch.arange(n) * 7 + begin) % 251) / 256 - 0.5).reshape(shape) + index


def build(frozen):
    model = torch.nn.Sequential(torch.nn.Embedding(11, 6), torch.nn.Linear(6, 5), torch.nn.Tanh(),
                                torch.nn.Linear(5, 3, bias=False))
    with torch.no_grad():
        for i, param in enumerate(model.parameters()):
            param.copy_(value_of(i, 3 * i, param.shape) / 4)
    model[0].weight.requires_grad_(not frozen)
    return model


def save(rank, port, folder, stage, dtype, frozen, exclude):
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(N_RANKS), MASTER_ADDR="127.0.0.1",
                      MASTER_PORT=str(port))
    deepspeed.init_distributed("gloo")
    model = build(frozen)
    trained = [p for p in model.parameters() if p.requires_grad]
    engine, *_ = deepspeed.initialize(model=model, optimizer=torch.optim.AdamW(trained, lr=0.01), config={
        "train_micro_batch_size_per_gpu": 4, "bf16": {"enabled": dtype == "bf16"}, "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
        "zero_optimization": {"stage": stage, "stage3_param_persistence_threshold": 0}})
    for step in range(2):
        engine.backward(engine((torch.arange(4) + rank + 3 * step) % 11).float().square().sum())
        engine.step()
    expected = {}
    for name, param in model.named_parameters():
        if param.requires_grad and stage > 0:
            expected[f"model.{name}"] = safe_get_full_fp32_param(param)
            for key in ("exp_avg", "exp_avg_sq"):
                expected[f"optimizer.{name}.{key}"] = safe_get_full_optimizer_state(param, key)
        elif stage == 0:
            expected[f"model.{name}"] = param
            for key in ("exp_avg", "exp_avg_sq"):
                expected[f"optimizer.{name}.{key}"] = engine.optimizer.state[param][key]
        elif not exclude:
            with deepspeed.zero.GatheredParameters([param], enabled=stage == 3):
                expected[f"model.{name}"] = param.detach().float().clone()
    engine.save_checkpoint(folder, tag="global_step2", exclude_frozen_parameters=exclude)
    if rank == 0:
        save_file({key: value.detach().float().clone().contiguous() for key, value in expected.items()},
                  f"{folder}/expected.safetensors")
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def main():
    for name, *run in RUNS:
        folder = os.path.join(os.path.abspath(sys.argv[1]), name)
        shutil.rmtree(folder, ignore_errors=True)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        mp.spawn(save, args=(port, folder, *run), nprocs=N_RANKS)
        for file in os.listdir(folder):
            if file.endswith(".py"):  # DeepSpeed's own converters
                os.remove(f"{folder}/{file}")


if __name__ == "__main__":
    main()
