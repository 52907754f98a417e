/* Jobs that schedulers, launchers and container runtimes did not start, or ended: the headline has the reason and the
 * host, job or process. */
#include "support/log_samples.h"

static const log_case logs[] = {
    /* Slurm */
    {"srun: error: xgetaddrinfo: getaddrinfo(n7:6818) failed: Name or service not known\n"
     "srun: error: slurm_set_addr: Unable to resolve \"n7\"\n"
     "srun: error: Task launch for StepId=77.0 failed on node n7: Can't find an address, check slurm.conf\n",
     "the name of a host does not resolve (name service, DNS): n7", NULL},
    {"slurmstepd: Job 77 exceeded memory limit (5038 > 4915), being killed\nslurmstepd: Exceeded job memory limit\n"
     "slurmstepd: *** JOB 77 CANCELLED AT 2026-01-01T00:00:00 *** on n1\n",
     "job 77 on n1: the job used more memory than its limit, and Slurm ended it: 5038 > 4915", "cancelled"},
    {"slurmstepd: error: *** STEP 77.0 ON n1 CANCELLED AT 2026-01-01T00:00:00 DUE TO PREEMPTION ***\n",
     "job 77.0 on n1: a job of higher priority took the hosts", NULL},
    {"srun: fatal: --mem, --mem-per-cpu, and --mem-per-gpu are mutually exclusive.\n",
     "a command of Slurm refused its options or its environment: --mem, --mem-per-cpu", NULL},
    {"sbatch: error: !!! job_submit: a job for partition g1 without specifying an account\n"
     "sbatch: error: Batch job submission failed: Unspecified error\n",
     "Slurm did not accept the job: !!! job_submit: a job for partition g1 without", NULL},
    {"slurmstepd: error: execve(): /tmp/slurmd/job77/slurm_script: No such file or directory\n",
     "the program could not be started: /tmp/slurmd/job77/slurm_script: No such file", NULL},
    /* HTCondor */
    {"Hold reason: Error from slot1@n1: STARTER at 192.0.2.4 failed to send file(s): error reading from /d/o.tgz\n",
     "host n1: the scheduler stopped the job after an error", NULL},
    {"srun: error: Unable to create step for job 77: Invalid generic resource (gres) specification\n",
     "job 77: Slurm could not start the tasks: Invalid generic resource", NULL},
    /* PBS and LSF: the job and its host are in other lines of the report */
    {"PBS Job Id: 77.s1\nJob Name:   x\nExec host:  n1/2+n1/17\nAborted by PBS Server\n"
     "Job exceeded its walltime limit. Job was aborted\n",
     "job 77.s1 on n1: the job reached its time limit", NULL},
    {"PBS Job Id: 77.s1\nExec host:  n1/0\njob deleted\nJob deleted at request of root@s1\n"
     "MOAB_INFO:  job exceeded wallclock limit\n",
     "job 77.s1 on n1: the job reached its time limit", NULL},
    {"01/10/2026 11:43:09;0008;PBS_Server.12;Job;77.s1;Job deleted at request of ada@s1\n",
     "job 77.s1: LSF or PBS ended the job, as somebody asked or a rule of its queue says: Job deleted at request of "
     "ada",
     NULL},
    /* MPICH and Intel MPI */
    {"[mpiexec@n1] HYDU_parse_hostfile (utils/args/args.c:319): unable to open host file: /var/spool/aux/77\n"
     "[mpiexec@n1] HYDT_bscd_pbs_query_node_list (tools/pbs_query_node_list.c:26): error parsing hostfile\n",
     "host n1: mpiexec could not read the list of hosts that the scheduler or the command names: /var/spool/aux/77",
     NULL},
    {"[mpiexec@n1] HYDU_create_process (launch.c:102): execvp error on file /opt/pmi_proxy (No such file or "
     "directory)\n[mpiexec@n1] HYD_pmcd_pmiserv_proxy_init_cb (pmiserv_cb.c:1177): assert (!closed) failed\n",
     "host n1: the launcher of MPICH or Intel MPI could not start on a host, or not start the program: /opt/pmi_proxy "
     "(No such file",
     NULL},
    {"=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   PID 77 RUNNING AT n1\n=   EXIT CODE: 15\n",
     "host n1 (pid 77): MPICH's launcher ends the job because a rank ended: EXIT CODE: 15", NULL},
    /* PRRTE */
    {"An PRRTE daemon has unexpectedly failed after launch and before\ncommunicating back to mpirun.\n",
     "mpirun lost its daemon on a host, or did not reach it: An PRRTE daemon has unexpectedly failed after launch",
     NULL},
    {"Your job has requested more processes than the ppr for\nthis topology can support:\n\n  App: /usr/bin/env\n"
     "  Number of procs:  34\n  PPR: 8:node\n",
     "mpirun cannot place the ranks as it was told: App: /usr/bin/env; Number of procs:  34; PPR: 8:node", NULL},
    {"The PBS_NODEFILE environmental variable was not found -\nno nodes can be allocated\n",
     "mpirun could not learn from the scheduler which hosts and slots the job has: The PBS_NODEFILE", NULL},
    {"  Deprecated key:   env\n\nThis will be treated\nas an error in a future release. Please update your program.\n"
     "[worker:77] PRTE ERROR: Bad parameter in file base/odls_base_default_fns.c at line 962\n",
     "a part of Open MPI's run time (PMIx, PRRTE) failed: Bad parameter", "future"},
    /* ssh */
    {"ssh: connect to host n2 port 50000: Connection refused\nORTE was unable to reliably start one or more daemons.\n",
     "host n2: a launcher could not log in to a host: port 50000: Connection refused", NULL},
    /* Apptainer */
    {"container creation failed: image driver mount failure: image driver squashfuse_ll instance exited with error: "
     "squashfuse_ll exited: fusermount: mountpoint /dev/fuse is not a directory or a regular file\n",
     "the image of a container could not be mounted: squashfuse_ll exited: fusermount: mountpoint /dev/fuse", NULL},
    /* pyxis */
    {"[2026-01-10T10:10:06.901] [77.0] error: pyxis: couldn't mkdir /run/pyxis/100: No such file or directory\n"
     "[2026-01-10T10:10:06.901] [77.0] error: spank: required plugin spank_pyxis.so: init_post_opt() failed with "
     "rc=-1\n",
     "a container could not be started: couldn't mkdir /run/pyxis/100: No such file or directory", NULL},
    {"[77.0] error: pyxis: child 70956 failed with error code: 1\n[77.0] error: pyxis: failed to import docker image\n"
     "[77.0] pyxis: could not remove squashfs /tmp/77.0.squashfs: No such file or directory\n",
     "a container could not be started", "remove squashfs"},
    {"slurmstepd: error: Could not run slurm task_prolog [/etc/slurm/prolog.sh]: No such file or directory\n",
     "a script of the site that Slurm runs before or after a job (prolog, epilog) failed: task_prolog [/etc", NULL},
    /* services of NVIDIA, and syslog in another language */
    {"11月 15 14:15:47 n1 nv-fabricmanager[4177]: request to query NVSwitch device information from NVSwitch driver "
     "failed with error:WARNING Nothing to do [NV_WARN_NOTHING_TO_DO]\n"
     "11月 15 14:15:47 n1 systemd[1]: nvidia-fabricmanager.service: Control process exited, code=exited, status=1\n",
     "host n1: a service of the host ended, or could not start: nvidia-fabricmanager.service; no error before it is in "
     "these logs; before it: the fabric manager ends because this host has no NVSwitch",
     NULL},
    {"Error: unable to establish a connection to the specified host: localhost\n",
     "a tool of DCGM did not reach the host engine, its service on the host: localhost", NULL},
    {"2026-01-10 12:54:06.828 ERROR [126:127] [[NvSwitch]] Not attached to NvSwitches. Aborting [/x/Manager.cpp:967]\n",
     "", "knowledge base"},
    {"ERROR: S3 error: 403 (AccessDenied): Access Denied\n",
     "an object store (S3, GCS, Azure) did not serve a request, because credentials or rights are missing: 403", NULL},
    /* containers */
    {"docker: Error response from daemon: could not select device driver \"nvidia\" with capabilities: [[gpu]].\n",
     "a container with GPUs could not be started: could not select device driver \"nvidia\"", NULL},
    {"  Normal   Scheduled  24m  default-scheduler  Successfully assigned ns/trainer-0 to n1\n"
     "  Warning  FailedCreatePodSandBox  4m (x93 over 24m)  kubelet  Failed to create pod sandbox: rpc error: code = "
     "Unknown desc = failed to get sandbox runtime: no runtime for \"nvidia\" is configured\n",
     "pod trainer-0 on n1: Kubernetes could not start a pod", NULL},
    {"trainer-0\t\tEvicted\t\tThe node was low on resource: ephemeral-storage. Threshold quantity: 30Gi\n"
     "May 28 16:05:54 n1 kubelet[7]: I0528 16:05:54.802914 7 eviction_manager.go:627] \"Eviction manager: pod is "
     "evicted successfully\" pod=\"ns/trainer-0\"\n",
     "pod trainer-0: Kubernetes evicted the pod: ephemeral-storage", NULL},
    {"Warning  Unhealthy  kubelet  pod/trainer-0 Readiness probe failed: Get \"http://192.0.2.4:81/\": connection "
     "refused\n",
     "", "waits for a node"},
    /* XLA: what was cancelled did not fail first */
    {"78:Exception in device=TPU:7: xrt_computation_client.cc:383 : Check failed: session->Run(&outputs) == "
     "::tensorflow::Status::OK() (Cancelled: From /job:tpu_worker/replica:0/task:0:\n",
     "", "one: TPU:7"},
    {"Exception in device=TPU:3: mesh_service.cc:243 : Failed to meet rendezvous 'init': Socket closed (14)\n"
     "Exception in device=TPU:4: mesh_service.cc:243 : Failed to meet rendezvous 'init': Socket closed (14)\n",
     "", "one: TPU"},
    {"Exception in device=TPU:3: Invalid argument: shapes\nException in device=TPU:4: Invalid argument: shapes\n",
     "TPU:3, TPU:4: the process of a device ended with an exception", NULL},
    /* Ray */
    {"[2026-01-10 11:43:09,934 C 75 75] gcs_client.cc:229: Couldn't reconnect to GCS server. The last attempted GCS "
     "server address was 192.0.2.4:43507\n",
     "a process of Ray does not reach the head (its GCS): 192.0.2.4:43507, reported by process (pid 75)", NULL},
    {"Exception: The current node timed out during startup. This could happen because some of the raylet failed to "
     "startup or the GCS has become overloaded.\n",
     "a node of Ray did not come up within the time limit; Ray supposes", NULL},
    {"(EngineCore pid=33) Exception: No node info found matching attributes: {'node_ip_address': '192.0.2.4', "
     "'gcs_address': '192.0.2.4:41000'}\n",
     "a process of Ray does not reach the head (its GCS): 192.0.2.4:41000, reported by actor EngineCore (pid 33)",
     NULL},
    /* kubelet */
    {"E0911 17:59:30.126363 4121 kuberuntime_manager.go:618] createPodSandbox for pod \"trainer-0_default(77)\" "
     "failed: "
     "rpc error: code = 2 desc = failed to start sandbox container for pod \"trainer-0\": operation timeout\n",
     "pod trainer-0: Kubernetes could not start a pod: rpc error: code = 2", NULL},
    /* TensorRT-LLM, Ascend and Gaudi */
    {"  what():  [TensorRT-LLM][ERROR] Assertion failed: Failed: MPI error /x/mpiUtils.cpp:211 '6' "
     "(/x/mpiUtils.cpp:211)\n",
     "a call of MPI failed in TensorRT-LLM: MPI error; '6'", NULL},
    {"RuntimeError: Initialize:compiler_depend.ts:217 NPU function error: AclSetCompileopt(opt), error code is "
     "500001\n",
     "a call to an Ascend NPU failed: AclSetCompileopt(opt), error code is 500001", NULL},
    {"/usr/lib/habanalabs/libSynapse.so(synapse::LogManager::signalHandler(int, siginfo_t*, void*)+0x5e) [0x7fd9e]\n"
     "/usr/lib/habanalabs/libhcl.so(hccl::detect_tcp_if()+0x39) [0x7fd9e]\n",
     "a process of Gaudi's software crashed, and printed its stack; the function that it was in: hccl::detect_tcp_if",
     NULL},
    /* Slurm's daemons, which start nevertheless */
    {"[2026-01-10T05:11:27.552] error: Node configuration differs from hardware: Procs=16:16(hw) Boards=1:1(hw)\n"
     "[2026-01-10T05:11:27.627] slurmd version 19.05.8 started\n",
     "", "knowledge base"},
    /* disks */
    {"[ 23949.221] sd 8:0:42:0: rejecting I/O to offline device\n",
     "a disk of the host failed, or no longer answers: sd 8:0:42:0", NULL},
    /* JAX: process 0 did not answer at the end; backends that are not there are no failure */
    {"I0820 16:10:25.293788 140208504612672 xla_bridge.py:353] Unable to initialize backend 'rocm': NOT_FOUND: Could "
     "not find registered platform with name: \"rocm\".\n",
     "", "speaks of a failure"},
    /* kernel */
    {"Jan 10 11:43:09 n1 kernel: Memory cgroup out of memory: Killed process 77 (trainer) total-vm:24kB\n",
     "host n1 (pid 77): the kernel killed a process, because its container or cgroup reached its memory limit: trainer",
     NULL},
    {"Jan 10 11:43:09 n1 kernel: INFO: task trainer:77 blocked for more than 120 seconds.\n",
     "host n1 (pid 77): processes stand in the kernel, in state D: trainer", NULL},
};

static void faults_of_a_start_are_named_with_their_reason(void)
{
    test_log_expect_headlines(logs, sizeof(logs) / sizeof(logs[0]));
}

static const test_case cases[] = {CASE(faults_of_a_start_are_named_with_their_reason)};

TEST_MAIN(cases)
