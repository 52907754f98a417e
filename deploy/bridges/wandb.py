#!/usr/bin/env python3
"""Sends a run of Tessera to Weights & Biases.

    pip install wandb
    tessera train run.yaml metrics.command=deploy/bridges/wandb.py

Settings are those of wandb: WANDB_PROJECT, WANDB_ENTITY, WANDB_API_KEY, WANDB_MODE=offline and others. Its files go to
WANDB_DIR, or to the run's folder. The id of the W&B run is kept in bridge-wandb.json in the run's folder, so a run that
resumes goes on there. Metrics are plotted over Tessera's `step`. docs/howto/trackers.md describes the lines that it reads.
"""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))  # python3 -P leaves it out
from tracker_bridge import FOLDER, Bridge, numbers, sample_table
try:
    import wandb
except ImportError as missing:
    sys.exit(f"the package wandb is missing: pip install wandb ({missing})")


class WandbBridge(Bridge):
    def open(self, header):
        self.wandb = wandb.init(id=self.id, resume="allow" if self.id else None, name=header["name"],
                                notes=header["description"] or None, dir=os.environ.get("WANDB_DIR", FOLDER))
        self.wandb.config.update({**header["config"], "tessera": header["versions"], "model": header.get("model")},
                                 allow_val_change=True)
        self.wandb.define_metric("step")
        self.wandb.define_metric("*", step_metric="step")
        self.id = self.wandb.id

    # W&B wants rows to have ascending numbers of its own, also offline.

    def log_line(self, line):
        self.wandb.log(dict(numbers(line)), step=self.rows)

    def log_samples(self, samples):
        columns, rows = sample_table(samples)
        self.wandb.log({"samples": wandb.Table(columns=columns, data=rows), "step": samples[0]["step"]}, step=self.rows)

    def log_alert(self, alert):
        self.wandb.alert(title=f"{alert['event']}: {alert['state']}", text=alert["text"])

    def finish(self, status, code):
        self.wandb.summary["tessera_status"] = status
        if status == "interrupted":
            self.wandb.mark_preempting()  # with an exit code, W&B calls the run preempted
        self.wandb.finish(exit_code=code)


if __name__ == "__main__":
    WandbBridge("wandb").run()
