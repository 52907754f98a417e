"""What a run has written, for comparisons with what a tracker gives back: the last value of each number at each step."""
import json


def numbers(line, prefix=""):
    for name, value in line.items():
        if isinstance(value, dict):
            yield from numbers(value, f"{prefix}{name}/")
        elif isinstance(value, (int, float)):
            yield prefix + name, float(value)


def series(folder):
    """{name: {step: value}} of metrics.jsonl."""
    found = {}
    with open(f"{folder}/metrics.jsonl", encoding="utf-8") as file:
        for line in map(json.loads, file):
            for name, value in numbers(line):
                if name != "step":
                    found.setdefault(name, {})[line["step"]] = value
    return found


def samples(folder):
    with open(f"{folder}/samples.jsonl", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def alerts(folder):
    with open(f"{folder}/alerts.jsonl", encoding="utf-8") as file:
        return [json.loads(line)["text"] for line in file]


def check(what, good, detail=""):
    print(f"ok     {what}" if good else f"FAILED {what}: {detail}")
    check.failed = check.failed or not good


check.failed = False


def compare(what, wanted, got):
    """Compares two {name: {step: value}}; all values must be equal."""
    wrong = [(name, step, value, got.get(name, {}).get(step)) for name, steps in wanted.items()
             for step, value in steps.items() if got.get(name, {}).get(step) != value]
    n = sum(len(steps) for steps in wanted.values())
    check(f"{what}: {n} values of {len(wanted)} names are equal", n > 100 and not wrong, wrong[:3])
