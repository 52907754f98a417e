"""libtessera from Python, with ctypes alone. All names are those of the C headers, which document them:

    import tessera_train as tess
    runtime = tess.handle()
    tess.lib.tess_runtime_create(None, tess.byref(runtime))    # raises tess.Error with the library's message
    print(tess.lib.tess_runtime_world(runtime))
    tess.lib.tess_runtime_destroy(tess.byref(runtime))

    policy = tess.tess_fsdp_policy(strategy=tess.TESS_STRATEGY_FULL, param_dtype=tess.TESS_BF16)

Structs are ctypes.Structure, handles c_void_p, and numbers such as TESS_BF16 plain integers. Structs, functions and
numbers come from abi.txt, which is checked against the headers. TESSERA_LIBRARY names another library.

The wheel also installs the command `tessera`."""
import ctypes
import os
import re
from ctypes import POINTER, byref  # noqa: F401: for callers

_HERE = os.path.dirname(os.path.abspath(__file__))
_BASE = {"int": ctypes.c_int, "int64_t": ctypes.c_int64, "uint64_t": ctypes.c_uint64, "uint32_t": ctypes.c_uint32,
         "uint8_t": ctypes.c_uint8, "size_t": ctypes.c_size_t, "double": ctypes.c_double, "float": ctypes.c_float,
         "_Bool": ctypes.c_bool, "char": ctypes.c_char, "char *": ctypes.c_char_p, "void *": ctypes.c_void_p, "void": None}

handle = ctypes.c_void_p


class Error(RuntimeError):
    """A call that failed: `status` is its tess_status, the text is the library's message."""

    def __init__(self, status):
        super().__init__(lib.tess_error_message().decode())
        self.status = status


def _check(status):
    if status != 0:
        raise Error(status)


def _read(path):
    """The table as {kind: {name: value}}."""
    rows = {"function": {}, "struct": {}, "field": {}, "type": {}, "number": {}}
    with open(path, encoding="ascii") as table:
        for line in table:
            if line[0] != "#":
                _, kind, name, value = line.rstrip("\n").split(" ", 3)
                rows[kind][name] = value
    return rows


def _type(text):
    """The ctypes type of a C type, as the table writes it."""
    function = re.fullmatch(r"(.*) \(\*\)\((.*)\)", text)
    if function:
        return ctypes.CFUNCTYPE(_type(function[1]), *_types(function[2]))
    array = re.fullmatch(r"(.*)\[(\d+)\]", text)
    if array:
        return _type(array[1]) * int(array[2])
    text = re.sub(r" ?\bconst\b ?", "", text).strip()
    if text in _BASE:
        return _BASE[text]
    name = text.rstrip("* ")
    if name in _TABLE["type"] and name == text:
        return _type(_TABLE["type"][name])
    stars = text.count("*")
    if name in _TABLE["struct"]:
        found = _struct(name)
    elif name.startswith("tess_") and stars > 0:  # a handle
        found, stars = ctypes.c_void_p, stars - 1
    elif name.startswith("tess_"):
        return ctypes.c_int  # an enumeration
    elif name in ("char", "void"):
        found, stars = _BASE[name + " *"], stars - 1
    else:
        found = _BASE[name]
    for _ in range(stars):
        found = POINTER(found)
    return found


def _types(text):
    return [] if text == "void" else [_type(one) for one in text.split(", ")]


def _struct(name):
    """The class of a struct. It gets its fields when it is first needed by value."""
    if name not in globals():
        globals()[name] = type(name, (ctypes.Structure,), {})
        fields = [(key.split(".")[1], value.split(" ", 1)[1]) for key, value in _TABLE["field"].items()
                  if key.startswith(name + ".")]
        globals()[name]._fields_ = [(field, _type(text)) for field, text in fields]
    return globals()[name]


_table = os.path.join(_HERE, "abi.txt")
_TABLE = _read(_table if os.path.exists(_table) else os.path.join(_HERE, "../../tools/abi.txt"))
lib = ctypes.CDLL(os.environ.get("TESSERA_LIBRARY", os.path.join(_HERE, "libtessera.so.0")))
for _name in _TABLE["struct"]:
    _struct(_name)
for _name, _value in _TABLE["number"].items():
    globals()[_name] = int(_value)
for _name, _value in _TABLE["function"].items():
    _result, _arguments = re.fullmatch(rf"(.*?) ?{_name} \((.*)\)", _value).groups()
    if "..." not in _arguments:
        _function = getattr(lib, _name)
        _function.argtypes = _types(_arguments)
        _function.restype = _check if _result == "tess_status" else _type(_result)


def version():
    """The library's version as text, such as "0.1.0"."""
    text = ctypes.c_char_p()
    lib.tess_version(byref(text))
    return text.value.decode()


__version__ = version()
