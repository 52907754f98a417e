#!/usr/bin/env python3
"""Sends a run of Tessera to Weights & Biases.

    pip install wandb
    tessera train run.yaml metrics.command=deploy/bridges/wandb.py

Settings are those of wandb: WANDB_PROJECT, WANDB_ENTITY, WANDB_API_KEY, WANDB_MODE=offline and others. Its files go to
WANDB_DIR, or to the run's folder. The id of the W&B run is kept in bridge-wandb.json in the run's folder, so a run that
resumes goes on there. Metrics are plotted over Tessera's `step`. docs/howto/trackers.md describes the lines that it reads.
"""
import json
import os
import sys
import time

# This file is called wandb.py, too: leave its folder out where packages are searched.
HERE = os.path.dirname(os.path.realpath(__file__))
sys.path = [path for path in sys.path if os.path.realpath(path or ".") != HERE]
try:
    import wandb
except ImportError as missing:
    sys.exit(f"the package wandb is missing: pip install wandb ({missing})")

FOLDER = os.environ.get("TESSERA_METRICS_FOLDER", ".")


class State:
    """What a later process of the same run must know: the id at the tracker, the newest step that it has, and how many
    lines of that step and rows in all. W&B wants rows to have ascending numbers of its own, also offline."""

    def __init__(self):
        self.path = os.path.join(FOLDER, "bridge-wandb.json")
        self.id, self.step, self.lines, self.rows, self.saved = None, 0, 0, 0, 0.0
        try:
            with open(self.path, encoding="utf-8") as file:
                kept = json.load(file)
            self.id, self.step, self.rows = kept["id"], kept["step"], kept["rows"]
            self.lines = kept.get("lines", 1 << 30)
        except (OSError, ValueError, KeyError):
            pass

    def save(self, now=False):
        if not now and time.monotonic() < self.saved + 1:
            return
        with open(self.path + ".new", "w", encoding="utf-8") as file:
            json.dump({"id": self.id, "step": self.step, "lines": self.lines, "rows": self.rows}, file)
        os.replace(self.path + ".new", self.path)
        self.saved = time.monotonic()


def numbers(line, prefix=""):
    """Yields (name, value) of all numbers of a line; numbers of inner objects are called outer/inner."""
    for name, value in line.items():
        if isinstance(value, dict):
            yield from numbers(value, f"{prefix}{name}/")
        elif isinstance(value, (int, float)):
            yield prefix + name, value


class Bridge:
    def __init__(self):
        self.state = State()
        self.run = None
        self.samples = []
        self.is_over = False

    def begin(self, header):
        """A header comes first, and again when the run has gone back to an earlier step."""
        if self.run is not None:
            return
        if header["step"] == 0:
            self.state.id, self.state.step, self.state.lines, self.state.rows = None, 0, 0, 0
        self.run = wandb.init(id=self.state.id, resume="allow" if self.state.id else None, name=header["name"],
                              notes=header["description"] or None, dir=os.environ.get("WANDB_DIR", FOLDER))
        self.run.config.update({**header["config"], "tessera": header["versions"], "model": header.get("model")},
                               allow_val_change=True)
        self.run.define_metric("step")
        self.run.define_metric("*", step_metric="step")
        self.state.id = self.run.id
        self.fill_gap(header["step"])
        self.state.save(now=True)

    def fill_gap(self, until):
        """Logs the lines that an earlier process of this bridge has not got: they are in metrics.jsonl."""
        if until == 0 or self.state.step > until:
            return
        after, taken = self.state.step, self.state.lines
        with open(os.path.join(FOLDER, "metrics.jsonl"), encoding="utf-8") as file:
            for line in map(json.loads, file):
                taken -= line["step"] == after  # a step may have several lines
                if line["step"] <= until and (line["step"] > after or (line["step"] == after and taken < 0)):
                    self.log(line)

    def add_row(self, row):
        self.run.log(row, step=self.state.rows)
        self.state.rows += 1

    def log(self, line):
        self.add_row(dict(numbers(line)))
        self.state.lines = self.state.lines + 1 if line["step"] == self.state.step else 1
        self.state.step = line["step"]
        self.state.save()

    def log_samples(self):
        if self.samples:
            columns = ["step", "rollout", "sample", "prompt", "response", "reward"]
            table = wandb.Table(columns=columns, data=[[s.get(c) for c in columns] for s in self.samples])
            self.add_row({"samples": table, "step": self.samples[0]["step"]})
        self.samples = []

    def take(self, line):
        event = line.get("event")
        if self.samples and (event != "sample" or line["step"] != self.samples[0]["step"]):
            self.log_samples()
        if event == "run":
            self.begin(line)
        elif event == "sample":
            self.samples.append(line)
        elif event == "alert":
            alert = line["alert"]
            self.run.alert(title=f"{alert['event']}: {alert['state']}", text=alert["text"])
        elif event == "end":
            self.end(line)
        elif event is None:
            self.log(line)

    def end(self, line):
        self.is_over = True
        self.run.summary["tessera_status"] = line["status"]
        self.state.save(now=True)
        if line["status"] == "interrupted":
            self.run.mark_preempting()  # with an exit code, W&B calls the run preempted
        self.run.finish(exit_code=line["code"])

    def close(self):
        """The lines ended without an end: the run was killed."""
        if self.run is not None and not self.is_over:
            self.log_samples()
            self.state.save(now=True)
            self.run.finish(exit_code=255)


def main():
    bridge = Bridge()
    for line in sys.stdin:
        bridge.take(json.loads(line))
    bridge.close()


if __name__ == "__main__":
    main()
