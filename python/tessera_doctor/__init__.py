"""What holds up a job, from Python: runs the command `tessera-doctor`, which the wheel installs.

    import tessera_doctor
    report = tessera_doctor.trace("out")            # a job's folder, or the process id of its launcher or of a rank
    report = tessera_doctor.log("rank0.log", "rank1.log")"""
import json
import os
import shutil
import subprocess
import sysconfig


def _program():
    """The path of the command: where pip puts programs for all users, for one (--user), or below a folder (--target)."""
    folders = [sysconfig.get_path("scripts"), sysconfig.get_path("scripts", os.name + "_user"),
               os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "bin")]
    found = shutil.which("tessera-doctor", path=os.pathsep.join(folders)) or shutil.which("tessera-doctor")
    if not found:
        raise RuntimeError(f"there is no command tessera-doctor in {', '.join(folders)}, nor on PATH: install the wheel again")
    return found


def _report(*words):
    run = subprocess.run([_program(), *words, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if not run.stdout:
        raise RuntimeError(run.stderr.strip())
    return json.loads(run.stdout)


def trace(job):
    """The diagnosis of a job, as `tessera-doctor trace JOB --json` prints it."""
    return _report("trace", str(job))


def log(*files):
    """What the texts of logs mean, as `tessera-doctor log FILE... --json` prints it."""
    return _report("log", *map(str, files))
