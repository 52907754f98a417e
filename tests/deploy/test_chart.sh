#!/usr/bin/env bash
# The light part of test_kubernetes.sh: the chart renders, the manifests are what it renders, and both are valid for the oldest
# and the newest version of Kubernetes. Without a network: the schemas are those that tests/deploy/tools.sh got before.
# Arguments: the build folder, the source folder.
set -u
tools=$1/deploy-tools
project=$2
code=0
"$project/tests/deploy/tools.sh" "$tools" --offline || exit $?
python=$tools/python/bin/python
"$python" -c '' 2>/dev/null || python=python3
"$python" -c 'import yaml' 2>/dev/null || { echo "SKIPPED: PyYAML is missing: tests/deploy/tools.sh $tools"; exit 77; }
"$python" "$project/tests/deploy/kubernetes.py" "$tools/render" --light || exit 1

# The checks can fail: another chart does not render the manifests, and a misspelled field is no field of Kubernetes.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
broken() { # NAME PATTERN FILE EXPRESSION
    rm -rf "$work/project"
    mkdir -p "$work/project/tests"
    cp -r "$project/tests/deploy" "$work/project/tests/"
    cp -r "$project/deploy" "$work/project/"
    sed -i "$4" "$work/project/deploy/$3"
    "$python" "$work/project/tests/deploy/kubernetes.py" "$tools/render" --light >"$work/log" 2>&1 && { echo "FAILED: $1 is accepted"; code=1; return; }
    grep -q "FAILED: .*$2" "$work/log" || { echo "FAILED: $1: $(tail -n 1 "$work/log")"; code=1; return; }
    echo "ok: $1: $(grep -o 'FAILED: .*' "$work/log" | sed "s|$work/||; s/FAILED: //" | cut -c 1-100)"
}
broken "a chart that changed" "is not what the chart renders" helm/tessera/values.yaml 's/^port: .*/port: 29401/'
broken "an option that the chart does not know" "no other value" helm/tessera/values.yaml 's/^port:/ports: 1\n&/'
if "$python" -c 'import kubernetes_validate' 2>/dev/null; then
    broken "a field that Kubernetes does not know" "Kubernetes 1" helm/tessera/templates/_helpers.tpl 's/enableServiceLinks/enableServiceLink/'
fi
exit $code
