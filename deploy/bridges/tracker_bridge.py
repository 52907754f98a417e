"""The common part of the bridges to trackers: reads the lines of a run and remembers what the tracker has.

A bridge is a subclass of Bridge with the methods `open`, `log_line`, `log_samples`, `log_alert` and `finish`.
docs/howto/trackers.md describes the lines.
"""
import json
import os
import sys
import time

FOLDER = os.environ.get("TESSERA_METRICS_FOLDER", ".")

# A bridge has the name of the tracker's package: leave this folder out where packages are searched.
HERE = os.path.dirname(os.path.realpath(__file__))
sys.path = [path for path in sys.path if os.path.realpath(path or ".") != HERE]


def numbers(line, prefix=""):
    """Yields (name, value) of all numbers of a line; numbers of inner objects are called outer/inner."""
    for name, value in line.items():
        if isinstance(value, dict):
            yield from numbers(value, f"{prefix}{name}/")
        elif isinstance(value, (int, float)):
            yield prefix + name, value


def sample_table(samples):
    """Returns the columns and the rows of a table of samples."""
    columns = ["step", "rollout", "sample", "prompt", "response", "reward"]
    return columns, [[sample.get(column) for column in columns] for sample in samples]


class Bridge:
    """Sends the lines of a run to one tracker.

    The run's folder keeps what a later process of the same run must know, in bridge-TRACKER.json: the id at the tracker,
    the newest step that it has, the number of lines of that step, and the number of rows in all.
    """

    def __init__(self, tracker):
        self.path = os.path.join(FOLDER, f"bridge-{tracker}.json")
        self.samples = []
        self.is_open = False
        self.saved = 0.0
        self.forget()
        try:
            with open(self.path, encoding="utf-8") as file:
                kept = json.load(file)
            self.id, self.step = kept["id"], kept["step"]
            # Files of older bridges may lack these: then all lines of the newest step have been sent.
            self.lines, self.rows = kept.get("lines", 1 << 30), kept.get("rows", 0)
        except (OSError, ValueError, KeyError):
            pass

    # Each bridge defines these methods.

    def open(self, header):
        """Opens the tracker's run `self.id`, or a new one if it is None, and sets `self.id`."""
        raise NotImplementedError

    def log_line(self, line):
        """Logs the numbers of one line of metrics.jsonl."""
        raise NotImplementedError

    def log_samples(self, samples):
        """Logs the samples of one rollout."""
        raise NotImplementedError

    def log_alert(self, alert):
        raise NotImplementedError

    def finish(self, status, code):
        """Ends the tracker's run. Status: finished, interrupted, failed, or killed if the lines ended without an end."""
        raise NotImplementedError

    # All bridges share these methods.

    def forget(self):
        self.id, self.step, self.lines, self.rows = None, 0, 0, 0

    def save(self, now=False):
        if not now and time.monotonic() < self.saved + 1:
            return
        with open(self.path + ".new", "w", encoding="utf-8") as file:
            json.dump({"id": self.id, "step": self.step, "lines": self.lines, "rows": self.rows}, file)
        os.replace(self.path + ".new", self.path)
        self.saved = time.monotonic()

    def begin(self, header):
        """A header comes first, and again when the run has gone back to an earlier step."""
        if self.is_open:
            return
        if header["step"] == 0:
            self.forget()
        self.open(header)
        self.is_open = True
        self.fill_gap(header["step"])
        self.save(now=True)

    def fill_gap(self, until):
        """Logs the lines that an earlier process of this bridge has not got: they are in metrics.jsonl."""
        if until == 0 or self.step > until:
            return
        after, taken = self.step, self.lines
        with open(os.path.join(FOLDER, "metrics.jsonl"), encoding="utf-8") as file:
            for line in map(json.loads, file):
                taken -= line["step"] == after  # a step may have several lines
                if line["step"] <= until and (line["step"] > after or (line["step"] == after and taken < 0)):
                    self.take_line(line)

    def take_line(self, line):
        self.log_line(line)
        self.rows += 1
        self.lines = self.lines + 1 if line["step"] == self.step else 1
        self.step = line["step"]
        self.save()

    def send_samples(self):
        if self.samples:
            self.log_samples(self.samples)
            self.rows += 1
        self.samples = []

    def take(self, line):
        event = line.get("event")
        if self.samples and (event != "sample" or line["step"] != self.samples[0]["step"]):
            self.send_samples()
        if event == "run":
            self.begin(line)
        elif event == "sample":
            self.samples.append(line)
        elif event == "alert":
            self.log_alert(line["alert"])
        elif event == "end":
            self.end(line["status"], line["code"])
        elif event is None:
            self.take_line(line)

    def end(self, status, code):
        self.is_open = False
        self.save(now=True)
        self.finish(status, code)

    def run(self):
        """Reads lines from standard input until its end."""
        for line in sys.stdin:
            self.take(json.loads(line))
        if self.is_open:
            self.send_samples()
            self.end("killed", 255)
