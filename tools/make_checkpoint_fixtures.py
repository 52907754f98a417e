#!/usr/bin/env python3
"""Writes tests/ckpt/fixtures/: small checkpoints as PyTorch writes them. Needs PyTorch (gloo), nothing else.

Element i of a tensor that is called NAME in its checkpoint is (7 i + the sum of the bytes of NAME) mod 251 - 125, or mod
251 in unsigned integers, or whether that is even: the tests know every value. DeepSpeed's files are laid out by this
script as DeepSpeed 0.16 lays them out (utils/zero_to_fp32.py reads them); DeepSpeed itself is not needed."""
import argparse
import collections
import math
import os
import shutil
import sys
import warnings
import zipfile

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as mp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

warnings.simplefilter("ignore")
UNSIGNED = (torch.uint8, torch.uint16, torch.uint32, torch.uint64)


def values(name, shape, dtype=torch.float32):
    n = math.prod(shape)
    i = (torch.arange(n, dtype=torch.int64) * 7 + sum(name.encode())) % 251
    if dtype == torch.bool:
        i = i % 2 == 0
    elif dtype not in UNSIGNED:
        i = i - 125
    return i.to(dtype).reshape(shape)


def fill(names):
    return {name: values(name, *rest) for name, *rest in names}


def dtypes(prefix=""):
    kinds = ["float32", "float16", "bfloat16", "float64", "int64", "int32", "int16", "int8", "uint8", "bool"]
    return {kind: values(prefix + kind, (3, 5), getattr(torch, kind)) for kind in kinds}


class Inert:
    """Python would run a command when it loads this."""

    def __reduce__(self):
        return os.system, ("touch pwned",)


def nested():
    weight = values("model.layer.weight", (4, 3))
    return {
        "model": collections.OrderedDict([("layer.weight", torch.nn.Parameter(weight)),
                                          ("layer.bias", values("model.layer.bias", (4,), torch.bfloat16))]),
        "optimizer": {
            "state": {0: {"step": torch.tensor(7.0), "exp_avg": values("optimizer.state.0.exp_avg", (4, 3))}},
            "param_groups": [{"lr": 0.125, "betas": (0.9, 0.95), "params": [0]}],
        },
        "rng": [values("rng.0", (8,), torch.uint8), "second"],
        "step": 7,
        "loss": float("nan"),
        "dtype": torch.bfloat16,
        "args": argparse.Namespace(size=torch.Size([2, 3]), name="run"),
    }


def strided():
    """Views: all of one storage, and of parts of one."""
    base = values("base", (4, 6))
    cube = values("fortran", (2, 3, 4)).permute(2, 1, 0).contiguous().permute(2, 1, 0)
    every = torch.zeros(20)
    every[1::2] = values("every", (10,))
    return {"base": base, "rows": base[1:3], "columns": base[:, 2:5], "transposed": base.t(),
            "expanded": base[0, 0].expand(3, 2), "fortran": cube, "every": every[1::2], "empty": torch.zeros(0, 4), "scalar": values("scalar", ()),
            "one": values("one", (1, 1, 3))}


def small_dtypes():
    return {"f8": torch.tensor([0.5, -1.0]).to(torch.float8_e4m3fn), "u16": values("u16", (5,), torch.uint16),
            "u64": values("u64", (2, 2), torch.uint64)}


def save_files(folder):
    os.makedirs(folder)
    torch.save(dtypes(), os.path.join(folder, "dtypes.pt"))
    torch.save(nested(), os.path.join(folder, "nested.pt"))
    torch.save(strided(), os.path.join(folder, "strided.pt"))
    torch.save(small_dtypes(), os.path.join(folder, "small_dtypes.pt"))
    torch.save({"w": values("w", (2,)), "evil": Inert()}, os.path.join(folder, "inert.pt"))
    torch.save(nested(), os.path.join(folder, "legacy.pt"), _use_new_zipfile_serialization=False)
    torch.serialization.set_crc32_options(False)
    torch.save({"w": values("w", (2,))}, os.path.join(folder, "no_crc.pt"))
    torch.serialization.set_crc32_options(True)
    with zipfile.ZipFile(os.path.join(folder, "dtypes.pt")) as source, \
            zipfile.ZipFile(os.path.join(folder, "packed.pt"), "w", zipfile.ZIP_DEFLATED) as packed:
        for name in source.namelist():
            packed.writestr(zipfile.ZipInfo(name), source.read(name), zipfile.ZIP_DEFLATED)


