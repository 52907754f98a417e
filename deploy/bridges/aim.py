#!/usr/bin/env python3
"""Sends a run of Tessera to Aim.

    pip install aim
    AIM_REPO=runs tessera train run.yaml metrics.command=deploy/bridges/aim.py

AIM_REPO is the folder of the repository, or aim://server:port; without it, the repository is the present folder. The hash
of the Aim run is kept in bridge-aim.json in the run's folder, so a run that resumes goes on there.
docs/howto/trackers.md describes the lines that it reads.
"""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))  # python3 -P leaves it out
from tracker_bridge import Bridge, numbers
try:
    import aim
except ImportError as missing:
    sys.exit(f"the package aim is missing: pip install aim ({missing})")


def open_repository():
    path = os.environ.get("AIM_REPO", ".")
    return path if "://" in path else aim.Repo.from_path(path, init=not aim.Repo.exists(path))


class AimBridge(Bridge):
    def open(self, header):
        self.aim = aim.Run(run_hash=self.id, repo=open_repository(), experiment="tessera", force_resume=self.id is not None,
                           system_tracking_interval=None, capture_terminal_logs=False, log_system_params=False)
        self.aim.name = header["name"]
        if header["description"]:
            self.aim.description = header["description"]
        self.aim["hparams"] = header["config"]
        self.aim["tessera"] = header["versions"]
        self.aim["model"] = header.get("model", {})
        self.id = self.aim.hash

    def log_line(self, line):
        for name, value in numbers(line):
            if name != "step":
                self.aim.track(float(value), name=name, step=line["step"])

    def log_samples(self, samples):
        for sample in samples:
            text = f"{sample['prompt']}{sample['response']}\n\nreward: {sample['reward']}"
            self.aim.track(aim.Text(text), name="samples", step=sample["step"], context={"sample": sample["sample"]})

    def log_alert(self, alert):
        self.aim.track(aim.Text(f"step {self.step}: {alert['text']}"), name="alerts")

    def finish(self, status, code):
        self.aim["tessera_status"] = status
        if status == "finished":
            self.aim.report_successful_finish()
        self.aim.close()


if __name__ == "__main__":
    AimBridge("aim").run()
