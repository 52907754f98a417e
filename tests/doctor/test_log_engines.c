/* Texts of Ray, Spark, Dask, Horovod, of engines that generate and of their trainers, made from the formats of their
 * sources: what the headline calls them, whom it names, and whether it is a root cause. */
#include "support/test.h"

#include <stdlib.h>
#include <string.h>

#include "base/os/os.h"
#include "doctor/log/log_impl.h"

static const struct {
    const char *headline, *text;
    bool is_cause;
} samples[] = {
    /* Ray: why an actor died */
    {"host 192.0.2.7 (pid 42): a host of Ray was preempted or drained",
     "(TrainController pid=7) The actor died unexpectedly before finishing this task.\n"
     "(TrainController pid=7) \tclass_name: RayTrainWorker\n(TrainController pid=7) \tpid: 42\n"
     "(TrainController pid=7) \tip: 192.0.2.7\n"
     "(TrainController pid=7) The actor died because its node has died. Node Id: a1b2\n"
     "(TrainController pid=7) \tthe actor's node was preempted: drained by hand",
     true},
    {"host 192.0.2.7 (pid 42): a host of Ray was preempted or drained",
     "The actor died unexpectedly before finishing this task.\n\tpid: 42\n\tip: 192.0.2.7\n"
     "The actor died because its node has died. Node Id: a1b2\n"
     "\tthe actor's node was terminated expectedly: received SIGTERM",
     true},
    {"host 192.0.2.7 (pid 42): Ray lost a host",
     "The actor died unexpectedly before finishing this task.\n\tpid: 42\n\tip: 192.0.2.7\n"
     "The actor died because its node has died. Node Id: a1b2\n"
     "\tthe actor's node was terminated unexpectedly: health check failed due to missing too many heartbeats",
     true},
    {"host 192.0.2.9: Ray lost a host",
     "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.\n\tpid: 42\n"
     "\tip: 192.0.2.7\nThe actor is dead because its owner has died. Owner Id: 01 Owner Ip address: 192.0.2.9 Owner "
     "worker exit type: SYSTEM_ERROR Worker exit detail: Owner's node has crashed.",
     true},
    {"host 192.0.2.9: the process that owned an actor or object of Ray ended",
     "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.\n\tpid: 42\n"
     "\tip: 192.0.2.7\nThe actor is dead because its owner has died. Owner Id: 01 Owner Ip address: 192.0.2.9 Owner "
     "worker exit type: SYSTEM_ERROR Worker exit detail: Owner's worker process has crashed.",
     false},
    {"host 192.0.2.9: the process that owned an actor or object of Ray ended",
     "ray.exceptions.OwnerDiedError: Failed to retrieve object 01. To see information about where this ObjectRef was "
     "created\n\nThe object's owner has exited. This is the Python worker that first created the ObjectRef. Check "
     "cluster logs (`/tmp/ray/session_latest/logs/*a1*` at IP address 192.0.2.9) for more information",
     false},
    {"host 192.0.2.7 (pid 42): the program itself ended an actor of Ray",
     "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.\n\tpid: 42\n"
     "\tip: 192.0.2.7\nThe actor is dead because it was killed by `ray.kill`.",
     false},
    {"the program itself ended an actor of Ray",
     "The actor died unexpectedly before finishing this task.\n\tpid: 42\nThe actor is dead because its worker process "
     "has died. Worker exit type: INTENDED_USER_EXIT Worker exit detail: Worker exits by an user request.",
     false},
    {"the code of a Ray worker ended its own process",
     "The actor died unexpectedly before finishing this task.\n\tpid: 42\nThe actor is dead because its worker process "
     "has died. Worker exit type: USER_ERROR Worker exit detail: Worker exits with an exit code 1.",
     false},
    {"a Ray worker process got SIGTERM",
     "The actor died unexpectedly before finishing this task.\n\tpid: 42\nThe actor is dead because its worker process "
     "has died. Worker exit type: SYSTEM_ERROR Worker exit detail: Worker exits unexpectedly by a signal. SystemExit "
     "is raised (sys.exit is called). Exit code: 1. The process receives a SIGTERM.",
     false},
    {"host 192.0.2.7 (pid 42): a Ray worker process got SIGTERM",
     "(raylet) A worker died or was killed while executing a task by an unexpected system error. RayTask ID: a1 Worker "
     "IP address: 192.0.2.7 Worker port: 61062 Worker PID: 42 Worker exit type: SYSTEM_ERROR Worker exit detail: "
     "Worker "
     "exits unexpectedly by a signal. SystemExit is raised (sys.exit is called). Exit code: 1. The process receives a "
     "SIGTERM.",
     false},
    {"Ray's own process of a host (the raylet) still ran, but the head had marked it as dead",
     "[2022-02-16 12:46:52,789 C 149 149] node_manager.cc:170: This node has beem marked as dead.", false},
    {"the host's memory ran out",
     "The actor died unexpectedly before finishing this task.\n\tpid: 42\nThe actor is dead because its worker process "
     "has died. Worker exit type: NODE_OUT_OF_MEMORY Worker exit detail: Task was killed due to the node running low",
     true},
    /* Ray: the innermost task of a trace raised the exception */
    {"actor Worker.update on 192.0.2.8 (pid 77): a task or actor of Ray raised an exception",
     "ray.exceptions.RayTaskError(E): ray::Runner.run() (pid=42, ip=192.0.2.7, actor_id=a1)\n"
     "  File \"/x/main.py\", line 94, in run\n    trainer.fit()\n    ^^^^^^^^^^^^^\n"
     "ray.exceptions.RayTaskError(E): ray::Worker.update() (pid=77, ip=192.0.2.8, actor_id=b2)\n"
     "  File \"/x/base.py\", line 432, in func",
     false},
    {"actor Worker.update on 192.0.2.7 (pid 42): a task or actor of Ray raised an exception",
     "ray.exceptions.RayTaskError(E): ray::Worker.update() (pid=42, ip=192.0.2.7, actor_id=a1)\n"
     "  File \"/x/main.py\", line 94, in run\nTraceback (most recent call last):\n  File \"/x/y.py\", line 4, in z\n"
     "ray.exceptions.RayTaskError(E): ray::Worker.update() (pid=77, ip=192.0.2.8, actor_id=b2)",
     false},
    {"actor RayWorkerWrapper.__init__ on 192.0.2.5 (pid 27): a Python exception: ray.exceptions.RaySystemError: System "
     "error: no frobnicator",
     "ray.exceptions.ActorDiedError: The actor died because of an error raised in its creation task, "
     "ray::RayWorkerWrapper.__init__() (pid=27, ip=192.0.2.5, actor_id=a1)\n  At least one of the input arguments for "
     "this task could not be computed:\nray.exceptions.RaySystemError: System error: no frobnicator\ntraceback: "
     "Traceback (most recent call last):\nRuntimeError: no frobnicator\n[ERROR] (PID:99) unknown exception",
     true},
    {"actor f on 192.0.2.3 (pid 12): a Python exception: ValueError: frob",
     "Traceback (most recent call last):\n  File \"main.py\", line 3, in <module>\n    ray.get(x)\n"
     "ray.exceptions.RayTaskError(ValueError): ray::f() (pid=12, ip=192.0.2.3)\n  File \"w.py\", line 3, in f\n"
     "    raise ValueError(\"frob\")\nValueError: frob",
     true},
    {"actor TorchTrainer on 192.0.2.3 (pid 43): a process crashed",
     "(TorchTrainer pid=43, ip=192.0.2.3) *** SIGSEGV received at time=1741149596 on cpu 63 ***", false},
    {"process (pid 269): a process crashed",
     "(pid=269) *** SIGSEGV (@0x0) received by PID 269 (TID 0x7f28d7e0b740) from PID 0; stack trace: ***", false},
    {"a process divided integers by zero", "w45[error]worker exited with exit code 136", false},
    {"host n4: Ray's own process of a host (the raylet) still ran",
     "{\"event_id\":\"03\",\"host_name\":\"n4\",\"label\":\"RAYLET_MARKED_DEAD\",\"message\":\"[Timeout] Exiting "
     "because "
     "this node manager has mistakenly been marked as dead by the GCS: GCS failed to check the health of this node\","
     "\"pid\":\"70\",\"severity\":\"FATAL\"}",
     false},
    {"a process of Ray ended while Ray started on a host",
     "RuntimeError: Failed to start GCS.  Last 0 lines of error files:", false},
    {"actor ActorWorker.initialize on 192.0.2.4 (pid 19): a task or actor of Ray raised an exception, which Ray passes "
     "on "
     "to its caller: AssertionError",
     "ray.exceptions.RayTaskError(AssertionError): ray::ActorWorker.initialize() (pid=19, ip=192.0.2.4, actor_id=d1)\n"
     "  File \"/x/train",
     false},
    {"Ray Train ends the run because a worker failed",
     "ray.tune.error.TuneError: ('Trial did not complete', <ray.tune.trial.Trial object at 0x7fd21a47cfd0>)", false},
    {"host 192.0.2.4: the versions of Ray or Python differ between a process and its cluster",
     "RuntimeError: Version mismatch: The cluster was started with:\n    Ray: 2.39.0\n    Python: 3.10.14\nThis "
     "process on "
     "node [192.0.2.4](http://192.0.2.4/) was started with:\n    Ray: 2.39.0\n    Python: 3.10.15",
     true},
    {"the host's memory ran out, and Ray's memory monitor killed a worker",
     "Refer to the documentation on how to address the out of memory issue: https://docs.ray.io/en/latest/ray-core/"
     "scheduling/ray-oom-prevention.html.",
     true},
    /* Ray: the rest */
    {"hosts 192.0.2.5, 192.0.2.6: Ray lost a host",
     "2024-01-01 10:00:01,100 WARNING worker.py:1228 -- The node with node id: a1 and ip: 192.0.2.5 has been marked "
     "dead because the detector has missed too many heartbeats from it.\n"
     "2024-01-01 10:00:02,100 WARNING worker.py:1228 -- The node with node id: a2 and ip: 192.0.2.6 has been marked "
     "dead because the detector has missed too many heartbeats from it.",
     true},
    {"host 192.0.2.7: Ray's own process of a host",
     "ERROR agent.py:217 -- Raylet is terminated: ip=192.0.2.7, id=5fa7. Termination is unexpected. Possible reasons "
     "include: (1) SIGKILL by the user or system OOM killer",
     false},
    {"Ray has fewer free resources", "ValueError: Total available GPUs 8 is less than total desired GPUs 16", true},
    {"several hosts of Ray told vLLM the same address",
     "RuntimeError: Every node should have a unique IP address. Got 2 nodes with node ids ['a', 'b'] and 1 unique IP",
     true},
    {"host 192.0.2.3: the versions of Ray or Python differ",
     "RuntimeError: Version mismatch: The cluster was started with:\n    Ray: 2.9.0\n    Python: 3.10.1\n"
     "This process on node 192.0.2.3 was started with:\n    Ray: 2.10.0\n    Python: 3.10.1",
     true},
    {"actor Trainer: a worker of Ray cannot import",
     "RuntimeError: The actor with name Trainer failed to import on the worker. This may be because needed library "
     "dependencies are not installed in the worker environment:",
     true},
    {"host 192.0.2.7: a helper of Ray's own process",
     "(raylet, ip=192.0.2.7) The raylet exited immediately because one Ray agent failed, agent_name = "
     "dashboard_agent/424238335.\n"
     "(raylet) The raylet fate shares with the agent. This can happen because",
     false},
    {"a process of Ray does not reach the head",
     "There was timeout in registering an actor. It is probably because GCS server is dead or there's a high load "
     "there.",
     false},
    {"Ray Train ends the run because a worker failed, reported by actor TrainController (pid 7)",
     "(TrainController pid=7) ray.train.WorkerGroupError: Training failed due to worker errors:\n"
     "(TrainController pid=7) [Rank 1]",
     false},
    {"the program started Ray a second time", "RuntimeError: Maybe you called ray.init twice by accident? This error",
     true},
    {"no error that ends a job is in these logs, only what follows from one: a job that was submitted to Ray failed",
     "Job 'raysubmit_1' failed\nStatus message: Job entrypoint command failed "
     "with exit code 1, last available logs (truncated to 20,000 chars):",
     false},
    /* Spark and Dask */
    {"task 3: a task of a barrier stage of Spark failed",
     "org.apache.spark.SparkException: Job aborted due to stage failure: Could not recover from a failed barrier "
     "ResultStage. Most recent failure reason: Stage failed because barrier task ResultTask(5, 3) finished "
     "unsuccessfully.",
     false},
    {"actor executor 2 on node-b: Spark lost the process of an executor",
     "24/01/01 10:00:00 ERROR YarnScheduler: Lost executor 2 on node-b: Container from a bad node. Exit status: 134",
     false},
    {"actor executor 5 on 192.0.2.5: Spark lost the process of an executor",
     "WARN TaskSetManager: Lost task 4.0 in stage 5.0 (TID 8) (192.0.2.5 executor 5): ExecutorLostFailure (executor 5 "
     "exited caused by one of the running tasks) Reason: ",
     false},
    {"the cluster manager killed an executor of Spark",
     "ExecutorLostFailure (executor 2 exited caused by one of the running tasks) Reason: Container killed by YARN for "
     "exceeding memory limits. 9.1 GB of 9 GB physical memory used.",
     true},
    {"host 192.0.2.5: a worker process of Dask died",
     "distributed.scheduler.KilledWorker: Attempted to run task 'train-1' on 4 different workers, but all those "
     "workers died while running it. The last worker that attempt to run the task was tcp://192.0.2.5:4000.",
     false},
    {"a worker of Dask used its memory up",
     "distributed.nanny - WARNING - Worker exceeded 95% memory budget.  Restarting\n"
     "distributed.nanny - WARNING - Worker process 22 was killed by unknown signal",
     true},
    {"host 192.0.2.5 (pid 77): a worker of Dask used its memory up",
     "distributed.worker.memory - WARNING - Worker tcp://192.0.2.5:4000 (pid=77) exceeded 95% memory budget. "
     "Restarting...",
     true},
    {"Ray could not prepare the environment of a worker",
     "(raylet) [2021-11-17 10:43:46,668 E 99 16] agent_manager.cc:190: Failed to create runtime env: {\"working_dir\": "
     "\"s3://a.zip\"}, error message: not enough values to unpack",
     true},
    {"a process of Ray ended while Ray started on a host: raylet died with exit code -6",
     "2020-06-10 13:18:20,846 ERROR scripts.py:447 -- Ray processes died unexpectedly:\n"
     "2020-06-10 13:18:20,848 ERROR scripts.py:450 --         raylet died with exit code -6",
     false},
    {"host ray-worker-4gc2c: Ray's autoscaler could not start a host, or does not reach it",
     "2020-08-26 12:03:23,240 ERROR updater.py:101 -- NodeUpdater: ray-worker-4gc2c: Error executing: Unable to "
     "connect "
     "to node\n\nException in thread Thread-6:\nTraceback (most recent call last):\n  File \"/x/updater.py\", line "
     "238, "
     "in wait_ready\n    assert False, \"Unable to connect to node\"\nAssertionError: Unable to connect to node",
     true},
    {"process (pid 81395): a check of native code failed, and its process ended itself: _s.ok()",
     "[2020-03-28 18:23:00,165 C 81395 81395] core_worker.cc:382:  Check failed: _s.ok() Bad status: NotImplemented: ",
     true},
    {"Spark has fewer slots than the barrier job has tasks",
     "20/06/13 19:32:41 WARN DAGScheduler: Barrier stage in job 0 requires 2 slots, but only 0 are available.", true},
    {"no error that ends a job is in these logs, only what follows from one: nannies of Dask ended workers",
     "distributed.nanny - WARNING - Worker process 28364 was killed by signal 15", false},
    {"actor feature_0_0: a worker of TensorRT-LLM or a model of Triton ended or did not start",
     "tritonclient.utils.InferenceServerException: [StatusCode.INTERNAL] in ensemble 'e', Failed to process the "
     "request(s) for model instance 'feature_0_0', message: Stub process is not healthy.",
     false},
    {"the function that computes rewards raised an exception: tuple indices must be integers",
     "Error in reward_fn: tuple indices must be integers or slices, not str", false},
    {"a worker of vLLM did not answer within the limit",
     "(EngineCore) ERROR [core.py:1138] EngineCore encountered a fatal error.\n(EngineCore) ERROR [core.py:1138] "
     "Traceback "
     "(most recent call last):\n(EngineCore) ERROR [core.py:1138]   File \"/x/multiproc_executor.py\", line 361, in f\n"
     "(EngineCore) ERROR [core.py:1138] TimeoutError: RPC call to sample_tokens timed out.",
     false},
    {"the disk that Ray spills objects to is full",
     "ray.exceptions.OutOfDiskError: Local disk is full  \nThe object cannot be created because the local object store "
     "is "
     "full and the local disk's utilization is over capacity (95% by default).",
     true},
    {"NCCL was called in a way it does not allow, reported by rank 1",
     "[1,1]<stderr>:    raise HorovodInternalError(e)\n[1,1]<stderr>:horovod.common.exceptions.HorovodInternalError: "
     "ncclCommInitRank failed: invalid usage",
     false},
    {"host 192.0.2.6: a worker of Dask sent no heartbeat, and the scheduler ended it",
     "2025-10-14 21:30:26,167 - distributed.scheduler - WARNING - Worker failed to heartbeat for 588s; attempting "
     "restart: "
     "<WorkerState 'tcp://192.0.2.6:46605', name: 1, status: running>\n2025-10-14 21:30:30,269 - distributed.worker - "
     "ERROR - Worker stream died during communication: tcp://192.0.2.6:46605\ntornado.iostream.StreamClosedError: "
     "Stream "
     "is closed",
     false},
    {"no error that ends a job is in these logs, only what follows from one: the other side of a connection of Dask "
     "ended",
     "ucp._libs.exceptions.UCXError: <stream_recv>: Connection reset by remote peer", false},
    {"process (pid 15): a check of native code failed",
     "F0121 00:04:29.623759    15 lineage_cache.cc:338]  Check failed: entry ", true},
    {"rank 3: a server could not set up, or lost, what moves keys and values",
     "[2026-01-01 10:00:00 TP0] prefill bootstrap_thread died on engine_rank=3; requests to this rank will time out in "
     "KVPoll.Bootstrapping",
     true},
    {"rank 2 (pid 88): a process of SGLang's server ended",
     "[2026-01-01 10:00:00] DP worker rank=2 (pid=88) exited with code=-9; failing pending requests", false},
    {"Dask has fewer workers than the program waits for",
     "dask.distributed.TimeoutError: Only 3/8 workers arrived after 60s", true},
    {"a worker process of Dask died",
     "distributed.scheduler - ERROR - Task ('x', 3) marked as failed because 3 workers died while trying to run it",
     false},
    /* Horovod */
    {"ranks 0-1: ranks of Horovod wait for each other, each with tensors that the other did not submit: rank 0 lacks "
     "a.sz, rank 1 w.a",
     "[0]<stderr>:[2020-01-01 10:00:00.1: W stall_inspector.cc:105] One or more tensors were submitted to be reduced, "
     "gathered or broadcasted by subset of ranks and are waiting for remainder of ranks for more than 60 seconds.\n"
     "[0]<stderr>:Missing ranks:\n[0]<stderr>:0: [a.sz]\n[0]<stderr>:1: [w.a, w.b ...]",
     true},
    {"ranks 1-2: it has not submitted tensors",
     "WARNING: are waiting for remainder of ranks for more than 60 seconds.\nMissing ranks:\n1: [w.a, w.b]\n2: [w.b]",
     false},
    {"rank 0: it has not submitted tensors that the other ranks of Horovod wait for",
     "1/1 - 3s - loss: nan\n[2021-02-02 21:19:07.345988: W /x/stall_inspector.cc:105] One or more tensors were "
     "submitted "
     "to be reduced, gathered or broadcasted by subset of ranks and are waiting for remainder of ranks for more than "
     "60 "
     "seconds.\nMissing ranks:\n0: [grads_0]",
     false},
    {"processes of Horovod did not reach each other",
     "horovod.runner.common.util.network.NoValidAddressesFound: Horovod was unable to connect to worker service on any "
     "of the following addresses: {'eth0': [('192.0.2.4', 1)]}.",
     false},
    {"host node-b: horovodrun could not reach a host by ssh", "ssh not successful for host node-b:\nPermission denied",
     true},
    {"an elastic job of Horovod gave up",
     "TimeoutException: Timed out waiting for minimum number of slots to become available. Please check that you have "
     "enough resources to run at least 4 Horovod processes. Timeout after 600 seconds.",
     false},
    {"ranks of Horovod submitted different operations",
     "RuntimeError: Mismatched prescale and/or postscale factors: One rank sent factors (1, 1), but another rank sent",
     true},
    {"ranks of Horovod submitted different operations",
     "Allgather is not supported with Join at this time. Specify sparse_to_dense=True", true},
    /* engines */
    {"actor EngineCore_DP1: vLLM's engine process ended",
     "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {'EngineCore_DP1': "
     "-9}",
     false},
    {"vLLM's engine process ended",
     "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {'EngineCore_DP0': "
     "1, 'EngineCore_DP1': 1}",
     false},
    {"no error that ends a job is in these logs, only what follows from one: a process of vLLM waits for its other "
     "side",
     "RuntimeError: Did not receive response from front-end process within 5 minutes", false},
    {"a worker of vLLM did not answer within the limit (VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS), reported by actor "
     "EngineCore_DP0 (pid 9)",
     "(EngineCore_DP0 pid=9) ERROR 01-01 10:00:00 [core.py:710] TimeoutError: RPC call to execute_model timed out.",
     false},
    {"a worker process of vLLM ended or raised an exception; its engine says so, reported by actor EngineCore_DP0",
     "(EngineCore_DP0 pid=9) ERROR 01-01 10:00:00 [core.py:710] RuntimeError: Worker failed with error 'x', please "
     "check the stack trace above for the root cause",
     false},
    {"the GPU has too little free memory",
     "AssertionError: Error in memory profiling. Initial free memory 14.1 GiB, current free memory 15.2 GiB.", true},
    {"no error that ends a job is in these logs, only what follows from one: keys and values did not come over from "
     "the prefill server, or not to the decode server, reported by actor TP1; look into those of 192.0.2.8:8998",
     "[2025-01-01 10:00:00 TP1] Lost connection with prefill instance (bootstrap_addr: 192.0.2.8:8998), 3 requests "
     "affected",
     false},
    {"more ranks were asked for on one host",
     "AssertionError: local_world_size (16) must be less than or equal to the number of visible devices (8).", true},
    {"host 192.0.2.5: a peer of gloo ended",
     "Exception: Capture cuda graph failed: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by "
     "peer [192.0.2.5]:40112",
     false},
    {"another engine than the one that was asked for answered",
     "RuntimeError: Remote NIXL agent engine ID mismatch. Expected a_dp0,received b_dp0.", true},
    {"no error that ends a job is in these logs, only what follows from one: keys and values did not come over from "
     "the "
     "prefill server, or not to the decode server; look into those of 192.0.2.8:12345@mlx5_1",
     "E0101 10:00:00.1 77 worker_pool.cpp:654] Worker: Process failed for slice (opcode: 1, source_addr: 1, length: 2, "
     "dest_addr: 0x3, local_nic: mlx5_0, peer_nic: 192.0.2.8:12345@mlx5_1, dest_rkey: 4): Work Request Flushed "
     "Error",
     false},
    {"the prefill and decode servers keep keys and values in different forms",
     "RuntimeError: Page size mismatch: prefill server has page_size=64, but decode server has page_size=1.", true},
    {"no error that ends a job is in these logs, only what follows from one: a scheduler of SGLang stood still, and "
     "its "
     "watchdog ended the server, reported by actor DP4 TP4; look into those of the other ranks",
     "[2025-01-01 10:00:00 DP4 TP4] Watchdog timeout (self.watchdog_timeout=300)\n"
     "[2025-01-01 10:00:05] Received sigquit from a child proces. It usually means the child failed.",
     false},
    {"actor model_0_0: a worker of TensorRT-LLM or a model of Triton ended",
     "Failed to process the request(s) for model instance 'model_0_0', message: Stub process 'model_0_0' is not "
     "healthy.",
     false},
    {"no error that ends a job is in these logs, only what follows from one: a rank of TensorRT-LLM made no progress",
     "[TRT-LLM] [RANK 2] [E] Hang detected on rank 2 in PyExecutor.", false},
    /* trainers of reinforcement learning */
    {"actor 3: an engine that generates did not answer the trainer",
     "Health check failed for rollout engine 3 (ray timeout or error). Killing actor. Exception: x", false},
    {"the new weights did not get into the engine", "Failed to update weights: shape '[2]' is invalid.\nRolling back",
     false},
    {"no error that ends a job is in these logs, only what follows from one: a server of the job does not answer; look "
     "into those of 192.0.2.3",
     "requests.exceptions.ConnectionError: HTTPConnectionPool(host='192.0.2.3', port=30000): Max retries exceeded with "
     "url: /generate (Caused by NewConnectionError('x: Failed to establish a new connection'))",
     false},
    {"no error that ends a job is in these logs, only what follows from one: a server of the job does not answer; look "
     "into those of 192.0.2.3",
     "aiohttp.client_exceptions.ClientConnectorError: Cannot connect to host 192.0.2.3:8000 ssl:default [Connect call "
     "failed ('192.0.2.3', 8000)]",
     false},
    {"a process of a pool (rewards, data, tokenization) died without an exception",
     "concurrent.futures.process.BrokenProcessPool: A process in the process pool was terminated abruptly while the "
     "future was running or pending.",
     false},
    {"the server that generates was started without what it needs",
     "RuntimeError: The vLLM server at http://n1:8000 has no weight-transfer engine. Restart it with", true},
    /* text-generation-inference */
    {"rank 0: the program uses instructions that this CPU lacks",
     "2026-01-01T00:00:00.1Z ERROR shard-manager: text_generation_launcher: Shard complete standard error output:\n"
     " rank=0\n2026-01-01T00:00:00.2Z ERROR shard-manager: text_generation_launcher: Shard process was signaled to "
     "shutdown with signal 4 rank=0\nError: ShardCannotStart\n"
     "2026-01-01T00:00:00.3Z ERROR text_generation_launcher: Shard 0 failed to start\n",
     true},
    {"rank 2: a process got SIGKILL",
     "2026-01-01T00:00:00.2Z ERROR shard-manager: text_generation_launcher: Shard process was signaled to shutdown "
     "with "
     "signal 9 rank=2\n2026-01-01T00:00:00.3Z ERROR text_generation_launcher: Shard 2 crashed\n",
     false},
    {"rank 1: a server process of text-generation-inference",
     "2026-01-01T00:00:00.3Z ERROR text_generation_launcher: Shard 1 failed to start\nError: ShardCannotStart\n",
     false},
    {"no error that ends a job is in these logs, only what follows from one: the router of text-generation-inference",
     "{\"timestamp\":\"2026-01-01T00:00:00.2Z\",\"level\":\"ERROR\",\"message\":\"Request failed during generation: "
     "Server "
     "error: error trying to connect: No such file or directory (os error 2)\",\"target\":\"text_generation_router\"}",
     false},
    /* Code in a traceback that a logger prints is no error line. */
    {"no error that ends a job is in these logs, only what follows from one: a worker process of vLLM failed while it "
     "started, reported by actor EngineCore (pid 77); look into",
     "(EngineCore pid=77) ERROR 06-24 02:06:20 [core.py:9]     raise e from None\n"
     "(EngineCore pid=77) ERROR 06-24 02:06:20 [core.py:9] Exception: WorkerProc initialization failed due to an "
     "exception in a background process. See stack trace for root cause.\n",
     false},
    {"the trainer or router does not reach a server that generates",
     "TimeoutError: Server failed to become healthy within timeout period", false},
};

