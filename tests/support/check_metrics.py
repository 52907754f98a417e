#!/usr/bin/env python3
"""check_metrics.py FILE [NAME ...]: reads a page in Prometheus' text format (0.0.4) as strictly as the format allows, and
says what is wrong with it. Each NAME must have a sample. If the package prometheus_client is there, it reads the page too.
"""
import re
import sys

LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\\\|\\"|\\n)*"'
SAMPLE = re.compile(rf"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{{({LABEL}(?:,{LABEL})*)\}})? (\S+)$")
MOST_SAMPLES = 2000  # of a family: labels are bounded


def check(text):
    """Yields what is wrong, then returns the samples."""
    family, helps, types, samples = None, {}, {}, {}
    if not text.endswith("\n"):
        yield "the last line has no end"
    for number, line in enumerate(text.splitlines(), 1):
        where = f"line {number}: {line[:120]}"
        if line.startswith("# HELP "):
            family = line.split(" ", 3)[2]
            if family in helps or len(line.split(" ", 3)) < 4:
                yield f"a second HELP, or one without a text: {where}"
            helps[family] = number
            continue
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            if name != family or helps.get(name) != number - 1:
                yield f"TYPE does not follow HELP: {where}"
            if kind not in ("gauge", "counter") or (kind == "counter") != name.endswith("_total"):
                yield f"the type does not fit the name: {where}"
            types[name] = kind
            continue
        match = SAMPLE.match(line)
        if match is None:
            yield f"no sample: {where}"
            continue
        name, labels, value = match.groups()
        keys = re.findall(r'([a-zA-Z_][a-zA-Z0-9_]*)="', re.sub(r'"(?:[^"\\]|\\.)*"', '""', labels or "").replace('""', '"'))
        if name != family or name not in types:
            yield f"a sample outside of its family: {where}"
        if len(set(keys)) != len(keys) or any(key.startswith("__") for key in keys):
            yield f"bad labels: {where}"
        if (name, labels) in samples:
            yield f"a sample that comes twice: {where}"
        try:
            number = float(value)
        except ValueError:
            yield f"no number: {where}"
            number = 0
        if types.get(name) == "counter" and not number >= 0:
            yield f"a negative counter: {where}"
        samples[name, labels] = number
    for name in types:
        n = sum(1 for other, _ in samples if other == name)
        if not 0 < n <= MOST_SAMPLES:
            yield f"{name} has {n} samples"
    return samples


def main():
    with open(sys.argv[1], encoding="utf-8", newline="") as file:
        text = file.read()
    wrong, steps = [], check(text)
    while True:
        try:
            wrong.append(next(steps))
        except StopIteration as end:
            samples = end.value
            break
    names = {name for name, _ in samples}
    wrong += [f"{name} is missing" for name in sys.argv[2:] if name not in names]
    try:
        from prometheus_client.parser import text_string_to_metric_families
        read = sum(len(family.samples) for family in text_string_to_metric_families(text))
        if read != len(samples):
            wrong.append(f"prometheus_client reads {read} of {len(samples)} samples")
    except ImportError:
        pass
    print("\n".join(wrong[:20]) if wrong else f"{len(samples)} samples of {len(names)} families")
    sys.exit(1 if wrong or not samples else 0)


main()