def save_model(folder):
    """A model of transformers' from before safetensors, in two files."""
    os.makedirs(folder)
    names = ["model.embed_tokens.weight", "lm_head.weight"]
    for i, name in enumerate(names):
        torch.save({name: values(name, (3, 2))}, os.path.join(folder, f"pytorch_model-{i + 1:05d}-of-00002.bin"))


def sharded(mesh, name, shape, placements, dtype=torch.float32):
    return distribute_tensor(values(name, shape, dtype), mesh, placements, src_data_rank=None)


def save_ranks(rank, folder):
    """Two ranks; the names of verl's FSDP checkpoints."""
    mesh = init_device_mesh("cpu", (2,))
    model = {"layers.0.weight": sharded(mesh, "model.layers.0.weight", (5, 3), [Shard(0)]),
             "layers.0.bias": sharded(mesh, "model.layers.0.bias", (4,), [Replicate()], torch.bfloat16),
             "lm_head.weight": sharded(mesh, "model.lm_head.weight", (3, 6), [Shard(1)])}
    moment = sharded(mesh, "optim.state.layers.0.weight.exp_avg", (5, 3), [Shard(0)])
    optim = {"state": {"layers.0.weight": {"exp_avg": moment, "step": torch.tensor(3.0)}},
             "param_groups": [{"lr": 0.5, "params": ["layers.0.weight"]}]}
    os.makedirs(folder, exist_ok=True)
    torch.save(model, os.path.join(folder, f"model_world_size_2_rank_{rank}.pt"))
    torch.save(optim, os.path.join(folder, f"optim_world_size_2_rank_{rank}.pt"))


