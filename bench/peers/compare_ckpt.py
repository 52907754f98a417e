#!/usr/bin/env python3
"""Tessera against PyTorch's distributed checkpoint and against dd: saving and loading the same state, taking turns.

    python3 bench/peers/compare_ckpt.py --tessera build/tessera --model gpt2-124m --ranks 2 --folder /data/tmp

In each of --rounds turns `dd oflag=direct` writes as many bytes as the state has, `tessera bench ckpt` saves and loads
it, and torch_ckpt.py does so through DCP; all to the same folder. What counts is the median of ratios within a turn.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
STEP = "step-00000001"


def run(command, **options):
    done = subprocess.run(command, capture_output=True, text=True, **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stderr.strip()}")
    return done


def dd(folder, n_bytes):
    """Bytes a second."""
    path = os.path.join(folder, "dd.data")
    blocks = n_bytes // (8 << 20)
    done = run(["dd", "if=/dev/zero", f"of={path}", "bs=8M", f"count={blocks}", "oflag=direct", "conv=fsync"],
               env={**os.environ, "LC_ALL": "C"})
    os.remove(path)
    seconds = float(re.search(r"([0-9.e+-]+) s,", done.stderr).group(1))
    return blocks * (8 << 20) / seconds


def ours(args):
    folder = os.path.join(args.folder, "tessera")
    done = run([args.tessera, "bench", "ckpt", "--json", "--keep", "--repeat", "1", "--model", args.model, "-n",
                str(args.ranks), "--folder", folder])
    rows = {row["name"]: row for row in json.loads(done.stdout)["tables"][0]["rows"]}
    seconds = {name: row["time"] / 1e3 for name, row in rows.items()}
    return {"copy": seconds["copy in memory"], "stall": seconds["stage: training stands still"],
            "written": seconds["write and commit beside training"], "save": seconds["save while training stands still"],
            "load": seconds["load"]}, os.path.join(folder, STEP)


def theirs(args, checkpoint):
    done = run([sys.executable, os.path.join(HERE, "torch_ckpt.py"), "--manifest",
                os.path.join(checkpoint, "manifest.json"), "--folder", args.folder, "--ranks", str(args.ranks)])
    return json.loads(done.stdout.strip().splitlines()[-1])


def state_bytes(checkpoint):
    return sum(os.path.getsize(os.path.join(checkpoint, name)) for name in os.listdir(checkpoint))


def measure(args):
    rounds = []
    for number in range(args.rounds):
        mine, checkpoint = ours(args)
        n_bytes = state_bytes(checkpoint)
        turn = {"bytes": n_bytes, "dd": dd(args.folder, n_bytes), "tessera": mine, "torch": theirs(args, checkpoint)}
        rounds.append(turn)
        print(f"{number + 1}/{args.rounds}: dd {turn['dd'] / 1e9:.2f} GB/s, tessera {turn['tessera']}, "
              f"torch {turn['torch']}", file=sys.stderr, flush=True)
    for step in ("step-00000001", "step-00000002"):
        subprocess.run(["rm", "-rf", os.path.join(args.folder, "tessera", step)], check=True)
    return rounds


def median(rounds, fn):
    return statistics.median(fn(turn) for turn in rounds)


def print_table(args, rounds):
    print(f"{args.model}, {rounds[0]['bytes'] / 1e9:.2f} GB, {args.ranks} ranks, medians of {len(rounds)} turns")
    print(f"{'':28} {'tessera':>9} {'DCP':>9} {'ratio':>7}")
    for key, name in (("stall", "stall of an async save, s"), ("written", "written beside training, s"),
                      ("save", "save, s"), ("load", "load, s")):
        print(f"{name:28} {median(rounds, lambda t: t['tessera'][key]):9.3f} "
              f"{median(rounds, lambda t: t['torch'][key]):9.3f} "
              f"{median(rounds, lambda t: t['torch'][key] / t['tessera'][key]):6.2f}x")
    print(f"stall by a copy in memory: {median(rounds, lambda t: t['tessera']['stall'] / t['tessera']['copy']):.2f}")
    for key in ("written", "save"):
        share = median(rounds, lambda t: t["bytes"] / t["tessera"][key] / t["dd"])
        print(f"{key} by dd's {median(rounds, lambda t: t['dd']) / 1e9:.2f} GB/s: {100 * share:.0f}%")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tessera", default="build/tessera", help="the binary (build/tessera)")
    parser.add_argument("--model", default="gpt2-124m", help="as of `tessera bench ckpt`")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", default=".", help="on the disk that is meant")
    parser.add_argument("--json", metavar="FILE", help="write all figures there")
    args = parser.parse_args()
    os.makedirs(args.folder, exist_ok=True)
    rounds = measure(args)
    print_table(args, rounds)
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(rounds, file, indent=1)


if __name__ == "__main__":
    main()
