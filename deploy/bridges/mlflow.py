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

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))  # python3 -P leaves it out
from tracker_bridge import Bridge, numbers, sample_table
try:
    import mlflow
    from mlflow.entities import Metric, Param
except ImportError as missing:
    sys.exit(f"the package mlflow is missing: pip install mlflow ({missing})")

LONGEST, AT_ONCE = 6000, 100  # limits of MLflow: characters of a parameter, parameters of a call
STATUS = {"finished": "FINISHED", "interrupted": "KILLED", "failed": "FAILED", "killed": "FAILED"}


def allowed(name):
    """Replaces what MLflow does not allow in names."""
    return re.sub(r"[^\w\-. :/]", "_", name)


def as_text(value):
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text[:LONGEST]


class MlflowBridge(Bridge):
    def open(self, header):
        self.client = mlflow.MlflowClient()
        self.n_alerts = 0
        if self.id is None:
            experiment = mlflow.set_experiment(os.environ.get("MLFLOW_EXPERIMENT_NAME", "tessera"))
            run = self.client.create_run(experiment.experiment_id, run_name=header["name"])
            self.id = run.info.run_id
        self.client.update_run(self.id, status="RUNNING")
        if header["description"]:
            self.client.set_tag(self.id, "mlflow.note.content", header["description"])
        for name, version in header["versions"].items():
            self.client.set_tag(self.id, f"version.{allowed(name)}", version)
        self.log_config({**header["config"], **{f"model.{k}": v for k, v in header.get("model", {}).items()}})

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

    def log_line(self, line):
        now = int(time.time() * 1000)
        self.client.log_batch(self.id, metrics=[Metric(allowed(name), float(value), now, line["step"])
                                                for name, value in numbers(line)
                                                if name != "step" and math.isfinite(value)])

    def log_samples(self, samples):
        columns, rows = sample_table(samples)
        self.client.log_dict(self.id, {"columns": columns, "data": rows}, f"samples/step-{samples[0]['step']:08d}.json")

    def log_alert(self, alert):
        self.n_alerts += 1
        self.client.set_tag(self.id, "alert", alert["text"])
        self.client.log_dict(self.id, alert, f"alerts/{int(time.time())}-{self.n_alerts}.json")

    def finish(self, status, code):
        self.client.set_tag(self.id, "tessera_status", status)
        self.client.set_terminated(self.id, status=STATUS.get(status, "FAILED"))


if __name__ == "__main__":
    MlflowBridge("mlflow").run()
