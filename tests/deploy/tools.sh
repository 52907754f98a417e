#!/usr/bin/env bash
# tools.sh FOLDER [--offline]: makes what the tests of the chart need in FOLDER: `render`, the program of render.go, and
# `python`, an environment with kubernetes-validate from PyPI. With --offline only the program. Exit code 77, and the reason on
# stdout: Go or Sprig is missing (tools/deps deploy), or PyPI cannot be reached.
set -eu
skip() { echo "SKIPPED: $*"; exit 77; }
here=$(realpath "$(dirname "$0")")
mkdir -p "$1"
folder=$(realpath "$1")
command -v go >/dev/null || skip "go is missing: tools/deps deploy"
for package in github.com/Masterminds/sprig gopkg.in/yaml.v3; do
    [ -d "/usr/share/gocode/src/$package" ] || skip "Go's package $package is missing: tools/deps deploy"
done
GO111MODULE=off GOPATH=/usr/share/gocode GOCACHE=$folder/go-cache go build -o "$folder/render" "$here/render.go"
[ "${2:-}" != --offline ] || exit 0
"$folder/python/bin/python" -c 'import kubernetes_validate, yaml' 2>/dev/null || {
    python3 -m venv "$folder/python" && "$folder/python/bin/pip" install --quiet --retries 1 kubernetes-validate pyyaml 2>&1
} || skip "no kubernetes-validate from PyPI"
