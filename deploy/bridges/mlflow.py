#!/usr/bin/env python3
"""Sends a run of Tessera to MLflow.

    pip install mlflow
    MLFLOW_TRACKING_URI=http://server:5000 tessera train run.yaml metrics.command=deploy/bridges/mlflow.py

Settings are those of MLflow: MLFLOW_TRACKING_URI, MLFLOW_EXPERIMENT_NAME and others. The id of the MLflow run is kept in
bridge-mlflow.json in the run's folder, so a run that resumes goes on there. The configuration becomes parameters; MLflow
does not let them change, so a value that a resumed run has changed becomes a tag `changed.KEY`.
docs/howto/trackers.md describes the lines that it reads.
"""
import json
import math
import os
import re
import sys
import time

# This file is called mlflow.py, too: leave its folder out where packages are searched.
HERE = os.path.dirname(os.path.realpath(__file__))
sys.path = [path for path in sys.path if os.path.realpath(path or ".") != HERE]
try:
    import mlflow
    from mlflow.entities import Metric, Param
except ImportError as missing:
    sys.exit(f"the package mlflow is missing: pip install mlflow ({missing})")

FOLDER = os.environ.get("TESSERA_METRICS_FOLDER", ".")
LONGEST, AT_ONCE = 6000, 100  # limits of MLflow: characters of a parameter, parameters of a call
STATUS = {"finished": "FINISHED", "interrupted": "KILLED", "failed": "FAILED"}


class State:
    """What a later process of the same run must know: the id at the tracker, the newest step that it has, and how many
    lines of that step."""

    def __init__(self):
        self.path = os.path.join(FOLDER, "bridge-mlflow.json")
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


def allowed(name):
    """Replaces what MLflow does not allow in names."""
    return re.sub(r"[^\w\-. :/]", "_", name)


def as_text(value):
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text[:LONGEST]


class Bridge:
    def __init__(self):
        self.state = State()
        self.client = mlflow.MlflowClient()
        self.id = None
        self.samples = []
        self.n_alerts = 0
        self.is_over = False

    def begin(self, header):
        """A header comes first, and again when the run has gone back to an earlier step."""
        if self.id is not None:
            return
        if header["step"] == 0:
            self.state.id, self.state.step, self.state.lines = None, 0, 0
        if self.state.id is None:
            experiment = mlflow.set_experiment(os.environ.get("MLFLOW_EXPERIMENT_NAME", "tessera"))
            run = self.client.create_run(experiment.experiment_id, run_name=header["name"])
            self.state.id = run.info.run_id
        self.id = self.state.id
        self.client.update_run(self.id, status="RUNNING")
        if header["description"]:
            self.client.set_tag(self.id, "mlflow.note.content", header["description"])
        for name, version in header["versions"].items():
            self.client.set_tag(self.id, f"version.{allowed(name)}", version)
        self.log_config({**header["config"], **{f"model.{k}": v for k, v in header.get("model", {}).items()}})
        self.fill_gap(header["step"])
        self.state.save(now=True)

    def log_config(self, config):
        before = self.client.get_run(self.id).data.params
        new = []
        for name, value in ((allowed(name), as_text(value)) for name, value in config.items()):
            if name not in before:
                new.append(Param(name, value))
            elif before[name] != value:
                self.client.set_tag(self.id, f"changed.{name}", value)
        for i in range(0, len(new), AT_ONCE):
            self.client.log_batch(self.id, params=new[i:i + AT_ONCE])

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
        now = int(time.time() * 1000)
        self.client.log_batch(self.id, metrics=[Metric(allowed(name), float(value), now, line["step"])
                                                for name, value in numbers(line)
                                                if name != "step" and math.isfinite(value)])
        self.state.lines = self.state.lines + 1 if line["step"] == self.state.step else 1
        self.state.step = line["step"]
        self.state.save()

    def log_samples(self):
        if self.samples:
            columns = ["step", "rollout", "sample", "prompt", "response", "reward"]
            table = {"columns": columns, "data": [[s.get(c) for c in columns] for s in self.samples]}
            self.client.log_dict(self.id, table, f"samples/step-{self.samples[0]['step']:08d}.json")
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
            self.n_alerts += 1
            self.client.set_tag(self.id, "alert", line["alert"]["text"])
            self.client.log_dict(self.id, line["alert"], f"alerts/{int(time.time())}-{self.n_alerts}.json")
        elif event == "end":
            self.end(line["status"])
        elif event is None:
            self.log(line)

    def end(self, status):
        self.is_over = True
        self.state.save(now=True)
        self.client.set_tag(self.id, "tessera_status", status)
        self.client.set_terminated(self.id, status=STATUS.get(status, "FAILED"))

    def close(self):
        """The lines ended without an end: the run was killed."""
        if self.id is not None and not self.is_over:
            self.log_samples()
            self.end("killed")


def main():
    bridge = Bridge()
    for line in sys.stdin:
        bridge.take(json.loads(line))
    bridge.close()


if __name__ == "__main__":
    main()
