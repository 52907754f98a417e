#!/usr/bin/env python3
"""PyTorch's distributed checkpoint (DCP) of a state like ours: what `compare_ckpt.py` measures beside `tessera bench ckpt`.

    python3 bench/peers/torch_ckpt.py --manifest step-00000001/manifest.json --folder DIR --ranks 2

Every rank is a process with its rows of each tensor (DTensor, Shard(0), gloo) and as many threads as its share of the
cores. Prints one line of JSON: seconds of copying the state in memory, of a synchronous save with fsync, of the stall of
an asynchronous one, and of a load whose files are not in the page cache.
"""
import argparse
import json
import os
import shutil
import time

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as mp
from torch.distributed.checkpoint import FileSystemReader, FileSystemWriter
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard


def make_state(manifest, rank, world):
    with open(manifest, encoding="utf-8") as file:
        tensors = json.load(file)["tensors"]
    mesh = init_device_mesh("cpu", (world,))
    state = {}
    for name, tensor in tensors.items():
        rows = -(-tensor["shape"][0] // world)
        begin = min(rank * rows, tensor["shape"][0])
        count = min(rows, tensor["shape"][0] - begin)
        local = torch.rand([count] + tensor["shape"][1:])
        strides = [1] * len(tensor["shape"])
        for d in reversed(range(len(strides) - 1)):
            strides[d] = strides[d + 1] * tensor["shape"][d + 1]
        state[name] = DTensor.from_local(local, mesh, [Shard(0)], run_check=False, shape=torch.Size(tensor["shape"]),
                                         stride=tuple(strides))
    return state


def timed(fn):
    dist.barrier()
    begin = time.perf_counter()
    value = fn()
    dist.barrier()
    return time.perf_counter() - begin, value


def drop_from_page_cache(folder):
    for name in os.listdir(folder):
        fd = os.open(os.path.join(folder, name), os.O_RDONLY)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)


def measure(state, folder, threads):
    result = {}
    twins = {name: torch.zeros_like(tensor.to_local()) for name, tensor in state.items()}
    result["copy"], _ = timed(lambda: [twin.copy_(state[name].to_local()) for name, twin in twins.items()])
    del twins
    where = os.path.join(folder, "dcp")
    result["save"], _ = timed(lambda: dcp.save(
        state, storage_writer=FileSystemWriter(where, single_file_per_rank=True, sync_files=True, thread_count=threads)))
    if dist.get_rank() == 0:
        drop_from_page_cache(where)
    result["load"], _ = timed(lambda: dcp.load(state, storage_reader=FileSystemReader(where)))
    beside = FileSystemWriter(os.path.join(folder, "dcp-async"), single_file_per_rank=True, sync_files=True)
    group = dist.new_group(backend="gloo")  # its thread meets the others while we go on
    dist.barrier()
    begin = time.perf_counter()
    future = dcp.async_save(state, storage_writer=beside, process_group=group)
    result["stall"] = time.perf_counter() - begin
    future.result()
    result["written"] = time.perf_counter() - begin - result["stall"]
    return result


def run(rank, args):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(args.port), RANK=str(rank), WORLD_SIZE=str(args.ranks))
    threads = max(1, len(os.sched_getaffinity(0)) // args.ranks)
    torch.set_num_threads(threads)
    dist.init_process_group("gloo", rank=rank, world_size=args.ranks)
    result = measure(make_state(args.manifest, rank, args.ranks), args.folder, threads)
    dist.barrier()
    if rank == 0:
        print(json.dumps(result), flush=True)
        for name in ("dcp", "dcp-async"):
            shutil.rmtree(os.path.join(args.folder, name))
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--manifest", required=True, help="of a checkpoint of ours: names and shapes")
    parser.add_argument("--folder", required=True, help="where to write")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--port", type=int, default=29511)
    args = parser.parse_args()
    mp.spawn(run, (args,), nprocs=args.ranks)


if __name__ == "__main__":
    main()
