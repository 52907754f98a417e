/* Lines that decide: advice and fallbacks that are no finding, alternatives that a text excludes, silence before a
 * limit of time, and names that are no hosts. */
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os/os.h"
#include "doctor/log/log_impl.h"

#define SHRINK(scale) "| WARNING: overflow detected, setting loss scale to: " scale "\n"
#define BAR(label, percent, time, rate) label " (num_proc=8):  " percent "%|####  | 77/99 [" time "<05:10, " rate "]"

static const struct {
    const char *id, *words, *text; /* words: part of the headline; a leading "!" means that it must not be there */
} samples[] = {
    /* no error ended the run */
    /* a class is not worded closer than its text: no checkpoint, no file, no task that ended */
    {"python-name-missing", "!file or folder",
     "  File \"h5o.pyx\", line 7, in h5o.open\nKeyError: \"Unable to open object (object 'odd' doesn't exist)\"\n"},
    {"none", "or the step was cancelled", "srun: Job step aborted: Waiting up to 32 seconds for job step\n"},
    {"kubernetes-oom", "mostly at the container's limit", "      Reason:       OOMKilled\n"},
    {"none", "!memory",
     "INFO 05-02 11:00:01 runner.py:7] Graphs may take another GiB per GPU. If you are running out of memory, lower "
     "the "
     "share that the CUDA device keeps\n"},
    {"cuda-out-of-memory", "no memory",
     "2025-01-10 11:00:01 INFO [rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. If you "
     "see "
     "much reserved memory, set expandable_segments to avoid fragmentation\n"},
    {"none", "it ended well",
     "2025-01-10 11:00:01 WARNING cache: No space left on device, /c/x\n***** train metrics *****\n"},
    {"disk-full", "", "2025-01-10 11:00:01 WARNING cache: No space left on device, /c/x\n"},
    {"none", "!cache",
     "WARNING:loader:Using the latest cached version of the module from /c/x since it couldn't be found remotely "
     "(OfflineModeIsEnabled).\n"},
    {"none", "!root cause",
     "(EnvWorker pid=31) ValueError: reply has no tag\n(EnvWorker pid=31) next item\n"
     "(Trainer pid=9) step:1 - reward:0.5\n(Trainer pid=9) step:2 - reward:0.6\n(Trainer pid=9) step:3 - reward:0.7\n"},
    {"python-argument", "EnvWorker",
     "(Trainer pid=9) step:1 - reward:0.5\n(EnvWorker pid=31) ValueError: size must be even\n"},
    /* a healthy run is not accused of what it survived or was told */
    {"none", "!not built",
     "Your compiler (cxx) is not compatible with the compiler Pytorch was built with for this platform.\n"
     "iteration 7/ 9 | lm loss: 2.1E+00 |\n"},
    {"extension-compiler", "not built", "/x/op.cu(7): error: name is unknown\nninja: build stopped\n"},
    {"none", "ended well",
     "2025-01-10 11:00:01,100 INFO    Thread-7:31 [retry.py:call():7] Retry attempt failed:\n"
     "Traceback (most recent call last):\n  File \"/x/net.py\", line 7, in send\n"
     "odd.SSLError: end of file\n"
     "2025-01-10 11:00:09,100 INFO    MainThread:31 [run.py:_atexit_cleanup():7] got exitcode: 0\n"},
    {"none", "the run went on",
     "2025-01-10 11:00:01,100 INFO    Thread-7:31 [net.py:call():7] Retry attempt failed:\n"
     "Traceback (most recent call last):\n  File \"/x/net.py\", line 7, in send\n"
     "odd.SSLError: end of file\n2025-01-10 11:00:09,100 INFO    MainThread:31 [run.py:init():7] starting\n"},
    {"python-exception", "end of file",
     "2025-01-10 11:00:01,100 INFO    Thread-7:31 [net.py:call():7] Retry attempt failed:\n"
     "Traceback (most recent call last):\n  File \"/x/net.py\", line 7, in send\nodd.SSLError: end of file\n"},
    {"none", "!only what follows",
     "2025-01-10 11:00:01,100 ERROR   wandb-upload_7:31 [api.py:upload_file():9] upload_file exception "
     "https://u.example/f ConnectionResetError(104, 'Connection reset by peer')\n"
     "2025-01-10 11:00:02,100 INFO    wandb-upload_7:31 [job.py:push():9] Uploaded file f\n"},
    {"none", "no fault is shown; the last progress: \"iter 8: loss 2.1",
     "iter 7: loss 2.2\niter 8: loss 2.1\nTraceback (most recent call last):\n  File \"/x/t.py\", line 7, in "
     "<module>\nKeyboardInterrupt\n"},
    {"none", "only what follows from one", "[rank1]: KeyboardInterrupt\n"},
    /* errors that their program passes over are no cause where an exception follows that nobody caught */
    {"cuda-out-of-memory", "rank 1",
     "Couldn't connect: 429 Client Error: Too Many Requests for url: https://h.example/m.\n"
     "Will try to load from local cache.\n"
     "[rank1]: Traceback (most recent call last):\n[rank1]:   File \"/x/t.py\", line 7, in main\n"
     "[rank1]: torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"},
    {"hub-limit", "h.example",
     "Traceback (most recent call last):\n  File \"/x/t.py\", line 7, in main\n"
     "HTTPError: 429 Client Error: Too Many Requests for url: https://h.example/m\n"},
    {"cuda-out-of-memory", "TP0",
     "[2025-01-10 11:00:01 TP0] Skipping import of extensions: /v/odd.so: undefined symbol: _Z3oddv\n"
     "[2025-01-10 11:00:02 TP0] Scheduler hit an exception: Traceback (most recent call last):\n"
     "  File \"/x/t.py\", line 7, in main\n"
     "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"},
    {"python-own-check", "(assert n > 0)",
     "Traceback (most recent call last):\n  File \"/x/t.py\", line 7, in main\n    assert n > 0\nAssertionError\n"
     "Traceback (most recent call last):\n  File \"/v/multiprocessing/resource_tracker.py\", line 9, in main\n"
     "    cache.remove(name)\nKeyError: '/mp-7'\nKilled\n"},
    /* only the error's own words count, of the same process, and never for an error that explains the exception */
    {"io-error", "rank 3",
     "[rank3]: ERROR: OSError: [Errno 5] Input/output error\n"
     "WARNING data: OSError: [Errno 5] Input/output error\n"
     "[rank3]: Traceback (most recent call last):\n[rank3]:   File \"/x/t.py\", line 7, in main\n"
     "[rank3]: torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"},
    {"io-error", "rank 3",
     "[rank3]: WARNING: OSError: [Errno 5] Input/output error\n"
     "[rank3]: Traceback (most recent call last):\n[rank3]:   File \"/x/t.py\", line 7, in main\n"
     "[rank3]: torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"},
    {"io-error", "rank 3",
     "[rank3]: OSError: [Errno 5] Input/output error, skipping the file\n"
     "[rank1]: Traceback (most recent call last):\n[rank1]:   File \"/x/t.py\", line 7, in main\n"
     "[rank1]: torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"},
    {"cuda-out-of-memory", "rank 3",
     "[rank3]: OSError: [Errno 5] Input/output error, skipping the file\n"
     "[rank3]: Traceback (most recent call last):\n[rank3]:   File \"/x/t.py\", line 7, in main\n"
     "[rank3]: torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"},
    /* an effect of another process does not name that of the cause */
    {"cuda-out-of-memory", "!rank 0",
     "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"
     "application called MPI_Abort(MPI_COMM_WORLD, 1) - process 0\n"},
    /* the later one of two exceptions of one type says it in words */
    {"python-name-missing", "'no limits for odd'",
     "Traceback (most recent call last):\n  File \"/x/t.py\", line 7, in get\n    raise KeyError(key)\n"
     "KeyError: <odd.Model at 0x7f>\n\n"
     "The above exception was the direct cause of the following exception:\n\n"
     "Traceback (most recent call last):\n  File \"/x/t.py\", line 9, in main\n    raise KeyError(text) from e\n"
     "KeyError: 'no limits for odd'\n"},
    {"python-name-missing", "'a'",
     "Traceback (most recent call last):\n  File \"/x/t.py\", line 7, in get\n    raise KeyError(key)\nKeyError: "
     "'a'\n\n"
     "The above exception was the direct cause of the following exception:\n\n"
     "Traceback (most recent call last):\n  File \"/x/t.py\", line 9, in main\n    raise E(text) from e\n"
     "ValueError: get failed\n"},
    /* the process stands on a later line of the error */
    {"cuda-device-assert", "rank 3: ",
     "/x/Odd.cu:7: f: block: [0,0,0], thread: [1,0,0] Assertion `i < n` failed.\n"
     "[rank3]: RuntimeError: CUDA error: device-side assert triggered\n"},
    {"python-own-check", "actor Odd.run on 192.0.2.3 (pid 31)",
     "  File \"/x/w.py\", line 7, in run\n    assert n > 0\nAssertionError\n"
     "Traceback (most recent call last):\n  File \"/x/d.py\", line 9, in main\n"
     "ray.exceptions.RayTaskError(AssertionError): ray::Odd.run() (pid=31, ip=192.0.2.3)\n"
     "  File \"/x/w.py\", line 7, in run\n    assert n > 0\nAssertionError\n"},
    {"native-exception", "rank 7 on x1c0s1b0n0.c.example",
     "terminate called after throwing an instance of 'std::invalid_argument'\n  what():  stoul\n"
     "x1c0s1b0n0.c.example: rank 7 exited with code 134\nx1c0s1b0n0.c.example: rank 9 died from signal 15\n"},
    {"tessera-rank-lost", "!gone: error", "error: rank 3 exited with code 1\n"},
    {"mpich-abort", "rank 3 on alpha", "alpha: rank 3 exited with code 1\n"},
    {"slurm-cancelled",
     "job 77 on node-7: ", "slurmstepd: error: *** JOB 77 ON node-7 CANCELLED AT 2025-01-10T11:00:01 ***\n"},
    /* prefixes */
    {"python-module-missing", "container odd_engine",
     "odd_engine  | [2025-01-10 11:00:02 TP0] Scheduler hit an exception: Traceback (most recent call last):\n"
     "odd_engine  |   File \"/x/t.py\", line 7, in main\n"
     "odd_engine  | ModuleNotFoundError: No module named 'odd'\n"},
    {"python-module-missing", "!container", "step  | loss\nerror  | ModuleNotFoundError: No module named 'odd'\n"},
    {"python-exception-quoted", "ValueError: signal only works",
     "stub.cc:366] \"Failed to start: ValueError: signal only works in the main thread\n\n\"\n"},
    {"python-module-missing", "TP7",
     "[2025-01-10 11:00:02 TP7] Scheduler hit an exception: Traceback (most recent call last):\n"
     "  File \"/v/odd/model_config.py\", line 7, in __init__\n    load(name)\n  File \"/v/odd/s3.py\", line 9, in "
     "load\n"
     "ModuleNotFoundError: No module named 'odd3'\n"},
    {"none", "no fault is shown",
     "Traceback (most recent call last):\n  File \"/v/locks.py\", line 7, in wait\n"
     "asyncio.exceptions.CancelledError: Cancelled by cancel scope 7f\n"},
    {"probabilities-not-finite", "NaN",
     "/x/native/cuda/MultinomialKernel.cu:7: f: block: [0,0,0], thread: [1,0,0] Assertion `c[n - 1] > 0` failed.\n"
     "RuntimeError: CUDA error: device-side assert triggered\n"},
    {"pals-host-unreachable", "x4c7s6b0n0.c.example",
     "ping failed on x4c6s4b0n0: Couldn't forward RPC ping(24) to child x4c7s6b0n0.c.example: Resource temporarily "
     "unavailable\n"},
    /* a server that was asked to end did not fail; one that had failed before did */
    {"none", "somebody asked the server to end",
     "[2025-01-10 11:00:01] SIGTERM received. signum=None frame=None. Draining requests and shutting down...\n"
     "[2025-01-10 11:00:01] Subprocess odd (pid=31) crashed with exit code -15. Triggering SIGQUIT for cleanup...\n"
     "[2025-01-10 11:00:01] SIGQUIT received. signum=None, frame=None. It usually means one child failed.\n"},
    {"none", "no fault is shown",
     "(APIServer pid=31) INFO 01-10 11:00:01 [launcher.py:9] [shutdown] API server: shutdown triggered\n"
     "(APIServer pid=31) ERROR 01-10 11:00:01 [async_llm.py:9] AsyncLLM output_handler failed.\n"},
    {"vllm-engine-died", "engine process ended",
     "(APIServer pid=31) ERROR 01-10 11:00:01 [async_llm.py:9] AsyncLLM output_handler failed.\n"
     "(APIServer pid=31) INFO 01-10 11:00:01 [launcher.py:9] [shutdown] API server: shutdown triggered\n"},
    {"none", "asked the program to end",
     "Traceback (most recent call last):\n  File \"/x/t.py\", line 7, in on_signal\n"
     "    raise KeyboardInterrupt(\"terminated\")\nKeyboardInterrupt: terminated\n"},
    /* a library or device that a program tries and does without is no cause */
    {"none", "!root cause",
     "n1:31:32 [1] NCCL INFO dlvsym failed on odd_path - /v/libodd.so: undefined symbol: odd_path, version ODD_1\n"},
    {"nccl-not-loaded", "",
     "I0110 11:00:01.579842 31 xla_bridge.py:9] Unable to initialize backend 'tpu': INTERNAL: Failed to open "
     "libtpu.so: libtpu.so: cannot open shared object file: No such file or directory\n"
     "INTERNAL: nccl_utils.cc:9: NCCL operation ncclGetUniqueId(&id) failed: Unable to load NCCL library.\n"},
    {"library-missing", "libodd.so.2",
     "ImportError: libodd.so.2: cannot open shared object file: No such file or directory\n"},
    {"slurm-oom-kill", "",
     "2025-01-10 11:00:01.602190: E tensorflow/cuda_driver.cc:9] failed call to cuInit: CUDA_ERROR_NO_DEVICE: no "
     "CUDA-capable device is detected\n"
     "slurmstepd: error: Detected 1 oom-kill event(s) in StepId=7.batch.\n"},
    {"cuda-invalid-device", "", "RuntimeError: CUDA error: no CUDA-capable device is detected\n"},
    {"mpi-ofi-setup", "libfabric could not",
     "create_vni_context(9)..: OFI endpoint open failed (ofi_init.c:9:create_vni_context:Cannot allocate memory)\n"},
    {"dataset-not-registered", "odd_set",
     "tensorflow_datasets.core.registered.DatasetNotFoundError: Dataset odd_set not found.\n"},
    /* the process that reports is not the one that failed */
    {"none", "another rank did not finish to load",
     "[2025-01-10 11:00:01 TP1] Scheduler hit an exception: Traceback (most recent call last):\n"
     "  File \"/v/model_runner.py\", line 9, in load_model\n    raise ValueError(\n"
     "ValueError: TP rank 1 could finish the model loading, but there are other ranks th\n"},
    {"ray-worker-slow-start", "31, 32",
     "[2025-01-10 11:00:01,554 E 9 9] (raylet) worker_pool.cc:9: Some workers of the worker process(31) have not "
     "registered within the timeout. The process is still alive, probably it's hanging during start.\n"
     "[2025-01-10 11:00:01,556 E 9 9] (raylet) worker_pool.cc:9: Some workers of the worker process(32) have not "
     "registered within the timeout. The process is still alive, probably it's hanging during start.\n"},
    {"ray-actor-died", "31",
     "[2025-01-10 11:00:01,554 E 9 9] (raylet) worker_pool.cc:9: Some workers of the worker process(31) have not "
     "registered within the timeout. The process is dead, probably it crashed during start.\n"},
    {"segfault", "31, 32",
     "[2025-01-10 11:00:01] Child process unexpectedly failed with an exit code 11. pid=31\n"
     "[2025-01-10 11:00:01] Child process unexpectedly failed with an exit code 11. pid=32\n"
     "Traceback (most recent call last):\n  File \"/v/odd_server.py\", line 9, in launch_server\n"},
    {"rocm-page-fault", "node-2, node-8",
     "Memory access fault by GPU node-2 (Agent handle: 0x319bf880) on address 0x7f46e0400000. Reason: Unknown.\n"
     "Memory access fault by GPU node-8 (Agent handle: 0x4df431d0) on address 0x7ef56be00000. Reason: Unknown.\n"},
    /* several parties, and what only follows */
    {"dataloader-shm", "31, 32",
     "ERROR: bus error in worker. This might be caused by insufficient shared memory (shm).\n"
     "RuntimeError: DataLoader worker (pid 31) is killed by signal: Bus error. Raise it.\n"
     "DataLoader worker (pid 32) is killed by signal: Bus error. Raise it.  File \"/x/t.py\", line 7, in main\n"},
    {"none", "local rank 0 (pid 31), rank 1 (pid 32) ended, each with exit code 9,",
     "failed (exitcode: 9) local_rank: 0 (pid: 31) of binary: /v/bin/python\nt.py FAILED\nFailures:\n[1]:\n"
     "  time      : 2025-06-13_18:33:16\n  host      : node-a\n  rank      : 1 (local_rank: 1)\n"
     "  exitcode  : 9 (pid: 32)\n  error_file: <N/A>\n"},
    {"segfault", "ncclBroadcast",
     "(OddWorker pid=31, ip=192.0.2.3) *** SIGSEGV received at time=17 on cpu 3 ***\n"
     "(OddWorker pid=31, ip=192.0.2.3) Stack (most recent call first):\n"
     "(OddWorker pid=31, ip=192.0.2.3)   File \"/v/w.py\", line 9 in ncclBroadcast\n"},
    {"segfault", "actor OddWorker",
     "(OddWorker pid=31, ip=192.0.2.3) *** SIGSEGV received at time=17 on cpu 3 ***\n"
     "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.\n\tpid: 31\n"
     "\tip: 192.0.2.3\nKilled\n"},
    {"ray-actor-died", "pid 31",
     "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.\n\tpid: 31\n"
     "\tip: 192.0.2.3\nKilled\n"},
    /* the kind of an error, by its frames and the words next to it */
    {"python-version", "importing a module failed",
     "Traceback (most recent call last):\n  File \"t.py\", line 2, in <module>\n    import a\n"
     "  File \"/v/lib/python3.9/site-packages/a/__init__.py\", line 3, in <module>\n    from . import config\n"
     "  File \"/v/lib/python3.9/site-packages/a/config.py\", line 9, in collect\n    b.load(f)\n"
     "TypeError: load() missing 1 required positional argument: 'Kind'\n"},
    {"python-version", "odd.errors", "ModuleNotFoundError: No module named 'odd.errors'\n"},
    {"python-module-missing", "'odd'", "ModuleNotFoundError: No module named 'odd'\n"},
    {"python-exception", "task 0 on node-a: a Python exception: ValueError: need 2 devices",
     "Traceback (most recent call last):\n  File \"/x/t.py\", line 7, in run\nValueError: need 2 devices, 1 is there\n"
     "srun: error: node-a: task 0: Exited with exit code 1\n"},
    {"nccl-no-gpu-memory", "rank 1", "[rank1]: Last error:\n[rank1]: Cuda failure 2 'out of memory'\n"},
    {"slurm-node-fail", "node-a", "  what():  CUDA error: unknown error\nsrun: error: Node failure on node-a\n"},
    {"slurm-preempted", "job 77",
     "[2026-03-25T10:34:07.530] error: *** JOB 77 ON node-a CANCELLED AT 2026-03-25T10:34:07 DUE TO PREEMPTION ***\n"
     "AT 2026-03-25T10:34:07 DUE TO PREEMPTION ***\n"},
    {"ascend-device-not-visible", "device id error",
     "EE9999: [PID: 31] get error: phyid:3 realDeviceId:3 is err:0x7[FUNC:GetDeviceIndexByPhyId]\n"
     "rtGetDeviceIndexByPhyId execute failed, reason=[device id error][FUNC:F]\n"},
    {"tpu-kernel-memory", "memory on the chip than there is: vmem",
     "ValueError: Ran out of memory in memory space vmem while allocating\n"},
    {"accelerator-out-of-memory", "", "RESOURCE_EXHAUSTED: Ran out of memory in memory space hbm. Used 17G of 15G\n"},
    {"download-no-route", "no way out",
     "OSError: [Errno 101] Network is unreachable\n\nDuring handling of the above exception, another exception "
     "occurred:\n\nTraceback (most recent call last):\n  File \"/x/t.py\", line 7, in get\n"
     "urllib.error.URLError: <urlopen error [Errno 101] Network is unreachable>\n"},
    {"host-unreachable", "", "connect to 192.0.2.7: Network is unreachable\n"},
    {"loss-printed-nan", "NaN", "{'loss': -0.0, 'grad_norm': nan, 'learning_rate': 0.0}\n"},
    {"blocked-in-storage", "mmfslinux",
     "INFO: task python:31 blocked for more than 120 seconds.\n schedule+0x3/0xa\n waitEvent+0x2/0x3 [mmfslinux]\n"},
    {"none", "look there first",
     "Traceback (most recent call last):\n  File \"/x/t.py\", line 9, in main\n    f(\n"
     "  File \"/x/metric.py\", line 54, in compute\n    g(\n"
     "[rank1]:[E1003 18:37:01.8 ProcessGroupNCCL.cpp:607] [Rank 1] Watchdog caught collective operation timeout: "
     "WorkNCCL(SeqNum=6, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=1800000) ran for 1800017 milliseconds "
     "before timing out.\n"},
    /* how logs without an error stop */
    {"none", "the last 8 lines repeat one",
     "2025-01-10 10:00:00,100 I 7 7] (agent) a.cc:3: Prepare the room of job 01\n"
     "2025-01-10 10:00:01,100 I 7 7] (agent) a.cc:3: Prepare the room of job 01\n"
     "2025-01-10 10:00:02,100 I 7 7] (agent) a.cc:3: Prepare the room of job 01\n"
     "2025-01-10 10:00:03,100 I 7 7] (agent) a.cc:3: Prepare the room of job 01\n"
     "2025-01-10 10:00:04,100 I 7 7] (agent) a.cc:3: Prepare the room of job 01\n"
     "2025-01-10 10:00:05,100 I 7 7] (agent) a.cc:3: Prepare the room of job 01\n"
     "2025-01-10 10:00:06,100 I 7 7] (agent) a.cc:3: Prepare the room of job 01\n"
     "2025-01-10 10:00:07,100 I 7 7] (agent) a.cc:3: Prepare the room of job 01\n"},
    {"none", "!repeat", "prepare the room\nprepare the room\nprepare the room\n"},
    {"none", "only ranks 4-5 of the 9 of NCCL's communicator",
     "n1:31:31 [0] NCCL INFO ncclCommInitRank comm 0x3 rank 4 nranks 9 cudaDev 0 nvmlDev 0 busId 9c - Init COMPLETE\n"
     "n1:32:32 [1] NCCL INFO ncclCommInitRank comm 0x4 rank 5 nranks 9 cudaDev 1 nvmlDev 1 busId 9d - Init COMPLETE\n"},
    {"none", "!communicator",
     "n1:31:31 [0] NCCL INFO ncclCommInitRank comm 0x3 rank 4 nranks 9 cudaDev 0 nvmlDev 0 busId 9c - Init COMPLETE\n"
     "step 7 loss 2.1\n"},
    /* the text that decides */
    {"native-exception", "queue is closed",
     "terminate called after throwing an instance of 'odd::Failure'\n  what():  queue is closed\n"},
    {"dataloader-worker-killed", "killed", "RuntimeError: DataLoader worker (pid 71) is killed by signal: Killed. "},
    {"dataloader-worker-crashed", "Aborted", "RuntimeError: DataLoader worker (pid 72) is killed by signal: Aborted. "},
    {"heap-damaged", "free invalid pointer",
     "src/heap.cc:28] Attempt to free invalid pointer 0x7\n"
     "RuntimeError: DataLoader worker (pid 73) is killed by signal: Aborted. "},
    {"ray-actor-over-pod-limit", "memory limit",
     "The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR Worker exit detail: Worker "
     "exits with an exit code None. The worker may have exceeded K8s pod memory limits."},
    {"ray-actor-over-pod-limit", "actor OddRunner on 192.0.2.3 (pid 12)",
     "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.\n\tclass_name: "
     "OddRunner\n\tpid: 12\n\tip: 192.0.2.3\nThe actor is dead because its worker process has died. Worker exit "
     "type: SYSTEM_ERROR Worker exit detail: Worker exits with an exit code None. The worker may have exceeded K8s pod "
     "memory limits.\n"},
    {"gloo-loopback", "127.0.1.1",
     "  what():  [/src/third_party/gloo/gloo/transport/tcp/pair.cc:11] connect [127.0.1.1]:99: Connection refused"},
    {"gloo-not-connected", "!loopback",
     "  what():  [/src/third_party/gloo/gloo/transport/tcp/pair.cc:11] connect [192.0.2.4]:99: Connection refused"},
    {"tracker-silent", "did not answer", "wandb.errors.Error: Couldn't communicate with backend after 9 seconds"},
    {"preparation-too-long", "77%",
     BAR("Tokenizing", "77", "29:40", "40.1 examples/s") "[rank1]:[W516 14:34:56.8 socket.cpp:4] [c10d] waitForInput: "
                                                         "socket SocketImpl(fd=7) timed out after 1800000ms\n"},
    {"checkpoint-no-metadata", "no metadata",
     "[rank2]:   File \"/x/state_dict_loader.py\", line 25, in local_step\n[rank2]:     assert metadata is not None\n"
     "Traceback (most recent call last): (RANK 5)\n"},
    {"checkpoint-volume", "key.odd",
     "[rank0]:W0422 10:56:01.1 45 torch/x/planner.py:5] key:key.odd invalid fill tensor-volume:\n[rank0]: ValueError: "
     "Failed to validate global plan\n"},
    {"nccl-ib-retry-exceeded", "GID table",
     "n1:7:8 [0] transport/net_ib.cc:73 NCCL WARN NET/IB : Got async event : GID table change\n"
     "n1:7:9 [0] transport/net_ib.cc:99 NCCL WARN NET/IB : Got completion with error 12, opcode 0, len 9, vendor err "
     "1\n"},
    {"nccl-ib-retry-exceeded", "!GID table",
     "n1:7:9 [0] transport/net_ib.cc:99 NCCL WARN NET/IB : Got completion with error 12, opcode 0, len 9, vendor err "
     "1\n"
     "n1:7:8 [0] transport/net_ib.cc:73 NCCL WARN NET/IB : Got async event : GID table change\n"},
    {"too-many-files", "pid 61", "OSError: [Errno 24] Too many open files\nmain proc 61 exit, kill process group 60\n"},
    {"none", "it hangs",
     "step 7 loss 2.3\n[2024-03-01 10:00:00] PULSE: odd is running for 1:00:00 since 2024-03-01T09:00:00 (7)\n"
     "[2024-03-01 11:30:00] PULSE: odd is running for 2:30:00 since 2024-03-01T09:00:00 (7)\n"},
    {"none", "!it hangs",
     "step 7 loss 2.3\n[2024-03-01 10:00:00] PULSE: odd is waiting to be scheduled (7)\n"
     "[2024-03-01 11:30:00] PULSE: odd is waiting to be scheduled (7)\n"},
    {"none", "!it hangs",
     "[2024-03-01 10:00:00] PULSE: odd is running for 1:00:00 since 2024-03-01T09:00:00 (7)\nstep 7 loss 2.3\n"
     "[2024-03-01 11:30:00] PULSE: odd is running for 2:30:00 since 2024-03-01T09:00:00 (7)\n"},
    {"semaphore-no-space", "/dev/shm",
     "/p/joblib/_multiprocessing_helpers.py:46: UserWarning: [Errno 28] No space left on device.  joblib will operate "
     "in "
     "serial mode\nTraceback (most recent call last):\n  File \"/data/t.py\", line 9, in main\n    f(x)\n"
     "  File \"/usr/lib/python3.8/multiprocessing/queues.py\", line 336, in __init__\n    self._rlock = ctx.Lock()\n"},
    /* alternatives that the text excludes */
    {"tpu-device-rights", "no rights", "RuntimeError: open(/dev/accel1): Operation not permitted"},
    {"tpu-device-busy", "another process holds", "RuntimeError: open(/dev/accel1): Device or resource busy"},
    {"cuda-no-memory-at-start", "before this program",
     "Traceback (most recent call last):\n  File \"/data/t.py\", line 9, in setup_distributed\n    dist.barrier()\n"
     "  File \"/x/site-packages/torch/distributed/distributed_c10d.py\", line 24, in barrier\n    work.wait()\n"
     "RuntimeError: CUDA error: out of memory\n"},
    {"cuda-out-of-memory", "!before this program",
     "Traceback (most recent call last):\n  File \"/data/t.py\", line 9, in forward\n    f(x)\n"
     "RuntimeError: CUDA error: out of memory\n"},
    /* parties */
    {"library-missing", "!by host", "libodd.so.11: cannot open shared object file: No such file or directory"},
    {"cuda-unknown-error", "local rank 2",
     "[default2]:terminate called after throwing an instance of 'c10::CUDAError'\n[default2]:  what():  CUDA error: "
     "unknown error"},
    /* effects */
    {"rocm-queue-aborted", "",
     ":0:rocdevice.cpp :35: 49 us: Callback: Queue 0x1 aborting with error : "
     "HSA_STATUS_ERROR_MEMORY_APERTURE_VIOLATION: "
     "x. code: 0x29\nFailed to allocate file: No space left on device\nGPU core dump failed\n"},
    {"killed", "SIGKILL",
     "RuntimeError: Horovod detected that one or more processes exited with non-zero status, thus causing the job to "
     "be "
     "terminated. The first process to do so was:\nProcess name: pod-b[0]\nExit code: 137\n"},
    /* silence and divergence */
    {"slurm-time-limit", "nothing for the last 5.0 hours",
     "2024-03-01 10:00:00,000 - trainer - INFO - model is ready\nslurmstepd: error: *** JOB 7 ON n1 CANCELLED AT "
     "2024-03-01T15:00:00 DUE TO TIME LIMIT ***\n"},
    {"slurm-time-limit", "!hung",
     "2024-03-01 14:59:00,000 - trainer - INFO - model is ready\nslurmstepd: error: *** JOB 7 ON n1 CANCELLED AT "
     "2024-03-01T15:00:00 DUE TO TIME LIMIT ***\n"},
    {"loss-scale-minimum", "", SHRINK("0.0625") SHRINK("0.0078125") SHRINK("0.001953125")},
    {"none", "!root cause", SHRINK("64.0") SHRINK("32.0")},
    {"python-traceback-cut", "!no error found", "loading\nTraceback (most recent call last):\n"},
    /* runtimes of other languages, shells and build tools */
    {"rust-panic", "src/q.rs:7:3: the queue is odd",
     "thread 'odd-worker' panicked at src/q.rs:7:3:\nthe queue is odd\nnote: run with `RUST_BACKTRACE=1`\n"},
    {"rust-panic", "None", "thread 'main' panicked at 'called on a `None` value', src/q.rs:7:3\n"},
    {"go-panic", "nil pointer",
     "panic: runtime error: nil pointer dereference\n\ngoroutine 1 [running]:\nmain.run()\n"},
    {"java-exception", "odd heap",
     "Exception in thread \"main\" java.lang.OutOfMemoryError: odd heap\n\tat a.B(C.java:1)\n"},
    {"java-caused", "odd root",
     "Exception in thread \"main\" org.x.OddException: wrap\n\tat a.B(C.java:1)\nCaused by: org.x.DeepException: odd "
     "root\n"},
    {"julia-error", "BoundsError",
     "ERROR: LoadError: BoundsError: attempt to access\nStacktrace:\n [1] top-level scope\n"},
    {"fortran-error", "End of file", "Fortran runtime error: End of file\n"},
    {"native-check", "n == 4 (3 vs. 4) odd", "F0101 12:00:00.123456  42 t.cc:88] Check failed: n == 4 (3 vs. 4) odd\n"},
    {"native-fatal", "odd context", "F tensorflow/x/cuda_driver.cc:206] Failed setting odd context: not permitted\n"},
    {"native-thread-left", "", "pure virtual method called\nterminate called without an active exception\n"},
    {"shell-syntax", "unbound variable", "train.sh: line 3: MASTER_ADDR: unbound variable\n"},
    {"package-not-installed", "odd==9", "ERROR: No matching distribution found for odd==9\n"},
    {"repository-not-fetched", "odd.git", "fatal: unable to access 'https://h.example/odd.git/': Empty reply\n"},
    {"host-name-unknown", "h.example",
     "fatal: unable to access 'https://h.example/': Could not resolve host: h.example\n"},
    {"licence-missing", "feature odd",
     "Could not check out a license for feature odd: License server machine is down\n"},
    {"cmake-error", "Odd package",
     "CMake Error at CMakeLists.txt:5 (find_package):\n  Could not find the Odd package\n"},
    /* Python's groups of exceptions, classes of any name, and quotes that were made round */
    {"python-exception", "bad reply",
     "  + Exception Group Traceback (most recent call last):\n  |   File \"/a/t.py\", line 5, in <module>\n  |     "
     "main()\n"
     "  | ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)\n  +-+---------------- 1 ----------------\n"
     "    | Traceback (most recent call last):\n    |   File \"/a/t.py\", line 9, in f\n    |     raise x\n"
     "    | ValueError: bad reply\n    +------------------------------------\n"},
    {"python-exception", "OddlyUnavailable: no widget",
     "Traceback (most recent call last):\n  File \"/a/t.py\", line 5, in <module>\n    main()\n"
     "odd.lib.OddlyUnavailable: no widget\n"},
    {"python-traceback-cut", "!later",
     "Traceback (most recent call last):\n  File \"/a/t.py\", line 5, in <module>\n    main()\nEpoch: 3 later\n"},
    {"python-argument", "size must be even",
     "ERROR 10-15 08:32:29 [core.py:708] Traceback (most recent call last):\n"
     "ERROR 10-15 08:32:29 [core.py:708] File \u201c/x/core.py\u201d, line 699, in run\n"
     "ERROR 10-15 08:32:29 [core.py:708] ValueError: size must be even\n"},
    {"cuda-memory-held", "(GPU 5): another process holds",
     "[rank5]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.32 GiB. GPU 5 has a total capacity of "
     "79.11 "
     "GiB of which 1.05 GiB is free. Process 42 has 70.00 GiB memory in use. Including non-PyTorch memory, this "
     "process "
     "has 8.05 GiB memory in use.\n"},
    {"cuda-out-of-memory", "",
     "[rank5]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.32 GiB. GPU 5 has a total capacity of "
     "79.11 "
     "GiB of which 1.05 GiB is free. Process 42 has 10.00 GiB memory in use. Including non-PyTorch memory, this "
     "process "
     "has 68.05 GiB memory in use.\n"},
    {"python-name-missing", "rank 0",
     "704.7s\t1451\t[rank0]: Traceback (most recent call last):\n704.7s\t1452\t[rank0]:   File \"/k/t.py\", line 1, in "
     "m\n"
     "704.7s\t1453\t[rank0]:     train()\n704.7s\t1454\t[rank0]: KeyError: 'odd'\n"},
    {"none", "61%",
     "Tokenizing odd (num_proc=4):  61%|####   | 61/100 [29:58<19:00, 340.2 examples/s]\n"
     "torch.distributed.DistStoreError: wait timeout after 1800000ms, keys: /odd\n"},
    {"none", "35%",
     " 35%|####   | 73/208 [30:02<50:10, 39.8MB/s]\n[E ProcessGroupNCCL.cpp:485] [Rank 6] Watchdog caught collective "
     "operation timeout: WorkNCCL(OpType=ALLREDUCE, Timeout(ms)=1800000) ran for 1800123 milliseconds before timing "
     "out.\n"},
    {"none", "!45%",
     "Epoch 3:  45%|####   | 450/1000 [12:05<15:00, 1.2it/s]\n[E ProcessGroupNCCL.cpp:485] [Rank 6] Watchdog caught "
     "collective operation timeout: WorkNCCL(OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600123 milliseconds before "
     "timing out.\n"},
    {"tracker-not-reached", "Permission denied to odd",
     "wandb.errors.CommError: Error 403: Permission denied to odd\n"},
    {"ray-actor-died", "before: a process ended itself",
     "(Odd pid=97) *** SIGABRT received at time=1710000000 on cpu 3 ***\n(Odd pid=97) PC: @ 0x14dd (unknown) raise\n"
     "A worker died or was killed while executing a task by an unexpected system error. To troubleshoot the problem, "
     "check "
     "the logs for the dead worker. RayTask ID: x Worker ID: y Node ID: z Worker IP address: 192.0.2.5 Worker port: 10 "
     "Worker PID: 97 Worker exit type: SYSTEM_ERROR\n"},
    {"proxy-refuses", "403 Forbidden",
     "requests.exceptions.ProxyError: HTTPSConnectionPool(host='h.example', port=443): Max retries exceeded (Caused by "
     "ProxyError('Cannot connect to proxy.', OSError('Tunnel connection failed: 403 Forbidden')))\n"},
    {"native-check", "process (pid 42)",
     "F20250101 10:00:00.100000    42 odd_engine.cpp:99] Check failed: ret == 0 (-1 vs. 0) \n"},
    {"slurm-task-exit", "!right before",
     "[ERROR] the odd metrics were not uploaded\nstep 10 loss 2.3\nstep 20 loss 2.3\nstep 30 loss 2.2\n"
     "srun: error: n1: task 3: Exited with exit code 1\n"},
    {"command-missing", "torchrun", "torchrun: command not found\n"},
    {"none", "the first error line", "E20250101 10:00:00.000000 42 odd.cpp:12] the odd engine is not set up\n"},
    {"none", "!git",
     "fatal: not a git repository (or any of the parent directories): .git\nINFO training with 8 ranks starts\n"},
    {"none", "!licen",
     "This is provided under the Odd License file not found in archive\nINFO training with 8 ranks starts\n"},
    {"none", "!command", "nvcc: command not found\nINFO training with 8 ranks starts\nall is done\n"},
    /* lines that no entry knows */
    {"slurm-task-exit", "right before it: \"allocation too small",
     "allocation too small: odd=2, even=1\nsrun: error: node12: task 0: Exited with exit code 1\n"},
    {"killed", "!right before",
     "a non-zero exit code. Per user-direction, the job has been aborted.\n"
     "mpirun noticed that process rank 7 with PID 5 on node n1 exited on signal 9 (Killed).\n"},
    {"launcher-error", "Hostlist is empty", "srun: error: Hostlist is empty! Can't run job.\n"},
    {"none", "3/4 clients",
     "torch.distributed.DistStoreError: Timed out after 9 seconds waiting for clients. 3/4 clients joined.\n"},
    {"none", "of rank 3: \"ERROR the flux", "[rank3]: ERROR the flux of the widget is out of phase\n"},
    {"none", "of rank 3",
     "/v/x.py:12: UserWarning: odd is deprecated\n[rank3]: ERROR the flux of the widget is out of phase\n"},
    {"none", "near the end", "[2023-01-01 10:00:00][71] No heartbeat for components :Odd_p0 (99 seconds)\n"},
    {"none", "!speaks", "all 7 parts were saved successfully\nerror: nothing was there to delete\n"},
    {"none", "!speaks", "warning: the odd option failed, a fallback is used instead\n"},
    {"none", "that follows from an error of another process", "TimeoutError: the odd server did not start in time\n"},
};

