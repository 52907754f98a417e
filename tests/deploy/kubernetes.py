#!/usr/bin/env python3
"""Renders the Helm chart with every option, and validates what comes out against the published schemas.

    kubernetes.py RENDER            checks the chart in deploy/helm and the manifests in deploy/kubernetes
    kubernetes.py RENDER --light    checks the manifests and a few renderings, without a network: seconds
    kubernetes.py RENDER --write    writes the manifests in deploy/kubernetes anew
    kubernetes.py RENDER --pod VALUES.json    prints the job and the first container of its pods as JSON

RENDER is the program of render.go. Needs PyYAML. kubernetes-validate has the schemas of Kubernetes. Those of JobSet and
MPIJob are the files that TESS_JOBSET_CRD and TESS_MPIJOB_CRD name, or come from their projects' repositories. A schema
that is missing is a line "SKIPPED"; the rest is checked all the same.
"""
import copy
import hashlib
import json
import os
import subprocess
import sys
import urllib.error
import urllib.request

import yaml

try:
    import jsonschema
    import kubernetes_validate
except ImportError:
    kubernetes_validate = None

PROJECT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CHART = os.path.join(PROJECT, "deploy", "helm", "tessera")
MANIFESTS = os.path.join(PROJECT, "deploy", "kubernetes")
KINDS = ("job", "jobset", "mpijob")
OLDEST = (1, 30)
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
CRDS = {"JobSet": ("TESS_JOBSET_CRD", "https://raw.githubusercontent.com/kubernetes-sigs/jobset/main/"
                   "config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml"),
        "MPIJob": ("TESS_MPIJOB_CRD", "https://raw.githubusercontent.com/kubeflow/mpi-operator/master/"
                   "manifests/base/kubeflow.org_mpijobs.yaml")}
HEAD = """# Written by tests/deploy/kubernetes.py from the chart in deploy/helm: change that. docs/howto/kubernetes.md says how to use it.
# First: openssl rand -hex 32 | kubectl create secret generic tessera-secret --from-file=secret=/dev/stdin
"""

# Another value of each option, and what must be in the text then. An option that is not here is an error.
OTHER = {
    "kind": None, "image.repository": "registry.example/tessera", "image.tag": "other", "image.pullPolicy": "Always",
    "image.pullSecrets": ["key"], "nodes": 3, "ranksPerNode": 8, "port": 30000, "agentPorts": "30010-30020",
    "command": "rl", "config": "job:\n  dump_folder: /train/other\n", "overrides": ["training.steps=7", "a.b=\"c: d\""],
    "resources.cpu": "16", "resources.memory": "7Gi", "resources.gpus": 8, "resources.gpuName": "amd.com/gpu",
    "sharedMemory": "9Gi", "storage.claim": "mine", "storage.size": "3Ti", "storage.className": "fast",
    "storage.accessMode": "ReadWriteOnce", "storage.keep": False, "secret.name": "mine", "restarts": 2,
    "keepFinishedSeconds": -1, "spot.enable": True, "spot.nodeSelector": {"spot": "true"},
    "spot.tolerations": [{"key": "spot", "operator": "Exists", "effect": "NoSchedule"}], "graceSeconds": 60,
    "priority.className": "urgent", "priority.create": True, "priority.value": 1000000, "priority.preempts": True,
    "quota.create": True, "quota.cpu": "8", "quota.memory": "8Gi", "quota.gpus": 4, "quota.pods": 5,
    "topology.key": "rack", "topology.mode": ["require", "exclusive", "none"], "topology.spread": False,
    "queue": "team", "probes.enable": False, "probes.periodSeconds": 5, "probes.failures": 3,
    "networkPolicy.enable": False, "env": [{"name": "TESSERA_IFNAME", "value": "eth0"}], "labels": {"team": "a"},
    "annotations": {"note": "b"}, "nodeSelector": {"zone": "c"},
    "tolerations": [{"key": "d", "operator": "Exists"}], "volumes": [{"name": "e", "emptyDir": {}}],
    "volumeMounts": [{"name": "e", "mountPath": "/e"}]}
# Options that show only together with others.
WITH = {"resources.gpuName": {"resources.gpus": 1}, "spot.nodeSelector": {"spot.enable": True},
        "spot.tolerations": {"spot.enable": True}, "priority.create": {"priority.className": "urgent"},
        "priority.value": {"priority.className": "urgent", "priority.create": True},
        "priority.preempts": {"priority.className": "urgent", "priority.create": True}, "quota.cpu": {"quota.create": True},
        "quota.memory": {"quota.create": True}, "quota.gpus": {"quota.create": True}, "quota.pods": {"quota.create": True},
        "volumeMounts": {"volumes": [{"name": "e", "emptyDir": {}}]}}
# Options that change nothing alone or for some kinds.
SILENT = {("spot.enable", k) for k in KINDS} | {(o, "mpijob") for o in (
    "port", "agentPorts", "probes.enable", "probes.periodSeconds", "probes.failures")}


class Failure(Exception):
    pass