def save_grid(rank, folder):
    """Four ranks, 2 x 2: FSDP over tensor parallel on one dimension, and on two."""
    from torch.distributed.tensor.placement_types import _StridedShard
    mesh = init_device_mesh("cpu", (2, 2))
    whole = values("strided", (8, 3))
    row = 4 * (rank % 2) + 2 * (rank // 2)
    strided = DTensor.from_local(whole[row:row + 2].clone(), mesh, [_StridedShard(0, split_factor=2), Shard(0)],
                                 run_check=False, shape=whole.shape, stride=whole.stride())
    os.makedirs(folder, exist_ok=True)
    torch.save({"strided": strided, "both": sharded(mesh, "both", (5, 3), [Shard(0), Shard(1)]),
                "twice": sharded(mesh, "twice", (7, 2), [Shard(0), Shard(0)]),
                "half": sharded(mesh, "half", (3, 2), [Replicate(), Shard(0)])},
               os.path.join(folder, f"grid_rank{rank}.pt"))


def save_sharded_tensor(rank, folder):
    from torch.distributed._shard import sharded_tensor
    from torch.distributed._shard.sharding_spec import ChunkShardingSpec
    tensor = sharded_tensor.zeros(ChunkShardingSpec(dim=0, placements=["rank:0/cpu", "rank:1/cpu"]), 5, 3)
    for shard in tensor.local_shards():
        begin = shard.metadata.shard_offsets[0]
        shard.tensor.copy_(values("w", (5, 3))[begin:begin + shard.tensor.shape[0]])
    os.makedirs(folder, exist_ok=True)
    torch.save({"w": tensor}, os.path.join(folder, f"shard_rank_{rank}.pt"))


def dcp_state(mesh):
    """torchtitan's keys: the model's at the top, the optimizer's flat; rows that do not divide."""
    state = {name: sharded(mesh, name, shape, [Shard(0)], dtype) for name, shape, dtype in [
        ("tok.weight", (5, 3), torch.float32), ("norm.weight", (2,), torch.bfloat16), ("half", (7, 2), torch.float16),
        ("double", (4, 2), torch.float64)]}
    state["output.weight"] = sharded(mesh, "output.weight", (3, 6), [Shard(1)])
    state["replicated"] = sharded(mesh, "replicated", (3,), [Replicate()])
    for moment in ("exp_avg", "exp_avg_sq"):
        name = f"state.tok.weight.{moment}"
        state.setdefault("optimizer", {})[name] = sharded(mesh, "optimizer." + name, (5, 3), [Shard(0)])
    state["optimizer"]["state.tok.weight.step"] = torch.tensor(100.0)
    state["optimizer"]["param_groups.tok.weight.lr"] = 0.25
    state["train_state"] = {"step": torch.tensor(100, dtype=torch.int32), "note": "text", "list": [1, [2, 3]]}
    state["ids"] = values("ids", (4,), torch.int64)
    return state


def save_dcp(rank, folder):
    dcp.save(dcp_state(init_device_mesh("cpu", (dist.get_world_size(),))), checkpoint_id=folder)


def save_megatron(rank, folder):
    step = os.path.join(folder, "iter_0000100")
    mesh = init_device_mesh("cpu", (2,))
    state = {"model": {"embedding.weight": sharded(mesh, "model.embedding.weight", (5, 2), [Shard(0)])}, "note": "x"}
    dcp.save(state, checkpoint_id=step)
    if rank == 0:
        torch.save({"iteration": 100, "args": argparse.Namespace(num_layers=2), "checkpoint_version": 3.0},
                   os.path.join(step, "common.pt"))
        with open(os.path.join(folder, "latest_checkpointed_iteration.txt"), "w") as pointer:
            pointer.write("100")


def run_rank(rank, n, port, function, folder):
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=n)
    function(rank, folder)
    dist.barrier()
    dist.destroy_process_group()


def with_ranks(n, function, folder):
    mp.spawn(run_rank, args=(n, 29700 + os.getpid() % 1000, function, folder), nprocs=n)


# ---- DeepSpeed -------------------------------------------------------------------------------------------------------
GROUPS = [[("embed.weight", (5, 3)), ("norm.weight", (3,))], [("lm_head.weight", (4, 2))]]
SHAPES = [collections.OrderedDict((n, torch.Size(s)) for n, s in group) for group in GROUPS]
KINDS = ["model.{}", "optimizer.{}.exp_avg", "optimizer.{}.exp_avg_sq"]


def module_state(partitioned):
    module = {name: (torch.zeros(0) if partitioned else values("model." + name, shape)).to(torch.bfloat16)
              for group in GROUPS for name, shape in group}
    module["rotary.inv_freq"] = values("model.rotary.inv_freq", (3,))
    module["frozen.weight"] = torch.zeros(0) if partitioned else values("model.frozen.weight", (2, 3))
    return module


