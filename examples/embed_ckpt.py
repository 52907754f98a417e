#!/usr/bin/env python3
"""libtessera from Python, with ctypes alone: a linear map, sharded by rows, is fitted with AdamW, saved, and goes on
where it stopped with any number of ranks.

    tessera run -n 2 -- python3 embed_ckpt.py out 20    trains to step 20, saving every fifth step in the folder `out`
    python3 embed_ckpt.py out 40                        goes on alone: the losses are those of any other number of ranks

TESSERA_LIBRARY names the library where the system does not find it."""
import ctypes
import os
import random
import sys
from ctypes import POINTER, Structure, byref, c_bool, c_char_p, c_float, c_int, c_int64, c_size_t, c_void_p

ROWS, COLUMNS = 7, 5  # no number of ranks divides 7
BATCH, MICRO_BATCHES, SAVE_EVERY = 6, 4, 5
F32, I64, STRATEGY_FULL = 0, 4, 3

tess = ctypes.CDLL(os.environ.get("TESSERA_LIBRARY", "libtessera.so.0"))
tess.tess_error_message.restype = c_char_p


class Axis(Structure):
    _fields_ = [("name", c_char_p), ("size", c_int)]


class Policy(Structure):
    _fields_ = [*[(name, c_int) for name in
                  ("strategy", "param_dtype", "reduce_dtype", "reshard_after_forward", "prefetch")], ("size", c_size_t)]


class Shape(Structure):
    _fields_ = [("n_dims", c_int), ("dim", c_int64 * 8)]


class Cut(Structure):
    _fields_ = [("kind", c_int), ("dim", c_int), ("unit", c_int64)]


class Param(Structure):
    _fields_ = [("name", c_char_p), ("shape", Shape), ("trainable", c_bool), ("decay", c_bool), ("tp", Cut),
                ("hidden", c_bool)]


class OptimizerOptions(Structure):
    """kind 0: AdamW."""
    _fields_ = [("kind", c_int), *[(name, c_float) for name in ("beta1", "beta2", "eps", "weight_decay", "momentum")],
                ("nesterov", c_bool), ("muon_rate", c_int), ("state_dtype", c_int), ("seed", ctypes.c_uint64),
                ("size", c_size_t)]


class Box(Structure):
    _fields_ = [("begin", c_int64 * 8), ("size", c_int64 * 8)]


class CheckpointTensor(Structure):
    _fields_ = [("name", c_char_p), ("dtype", c_int), ("shape", Shape), ("box", Box), ("data", c_void_p)]


class CheckpointState(Structure):
    _fields_ = [("fsdp", c_void_p), ("optimizer", c_void_p), ("tensors", POINTER(CheckpointTensor)), ("n_tensors", c_int),
                ("partial", c_bool)]


FILL = ctypes.CFUNCTYPE(c_int, c_void_p, c_char_p, POINTER(Shape), POINTER(Box), POINTER(c_float))


def check(status):
    """Every call that can fail returns a tess_status: 0, or what the message explains."""
    if status != 0:
        raise RuntimeError(tess.tess_error_message().decode())


def function(name, *types, result=check):
    f = getattr(tess, name)
    f.argtypes, f.restype = types, result
    return f


HANDLE, OUT = c_void_p, POINTER(c_void_p)
runtime_create = function("tess_runtime_create", c_void_p, OUT)
runtime_rank = function("tess_runtime_rank", HANDLE, result=c_int)
runtime_world = function("tess_runtime_world", HANDLE, result=c_int)
runtime_team = function("tess_runtime_team", HANDLE, result=HANDLE)
mesh_create = function("tess_mesh_create", HANDLE, POINTER(Axis), c_int, OUT)
fsdp_create = function("tess_fsdp_create", HANDLE, POINTER(Policy), OUT)
fsdp_add_unit = function("tess_fsdp_add_unit", HANDLE, c_char_p, POINTER(Param), c_int, OUT)
fsdp_materialize = function("tess_fsdp_materialize", HANDLE, FILL, c_void_p)
fsdp_optimizer_create = function("tess_fsdp_optimizer_create", HANDLE, POINTER(OptimizerOptions), OUT)
fsdp_step_begin = function("tess_fsdp_step_begin", HANDLE, c_int)
fsdp_micro_begin = function("tess_fsdp_micro_begin", HANDLE, c_int)
fsdp_step_end = function("tess_fsdp_step_end", HANDLE)
fsdp_optimizer_step = function("tess_fsdp_optimizer_step", HANDLE, HANDLE, c_int64, c_float, c_float)
unit_hook = {name: function(f"tess_unit_{name}", HANDLE)
             for name in ("pre_forward", "post_forward", "pre_backward", "post_backward")}
unit_param = function("tess_unit_param", HANDLE, c_int, result=POINTER(c_float))
unit_grad = function("tess_unit_grad", HANDLE, c_int, result=POINTER(c_float))
all_gather = function("tess_all_gather", HANDLE, c_void_p, c_void_p, c_size_t, c_int, c_void_p)
checkpoint_save = function("tess_checkpoint_save", HANDLE, c_char_p, c_int64, POINTER(CheckpointState), c_char_p)
checkpoint_resume = function("tess_checkpoint_resume", HANDLE, c_char_p, POINTER(CheckpointState), POINTER(c_int64))