def leaves(values, path=""):
    for key, value in values.items():
        name = path + key
        if isinstance(value, dict) and value:
            yield from leaves(value, name + ".")
        else:
            yield name


def put(values, name, value):
    *folders, last = name.split(".")
    for folder in folders:
        values = values[folder]
    values[last] = value


def case(chart, defaults, kind, name, changes):
    values = copy.deepcopy(defaults)
    values["kind"] = kind
    values["secret"]["name"] = "tessera-secret"  # one that the chart makes is random
    for option, value in changes.items():
        put(values, option, value)
    return {"name": name, "release": "train", "chart": chart, "values": values}


def render(program, cases):
    run = subprocess.run([program, CHART], input=json.dumps(cases), capture_output=True, text=True)
    if run.returncode != 0:
        raise Failure(run.stderr)
    return {text["name"]: text for text in json.loads(run.stdout)}


def wide_cases(chart, defaults, kind):
    """All options at their defaults, all at other values, and a secret that the chart makes."""
    everything = {o: v[0] if o == "topology.mode" else v for o, v in OTHER.items() if o != "kind"}
    return [case(chart, defaults, kind, f"{kind}:", {}), case(chart, defaults, kind, f"{kind}:everything", everything),
            case(chart, defaults, kind, f"{kind}:own secret", {"secret.name": ""})]


def option_cases(chart, defaults, kind):
    """Each option alone, next to the same values without it."""
    for option in leaves(defaults):
        if option == "kind":
            continue
        base = WITH.get(option, {})
        for value in OTHER[option] if option == "topology.mode" else [OTHER[option]]:
            yield case(chart, defaults, kind, f"{kind}:{option}={value}", {**base, option: value})
            yield case(chart, defaults, kind, f"{kind}:{option}={value}:before", base)


def all_cases(chart, defaults, light):
    for option in leaves(defaults):
        if option not in OTHER:
            raise Failure(f"{option}: the test has no other value for it")
    cases = []
    for kind in KINDS:
        cases += wide_cases(chart, defaults, kind)
        if not light:
            cases += option_cases(chart, defaults, kind)
    return cases


# ---- Schemas
def strict(node):
    """The JSON schema of an OpenAPI schema: unknown fields are errors, and what has a default is not required."""
    if isinstance(node, list):
        return [strict(item) for item in node]
    if not isinstance(node, dict):
        return node
    out = {k: strict(v) for k, v in node.items() if not k.startswith("x-kubernetes-") and k not in ("format", "nullable")}
    properties = node.get("properties")
    if isinstance(properties, dict) and "type" in node:
        out["properties"] = {k: strict(v) for k, v in properties.items()}
        if not node.get("x-kubernetes-preserve-unknown-fields") and "additionalProperties" not in node:
            out["additionalProperties"] = False
        out["required"] = [k for k in node.get("required", []) if "default" not in properties.get(k, {})]
    return out


def crd_schema(kind, light):
    """(apiVersion, validator) of a kind, or None where its schema cannot be had."""
    variable, url = CRDS[kind]
    path = os.environ.get(variable)
    try:
        if light and not path:
            raise OSError("not looked for on the network")
        text = open(path, "rb").read() if path else urllib.request.urlopen(url, timeout=20).read()
    except (OSError, urllib.error.URLError) as error:
        print(f"SKIPPED: the schema of {kind}: {error}; name its file in {variable}")
        return None
    crd = yaml.load(text, Loader=LOADER)
    version = next(v for v in crd["spec"]["versions"] if v["storage"])
    schema = strict(version["schema"]["openAPIV3Schema"])
    schema["properties"]["metadata"] = {"type": "object"}
    return f"{crd['spec']['group']}/{version['name']}", jsonschema.Draft7Validator(schema)


