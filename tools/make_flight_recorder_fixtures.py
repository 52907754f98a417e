#!/usr/bin/env python3
"""Writes tests/doctor/fixtures/: dumps of PyTorch's flight recorder.

gloo/         real ones: three ranks over gloo, of which rank 1 sleeps instead of joining the last all_reduce (needs
              PyTorch)
gloo_killed/  real ones: four ranks in two pairs, of which rank 2 is killed, and leaves no dump, while rank 3 waits for it
              in their pair, and the other two for both in the world
gloo_chain/   real ones, written while the ranks wait: rank 3 waits for all others in the world, rank 0 for rank 1 in
              one pair, rank 1 for rank 2 in another; rank 2 sleeps
nccl/         what NCCL writes, which needs a GPU a rank: built here as the documented schema 2.10 says, in protocol 2.
              Four ranks; sub-groups, messages, a coalesced group, and rank 2 one operation short.

With --check DIR: runs torch's own analyser (torchfrtrace) over the dumps in DIR and prints what it says."""
import os
import pickle
import runpy
import subprocess
import sys

HERE = os.path.abspath(__file__)

WORKER = """
import datetime, os, signal, sys, threading, time
import torch, torch.distributed as dist
from torch._C import _distributed_c10d as c10d

def train(rank):
    x = torch.ones(4, 3)
    dist.all_reduce(x)
    even = dist.new_group([0, 2], group_desc="even")
    dist.new_group([1], group_desc="odd")
    if rank != 1:
        dist.broadcast(x, 0, group=even)
    dist.all_gather([torch.ones(4, 3) for _ in range(3)], x)
    for _ in range(2):
        dist.all_reduce(x)
    if rank == 1:
        time.sleep(4)
    else:
        dist.all_reduce(torch.ones(7, dtype=torch.float64))

def lose(rank):
    x = torch.ones(4, 3)
    pairs = [dist.new_group(pair, group_desc="pair") for pair in ([0, 1], [2, 3])]
    for step in range(2):
        if step == 1 and rank == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        dist.all_reduce(x, group=pairs[rank // 2])
        dist.all_reduce(x)

def chain(rank):
    x = torch.ones(4, 3)
    pairs = [dist.new_group(pair) for pair in ([0, 1], [1, 2])]
    dist.all_reduce(x)
    threading.Thread(target=end, args=(rank,)).start()
    if rank == 2:
        time.sleep(60)
    dist.all_reduce(x, group=None if rank == 3 else pairs[rank])
    time.sleep(60)

def end(rank):
    time.sleep(1)
    with open(os.path.join(sys.argv[1], f"nccl_trace_rank_{rank}"), "wb") as file:
        file.write(c10d._dump_fr_trace())
    time.sleep(1)
    os._exit(0)

dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=2))
rank = dist.get_rank()
try:
    {"train": train, "lose": lose, "chain": chain}[sys.argv[2]](rank)
except RuntimeError:
    pass
end(rank)
"""


def neutral(data):
    """Paths of this machine, replaced by others of the same length, so that lengths in the pickle stay right."""
    import torch

    folder = os.path.dirname(os.path.dirname(torch.__file__)).encode()
    tail = b"/site-packages"
    return data.replace(folder, (b"/venv" + b"_" * 200)[: len(folder) - len(tail)] + tail)


def make_gloo(folder, what, world):
    os.makedirs(folder, exist_ok=True)
    script = f"exec(compile({WORKER!r}, '/home/user/train.py', 'exec'))"
    env = dict(os.environ, TORCH_FR_BUFFER_SIZE="2000", MASTER_ADDR="127.0.0.1", MASTER_PORT="29571",
               WORLD_SIZE=str(world))
    ranks = [subprocess.Popen([sys.executable, "-c", script, ".", what], cwd=folder, env=dict(env, RANK=str(r)))
             for r in range(world)]
    for rank in ranks:
        rank.wait()
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        with open(path, "rb") as file:
            data = file.read()
        with open(path, "wb") as file:
            file.write(neutral(data))