def destroy(kind, handle):
    f = function(f"tess_{kind}_destroy", OUT, result=None)
    f(byref(handle))


def made(create, *arguments):
    handle = c_void_p()
    create(*arguments, byref(handle))
    return handle


def noise(seed, n):
    """n numbers in [-1, 1) that depend on the seed alone."""
    source = random.Random(seed)
    return [source.uniform(-1, 1) for _ in range(n)]


TARGET = noise(2, ROWS * COLUMNS)


@FILL
def init_rows(_context, _name, _shape, box, dst):
    """Tessera asks for the rows that this rank owns: no rank ever holds the whole model."""
    first, n_rows = box.contents.begin[0] * COLUMNS, box.contents.size[0]
    for i, value in enumerate(noise(1, ROWS * COLUMNS)[first:first + n_rows * COLUMNS]):
        dst[i] = value
    return 0


def run_micro_batch(unit, number):
    """Forward, the summed square error, backward: the hooks stand around the use of the unit."""
    x = noise(100 + number, BATCH * COLUMNS)
    batch, rows, columns = range(BATCH), range(ROWS), range(COLUMNS)
    unit_hook["pre_forward"](unit)
    w = unit_param(unit, 0)
    error = [[sum((w[r * COLUMNS + c] - TARGET[r * COLUMNS + c]) * x[t * COLUMNS + c] for c in columns) for r in rows]
             for t in batch]
    unit_hook["post_forward"](unit)
    unit_hook["pre_backward"](unit)
    gradient = unit_grad(unit, 0)
    for r in rows:
        for c in columns:
            gradient[r * COLUMNS + c] = sum(2 * error[t][r] * x[t * COLUMNS + c] for t in batch)
    unit_hook["post_backward"](unit)
    return sum(e * e for row in error for e in row)


def main(folder, last_step):
    runtime = made(runtime_create, None)
    rank, world = runtime_rank(runtime), runtime_world(runtime)
    n_local = MICRO_BATCHES // world
    if n_local * world != MICRO_BATCHES:
        raise RuntimeError(f"{world} ranks do not divide {MICRO_BATCHES} micro-batches")
    mesh = made(mesh_create, runtime, byref(Axis(b"dp_shard", -1)), 1)
    fsdp = made(fsdp_create, mesh, byref(Policy(STRATEGY_FULL, F32, F32, 1, 0)))
    weight = Param(b"map.weight", Shape(2, (ROWS, COLUMNS)), True, True)
    unit = made(fsdp_add_unit, fsdp, b"map", byref(weight), 1)  # belongs to fsdp
    fsdp_materialize(fsdp, init_rows, None)
    optimizer = made(fsdp_optimizer_create, fsdp, byref(OptimizerOptions(0, 0.9, 0.999, 1e-8, 0.01)))

    seen = c_int64()  # samples so far: a tensor of our own, which all ranks hold
    own = CheckpointTensor(b"seen", I64, Shape(1, (1,)), Box((0,), (1,)), ctypes.addressof(seen))
    state = CheckpointState(fsdp=fsdp, optimizer=optimizer, tensors=ctypes.pointer(own), n_tensors=1)
    step = c_int64()
    checkpoint_resume(runtime, folder.encode(), byref(state), byref(step))
    if seen.value != step.value * MICRO_BATCHES * BATCH:
        raise RuntimeError(f"step {step.value} after {seen.value} samples")
    for number in range(step.value + 1, last_step + 1):
        local, losses = (c_float * n_local)(), (c_float * MICRO_BATCHES)()
        fsdp_step_begin(fsdp, n_local)
        for s in range(n_local):
            fsdp_micro_begin(fsdp, s)
            local[s] = run_micro_batch(unit, number * MICRO_BATCHES + s * world + rank)
        fsdp_step_end(fsdp)
        elements = MICRO_BATCHES * BATCH * ROWS
        fsdp_optimizer_step(fsdp, optimizer, number, 0.03, 1 / elements)
        all_gather(runtime_team(runtime), local, losses, n_local, F32, None)
        # The losses are summed in the order of the micro-batches: the same sum on any number of ranks.
        loss = sum(losses[i % world * n_local + i // world] for i in range(MICRO_BATCHES)) / elements
        if rank == 0:
            print(f"step {number}, loss {loss:.9g}", flush=True)
        seen.value += MICRO_BATCHES * BATCH
        if number % SAVE_EVERY == 0:
            checkpoint_save(runtime, folder.encode(), number, byref(state), b'{"example": "embed_ckpt"}')

    destroy("optimizer", optimizer)
    destroy("fsdp", fsdp)
    destroy("mesh", mesh)
    destroy("runtime", runtime)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: embed_ckpt.py FOLDER LAST_STEP")
    try:
        main(sys.argv[1], int(sys.argv[2]))
    except RuntimeError as failure:
        sys.exit(f"embed_ckpt: {failure}")
