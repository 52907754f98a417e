#!/usr/bin/env bash
# embed_python_test.sh TESSERA LIBRARY PROJECT: the binding of the wheel has the structs of the headers, and the Python example
# does what it says. 77: there is no python3.
set -euo pipefail
tessera=$1 project=$3
export TESSERA_LIBRARY=$2
python3 -c 'import ctypes' 2>/dev/null || { echo "skipped: no python3 with ctypes" >&2; exit 77; }
PYTHONPATH=$project/python PYTHONDONTWRITEBYTECODE=1 python3 - "$("$tessera" --version)" <<'BINDING'
import ctypes, sys
import tessera_train as tess

assert "tessera " + tess.version() == sys.argv[1], tess.version()
for name, size in tess._TABLE["struct"].items():
    assert ctypes.sizeof(getattr(tess, name)) == int(size), name
for name, value in tess._TABLE["field"].items():
    struct, field = name.split(".")
    assert getattr(getattr(tess, struct), field).offset == int(value.split(" ")[0]), name
shape = tess.tess_shape(n_dims=2, dim=(3, 4))
assert tess.lib.tess_shape_count(tess.byref(shape)) == 12
dtype = ctypes.c_int()
tess.lib.tess_dtype_parse(b"bf16", tess.byref(dtype))
assert dtype.value == tess.TESS_BF16
try:
    tess.lib.tess_dtype_parse(b"bf15", tess.byref(dtype))
    sys.exit("a bad dtype is no error")
except tess.Error as error:
    assert error.status == tess.TESS_E_INVALID and "bf15" in str(error), error
options = tess.tess_runtime_options(size=ctypes.sizeof(tess.tess_runtime_options) + 8)
larger = (ctypes.c_char * options.size)(*bytes(options), *b"\1" * 8)
try:
    tess.lib.tess_runtime_create(ctypes.cast(larger, ctypes.POINTER(tess.tess_runtime_options)), tess.byref(tess.handle()))
    sys.exit("options of a later version are no error")
except tess.Error as error:
    assert error.status == tess.TESS_E_UNSUPPORTED and "tess_runtime_options" in str(error), error
BINDING
bash "$project/examples/embed_resume_test.sh" "$tessera" python3 "$project/examples/embed_ckpt.py"
