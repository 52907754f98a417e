#!/usr/bin/env bash
# embed_python_test.sh TESSERA LIBRARY PROJECT: the Python example does what it says. 77: there is no python3.
set -euo pipefail
tessera=$1 project=$3
export TESSERA_LIBRARY=$2
python3 -c 'import ctypes' 2>/dev/null || { echo "skipped: no python3 with ctypes" >&2; exit 77; }
bash "$project/examples/embed_resume_test.sh" "$tessera" python3 "$project/examples/embed_ckpt.py"
