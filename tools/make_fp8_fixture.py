#!/usr/bin/env python3
"""Writes tests/device/fp8_torch.h: what torch casts float32 to float8_e4m3fn and float8_e5m2, whole. A cast of positive
numbers ascends with their bits, so the smallest bits that give each code say all; that negative ones give the same with the
sign, and that bfloat16 does, is checked here for all 65536 of it. Needs torch 2.15."""
import pathlib

import torch

FORMATS = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}
NAN = 0x7F800001


def cast(bits, dtype):
    return torch.tensor(bits, dtype=torch.int64).to(torch.int32).view(torch.float32).to(dtype).view(torch.uint8)


def smallest(code, dtype):
    low, high = 0, NAN
    while low < high:
        middle = (low + high) // 2
        if cast([middle], dtype)[0].item() >= code:
            high = middle
        else:
            low = middle + 1
    return low


text = """/* Made by tools/make_fp8_fixture.py with torch: the smallest float32, as bits, that is cast to each positive code (to a
 * later one where there is none), and what each code is in float32. */
#ifndef TESS_TESTS_DEVICE_FP8_TORCH_H
#define TESS_TESTS_DEVICE_FP8_TORCH_H

#include <stdint.h>

"""
smallest_bits, values = [], []
for name, dtype in FORMATS.items():
    bounds = [smallest(code, dtype) for code in range(128)]
    halves = torch.arange(65536, dtype=torch.int64)
    got = cast((halves << 16).tolist(), dtype)
    assert torch.equal(got, halves.to(torch.int32).to(torch.int16).view(torch.bfloat16).to(dtype).view(torch.uint8))
    assert torch.equal(got[32768:], got[:32768] | 128)
    for half in range(0x7F81):
        assert got[half].item() == max(c for c in range(128) if bounds[c] <= half << 16), hex(half)
    smallest_bits.append(bounds)
    back = torch.arange(256, dtype=torch.uint8).view(dtype).float().view(torch.int32)
    values.append([b & 0xFFFFFFFF for b in back.tolist()])


def table(name, rows):
    lines = ",\n".join("    {" + ", ".join(f"{x:#x}" for x in row) + "}" for row in rows)
    return f"static const uint32_t {name}[{len(rows)}][{len(rows[0])}] = {{\n{lines},\n}};\n"


text += table("fp8_smallest", smallest_bits) + table("fp8_values", values) + "\n#endif\n"
(pathlib.Path(__file__).parent.parent / "tests/device/fp8_torch.h").write_text(text)
