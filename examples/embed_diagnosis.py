#!/usr/bin/env python3
"""The tool of embed_diagnosis.c from Python, with ctypes alone: which rank holds a job up, and why.

    python3 embed_diagnosis.py                 lists the running jobs, each with its root cause
    python3 embed_diagnosis.py JOB [--json]    JOB: a job's folder, or the process id of its launcher or of a rank

TESSERA_LIBRARY names the library where the system does not find it."""
import ctypes
import os
import sys
from ctypes import POINTER, Structure, byref, c_bool, c_char, c_char_p, c_double, c_int, c_int64, c_void_p

tess = ctypes.CDLL(os.environ.get("TESSERA_LIBRARY", "libtessera.so.0"))
libc = ctypes.CDLL(None)
libc.free.argtypes = [c_void_p]


class Verdict(Structure):
    _fields_ = [("kind", c_int), ("tie", c_bool), ("n_ranks", c_int), ("n_waiting", c_int), ("n_evidence", c_int),
                ("ranks", POINTER(c_int)), ("waiting", POINTER(c_int)), ("waited_s", c_double), ("headline", c_char_p),
                ("evidence", POINTER(c_char_p)), ("fix", c_char_p), ("launcher_said", c_char_p), ("source", c_char_p),
                ("folder", c_char_p), ("world", c_int)]


class RankReport(Structure):
    _fields_ = [("present", c_bool), ("pid", c_int), ("host", c_char_p), ("why", c_char_p), ("error", c_char_p),
                ("phase", c_char_p), ("step", c_int64), ("waited_s", c_double), ("state", c_char * 32)]


class RunningJob(Structure):
    _fields_ = [("pid", c_int), ("world", c_int), ("n_hosts", c_int), ("folder", c_char * 1024),
                ("command", c_char * 256)]


def check(status):
    """Every call that can fail returns a tess_status: 0, or what the message explains."""
    if status != 0:
        raise RuntimeError(tess.tess_error_message().decode())


def function(name, *types, result=check):
    f = getattr(tess, name)
    f.argtypes, f.restype = types, result
    return f


HANDLE, OUT = c_void_p, POINTER(c_void_p)
error_message = function("tess_error_message", result=c_char_p)
diagnosis_name = function("tess_diagnosis_name", c_int, result=c_char_p)
report_read = function("tess_job_report_read", c_char_p, c_double, OUT)
report_verdict = function("tess_job_report_verdict", HANDLE, result=POINTER(Verdict))
report_rank = function("tess_job_report_rank", HANDLE, c_int, POINTER(RankReport))
report_json = function("tess_job_report_json", HANDLE, OUT)
report_destroy = function("tess_job_report_destroy", OUT, result=None)
jobs_list = function("tess_jobs_list", OUT, POINTER(c_int))


def show_rank(number, rank):
    """The state of a rank, and why, unless that begins with the state."""
    host, state, why = rank.host.decode(), rank.state.decode(), rank.why.decode()
    said = why if why.startswith(state) else f"{state}, {why}" if why else state
    print(f"  rank {number}, process {rank.pid}{' on ' if host else ''}{host}: {said}")


def show(report):
    verdict = report_verdict(report).contents
    name = diagnosis_name(verdict.kind).decode()
    ranks = verdict.ranks[: verdict.n_ranks]
    print(f"{name}: {verdict.headline.decode()}")
    print("  culprits:", *ranks)
    print("  waiting:", *verdict.waiting[: verdict.n_waiting])
    for line in verdict.evidence[: verdict.n_evidence]:
        print(f"  because {line.decode()}")
    if verdict.fix:
        print(f"  advice: {verdict.fix.decode()}")
    for r in ranks:
        rank = RankReport()
        report_rank(report, r, byref(rank))
        show_rank(r, rank)
    if name in ("healthy", "finished"):
        return 0
    return 4 if verdict.tie or name == "undecided" else 3


def print_json(report):
    text = c_void_p()
    report_json(report, byref(text))
    sys.stdout.write(ctypes.string_at(text).decode())
    libc.free(text)


def diagnose(job, as_json):
    report = c_void_p()
    report_read(job, -1, byref(report))
    try:
        if as_json:
            print_json(report)
            return 0
        return show(report)
    finally:
        report_destroy(byref(report))


def diagnose_all():
    jobs, n, worst = c_void_p(), c_int(), 0
    jobs_list(byref(jobs), byref(n))
    for job in ctypes.cast(jobs, POINTER(RunningJob))[: n.value]:
        print(f"job {job.pid}, {job.world} ranks, {job.command.decode()}", flush=True)
        try:
            worst = max(worst, diagnose(str(job.pid).encode(), False))
        except RuntimeError as error:  # the job can have ended since it was listed
            print(f"embed_diagnosis: {error}", file=sys.stderr)
            worst = max(worst, 2)
    libc.free(jobs)
    return worst


def main():
    words = [word for word in sys.argv[1:] if word != "--json"]
    as_json = "--json" in sys.argv[1:]
    if as_json and not words:
        print("embed_diagnosis: --json: name the job", file=sys.stderr)
        return 2
    try:
        return diagnose(os.fsencode(words[0]), as_json) if words else diagnose_all()
    except RuntimeError as error:
        print(f"embed_diagnosis: {error}", file=sys.stderr)
        return 2


sys.exit(main())
