#!/usr/bin/env python3
"""Health of a training loop of any framework, with ctypes alone: figures of steps and of this host are judged by the
rules of `tessera train`. The loop here is a stand-in, whose loss spikes and then becomes NaN.

    python3 embed_health.py    prints what changed

TESSERA_LIBRARY names the library where the system does not find it."""
import ctypes
import math
import os
from ctypes import POINTER, Structure, byref, c_bool, c_char_p, c_double, c_int, c_int64, c_void_p

STEPS, STEPS_PER_ROUND = 200, 5
LIMITS = 15  # as many as health.h lists checks
GPU_MEMORY = 9

tess = ctypes.CDLL(os.environ.get("TESSERA_LIBRARY", "libtessera.so.0"))


class Reading(Structure):
    _fields_ = [("known", c_bool), ("value", c_double), ("limit", c_double), ("who", c_int), ("rank", c_int)]


class Limits(Structure):
    _fields_ = [("at", c_double * LIMITS), ("max_failures", c_int64)]


class Step(Structure):
    _fields_ = [("step", c_int64), ("loss", c_double), ("grad_norm", c_double), ("tokens_per_s", c_double)]


class Finding(Structure):
    _fields_ = [("check", c_int), ("failing", c_bool), ("reading", Reading), ("text", c_char_p)]


class Alert(Structure):
    _fields_ = [("was", c_int), ("state", c_int), ("failures", c_int64), ("text", c_char_p),
                ("findings", POINTER(Finding)), ("n_findings", c_int)]


def check(status):
    """Every call that can fail returns a tess_status: 0, or what the message explains."""
    if status != 0:
        raise RuntimeError(error_message().decode())


def function(name, *types, result=check):
    f = getattr(tess, name)
    f.argtypes, f.restype = types, result
    return f


HANDLE, OUT = c_void_p, POINTER(c_void_p)
error_message = function("tess_error_message", result=c_char_p)
check_name = function("tess_health_check_name", c_int, result=c_char_p)
limits_default = function("tess_health_limits_default", POINTER(Limits), result=None)
monitor_create = function("tess_health_monitor_create", POINTER(Limits), OUT)
monitor_destroy = function("tess_health_monitor_destroy", OUT, result=None)
monitor_step = function("tess_health_monitor_step", HANDLE, POINTER(Step), result=None)
monitor_read = function("tess_health_monitor_read", HANDLE, c_int, POINTER(Reading))
monitor_host = function("tess_health_monitor_host", HANDLE, c_char_p, POINTER(c_int), c_int, result=None)
monitor_round = function("tess_health_monitor_round", HANDLE, result=POINTER(Alert))


def train_step(step):
    """A stand-in for a step of your own: its loss and the norm of its gradient."""
    loss = 3 / (1 + 0.01 * step) + 0.01 * math.sin(step)
    if step == 150:
        loss *= 4
    if step == 180:
        loss = math.nan
    return loss, 1 + 0.05 * math.cos(step)


def main():
    limits, monitor = Limits(), c_void_p()
    limits_default(byref(limits))
    limits.at[:9] = [0] * 9  # this machine's own memory, disk and load are not what the example shows
    monitor_create(byref(limits), byref(monitor))
    for step in range(1, STEPS + 1):
        loss, grad_norm = train_step(step)
        monitor_step(monitor, byref(Step(step, loss, grad_norm, 0)))
        if step % STEPS_PER_ROUND == 0:
            used = 97 if step > 190 else 60
            monitor_read(monitor, GPU_MEMORY, byref(Reading(True, used, 0, 0, -1)))
            monitor_host(monitor, None, None, 0)
            alert = monitor_round(monitor)
            if alert:
                findings = alert.contents.findings[: alert.contents.n_findings]
                names = ", ".join(check_name(finding.check).decode() for finding in findings)
                print(f"step {step} [{names}]: {alert.contents.text.decode()}")
    monitor_destroy(byref(monitor))


main()