static void each_text_is_decided_by_its_words(void)
{
    tess_survey survey;
    tess_log_diagnosis diagnosis;
    tess_knowledge *knowledge;
    char path[512];
    setenv("XDG_CONFIG_HOME", "/nowhere", 1);
    EXPECT_OK(tess_knowledge_create(test_mem(), NULL, 0, &knowledge));
    EXPECT_OK(tess_os_join(path, sizeof(path), test_folder(), "text.log"));
    for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); i++) {
        const char *words = samples[i].words, *text = samples[i].text;
        EXPECT_OK(tess_os_write_atomic(path, text, strlen(text)));
        EXPECT_OK(tess_survey_begin(test_mem(), knowledge, &survey));
        EXPECT_OK(tess_survey_read(&survey, path));
        EXPECT_OK(tess_log_diagnose(&survey, 0, &diagnosis));
        const char *id = diagnosis.entry >= 0 ? tess_knowledge_at(knowledge, diagnosis.entry)->row.id : "none";
        bool is_absent = words[0] == '!', has_words = strstr(diagnosis.headline, words + is_absent) != NULL;
        if (strcmp(id, samples[i].id) != 0 || has_words == is_absent)
            test_fail(__FILE__, __LINE__, "\"%.200s\": expected %s with \"%s\", found %s: \"%s\"", text, samples[i].id,
                      words, id, diagnosis.headline);
        tess_survey_free(&survey);
    }
    tess_knowledge_destroy(&knowledge);
}