class Recorder:
    """Writes entries as NCCL's recorder does."""

    def __init__(self, rank):
        self.rank, self.entries, self.now, self.op_id = rank, [], 1_700_000_000_000_000_000 + rank * 1000, 0

    def add(self, group, name, sequence, sizes, state="completed", dtype="BFloat16", out=None, p2p=False, line=10):
        self.now += 1_000_000
        self.op_id += 1
        done = state == "completed"
        self.entries.append({
            "frames": [
                {"name": name, "filename": "/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py",
                 "line": 2696},
                {"name": "step", "filename": "/home/user/train.py", "line": line},
                {"name": "<module>", "filename": "/home/user/train.py", "line": 99}],
            "record_id": len(self.entries), "pg_id": int(group[0]), "process_group": group,
            "thread_name": "python", "thread_id": "1",
            "collective_seq_id": 0 if p2p else sequence, "p2p_seq_id": sequence if p2p else 0, "op_id": self.op_id,
            "profiling_name": "nccl:" + name, "time_created_ns": self.now,
            "input_sizes": sizes, "input_dtypes": [dtype] * len(sizes),
            "output_sizes": sizes if out is None else out, "output_dtypes": [dtype] * len(sizes if out is None else out),
            "state": state,
            "time_discovered_started_ns": None if state == "scheduled" else self.now + 100_000,
            "time_discovered_completed_ns": self.now + 300_000 if done else None,
            "duration_ms": 0.2, "retired": done, "timeout_ms": 600000, "is_p2p": p2p})
        if not done:
            del self.entries[-1]["duration_ms"]


def nccl_rank(rank):
    world, pair = ("0", "default_pg"), ("1", "mesh_tp") if rank < 2 else ("2", "mesh_tp")
    r = Recorder(rank)
    r.add(world, "broadcast", 1, [[1024]], line=11)
    r.add(world, "_all_gather_base", 2, [[256]], out=[[1024]], line=12)
    r.add(pair, "all_reduce", 1, [[64, 2], [3]], dtype="Float", line=13)
    r.add(world, "_reduce_scatter_base", 3, [[1024]], out=[[256]], state="scheduled", line=14)
    r.add(world, "_reduce_scatter_base", 3, [[512]], out=[[128]], state="scheduled", line=14)
    r.add(world, "REDUCE_SCATTER_coalesced", 3, [], line=14)
    if rank == 0:
        r.add(world, "send 0->1", 1, [[8]], p2p=True, line=15)
    if rank == 1:
        r.add(world, "recv 1<-0", 1, [], out=[[8]], p2p=True, line=16)
    r.add(world, "barrier", 4, [[1]], dtype="Byte", line=17)
    if rank != 2:
        r.add(world, "all_reduce", 5, [[4096]], dtype="Double", state="started" if rank else "scheduled", line=18)
    members = {"0": ("default_pg", "[0, 1, 2, 3]"), pair[0]: ("mesh_tp", "[0, 1]" if rank < 2 else "[2, 3]")}
    return {
        "version": "2.10", "comm_lib_version": "2.27.3",
        "pg_config": {k: {"name": k, "desc": d, "ranks": m} for k, (d, m) in members.items()},
        "pg_status": {0: {"last_enqueued_collective": 5, "last_started_collective": 5, "last_completed_collective": 4}},
        "entries": r.entries}


def make_nccl(folder):
    os.makedirs(folder, exist_ok=True)
    for rank in range(4):
        with open(os.path.join(folder, f"nccl_trace_rank_{rank}"), "wb") as file:
            pickle.dump(nccl_rank(rank), file, protocol=2)


def main():
    if len(sys.argv) == 3 and sys.argv[1] == "--check":
        sys.argv = ["fr_trace", sys.argv[2], "-p", "nccl_trace_rank_"]
        runpy.run_module("torch.distributed.flight_recorder.fr_trace", run_name="__main__")
        return
    fixtures = os.path.join(os.path.dirname(os.path.dirname(HERE)), "tests", "doctor", "fixtures")
    make_nccl(os.path.join(fixtures, "nccl"))
    make_gloo(os.path.join(fixtures, "gloo"), "train", 3)
    make_gloo(os.path.join(fixtures, "gloo_killed"), "lose", 4)
    make_gloo(os.path.join(fixtures, "gloo_chain"), "chain", 4)


if __name__ == "__main__":
    main()
