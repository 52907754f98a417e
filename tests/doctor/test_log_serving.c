/* Texts of Ray, vLLM and SGLang, made from the formats of their
 * sources: which entry they are, whom they are about, and that no other entry is called a cause. */
#include "support/log_samples.h"

static const log_named_sample samples[] = {
    /* Ray */
    {"ray-actor-died", "actor pool_0:3 on 192.0.2.14 (pid 5120)",
     "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.\n\tclass_name: "
     "W\n\tactor_id: 01\n\tpid: 5120\n"
     "\tname: pool_0:3\n\tnamespace: n\n\tip: 192.0.2.14\n"
     "The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR Worker exit detail: Worker "
     "unexpectedly "
     "exits with a connection error code 2. End of file. Some common causes include: (1) the process was killed by the "
     "OOM killer"},
    {"ray-actor-died", "host 192.0.2.9 (pid 308)",
     "(raylet) A worker died or was killed while executing a task by an unexpected system error. To troubleshoot the "
     "problem, check the logs "
     "for the dead worker. RayTask ID: a Worker ID: b Node ID: c Worker IP address: 192.0.2.9 Worker port: 10005 "
     "Worker PID: 308 "
     "Worker exit type: SYSTEM_ERROR Worker exit detail: Worker exits unexpectedly by a signal."},
    {"ray-actor-died", "host 192.0.2.9",
     "(raylet) 0 Workers (tasks / actors) killed due to memory pressure (OOM), 3 Workers crashed due to other reasons "
     "at node (ID: a1, IP: "
     "192.0.2.9) over the last time period."},
    {"ray-worker-slow-start", "process (pid 308)",
     "(raylet) Some workers of the worker process(308) have not registered within the timeout. The process is still "
     "alive, probably it's hanging"},
    {"ray-memory-monitor", "host 192.0.2.9",
     "(raylet) 1 Workers (tasks / actors) killed due to memory pressure (OOM), 0 Workers crashed due to other reasons "
     "at node (ID: a1, IP: "
     "192.0.2.9) over the last time period."},
    {"ray-memory-monitor", "host 192.0.2.9",
     "Memory on the node (IP: 192.0.2.9, ID: a1) was 498.00GB used / 512.00GB limit (0.972656)"},
    {"ray-memory-monitor", "actor Ref.__init__ on 192.0.2.9 (pid 308)",
     "The actor is dead because its worker process has died. Worker exit type: NODE_OUT_OF_MEMORY Worker exit detail: "
     "Task was killed due "
     "to the node running low on memory.\nMemory on the node (IP: 192.0.2.9, ID: a1) where the task (actor ID: b, "
     "name=Ref.__init__, "
     "pid=308, memory used=411.15GB) was running was 498.00GB / 512.00GB (0.972656), which exceeds the memory usage "
     "threshold of 0.95."},
    {"ray-task-error", "actor Worker.fit on 10.0.0.7 (pid 77)",
     "ray.exceptions.RayTaskError(RuntimeError): ray::Worker.fit() (pid=77, ip=10.0.0.7, actor_id=a1, repr=<w.Worker "
     "object>)"},
    {"ray-task-error", "actor Worker.__init__ on 10.0.0.7 (pid 77)",
     "ray.exceptions.ActorDiedError: The actor died because of an error raised in its creation task, "
     "ray::Worker.__init__() (pid=77, ip=10.0.0.7)"},
    {"ray-owner-died", "host 192.0.2.1",
     "The actor is dead because its owner has died. Owner Id: 01 Owner Ip address: 192.0.2.1 Owner worker exit type: "
     "SYSTEM_ERROR"},
    {"ray-actor-ended", "", "The actor is dead because it was killed by `ray.kill`."},
    {"ray-actor-gone", "", "ray.exceptions.GetTimeoutError: Get timed out: some object(s) not ready."},
    {"ray-node-lost", "host 192.0.2.4",
     "(raylet) The node with node id: a1b2 and address: 192.0.2.4 and node name: n4 has been marked dead because the "
     "detector has missed too "
     "many heartbeats from it. This can happen when a \t(1) raylet crashes unexpectedly (OOM, etc.)"},
    {"ray-node-lost", "host 192.0.2.4",
     "ray.exceptions.NodeDiedError: Task failed because the node it was running on is dead or unavailable. Node IP: "
     "192.0.2.4, node ID: a1."},
    {"ray-node-lost", "",
     "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.\n\tpid: 7\n\tip: "
     "192.0.2.4\n"
     "The actor died because its node has died. Node Id: a1b2\n\tthe actor's node was terminated unexpectedly: health "
     "check failed"},
    {"ray-node-preempted", "",
     "The actor died because its node has died. Node Id: a1b2\n\tthe actor's node was preempted: spot"},
    {"ray-raylet-died", "",
     "Raylet is terminated. Termination is unexpected. Possible reasons include: (1) SIGKILL by the user or system OOM "
     "killer"},
    {"ray-raylet-died", "",
     "ray.exceptions.LocalRayletDiedError: The task's local raylet died. Check raylet.out for more information."},
    {"ray-head-lost", "", "Failed to connect to GCS within 60 seconds. GCS may have been killed."},
    {"ray-object-store-full", "",
     "ray.exceptions.ObjectStoreFullError: Failed to put object a1 in object store because it is full."},
    {"ray-disk-filling", "",
     "(raylet) file_system_monitor.cc:116: /tmp/ray/session_1 is over 95% full, available space: 1; capacity: 2."},
    {"ray-resources", "",
     "ValueError: Cannot provide a placement group of placement_group_specs=[{'GPU': 1.0}] within 1800 seconds. See "
     "`ray status`"},
    {"ray-resources", "", "ValueError: Total available GPUs 8 is less than total desired GPUs 16"},
    {"ray-resources-wait", "",
     "Warning: The following resource request cannot be scheduled right now: {'GPU': 1.0}. cannot be scheduled right "
     "now. It requires"},
    {"ray-runtime-env", "", "ray.exceptions.RuntimeEnvSetupError: Failed to set up runtime environment."},
    {"ray-ranks-missing", "ranks 1,3", "The following ranks have not joined the collective operation: [1, 3]"},
    /* vLLM and SGLang */
    {"vllm-engine-died", "actor EngineCore_DP0",
     "ERROR 01-01 10:00:00 [core_client.py:600] Engine core proc EngineCore_DP0 died unexpectedly, shutting down "
     "client."},
    {"vllm-engine-died", "",
     "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root "
     "cause."},
    {"vllm-engine-died", "actor EngineCore_DP0",
     "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {'EngineCore_DP0': "
     "1}"},
    {"vllm-worker-died", "rank 3",
     "ERROR 01-01 10:00:00 [multiproc_executor.py:140] Worker proc VllmWorker-3 died unexpectedly, shutting down "
     "executor."},
    {"killed", "process (pid 88)", "ERROR 01-01 10:00:00 Worker VllmWorkerProcess pid 88 died, exit code: -9"},
    {"python-name-missing", "actor EngineCore_DP0 (pid 9)",
     "(EngineCore_DP0 pid=9) ERROR 01-01 10:00:00 [core.py:868] EngineCore failed to start.\n"
     "(EngineCore_DP0 pid=9) ERROR 01-01 10:00:00 [core.py:868] Traceback (most recent call last):\n"
     "(EngineCore_DP0 pid=9) ERROR 01-01 10:00:00 [core.py:868] AttributeError: 'X' object has no attribute 'y'"},
    {"python-exception", "actor RayWorkerWrapper on 10.0.0.8 (pid 18)",
     "(RayWorkerWrapper pid=18, ip=10.0.0.8) ERROR 01-01 10:00:00 worker_base.py:382] Error executing method "
     "init_device. This might cause "
     "deadlock in distributed execution.\n(RayWorkerWrapper pid=18, ip=10.0.0.8) ERROR 01-01 10:00:00 "
     "worker_base.py:382] ValueError: x"},
    {"vllm-worker-trace", "",
     "ERROR 01-01 10:00:00 [worker_base.py:620] Error executing method 'load_model'. This might cause deadlock in "
     "distributed execution."},
    {"cuda-check-failed", "", "Failed: Cuda error /workspace/csrc/custom_all_reduce.cuh:368 'invalid argument'"},
    {"vllm-worker-silent", "", "TimeoutError: RPC call to execute_model timed out."},
    {"vllm-broadcast-waits", "",
     "INFO 01-01 10:00:00 [shm_broadcast.py:548] No available shared memory broadcast block found in 60 seconds."},
    {"inference-cache-memory", "",
     "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`"},
    {"inference-memory-taken", "actor Worker (pid 9)",
     "(Worker pid=9) ERROR 01-01 10:00:00 [multiproc_executor.py:901] ValueError: Free memory on device cuda:0 "
     "(52.81/95.01 GiB) on startup "
     "is less than desired GPU memory utilization (0.9, 85.51 GiB)."},
    {"inference-cache-memory", "", "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static."},
    {"sglang-trace", "actor TP3",
     "[2025-01-01 10:00:00 TP3] Scheduler hit an exception: Traceback (most recent call last):"},
    {"sglang-process-died", "", "Received sigquit from a child process. It usually means the child failed."},
    {"sglang-process-died", "rank 2",
     "RuntimeError: Rank 2 scheduler died during initialization (exit code: -9). If exit code is -9 (SIGKILL), a "
     "common"},
    {"sglang-process-died", "process (pid 77)", "Scheduler or DataParallelController 77 terminated with -9"},
    {"sglang-watchdog", "",
     "[2025-01-01 10:00:00] Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=False)"},
    {"sglang-ranks-missing", "",
     "ValueError: TP rank 1 could finish the model loading, but there are other ranks that didn't finish loading."},
    {"generation-server-unreachable", "",
     "ConnectionError: The vLLM server can't be reached at http://n1:8000 after 240 seconds. Make sure"},
};

static void each_text_is_its_entry_and_names_whom_it_is_about(void)
{
    test_log_expect_whom(samples, sizeof(samples) / sizeof(samples[0]));
}

static const test_case cases[] = {CASE(each_text_is_its_entry_and_names_whom_it_is_about)};

TEST_MAIN(cases)
