/* Texts of JAX and its coordination service, made from the formats of their
 * sources: which entry they are, whom they are about, and that no other entry is called a cause. */
#include "support/log_samples.h"

static const log_named_sample samples[] = {
    /* JAX */
    {"jax-task-lost", "task 5",
     "UNAVAILABLE: Task /job:jax_worker/replica:0/task:5 heartbeat timeout. This indicates that the remote task has "
     "failed"},
    {"jax-task-lost", "task 1",
     "UNAVAILABLE: The following tasks are unhealthy (stopped sending "
     "heartbeats):\n/job:jax_worker/replica:0/task:1\nThe tasks have crashed."},
    {"jax-task-lost", "task 3",
     "ABORTED: /job:jax_worker/replica:0/task:3 unexpectedly tried to connect with a different incarnation. It has "
     "likely restarted."},
    {"jax-task-lost", "task 5",
     "UNAVAILABLE: Task 5 heartbeat timeout. This indicates that the remote task has failed"},
    {"jax-task-lost", "tasks 8,10",
     "UNAVAILABLE: The following tasks are unhealthy (stopped sending heartbeats):\n8\n10\nThe tasks have crashed."},
    {"jax-task-lost", "task 3", "ABORTED: 3 unexpectedly tried to connect with a different incarnation."},
    {"jax-barrier", "tasks 1,3",
     "DEADLINE_EXCEEDED: Barrier timed out. Id: b::0. This usually happens because a task triggered the barrier too "
     "early.\n# of tasks that reached the barrier: 2/4.\nThe first task at the barrier: 0. Some timed out task "
     "names:\n1\n3\n"},
    {"megascale-bad-chip", "host n7",
     "Megascale detects a hang that is likely caused by bad TPU chips on the following hosts. Please remove the hosts "
     "from the fleet.\n  The host that have bad TPUs are: n7\n  Full error digest:"},
    {"megascale-hang", "", "Megascale hang detected: Timed out waiting for 4 graphs to complete at launch_id 13650."},
    {"jax-programs-differ", "",
     "Core halted unexpectedly: INTERNAL: Accelerator device halted prematurely, perhaps due to an on-device "
     "check-failure. Node 0 halted unexpectedly at tag:pc TensorCoreSequencer:1:0x1d9: scheckne: \n***\nAn unexpected "
     "leader shows up in the launch group with a different launch id than the current group leader."},
    {"tpu-addresses", "",
     "RuntimeError: Bad StatusOr access: UNKNOWN: TPU initialization failed: Invalid --x_worker_addresses specified. "
     "Expected 4 worker addresses, got 1."},
    {"ascend-hccl-absent", "ranks 1,3,5",
     "TopoDetect ERROR occur !!! fault_type[1], fault_info[\"Failed to connect agent[1,3,5,]\"]"},
    {"jax-service-ended", "",
     "Terminating process because the JAX distributed service detected fatal errors. This most likely indicates that "
     "another task died"},
    {"jax-service-ended", "",
     "UNAVAILABLE: Failed to send RPC to coordination service. Either the leader task was preempted/died/restarted "
     "unexpectedly"},
    {"jax-coordinator-unreachable", "",
     "DEADLINE_EXCEEDED: Deadline Exceeded\nAdditional GRPC error information from remote target coordination_service "
     "while calling "
     "/tensorflow.CoordinationService/RegisterTask:"},
    {"jax-rendezvous", "",
     "[id=3] This thread has been waiting for `all-reduce` for 10 seconds and may be stuck. All 8 threads joined the "
     "rendezvous"},
    {"accelerator-out-of-memory", "",
     "RESOURCE_EXHAUSTED: Ran out of memory in memory space hbm. Used 18.5G of 15.7G hbm."},
    {"cuda-out-of-memory", "",
     "XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 123 bytes."},
    {"jax-task-lost", "task 0",
     "UNAVAILABLE: The following tasks are unhealthy (stopped sending heartbeats): /job:jax_worker/replica:0/task:0"},
    {"jax-task-lost", "tasks 8,10",
     " 0: UNAVAILABLE: The following tasks are unhealthy (stopped sending heartbeats):\n 0: "
     "/job:jax_worker/replica:0/task:8\n"
     " 0: /job:jax_worker/replica:0/task:10\n 0: The tasks have crashed."},
    {"jax-barrier", "task 1",
     "INTERNAL: Getting local topologies failed: Error 1: GetKeyValue() timed out with key: cuda:local_topology/cuda/1 "
     "and duration: 2m"},
    {"jax-programs-differ", "",
     "An unexpected peer shows up in the launch group with a different launch id than the current group leader."},
    {"jax-programs-differ", "", "AssertionError: sync_global_devices name mismatch ('step')."},
    {"jax-backend", "",
     "RuntimeError: Unable to initialize backend 'tpu': INTERNAL: Failed to get global TPU topology."},
    {"ray-start-timeout", "",
     "Exception: The current node timed out during startup. This could happen because some of the raylet failed to "
     "startup"},
    {"ray-actor-gone", "",
     "TimeoutError: Failed to get register_center_actor x_register_center in [] for 300 seconds."},
    {"program-not-started", "", "python: can't open file '/job/train.py': [Errno 2] No such file or directory"},
    {"program-not-started", "", "[rank3]: /usr/bin/python3: No module named train"},
    {"program-arguments", "", "train.py: error: unrecognized arguments: --local_rank=0"},
    {"loss-scale-minimum", "", "[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 1, reducing to 1"},
    {"loss-scale-minimum", "",
     "Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to 4.76837158203125e-07"},
    {"vllm-engine-died", "",
     "AsyncEngineDeadError: Task finished unexpectedly. This should never happen! Please open an issue on Github."},
    {"sglang-trace", "",
     "[2025-01-01 10:00:00] TpModelWorkerClient hit an exception: Traceback (most recent call last):"},
    {"jax-rendezvous", "",
     "Termination timeout for `all-reduce` of 40 seconds exceeded. Exiting to ensure a consistent program state."},
    {"torchrun-agents-lost", "", "torch.distributed.elastic.rendezvous.api.RendezvousGracefulExitError"},
    {"interrupted", "", " [2025-01-01 10:00:00] exiting program after receiving SIGTERM."},
    {"interrupted", "", "[rank1]: KeyboardInterrupt"},
    {"megatron-helpers", "", "ERROR:megatron.core.datasets.utils:Failed to compile the C++ dataset helper functions"},
    {"gradients-differ", "",
     "FloatingPointError: Fatal error: gradients are inconsistent between workers. Try --ddp-backend=legacy_ddp."},
    {"torch-compile-failed", "rank 1", "[rank1]: torch._dynamo.exc.BackendCompilerFailed: backend='inductor' raised:"},
    {"lightning-slurm", "",
     "RuntimeError: You set `--ntasks=8` in your SLURM bash script, but this variable is not supported. HINT: Use"},
    {"gloo-sizes-differ", "",
     "[rank1]: RuntimeError: [enforce fail at ../third_party/gloo/gloo/transport/tcp/pair.cc:446] op.preamble.length "
     "<= op.nbytes. 16 vs 8"},
    {"cuda-invalid-device", "",
     "MisconfigurationException: You requested gpu: [0, 1]\n But your machine only has: [0]"},
    {"hub-download", "",
     "OSError: We couldn't connect to 'https://huggingface.co' to load the files, and couldn't find them in the"},
    {"ssh-login-failed", "host n7", "ssh: connect to host n7 port 22: No route to host"},
    {"ssh-login-failed", "host n7", "pdsh@n1: n7: connect: timed out"},
    {"ssh-login-failed", "host n7", "user@n7: Permission denied (publickey)."},
    {"tpu-held", "",
     "RuntimeError: Unable to initialize backend 'tpu': ABORTED: The TPU is already in use by process with pid 9."},
};

static void each_text_is_its_entry_and_names_whom_it_is_about(void)
{
    test_log_expect_whom(samples, sizeof(samples) / sizeof(samples[0]));
}

static const test_case cases[] = {CASE(each_text_is_its_entry_and_names_whom_it_is_about)};

TEST_MAIN(cases)