/* A later line of the same error names the process only if it is near, or has the same text. */
static void only_a_near_line_names_the_process(void)
{
    static const struct {
        int n_between;
        const char *last;
        bool names;
    } logs[] = {{2, "[rank3]: OOM when allocating tensor with shape[7,9]", true},
                {200, "[rank3]: OOM when allocating tensor with shape[7,9]", false},
                {200, "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB", true}};
    tess_survey survey;
    tess_log_diagnosis diagnosis;
    tess_knowledge *knowledge;
    char path[512], text[8192];
    EXPECT_OK(tess_knowledge_create(test_mem(), NULL, 0, &knowledge));
    EXPECT_OK(tess_os_join(path, sizeof(path), test_folder(), "far.log"));
    for (size_t i = 0; i < sizeof(logs) / sizeof(logs[0]); i++) {
        size_t n = (size_t)snprintf(text, sizeof(text),
                                    "2025-01-10 11:00:01 torch.OutOfMemoryError: CUDA out of memory. "
                                    "Tried to allocate 2.00 GiB\n");
        for (int k = 0; k < logs[i].n_between; k++)
            n += (size_t)snprintf(text + n, sizeof(text) - n, "the room is quiet\n");
        n += (size_t)snprintf(text + n, sizeof(text) - n, "2025-01-10 15:00:01 %s\n", logs[i].last);
        EXPECT_OK(tess_os_write_atomic(path, text, n));
        EXPECT_OK(tess_survey_begin(test_mem(), knowledge, &survey));
        EXPECT_OK(tess_survey_read(&survey, path));
        EXPECT_OK(tess_log_diagnose(&survey, 0, &diagnosis));
        EXPECT(diagnosis.entry >= 0);
        EXPECT_TEXT(tess_knowledge_at(knowledge, diagnosis.entry)->row.id, "cuda-out-of-memory");
        if ((strstr(diagnosis.headline, "rank 3") != NULL) != logs[i].names)
            test_fail(__FILE__, __LINE__, "log %zu: \"%s\"", i, diagnosis.headline);
        tess_survey_free(&survey);
    }
    tess_knowledge_destroy(&knowledge);
}

/* A file whose name begins with a number is a numbered log, and names no host. */
static void a_numbered_log_names_no_host(void)
{
    char host[64];
    EXPECT(!log_host_of_path("/logs/006-elastic-worker-137.log", host, sizeof(host)));
    EXPECT(log_host_of_path("/logs/job-worker-3.log", host, sizeof(host)));
    EXPECT_TEXT(host, "job-worker-3");
}

static const test_case cases[] = {
    CASE(each_text_is_decided_by_its_words),
    CASE(only_a_near_line_names_the_process),
    CASE(a_numbered_log_names_no_host),
};

TEST_MAIN(cases)
