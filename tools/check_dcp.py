#!/usr/bin/env python3
"""Checkpoints between PyTorch and Tessera, both ways, bit for bit: what PyTorch writes goes through `tessera convert`
and comes back, and training goes on from it as if nothing had been. Needs PyTorch (gloo).

usage: check_dcp.py PATH/TO/tessera"""
import socket
import subprocess
import sys
import tempfile
import warnings

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as mp
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
from torch.distributed.checkpoint.state_dict import (StateDictOptions, get_model_state_dict, get_optimizer_state_dict,
                                                     get_state_dict, set_model_state_dict, set_optimizer_state_dict)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

warnings.simplefilter("ignore")
FLAT = StateDictOptions(flatten_optimizer_state_dict=True)


def build(mesh, seed):
    torch.manual_seed(seed)
    model = torch.nn.Sequential(torch.nn.Embedding(11, 6), torch.nn.Linear(6, 5), torch.nn.Tanh(),
                                torch.nn.Linear(5, 3, bias=False))
    if mesh is not None:
        for layer in model:
            fully_shard(layer, mesh=mesh)
        fully_shard(model, mesh=mesh)
    return model, torch.optim.AdamW(model.parameters(), lr=0.03, weight_decay=0.1)


def train(model, optimizer, steps, seed):
    generator = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        tokens = torch.randint(0, 11, (4,), generator=generator)
        model(tokens).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def state_of(model, optimizer):
    """torchtitan's keys."""
    return {**get_model_state_dict(model), "optimizer": get_optimizer_state_dict(model, optimizer, options=FLAT),
            "train_state": {"step": torch.tensor(3, dtype=torch.int32)}}


def run_rank(rank, n, port, function, *args):
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=n)
    function(init_device_mesh("cpu", (n,)), *args)
    dist.barrier()
    dist.destroy_process_group()


def with_ranks(n, function, *args):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    mp.spawn(run_rank, args=(n, port, function, *args), nprocs=n)


def save_trained(mesh, folder):
    model, optimizer = build(mesh, 1)
    train(model, optimizer, 3, 7)
    dcp.save(state_of(model, optimizer), checkpoint_id=folder)


def save_app(mesh, folder):
    """As PyTorch's recipe saves an AppState: groups of parameters are a list."""
    model, optimizer = build(mesh, 1)
    train(model, optimizer, 3, 7)
    weights, moments = get_state_dict(model, optimizer)
    dcp.save({"app": {"model": weights, "optim": moments}}, checkpoint_id=folder)


def check_all(mesh, folder, names):
    for name in names:
        check_loads(mesh, f"{folder}/{name}")
        if dist.get_rank() == 0:
            print(f"{name}: loads, and training goes on bit for bit", flush=True)


def check_loads(mesh, folder):
    """A fresh model that loads `folder` has the bits of the one that was saved, now and after three steps more."""
    wanted, wanted_optimizer = build(mesh, 1)
    train(wanted, wanted_optimizer, 3, 7)
    model, optimizer = build(mesh, 2)
    train(model, optimizer, 1, 9)
    state = state_of(model, optimizer)
    dcp.load(state, checkpoint_id=folder)
    optimizer_state = state.pop("optimizer")
    assert state.pop("train_state")["step"].item() == 3
    set_model_state_dict(model, state)
    set_optimizer_state_dict(model, optimizer, optimizer_state, options=FLAT)
    for _ in range(2):
        a, b = state_of(wanted, wanted_optimizer), state_of(model, optimizer)
        a, b = {**a, **a.pop("optimizer")}, {**b, **b.pop("optimizer")}
        assert a.keys() == b.keys()
        for key, value in a.items():
            if isinstance(value, torch.Tensor):
                local = [x.to_local() if hasattr(x, "to_local") else x for x in (value, b[key])]
                assert torch.equal(*local), key
        train(wanted, wanted_optimizer, 3, 8)
        train(model, optimizer, 3, 8)


def convert(tessera, source, target, *options):
    subprocess.run([tessera, "convert", source, target, *options], check=True, stdout=subprocess.DEVNULL)


def check_dtypes(tessera, folder):
    """Every dtype, odd shapes and an object, from a single process."""
    kinds = [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2,
             torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.uint16, torch.uint32, torch.uint64,
             torch.bool, torch.complex64]
    shapes = [(), (0, 3), (1,), (7,), (3, 5), (2, 1, 3, 2)]
    torch.manual_seed(3)
    state = {f"{str(kind)[6:]}.{i}": torch.randint(0, 2, shape).to(kind) for kind in kinds
             for i, shape in enumerate(shapes)}
    dcp.save(dict(state, note={"text": "x", "list": [1, 2.5, None]}), checkpoint_id=f"{folder}/dtypes")
    convert(tessera, f"{folder}/dtypes", f"{folder}/dtypes-again", "--to", "dcp", "--files", "2")
    convert(tessera, f"{folder}/dtypes", f"{folder}/dtypes.pt", "--to", "torch")
    again = {key: torch.ones_like(value) for key, value in state.items()}
    dcp.load(again, checkpoint_id=f"{folder}/dtypes-again")
    saved = torch.load(f"{folder}/dtypes.pt", weights_only=True)
    mapped = torch.load(f"{folder}/dtypes.pt", weights_only=True, mmap=True)
    for key, value in state.items():
        for other in (again[key], saved[key], mapped[key]):
            assert other.dtype == value.dtype and other.shape == value.shape, key
            assert bytes(other.reshape(-1).view(torch.uint8).tolist()) == \
                bytes(value.reshape(-1).view(torch.uint8).tolist()), key
    dcp_to_torch_save(f"{folder}/dtypes-again", f"{folder}/nested.pt")
    assert torch.load(f"{folder}/nested.pt", weights_only=False)["note"]["list"] == [1, 2.5, None]


def main():
    tessera = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        check_dtypes(tessera, folder)
        print("every dtype: equal")
        with_ranks(3, save_trained, f"{folder}/torch")
        convert(tessera, f"{folder}/torch", f"{folder}/ours", "--to", "tessera", "--files", "2")
        convert(tessera, f"{folder}/ours", f"{folder}/back", "--to", "dcp")
        convert(tessera, f"{folder}/torch", f"{folder}/direct", "--to", "dcp", "--files", "4")
        convert(tessera, f"{folder}/torch", f"{folder}/megatron", "--to", "megatron")
        with_ranks(3, save_app, f"{folder}/app-torch")
        convert(tessera, f"{folder}/app-torch", f"{folder}/app", "--to", "dcp")
        convert(tessera, f"{folder}/app-torch", f"{folder}/app-ours", "--to", "tessera")
        convert(tessera, f"{folder}/app-ours", f"{folder}/app-back", "--to", "dcp")
        with_ranks(3, check_all, folder, ["torch", "direct", "megatron/iter_0000003", "back", "app", "app-back"])


if __name__ == "__main__":
    main()
