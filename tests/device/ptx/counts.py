#!/usr/bin/env python3
"""counts.py LOG [REGISTERS...]: what kernels did on the interpreter, one line a kernel, and how well they would fill a GPU.

LOG is what TESS_PTX_LOG named (ptx_cudart.c). REGISTERS are the logs of `ptxas -v` of the plug-in's build (build/cuda/*.log).
Columns: launches; instructions of threads for each byte of global memory; bytes of the sectors that warps touch for each byte
that they ask for (1 is best); passes of shared memory for each that is needed (1 is best); registers and bytes of shared memory;
the share of a multiprocessor's threads that run at a time on each GPU.
"""
import re
import sys

# Data sheets and the CUDA C++ Programming Guide, "Technical Specifications per Compute Capability". Each GPU has 2,048 threads,
# 32 blocks and 65,536 registers a multiprocessor. KiB of shared memory; a block takes one more than it asks for.
GPUS = {"A100": (80, 164), "H100": (90, 228), "H200": (90, 228), "B200": (100, 228)}
THREADS, BLOCKS, REGISTERS, SECTOR = 2048, 32, 65536, 32
CLASSES = "integer float double special convert move memory warp tensor control".split()
COUNTS = "warp_instructions fused read written read_sectors written_sectors shared conflicts barriers memory_read memory_written cache_sectors waits".split()


def read_log(path):
    """Returns the sums of the launches of each kernel."""
    kernels = {}
    for line in open(path):
        words = line.split()
        if words[0] != "launch":
            continue
        kernel = kernels.setdefault(words[1], {"source": words[2], "launches": 0, "threads": 0, "shared_bytes": 0})
        kernel["launches"] += 1
        kernel["threads"] = max(kernel["threads"], int(words[5]))
        kernel["shared_bytes"] = max(kernel["shared_bytes"], int(words[6]))
        for name, value in zip(CLASSES + COUNTS, words[7:], strict=True):
            kernel[name] = kernel.get(name, 0) + int(value)
    return kernels


def read_registers(paths):
    """Returns the registers of each kernel on each architecture."""
    registers, at = {}, None
    for path in paths:
        for line in open(path):
            entry = re.search(r"Compiling entry function '(\w+)' for 'sm_(\d+)a?'", line)
            used = re.search(r"Used (\d+) registers", line)
            at = (entry[1], int(entry[2])) if entry else at
            if used and at:
                registers[at] = int(used[1])
    return registers


def occupancy(threads, registers, shared_bytes, shared_kib):
    """Returns the share of threads that run at a time, as registers are handed out: to warps, in units of 256."""
    warps = (threads + 31) // 32
    of_warp = (registers * 32 + 255) // 256 * 256
    blocks = min(BLOCKS, THREADS // (warps * 32), (shared_kib << 10) // (shared_bytes + 1024))
    if of_warp:
        blocks = min(blocks, REGISTERS // of_warp // warps)
    return blocks * warps * 32 / THREADS


def ratio(a, b):
    return "%8.2f" % (a / b) if b else "       -"


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    kernels, registers = read_log(sys.argv[1]), read_registers(sys.argv[2:])
    print("%-64s %8s %8s %8s %8s %5s %6s  %s" % ("kernel", "launches", "per byte", "sectors", "passes", "regs", "shared",
                                                 " ".join("%5s" % g for g in GPUS)))
    for name, k in sorted(kernels.items(), key=lambda item: (item[1]["source"], item[0])):
        asked = k["read"] + k["written"]
        used = [registers.get((name, architecture)) for architecture, _ in GPUS.values()]
        shares = ["%4.0f%%" % (100 * occupancy(k["threads"], r or 0, k["shared_bytes"], kib)) if r else "    -"
                  for r, (_, kib) in zip(used, GPUS.values())]
        print("%-64.64s %8d %s %s %s %5s %6d  %s" % (
            name, k["launches"], ratio(sum(k[c] for c in CLASSES), asked),
            ratio(SECTOR * (k["read_sectors"] + k["written_sectors"]), asked), ratio(k["shared"] + k["conflicts"], k["shared"]),
            used[1] or "-", k["shared_bytes"], " ".join(shares)))


main()
