#!/usr/bin/env python3
"""Writes tests/base/fixtures/pickle/: the same value in every protocol of Python's pickle, and objects that a reader must
keep inert. Run with CPython 3.8 or newer; standard library only."""
import argparse
import collections
import datetime
import io
import os
import pickle
import sys


class Touch:
    """Would write a file when it is unpickled by Python."""

    def __reduce__(self):
        return os.system, ("touch pwned",)


class Elsewhere:
    """What is not in the pickle."""


class Pickler(pickle.Pickler):
    def persistent_id(self, value):
        return ("storage", "storage0", 7) if isinstance(value, Elsewhere) else None


def plain():
    shared = ["shared", 1]
    return {
        "none": None,
        "yes": True,
        "no": False,
        "ints": [0, 1, -1, 255, 256, 65535, 65536, 2**31 - 1, -(2**31), 2**31, 2**63 - 1, -(2**63)],
        "big": [2**63, -(2**63) - 1, 10**40, -(10**40)],
        "floats": [0.0, -0.5, 1e300, float("inf"), float("-inf"), 0.1],
        "nan": float("nan"),
        "bytes": [b"", b"\x00\xff\n'\\", bytes(range(256))],
        "bytearray": bytearray(b"array"),
        "text": ["", "plain", "line\nbreak", "back\\slash", "\u00fc", "\u20ac", "\U0001f600", "x" * 300],
        "list": [],
        "tuples": [(), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)],
        "set": {5},
        "frozenset": frozenset(["f"]),
        "ordered": collections.OrderedDict([("b", 1), ("a", 2)]),
        1: "an int as key",
        (1, "x"): "a tuple as key",
        "shared": [shared, shared],
        "nested": [[[[[1]]]]],
    }


def objects():
    return [argparse.Namespace(lr=0.5, name="run"), datetime.date(2024, 5, 17), complex(1, -2),
            collections.Counter("aab"), collections.defaultdict(list, k=[1])]


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else "tests/base/fixtures/pickle"
    os.makedirs(folder, exist_ok=True)

    def write(name, data):
        with open(os.path.join(folder, name), "wb") as file:
            file.write(data)

    for protocol in range(6):
        write(f"plain_{protocol}.pickle", pickle.dumps(plain(), protocol=protocol))
        write(f"objects_{protocol}.pickle", pickle.dumps(objects(), protocol=protocol))
        write(f"call_{protocol}.pickle", pickle.dumps({"safe": 1, "x": Touch()}, protocol=protocol))
        if protocol > 0:  # protocol 0 has ids of text alone
            out = io.BytesIO()
            Pickler(out, protocol=protocol).dump({"weight": Elsewhere(), "other": "text"})
            write(f"persistent_{protocol}.pickle", out.getvalue())
    cycle = []
    cycle.append(cycle)
    write("cycle.pickle", pickle.dumps(cycle, protocol=2))


if __name__ == "__main__":
    main()
