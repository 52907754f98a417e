#!/usr/bin/env python3
"""Tessera against PyTorch: one training step of the same model on the same tokens, taking turns on the same cores.

    python3 bench/peers/compare_step.py --tessera build/tessera --model gpt2-124m --batch 8 --micro 4 --seq 1024
    python3 bench/peers/compare_step.py --model llama-1b --batch 1 --micro 1 --recompute full --restart --ours 1x2
    python3 bench/peers/compare_step.py --model gpt2-124m --batch 64 --micro 16 --device cuda
    python3 bench/peers/compare_step.py --model moe-8x2 --check --batch 4 --micro 4 --seq 512 --ours 1x2 \
        --variants eager,compiled,eager/eager,compiled/eager

Every variant of torch_step.py is started and warmed up, then steps of ours and of theirs alternate for --pairs turns
(with --restart both start anew for every turn: for models that do not fit in memory twice). What counts is the median
of the turns' ratios; the best PyTorch is the one that ours is least ahead of. Also prints the wall time of PyTorch's step 1,
in which it compiles, and the losses of step 1: with
--check the weights are the same, and so must they be (to bf16's rounding).
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))


class Ours:
    """`tessera bench step`, a process for every step: it needs one step to warm up."""

    def __init__(self, args, model, layout):
        ranks, threads = (int(n) for n in layout.split("x"))
        self.name = f"{ranks} x {threads}"
        self.busy = args.busy
        self.seconds = []
        self.report = None
        self.command = [args.tessera, "bench", "step", "--quick", "--json", "--model", model, "--batch",
                        str(args.batch), "--micro", str(args.micro), "--seq", str(args.seq), "-n", str(ranks),
                        "--threads", str(threads), "--precision", args.precision, "--recompute", args.recompute,
                        "--device", args.device]

    def step(self):
        done = subprocess.run(self.command, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{' '.join(self.command)}: {done.stderr.strip()}")
        self.report = json.loads(done.stdout)
        row = self.report["tables"][0]["rows"][0]
        self.seconds.append(row["cpu" if self.busy else "time"] / 1e3)
        return self.seconds[-1]

    def loss(self):
        return float(self.report["machine"]["step 1"].split()[1].rstrip(","))


class Theirs:
    """torch_step.py, kept alive between steps."""

    def __init__(self, args, model, variant):
        self.name = variant
        self.measure = "cpu" if args.busy else "seconds"
        self.seconds = []
        self.first_loss = None
        self.first_seconds = None  # of step 1, in which torch.compile compiles
        self.process = None
        variant, _, experts = variant.partition("/")
        self.command = [sys.executable, os.path.join(HERE, "torch_step.py"), "--serve", "--variant", variant, "--model",
                        model, "--batch", str(args.batch), "--micro", str(args.torch_micro), "--seq", str(args.seq),
                        "--precision", args.precision, "--recompute", args.recompute, "--warm-up", str(args.warm_up),
                        "--device", args.device]
        self.command += (["--experts", experts] if experts else []) + (["--threads", "1"] if args.busy else [])

    def line(self):
        line = self.process.stdout.readline()
        if not line:
            self.process.wait()
            raise RuntimeError(f"{self.name} ended with exit code {self.process.returncode}")
        return line.strip()

    def start(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True)
        while True:
            line = self.line()
            if line == "ready":
                return
            if line.startswith("step 1:"):
                self.first_seconds = float(line.split()[2])
                self.first_loss = float(line.split()[-1])

    def step(self):
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        self.seconds.append(json.loads(self.line())[self.measure])
        return self.seconds[-1]

    def stop(self):
        self.process.stdin.close()
        self.process.wait()


def take_turns(args, ours, theirs):
    """Appends a step of each to their lists, --pairs times."""
    marks = [len(o.seconds) for o in ours]
    if not args.restart:
        theirs.start()
    for pair in range(args.pairs):
        if args.restart:
            theirs.start()
        line = f"{theirs.name} {pair + 1}/{args.pairs}: {theirs.step():.3f} s"
        if args.restart:
            theirs.stop()
        for o in ours:
            line += f", ours {o.name} {o.step():.3f} s"
        print(line, file=sys.stderr, flush=True)
    if not args.restart:
        theirs.stop()
    their_median = statistics.median(theirs.seconds)
    row = {"variant": theirs.name, "seconds": their_median, "tokens_per_s": args.batch * args.seq / their_median,
           "first_loss": theirs.first_loss, "first_seconds": theirs.first_seconds, "ours": {}}
    for o, mark in zip(ours, marks):
        ratios = sorted(t / own for t, own in zip(theirs.seconds, o.seconds[mark:]))
        row["ours"][o.name] = {"seconds": statistics.median(o.seconds[mark:]), "ratio": statistics.median(ratios),
                               "range": [ratios[0], ratios[-1]]}
    return row


def measure(args, model):
    ours = [Ours(args, model, layout) for layout in args.ours.split(",")]
    rows = []
    for variant in args.variants.split(","):
        try:
            rows.append(take_turns(args, ours, Theirs(args, model, variant)))
        except RuntimeError as error:
            print(f"{error}: left out", file=sys.stderr)
    if not rows:
        sys.exit("no variant of PyTorch ran")
    return {"model": args.model, "batch": args.batch, "micro": args.micro, "seq": args.seq,
            "precision": args.precision, "recompute": args.recompute, "pairs": args.pairs, "rows": rows,
            "machine": ours[0].report["machine"],
            "ours": {o.name: {"seconds": statistics.median(o.seconds),
                              "tokens_per_s": args.batch * args.seq / statistics.median(o.seconds),
                              "first_loss": o.loss(), "worst_ratio": min(row["ours"][o.name]["ratio"] for row in rows)}
                     for o in ours}}


def print_table(result):
    names = list(result["ours"])
    print(f"{result['model']}, {result['batch']} x {result['seq']} tokens a step, {result['precision']}, "
          f"medians of {result['pairs']} turns")
    print(f"{'':16} {'s/step':>9} {'step 1':>9} {'tokens/s':>9} {'loss 1':>10}" + "".join(f"   ours {n} is" for n in names))
    for row in result["rows"]:
        print(f"{row['variant']:16} {row['seconds']:9.3f} {row['first_seconds']:9.1f} {row['tokens_per_s']:9.0f} {row['first_loss']:10.5f}" +
              "".join(f"{row['ours'][n]['ratio']:11.2f}x   " for n in names))
    for n in names:
        o = result["ours"][n]
        print(f"{'tessera ' + n:16} {o['seconds']:9.3f} {'':9} {o['tokens_per_s']:9.0f} {o['first_loss']:10.5f}"
              f"   {o['worst_ratio']:.2f}x the best PyTorch")


def check_losses(result):
    """Same weights, same tokens: the first losses agree to the precision of the compute dtype."""
    limit = 2e-3 if result["precision"] == "bf16" else 1e-5
    for n, o in result["ours"].items():
        for row in result["rows"]:
            if abs(row["first_loss"] - o["first_loss"]) > limit * o["first_loss"]:
                sys.exit(f"loss of step 1: {row['variant']} {row['first_loss']}, ours {n} {o['first_loss']}")


def parse():
    cores = len(os.sched_getaffinity(0))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tessera", default="build/tessera", help="the binary (build/tessera)")
    parser.add_argument("--model", default="gpt2-124m", help="gpt2-124m, gpt2-1.5b, llama-1b, llama-5m; with --check also moe-8x2, moe-32x4")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--micro", type=int, default=4, help="our rows of a micro-batch")
    parser.add_argument("--torch-micro", type=int, default=0, help="theirs (default: as few micro-batches as they can)")
    parser.add_argument("--seq", type=int, default=1024)
    parser.add_argument("--precision", choices=("bf16", "fp32"), default="bf16")
    parser.add_argument("--recompute", choices=("none", "full"), default="none")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="cuda: one GPU, one process of each")
    parser.add_argument("--ours", help="ranks x threads, a comma between (all cores as either; cuda: 1x1)")
    parser.add_argument("--variants", help="of torch_step.py (all; cuda: compiled), perhaps with its --experts: compiled/eager")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--warm-up", type=int, default=2, help="steps of theirs before the first turn")
    parser.add_argument("--restart", action="store_true", help="start theirs anew for every turn")
    parser.add_argument("--busy", action="store_true", help="one thread each, and processor time, for a busy machine")
    parser.add_argument("--check", action="store_true", help="give both the same weights and compare the first losses")
    parser.add_argument("--json", metavar="FILE", help="write the result there")
    args = parser.parse_args()
    on_gpu = args.device == "cuda"
    args.ours = args.ours or ("1x1" if on_gpu or args.busy else f"{cores}x1,1x{cores}")
    args.variants = args.variants or ("compiled" if on_gpu else "eager,compiled" if args.busy else "eager,compiled,fsdp2,fsdp2-compiled")
    return args


def main():
    args = parse()
    with tempfile.TemporaryDirectory() as folder:
        model = args.model
        if args.check and not os.path.isdir(args.model):
            model = os.path.join(folder, args.model)
            subprocess.run([sys.executable, os.path.join(HERE, "torch_step.py"), "--model", args.model, "--save", model],
                           check=True, stderr=subprocess.DEVNULL)
        result = measure(args, model)
    print_table(result)
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(result, file, indent=1)
    if args.check:
        check_losses(result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