static tess_knowledge *knowledge;

static void each_text_has_its_headline(void)
{
    char path[512];
    setenv("XDG_CONFIG_HOME", "/nowhere", 1);
    EXPECT_OK(tess_knowledge_create(test_mem(), NULL, 0, &knowledge));
    EXPECT_OK(tess_os_join(path, sizeof(path), test_folder(), "text.log"));
    for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); i++) {
        const char *expected = samples[i].headline, *text = samples[i].text;
        tess_survey survey;
        tess_log_diagnosis diagnosis;
        EXPECT_OK(tess_survey_begin(test_mem(), knowledge, &survey));
        EXPECT_OK(tess_os_write_atomic(path, text, strlen(text)));
        EXPECT_OK(tess_survey_read(&survey, path));
        EXPECT_OK(tess_log_diagnose(&survey, 0, &diagnosis));
        if (strncmp(diagnosis.headline, expected, strlen(expected)) != 0 || diagnosis.is_cause != samples[i].is_cause)
            test_fail(__FILE__, __LINE__, "\"%.80s\": expected \"%s\"%s in \"%s\"%s", text, expected,
                      samples[i].is_cause ? " (cause)" : "", diagnosis.headline, diagnosis.is_cause ? " (cause)" : "");
        tess_survey_free(&survey);
    }
    tess_knowledge_destroy(&knowledge);
}

static const test_case cases[] = {CASE(each_text_has_its_headline)};

TEST_MAIN(cases)