def model_file(stage, n, rank):
    frozen = values("model.frozen.weight", (2, 3))
    flat = frozen.flatten()
    part = -(-flat.numel() // n)
    piece = torch.nn.functional.pad(flat, (0, part * n - flat.numel()))[rank * part:(rank + 1) * part].clone()
    return {"module": module_state(stage == 3), "buffer_names": ["rotary.inv_freq"], "optimizer": None,
            "param_shapes": SHAPES, "frozen_param_shapes": collections.OrderedDict([("frozen.weight", frozen.shape)]),
            "frozen_param_fragments": {"frozen.weight": piece if stage == 3 else frozen},
            "shared_params": {"tied.weight": "embed.weight"}, "ds_version": "0.16.2", "ds_config": {"zero": stage},
            "dp_world_size": n, "mp_world_size": 1, "global_steps": 12, "lr_scheduler": None}


def group_flat(kind, group, n):
    """ZeRO-1 and 2: a group's parameters one after the other, filled up to a multiple of 2 n."""
    flat = torch.cat([values(kind.format(name), shape).flatten() for name, shape in group])
    return torch.nn.functional.pad(flat, (0, -flat.numel() % (2 * n)))


def flat_part(kind, group, n, rank, lean):
    flat = group_flat(kind, group, n)
    size, wanted = flat.numel() // n, sum(math.prod(shape) for _, shape in group)
    end = min((rank + 1) * size, wanted) if lean else (rank + 1) * size
    return flat[rank * size:end].clone()


def param_part(kind, group, n, rank):
    """ZeRO-3: every parameter cut in n parts of equal size, this rank's one after the other."""
    parts = []
    for name, shape in group:
        flat = values(kind.format(name), shape).flatten()
        size = -(-flat.numel() // n)
        parts.append(torch.nn.functional.pad(flat, (0, size * n - flat.numel()))[rank * size:(rank + 1) * size])
    return torch.cat(parts)


def optim_file(stage, n, rank, elastic):
    if stage == 3:
        flats = [[param_part(kind, group, n, rank) for group in GROUPS] for kind in KINDS]
    else:
        flats = [[flat_part(kind, group, n, rank, elastic) for group in GROUPS] for kind in KINDS]
    state = [{"step": torch.tensor(12.0), "exp_avg": m, "exp_avg_sq": v} for m, v in zip(flats[1], flats[2])]
    adam = {"state": dict(enumerate(state)), "param_groups": [{"lr": 0.5, "params": [i]} for i in range(len(GROUPS))]}
    inner = {"loss_scaler": None, "dynamic_loss_scale": False, "overflow": False, "zero_stage": stage,
             "partition_count": n if stage == 3 else [n] * len(GROUPS), "ds_version": "0.16.2"}
    if stage == 3:
        inner.update(optimizer_state_dict=adam, fp32_flat_groups=flats[0])
    else:
        inner.update(base_optimizer_state=state if elastic else adam, single_partition_of_fp32_groups=flats[0],
                     group_paddings=[0] * len(GROUPS), clip_grad=1.0)
    return {"optimizer_state_dict": inner, "ds_config": {"zero": stage}, "ds_version": "0.16.2"}


def save_deepspeed(folder, stage, n, elastic=False, prefix=""):
    step = os.path.join(folder, "global_step12")
    os.makedirs(step)
    for rank in range(n):
        torch.save(optim_file(stage, n, rank, elastic),
                   os.path.join(step, f"{prefix}zero_pp_rank_{rank}_mp_rank_00_optim_states.pt"))
        if stage == 3:
            torch.save(model_file(stage, n, rank),
                       os.path.join(step, f"zero_pp_rank_{rank}_mp_rank_00_model_states.pt"))
    if stage < 3:
        torch.save(model_file(stage, n, 0), os.path.join(step, "mp_rank_00_model_states.pt"))
    with open(os.path.join(folder, "latest"), "w") as pointer:
        pointer.write("global_step12")


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else "tests/ckpt/fixtures"
    shutil.rmtree(folder, ignore_errors=True)
    torch.manual_seed(0)
    save_files(os.path.join(folder, "torch"))
    save_model(os.path.join(folder, "model"))
    with_ranks(2, save_ranks, os.path.join(folder, "ranks"))
    with_ranks(4, save_grid, os.path.join(folder, "grid"))
    with_ranks(2, save_sharded_tensor, os.path.join(folder, "sharded_tensor"))
    with_ranks(4, save_dcp, os.path.join(folder, "dcp"))
    with_ranks(2, save_megatron, os.path.join(folder, "megatron"))
    save_deepspeed(os.path.join(folder, "zero1"), 1, 2, elastic=True)
    save_deepspeed(os.path.join(folder, "zero2"), 2, 3, prefix="bf16_")
    save_deepspeed(os.path.join(folder, "zero3"), 3, 2)


if __name__ == "__main__":
    main()