def templates(document):
    """What is inside a JobSet or an MPIJob, as objects of Kubernetes itself."""
    if document["kind"] == "JobSet":
        for job in document["spec"]["replicatedJobs"]:
            yield {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "x"}, **job["template"]}
    if document["kind"] == "MPIJob":
        for role in document["spec"]["mpiReplicaSpecs"].values():
            yield {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": role["template"]["spec"]}


class Validator:
    """Checks each object once. `light`: with the oldest and the newest version of Kubernetes alone."""

    def __init__(self, light):
        self.seen, self.versions, self.crds = set(), [], {}
        if kubernetes_validate is None:
            print("SKIPPED: the schemas of Kubernetes: PyPI's kubernetes-validate is missing (tests/deploy/tools.sh gets it)")
            return
        known = [tuple(int(n) for n in v.split(".")[:2]) for v in kubernetes_validate.utils.all_versions()]
        self.versions = sorted({v for v in known if v >= OLDEST})
        if light:
            self.versions = sorted({self.versions[0], self.versions[-1]})
        found = {kind: crd_schema(kind, light) for kind in CRDS}
        self.crds = {kind: schema for kind, schema in found.items() if schema}

    def knows(self, document):
        return document["kind"] in self.crds if document["kind"] in CRDS else bool(self.versions)

    def check(self, document):
        digest = hashlib.sha256(json.dumps(document, sort_keys=True).encode()).digest()
        if digest in self.seen:
            return
        if document["kind"] in self.crds:
            version, schema = self.crds[document["kind"]]
            if document["apiVersion"] != version:
                raise Failure(f"apiVersion {document['apiVersion']}, but {version} is stored")
            for error in schema.iter_errors(document):
                raise Failure(f"{'/'.join(str(p) for p in error.absolute_path)}: {error.message[:300]}")
        if document["kind"] in CRDS:
            for inner in templates(document):
                self.check(inner)
        else:
            for version in self.versions:
                try:
                    kubernetes_validate.validate(document, "%d.%d" % version, strict=True)
                except kubernetes_validate.ValidationError as error:
                    raise Failure(f"Kubernetes {version[0]}.{version[1]}: {error}") from None
        self.seen.add(digest)


def must_fail(validator, document, path, value):
    if not validator.knows(document):
        return
    broken = copy.deepcopy(document)
    at = broken
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    try:
        validator.check(broken)
    except Failure:
        return
    raise Failure(f"{document['kind']}: {path} = {value} is accepted")


def documents(text):
    return [d for d in yaml.load_all(text, Loader=LOADER) if d]


def manifest(texts, kind):
    return HEAD + texts[f"{kind}:"]["text"]


def check_chart(program):
    chart, defaults = (yaml.safe_load(open(os.path.join(CHART, f), encoding="utf-8")) for f in ("Chart.yaml", "values.yaml"))
    chart = {k[0].upper() + k[1:]: v for k, v in chart.items()}
    light = "--light" in sys.argv
    cases = all_cases(chart, defaults, light)
    bad = [case(chart, defaults, "deployment", "bad kind", {}), case(chart, defaults, "job", "bad mode", {"topology.mode": "far"}),
           case(chart, defaults, "job", "one node", {"nodes": 1})]
    texts = render(program, cases + bad)
    for c in bad:
        if texts[c["name"]]["error"] == "":
            raise Failure(f"{c['name']}: the chart accepts it")
    if "--write" in sys.argv:
        for kind in KINDS:
            with open(os.path.join(MANIFESTS, f"{kind}.yaml"), "w", encoding="utf-8") as file:
                file.write(manifest(texts, kind))
        return
    validator = Validator(light)
    n = 0
    for c in cases:
        text = texts[c["name"]]
        if text["error"]:
            raise Failure(f"{c['name']}: {text['error']}")
        kind, _, option = c["name"].partition(":")
        before = texts.get(c["name"] + ":before")
        if before is not None and before["text"] == text["text"] and (option.partition("=")[0], kind) not in SILENT:
            raise Failure(f"{c['name']}: the option changes nothing")
        for document in documents(text["text"]):
            try:
                validator.check(document)
            except Failure as failure:
                raise Failure(f"{c['name']}: {document['kind']}: {failure}") from None
            n += 1
    for kind in KINDS:
        first = next(d for d in documents(texts[f"{kind}:"]["text"]) if d["kind"].lower() == kind)
        must_fail(validator, first, ("spec", "no_such_field"), 1)
        path = os.path.join(MANIFESTS, f"{kind}.yaml")
        if open(path, encoding="utf-8").read() != manifest(texts, kind):
            raise Failure(f"{path} is not what the chart renders: run {sys.argv[0]} {program} --write")
    job = next(d for d in documents(texts["job:"]["text"]) if d["kind"] == "Job")
    must_fail(validator, job, ("spec", "template", "spec", "containers", 0, "imagePullPolicy"), 3)
    valid = [f"Kubernetes {', '.join('%d.%d' % v for v in validator.versions)}"] if validator.versions else []
    valid += sorted(validator.crds)
    print(f"{len(cases)} renderings of {len(list(leaves(defaults)))} options, {n} objects, {len(validator.seen)} of them different"
          + (f", valid for {', '.join(valid)}" if valid else ""))


def print_pod(program, path):
    chart, defaults = (yaml.safe_load(open(os.path.join(CHART, f), encoding="utf-8")) for f in ("Chart.yaml", "values.yaml"))
    chart = {k[0].upper() + k[1:]: v for k, v in chart.items()}
    text = render(program, [case(chart, defaults, "job", "pod", json.load(open(path, encoding="utf-8")))])["pod"]
    if text["error"]:
        raise Failure(text["error"])
    job = next(d for d in documents(text["text"]) if d["kind"] == "Job")
    config = next(d for d in documents(text["text"]) if d["kind"] == "ConfigMap")
    print(json.dumps({"job": job, "container": job["spec"]["template"]["spec"]["containers"][0],
                      "config": config["data"]["run.yaml"]}))


if __name__ == "__main__":
    try:
        if "--pod" in sys.argv:
            print_pod(sys.argv[1], sys.argv[3])
        else:
            check_chart(sys.argv[1])
    except Failure as problem:
        print(f"FAILED: {problem}")
        sys.exit(1)
