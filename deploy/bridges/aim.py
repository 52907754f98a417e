#!/usr/bin/env python3
"""Sends a run of Tessera to Aim.

    pip install aim
    AIM_REPO=runs tessera train run.yaml metrics.command=deploy/bridges/aim.py

AIM_REPO is the folder of the repository, or aim://server:port; without it, the repository is the present folder. The hash
of the Aim run is kept in bridge-aim.json in the run's folder, so a run that resumes goes on there.
docs/howto/trackers.md describes the lines that it reads.
"""
import json
import os
import sys
import time

# This file is called aim.py, too: leave its folder out where packages are searched.
HERE = os.path.dirname(os.path.realpath(__file__))
sys.path = [path for path in sys.path if os.path.realpath(path or ".") != HERE]
try:
    import aim
except ImportError as missing:
    sys.exit(f"the package aim is missing: pip install aim ({missing})")

FOLDER = os.environ.get("TESSERA_METRICS_FOLDER", ".")


class State:
    """What a later process of the same run must know: the id at the tracker, the newest step that it has, and how many
    lines of that step."""

    def __init__(self):
        self.path = os.path.join(FOLDER, "bridge-aim.json")
        self.id, self.step, self.lines, self.saved = None, 0, 0, 0.0
        try:
            with open(self.path, encoding="utf-8") as file:
                kept = json.load(file)
            self.id, self.step, self.lines = kept["id"], kept["step"], kept.get("lines", 1 << 30)
        except (OSError, ValueError, KeyError):
            pass

    def save(self, now=False):
        if not now and time.monotonic() < self.saved + 1:
            return
        with open(self.path + ".new", "w", encoding="utf-8") as file:
            json.dump({"id": self.id, "step": self.step, "lines": self.lines}, file)
        os.replace(self.path + ".new", self.path)
        self.saved = time.monotonic()


def numbers(line, prefix=""):
    """Yields (name, value) of all numbers of a line; numbers of inner objects are called outer/inner."""
    for name, value in line.items():
        if isinstance(value, dict):
            yield from numbers(value, f"{prefix}{name}/")
        elif isinstance(value, (int, float)):
            yield prefix + name, value


def open_repository():
    path = os.environ.get("AIM_REPO", ".")
    return path if "://" in path else aim.Repo.from_path(path, init=not aim.Repo.exists(path))


class Bridge:
    def __init__(self):
        self.state = State()
        self.run = None
        self.is_over = False

    def begin(self, header):
        """A header comes first, and again when the run has gone back to an earlier step."""
        if self.run is not None:
            return
        if header["step"] == 0:
            self.state.id, self.state.step, self.state.lines = None, 0, 0
        self.run = aim.Run(run_hash=self.state.id, repo=open_repository(), experiment="tessera", force_resume=self.state.id is not None,
                           system_tracking_interval=None, capture_terminal_logs=False, log_system_params=False)
        self.run.name = header["name"]
        if header["description"]:
            self.run.description = header["description"]
        self.run["hparams"] = header["config"]
        self.run["tessera"] = header["versions"]
        self.run["model"] = header.get("model", {})
        self.state.id = self.run.hash
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

    def log(self, line):
        for name, value in numbers(line):
            if name != "step":
                self.run.track(float(value), name=name, step=line["step"])
        self.state.lines = self.state.lines + 1 if line["step"] == self.state.step else 1
        self.state.step = line["step"]
        self.state.save()

    def take(self, line):
        event = line.get("event")
        if event == "run":
            self.begin(line)
        elif event == "sample":
            text = f"{line['prompt']}{line['response']}\n\nreward: {line['reward']}"
            self.run.track(aim.Text(text), name="samples", step=line["step"], context={"sample": line["sample"]})
        elif event == "alert":
            self.run.track(aim.Text(f"step {self.state.step}: {line['alert']['text']}"), name="alerts")
        elif event == "end":
            self.end(line["status"])
        elif event is None:
            self.log(line)

    def end(self, status):
        self.is_over = True
        self.state.save(now=True)
        self.run["tessera_status"] = status
        if status == "finished":
            self.run.report_successful_finish()
        self.run.close()

    def close(self):
        """The lines ended without an end: the run was killed."""
        if self.run is not None and not self.is_over:
            self.end("killed")


def main():
    bridge = Bridge()
    for line in sys.stdin:
        bridge.take(json.loads(line))
    bridge.close()


if __name__ == "__main__":
    main()
