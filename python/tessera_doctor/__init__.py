"""What holds up a job, from Python: runs the command `tessera-doctor`, which the wheel installs.

    import tessera_doctor
    report = tessera_doctor.trace("out")            # a job's folder, or the process id of its launcher or of a rank
    report = tessera_doctor.log("rank0.log", "rank1.log")"""
import json
import os
import subprocess
import sysconfig

PROGRAM = os.path.join(sysconfig.get_path("scripts"), "tessera-doctor")


def _report(*words):
    run = subprocess.run([PROGRAM, *words, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if not run.stdout:
        raise RuntimeError(run.stderr.strip())
    return json.loads(run.stdout)


def trace(job):
    """The diagnosis of a job, as `tessera-doctor trace JOB --json` prints it."""
    return _report("trace", str(job))


def log(*files):
    """What the texts of logs mean, as `tessera-doctor log FILE... --json` prints it."""
    return _report("log", *map(str, files))
