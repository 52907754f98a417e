/* Texts of PyTorch, NCCL, CUDA and trainers, made from the formats of their sources: which entry heads the report, and
 * that those who only report a failure are not called its cause. */
#include "support/test.h"

#include <stdlib.h>
#include <string.h>

#include "base/os/os.h"
#include "doctor/log/log_impl.h"

/* Lines of runs that go on. */
static const char *const healthy[] = {
    "Waiting in store based barrier to initialize process group for rank: 0, key: store_based_barrier_key:1 "
    "(world_size=16, worker_count=9, timeout=0:30:00)",
    "UserWarning: Failed to load image Python extension: libtorch_cuda_cu.so: cannot open shared object file",
    "Added key: store_based_barrier_key:1 to store for rank: 0 (world_size=2, worker_count=2, timeout=0:30:00)",
    "n1:7:7 [0] NCCL INFO ncclOsDlopen(libnccl-gin.so) failed: libnccl-gin.so: cannot open shared object file: No such "
    "file or directory",
    "n1:7:7 [0] NCCL INFO GIN/Plugin: Could not find: libnccl-gin.so",
    "n1:7:7 [0] NCCL INFO Call to ibv_modify_qp failed with 110 Connection timed out, , retrying 1/5 after 100 msec of "
    "sleep",
    "n1:7:7 [0] NCCL INFO Failed to bind NVLink SHARP (NVLS) Multicast memory of size 7 : CUDA error 2 'out of range'. "
    "Proceeding without NVLS support.",
    "n1:7:7 [0] NCCL INFO RAS: auxComm nPeers 7, nNodes 7, nIncompleteRanks 7",
    "n1:7:7 [0] misc/ibvwrap.cc:63 NCCL WARN Failed to open libibverbs.so[.1]",
    "'(ReadTimeoutError(\"HTTPSConnectionPool(host='huggingface.co', port=443): Read timed out. (read timeout=10)\"), "
    "'(Request ID: 1)')' thrown while requesting HEAD https://huggingface.co/x/resolve/main/config.json",
    "Checkpoint file not found in load directory /c attempting to finetune with checkpoint in /d",
    " [WARNING]  async_io requires the dev libaio .so object and headers but these were not found.",
};

static const struct {
    const char *id, *words, *text; /* words: part of the headline; a leading "!" means that it must not be there */
} samples[] = {
    /* NCCL */
    {"nccl-foreign-connection", "reported by",
     "n1:7:8 [2] misc/socket.cc:441 NCCL WARN socketFinalizeAccept: wrong type 4 != 3\n"
     "n1:7:8 [2] proxy.cc:1519 NCCL WARN [Proxy Service 2] Failed to execute operation Connect from rank 2, retcode 3"},
    {"nccl-foreign-connection", "192.0.2.7",
     "n1:7:8 [2] misc/socket.cc:533 NCCL WARN socketFinalizeAccept from 192.0.2.7<4100>: wrong type 4 != 3"},
    {"cuda-not-initialized", "GPU 4 on n1",
     "n1:7:8 [4] transport/nvls.cc:245 NCCL WARN Cuda failure 'initialization error'"},
    {"nccl-address-garbled", "reported by GPU 1 on n1",
     "n1:7:8 [1] misc/socket.cc:717 NCCL WARN ncclSocketInit: connecting to address with family 33022 is neither "
     "AF_INET(2) nor AF_INET6(10)"},
    {"nccl-nvlink-peers", "GPU 2 and 5",
     "n1:7:8 [2] graph/paths.cc:396 NCCL WARN P2P is disabled between NVLINK connected GPUs 2 and 5. This should not "
     "be "
     "the case given their connectivity, and is probably due to a hardware issue."},
    {"nccl-topology", "host n1",
     "n1:7:8 [2] graph/topo.h:230 NCCL WARN Could not find NET with id 0\n"
     "torch.distributed.DistBackendError: NCCL error in: x.cpp:3, internal error - please report this issue to the "
     "NCCL "
     "developers, NCCL version 2.25.1"},
    {"nccl-topology-file", "/etc/g.xml",
     "n1:7:8 [0] graph/xml.cc:900 NCCL WARN Could not open XML graph file /etc/g.xml : No such file or directory"},
    {"nccl-ib-port-down", "host n1",
     "n1:7:8 [0] transport/net_ib.cc:99 NCCL WARN NET/IB : Got async event : port error"},
    {"nccl-peer-closed", "192.0.2.9",
     "[rank22]: torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/NCCLUtils.hpp:275, "
     "remote process exited or there was a network error, NCCL version 2.20.5\n"
     "[rank22]: ncclRemoteError: A call failed possibly due to a network error or a remote process exiting "
     "prematurely.\n"
     "[rank22]: Last error:\n[rank22]: socketProgress: Connection closed by remote peer 192.0.2.9<40484>"},
    {"nccl-error-cut", "!: rank 22",
     "[rank22]: torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/NCCLUtils.hpp:275"},
    {"nccl-ports-used-up", "host n1",
     "n1:140:140 [0] include/socket.h:333 NCCL WARN Call to bind failed : Address already in use"},
    {"killed", "!local rank", /* DeepSpeed's launcher shows the command of its last process, whichever ended */
     "[launch.py:325:sigkill_handler] ['python', '-u', 't.py', '--local_rank=3'] exits with return code = -9"},
    {"bitsandbytes-binary", "no binary for",
     "Could not find the bitsandbytes CUDA binary at PosixPath('/b/libbitsandbytes_cuda124.so')\n"
     "Could not load bitsandbytes native library: /b/libbitsandbytes_cpu.so: cannot open shared object file: No such "
     "file or directory"},
    {"datasets-differ", "not what its description",
     "datasets.utils.info_utils.NonMatchingSplitsSizesError: [{'expected': SplitInfo(name='test', num_bytes=13)}]"},
    {"pytorch-not-initialized", "reported by rank 0",
     "[rank0]: AssertionError: pipeline_model parallel group is not initialized"},
    {"deepspeed-no-sync", "reported by rank 0",
     "[rank0]: AssertionError: no_sync context manager is incompatible with gradient partitioning logic of ZeRO stage "
     "3"},
    {"deepspeed-module-active", "let go while a module",
     "    assert not param.ds_active_sub_modules, param.ds_summary()\n"
     "AssertionError: {'id': 290, 'status': 'AVAILABLE', 'numel': 4194304, 'ds_numel': 4194304, 'requires_grad': "
     "True}"},
    {"cuda-library-refused", "does not accept",
     "RuntimeError: cuDNN Frontend error: No valid engine configs for Matmul_MUL_Reduction_SUB_EXP_"},
    {"store-too-many-workers", "more processes came",
     "RuntimeError: Timed out initializing process group in store based barrier on rank: 2, for key: "
     "store_based_barrier_key:1 (world_size=2, worker_count=4, timeout=0:30:00)"},
    {"store-too-many-workers", "more processes came",
     "Waiting in store based barrier to initialize process group for rank: 0, key: store_based_barrier_key:1 "
     "(world_size=16, worker_count=17, timeout=0:30:00)"},
    {"nccl-paddle", "Resource temporarily unavailable",
     "OSError: (External)  Nccl error, invalid data type, detail: Resource temporarily unavailable"},
    {"nccl-gdrcopy", "GDRCopy failed",
     "n1:7:8 [0] misc/gdrwrap.cc:200 NCCL WARN gdr_map(handle 1, size 65536) failed: 1"},
    {"nccl-comm-id", "ranks are to meet",
     "n1:7:8 [0] bootstrap.cc:90 NCCL WARN Invalid NCCL_COMM_ID, please use format: <ipv4>:<port> or [<ipv6>]:<port>"},
    {"nccl-net-missing", "no network of the name", "n1:7:8 [0] net.cc:700 NCCL WARN Error: network IB not found."},
    {"nccl-symmetric", "device API", "n1:7:8 [0] gin/gin_host.cc:60 NCCL WARN No GIN-capable devices found."},
    {"nccl-wrong-call", "does not allow",
     "n1:7:8 [0] init.cc:2000 NCCL WARN Invalid config splitShare attribute value 7"},
    {"nccl-proxy", "only what follows from one",
     "n1:7:8 [0] proxy.cc:30 NCCL WARN ncclProxyClientGetFd call to tpRank 3 handle 0x7 failed : 3"},
    {"nccl-connect-refused", "did not reach a peer",
     "n1:7:8 [0] misc/socket.cc:520 NCCL WARN socketStartConnect: connect returned Connection refused, exceeded error "
     "retry count (1000)"},
    {"nccl-devices-differ", "different network devices",
     "n1:7:8 [0] transport/net_ib.cc:800 NCCL WARN NET/IB : Can't connect net devices with different link_layer. i=0"},
    {"nccl-no-interface", "no network interface",
     "n1:7:8 [0] misc/socket.cc:99 NCCL WARN Net : No interface found in the same subnet as remote address 192.0.2.1"},
    /* PyTorch */
    {"torchrun-etcd", "etcd server",
     "torch.distributed.elastic.rendezvous.api.RendezvousConnectionError: The connection to etcd has failed. See inner "
     "exception for details."},
    {"store-connect-timeout", "10.0.0.1:29400",
     "  rdzv_endpoint    : 10.0.0.1:29400\n"
     "torch.distributed.elastic.rendezvous.api.RendezvousConnectionError: The connection to the C10d store has failed. "
     "See inner exception for details."},
    {"store-connect-timeout", "n1.example.org",
     "run: Running with args: ['--rdzv-endpoint=n1.example.org', 't.py']\n"
     "RendezvousConnectionError: The connection to the C10d store has failed. See inner exception for details."},
    {"store-connect-timeout", "10.0.0.2:29500",
     "[INFO] [comm.py:637:init_distributed] Discovered MPI settings of world_rank=0, local_rank=0, world_size=2, "
     "master_addr=10.0.0.2, master_port=29500\n"
     "RuntimeError: connect() timed out. Original timeout was 1800000 ms."},
    {"torchrun-store-lost", "only what follows from one",
     "Traceback (most recent call last):\n"
     "  File \"/v/torch/distributed/elastic/rendezvous/dynamic_rendezvous.py\", line 437, in sync\n"
     "    get_response = self._backend.get_state()\n"
     "  File \"/v/torch/distributed/elastic/rendezvous/c10d_rendezvous_backend.py\", line 119, in _call_store\n"
     "    raise RendezvousConnectionError(\n"
     "torch.distributed.elastic.rendezvous.api.RendezvousConnectionError: The connection to the C10d store has failed. "
     "See inner exception for details."},
    {"horovod-shut-down", "only what follows from one",
     "Caused by op 'Broadcast_0', defined at:\n  File \"run.py\", line 429, in <module>\n    run()\n"
     "  File \"m.py\", line 96, in train\n    b = hvd.broadcast_global_variables(0)\n\n"
     "AbortedError (see above for traceback): Horovod has been shut down. This has been ca\nused by an exception"},
    {"ascend-npu-error", "tsd client wait response fail, device response code[1]. unknown device error",
     "        tsd client wait response fail, device response code[1]. unknown device error.[FUNC:WaitRsp][FILE:p.cpp]"
     "[LINE:290]\n        Fail to get sq reg virtual addr, deviceId=2.[FUNC:Setup][FILE:stream.cc][LINE:1102]"},
    {"sglang-trace", "actor TP2: starting a kernel of Triton failed",
     "[2025-04-23 21:31:41 TP2] Scheduler hit an exception: Traceback (most recent call last):\n"
     "  File \"/v/sglang/srt/managers/scheduler.py\", line 2015, in run_scheduler_process\n    x()\n"
     "  File \"/v/site-packages/triton/runtime/jit.py\", line 345, in <lambda>\n    return lambda"},
    {"cuda-launch-timeout", "longer than the driver allows",
     "  what():  CUDA error: the launch timed out and was terminated"},
    {"python-traceback-cut", "(at t.py:157 in <module>)",
     "Traceback (most recent call last):\nTraceback (most recent call last):\n  File \"t.py\", line 157, in "
     "<module>\n"},
    {"nccl-internal-error", "NCCL found itself",
     "Traceback (most recent call last):\n  File \"t.py\", line 15, in <module>\n    x()\n"
     "RuntimeError: NCCL error in: ../d/ProcessGroupNCCL.cpp:891, internal error, NCC\nL version 21.0.3\n"
     "ncclInternalError: Internal check failed. This is either a bug in NCCL or due to memory corruption"},
    {"python-file-damaged", "reading a checkpoint failed",
     "Traceback (most recent call last):\n  File \"/v/site-packages/torch/serialization.py\", line 809, in load\n"
     "    x()\nRuntimeError: Trying to resize storage that is not resizable"},
    {"container-start", "nvidia-container-runtime: no such file or directory",
     "docker: Error response from daemon: OCI runtime create failed: unable to retrieve OCI runtime error (open "
     "/r.json: "
     "no such file or directory): fork/exec /usr/bin/nvidia-container-runtime: no such file or directory: unknown."},
    {"dataloader-exception", "KeyError in DataLoader worker process 0",
     "KeyError: Caught KeyError in DataLoader worker process 0.\nOriginal Traceback (most recent call last):"},
    {"store-peer-closed", "only what follows from one",
     "torch.distributed.DistNetworkError: Failed to recv, got 0 bytes. Connection was likely closed. Did the remote "
     "server shutdown or crash?"},
    {"store-peer-closed", "only what follows from one", "[rank3]: RuntimeError: Broken pipe"},
    {"store-port-reserved", "80",
     "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. port: "
     "80, "
     "useIpv6: 0, code: -13, name: EACCES, message: permission denied"},
    {"store-address-in-use", "29500",
     "ConnectionError: Tried to launch distributed communication on port `29500`, but another process is utilizing it. "
     "Please specify a different port"},
    {"nccl-communicator-aborted", "only what follows from one",
     "[rank2]: RuntimeError: NCCL communicator was aborted."},
    {"pytorch-watchdog-timeout", "rank 0 in _ALLGATHER_BASE #25 of 8 elements, rank 3 in _REDUCE_SCATTER_BASE #27",
     "[rank0]:[E227 23:07:54.3 ProcessGroupNCCL.cpp:629] [Rank 0] Watchdog caught collective operation timeout: "
     "WorkNCCL(SeqNum=25, OpType=_ALLGATHER_BASE, NumelIn=8, NumelOut=8, Timeout(ms)=1800000) ran for 1800034 "
     "milliseconds before timing out.\n"
     "[rank0]:[E227 23:07:54.3 ProcessGroupNCCL.cpp:2168] [PG ID 0 PG GUID 0(default_pg) Rank 0]  failure detected by "
     "watchdog at work sequence id: 25 PG status: last enqueued work: 32, last completed work: 24\n"
     "[rank3]:[E227 23:07:54.3 ProcessGroupNCCL.cpp:629] [Rank 3] Watchdog caught collective operation timeout: "
     "WorkNCCL(SeqNum=27, OpType=_REDUCE_SCATTER_BASE, NumelIn=4, NumelOut=4, Timeout(ms)=1800000) ran for 1800060 "
     "milliseconds before timing out.\n"
     "[rank3]:[E227 23:07:54.3 ProcessGroupNCCL.cpp:2168] [PG ID 0 PG GUID 0(default_pg) Rank 3]  failure detected by "
     "watchdog at work sequence id: 27 PG status: last enqueued work: 30, last completed work: 26\n"},
    {"torchrun-child-failed", "local rank 3",
     "errors/__init__.py:368] ('local_rank %s FAILED with no error file. Decorate your entrypoint fn with @record for "
     "traceback info. See: https://pytorch.org/docs/stable/elastic/errors.html', 3)"},
    {"stopped-by-user", "Ctrl-C",
     "^CWARNING:torch.distributed.elastic.agent.server.api:Received 2 death signal, shutting down workers\n"
     "WARNING:torch.distributed.elastic.multiprocessing.api:Sending process 5903 closing signal SIGINT"},
    {"library-mismatch", "!reported by",
     "/lib/flash_attn_2_cuda.cpython-310-x86_\n64-linux-gnu.so: undefined symbol: _ZN3c104cuda9SetDeviceEi"},
    {"program-arguments", "!reported by", "fairseq-train: error: unrecognized arguments: --local_rank=0"},
    {"gloo-timeout", "!local rank 3",
     "Timed out waiting 1800000ms for send operation to complete\n-- Process 3 terminated with the following error:\n"
     "RuntimeError: Application timeout caused pair closure"},
    {"ddp-setup", "DDP cannot take this model",
     "ValueError: DistributedDataParallel device_ids and output_device arguments only work with single-device/multiple-"
     "device GPU modules or CPU modules, but got device_ids [0]"},
    {"deepspeed-op-missing", "only what follows from one",
     "AttributeError: 'DeepSpeedCPUAdam' object has no attribute 'ds_opt_adam'"},
    {"pytorch-inputs-exhausted", "rank 2", "RuntimeError: Rank 2 exhausted all inputs."},
    {"pytorch-launch-variables", "MASTER_ADDR",
     "ValueError: Error initializing torch.distributed using env:// rendezvous: environment variable MASTER_ADDR "
     "expected, but not set"},
    {"pytorch-backend-missing", "NCCL built in", "RuntimeError: Distributed package doesn't have NCCL built in"},
    {"pytorch-wrong-device", "cpu", "[rank1]: RuntimeError: No backend type associated with device type cpu"},
    {"spawn-without-main", "imported in a new process",
     "RuntimeError: \n        An attempt has been made to start a new process before the\n        current process has "
     "finished its bootstrapping phase."},
    /* checkpoints and data */
    {"checkpoint-shape", "embed_tokens.weight",
     "AssertionError: req MetadataIndex(fqn='model.embed_tokens.weight', offset=torch.Size([0, 0]), index=0) mismatch "
     "sizes torch.Size([1571]) vs torch.Size([1571, 3072])"},
    {"checkpoint-corrupt", "corrupt checkpoint", "RuntimeError: storage has wrong size: expected 512 got 65536"},
    {"torch-shared-object", "data workers",
     "RuntimeError: unable to open shared memory object </torch_5535_1638182315> in read-write mode"},
    {"python-names", "names in the checkpoint and in the model do not match",
     "Traceback (most recent call last): (RANK 3)\n"
     "  File \"/p/torch/distributed/_shard/checkpoint/state_dict_loader.py\", line 89, in local_step\n"
     "    local_plan = planner.create_local_plan()\n"
     "  File \"/p/torch/distributed/_shard/checkpoint/default_planner.py\", line 131, in "
     "create_default_local_load_plan\n    md = metadata.state_dict_metadata[fqn]\nKeyError: 'pos_embedding'\n"},
    {"checkpoint-process", "in the background", "RuntimeError: Checkpoint background process is dead. Exit code: 1"},
    {"hub-download", "could not be fetched",
     "ConnectionError: Couldn't reach 'allenai/c4' on the Hub (LocalEntryNotFoundError)"},
    {"streaming-shard", "shard",
     "RuntimeError: x. StreamingDataset repeatedly failed to download a shard. This may be"},
    /* DeepSpeed, Megatron, FSDP */
    {"deepspeed-swap-short", "/nvme/zero/optimizer",
     "/nvme/zero/optimizer/rank6/1.tensor.swp: buffer nbytes != file bytes 4001366016 != 3426746368\n"
     "python: /x/csrc/aio/py_lib/deepspeed_py_aio_handle.cpp:228: int pread(): Assertion `static_cast<long long "
     "int>(buffer.nbytes()) == num_file_bytes' failed."},
    {"deepspeed-aio", "/nvme/x.swp", "deepspeed_aio:   open for read  failed on /nvme/x.swp error = 2"},
    {"deepspeed-reduced-twice", "twice in one backward",
     "AssertionError: The parameter 12 has already been reduced.             Gradient computed twice for this "
     "partition."},
    {"megatron-no-gradient", "47/48 params",
     "AssertionError: Communication call has not been issued for this bucket (47/48 params have grad available)"},
    {"fsdp-order-differs", "!rank 0: ",
     "RuntimeError: Forward order differs across ranks: rank 0 is all-gathering 1 parameters while rank 2 is "
     "all-gathering 3 parameters"},
    {"fsdp-setup", "rank 3", "ValueError: Inconsistent compute device and `device_id` on rank 3: cuda:0 vs cuda:3"},
    {"megatron-world-size", "do not divide",
     "ValueError: World size 6 does not equal the product of the specified parallelism degrees 8."},
    /* compilers and CUDA */
    {"horovod-stall", "rank 0",
     "1/1 - 3s - loss: nan\n[2021-02-02 21:19:07.3: W horovod/common/stall_inspector.cc:105] One or more tensors were "
     "submitted to be reduced, gathered or broadcasted by subset of ranks and are waiting for remainder of ranks for "
     "more than 60 seconds.\nMissing ranks:\n0: [HorovodAllreduce_grads_0]\n"},
    {"triton-resources", "shared memory, Required: 180224, Hardware limit: 101376",
     "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 180224, Hardware limit: 101376. "
     "Reducing block sizes or `num_stages` may help."},
    {"triton-setup", "could not be set up", "RuntimeError: 0 active drivers ([]). There should only be one."},
    {"deepep-arguments", "a check of DeepEP failed",
     "python3: /opt/DeepEP/csrc/hybrid_ep/permute.cu:412: void permute_launcher(PermuteArgs): Assertion `args.ptr != "
     "nullptr' failed."},
    {"cuda-bad-launch", "CUDA refused a call", "RuntimeError: CUDA error: invalid configuration argument"},
    {"cuda-device-assert", "GPU 1: ",
     "softmax.cu[0 - 7f3f] {6}{gpu}: CUDA error reported on GPU 1: device-side assert triggered (CUDA_ERROR_ASSERT)"},
    {"cuda-library-refused", "does not accept an operation",
     "RuntimeError: CUDA error: CUBLAS_STATUS_INVALID_VALUE when calling `cublasGemmEx( handle, opa, opb)`"},
    {"device-not-for-kernel", "kernels need", "RuntimeError: FlashAttention only supports Ampere GPUs or newer."},
    {"nvrx-rank-hangs", "only what follows from one",
     "[Cycle 0] Did not get subsequent heartbeat. Waited 600.00 seconds."},
    {"operation-without-dtype", "reported by rank 2",
     "[rank2]: RuntimeError: \"LayerNormKernelImpl\" not implemented for 'Half'"},
    {"peft-target-modules", "the adapter (LoRA) finds none",
     "ValueError: Please specify `target_modules` in `peft_config`"},
    {"peft-target-modules", "the adapter (LoRA) finds none",
     "ValueError: Target modules {'q_proj', 'v_proj'} not found in the base model. Please check the target modules and "
     "try again."},
    {"tokenizer-no-padding-token", "padding token",
     "ValueError: Asking to pad but the tokenizer does not have a padding token."},
    {"batch-not-padded", "rank 1: samples of a batch",
     "[rank1]: ValueError: Unable to create tensor, you should probably activate truncation and/or padding with "
     "'padding=True' 'truncation=True'"},
    {"batch-not-padded", "samples of a batch", "ValueError: expected sequence of length 512 at dim 1 (got 480)"},
    {"tracker-not-reached", "refused the run",
     "wandb.errors.UsageError: api_key not configured (no-tty). call wandb.login(key=[your_api_key])"},
    {"meta-tensor-without-data", "meta device", "NotImplementedError: Cannot copy out of meta tensor; no data!"},
    {"dataset-columns-differ", "same columns or types",
     "pyarrow.lib.ArrowInvalid: JSON parse error: Column() changed from object to array in row 0"},
    {"dataset-columns-differ", "same columns or types", "TypeError: Couldn't cast array of type string to null"},
    {"dataset-no-files", "no files where",
     "datasets.exceptions.DataFilesNotFoundError: No (supported) data files found in data"},
    {"probabilities-not-finite",
     "rank 5: ", "[rank5]: RuntimeError: probability tensor contains either `inf`, `nan` or element < 0"},
    {"object-store-denied", "credentials or rights",
     "botocore.exceptions.ClientError: An error occurred (403) when calling the HeadObject operation: Forbidden"},
    {"bucket-access-denied", "refused the access",
     "tensorflow.python.framework.errors_impl.PermissionDeniedError: Error executing an HTTP request: HTTP response "
     "code 403 with body '{'"},
    {"gradscaler-fp16-weights", "reported by rank 0", "[rank0]: ValueError: Attempting to unscale FP16 gradients."},
    {"gradscaler-order", "not called in its order", "AssertionError: No inf checks were recorded for this optimizer."},
    {"gradscaler-order", "not called in its order",
     "RuntimeError: unscale_() has already been called on this optimizer since the last update()."},
    {"autograd-no-gradient", "requires a gradient",
     "RuntimeError: element 0 of tensors does not require grad and does not have a grad_fn"},
    {"autograd-no-gradient", "requires a gradient",
     "RuntimeError: DistributedDataParallel is not needed when a module doesn't have any parameters that require a "
     "gradient."},
    {"autograd-graph-reused", "freed already",
     "RuntimeError: Trying to backward through the graph a second time (or directly access saved tensors after they "
     "have already been freed)."},
    {"autograd-changed-in-place", "changed in place",
     "RuntimeError: one of the variables needed for gradient computation has been modified by an inplace operation: "
     "[torch.cuda.FloatTensor [64]] is at version 3; expected version 2 instead."},
    {"activation-recompute-differs", "another forward pass",
     "[rank3]: torch.utils.checkpoint.CheckpointError: torch.utils.checkpoint: Recomputed values for the following "
     "tensors have different metadata than during the forward pass."},
    {"embedding-index-out-of-range", "rank 1: an index", "[rank1]: IndexError: index out of range in self"},
    {"quantized-model-training", "cannot be trained",
     "ValueError: You cannot perform fine-tuning on purely quantized models. Please attach trainable adapters on top "
     "of the quantized model"},
    {"dtensor-operation", "cut over ranks",
     "RuntimeError: Sharding propagation failed for Op(op=aten.view.default, args_schema=Spec(S(0) on (8, 4)), [32])"},
    {"optimizer-state-does-not-fit", "other parameters",
     "ValueError: loaded state dict contains a parameter group that doesn't match the size of optimizer's group"},
    {"batch-does-not-divide", "does not divide",
     "AssertionError: real_train_batch_size (15) must be divisible by minimal possible batch size (8)"},
    {"batch-does-not-divide", "does not divide",
     "ValueError: The global train batch size (3 x 1) must be evenly divisible by the number of generations per prompt "
     "(8)."},
    {"prompt-too-long", "longer than the limit",
     "NotImplementedError: sequence_length=5000 is larger than max_length=1024"},
    {"flash-attention-missing", "this environment does not have it",
     "ImportError: FlashAttention2 has been toggled on, but it cannot be used due to the following error: the package "
     "flash_attn seems to be not installed."},
    {"torch-without-cuda", "without it", "AssertionError: Torch not compiled with CUDA enabled"},
    {"trainer-options-conflict", "contradict each other",
     "ValueError: --load_best_model_at_end requires the save and eval strategy to match"},
    {"model-weights-do-not-fit", "do not fit", "RuntimeError: Error(s) in loading state_dict for LlamaForCausalLM:"},
    {"checkpoint-shape", "another shape",
     "RuntimeError: Error(s) in loading state_dict for LlamaForCausalLM:\n	size mismatch for lm_head.weight: "
     "copying a param with shape torch.Size([32001, 4096]) from checkpoint, the shape in current model is "
     "torch.Size([32000, 4096])."},
    {"deepspeed-features-conflict", "do not go together",
     "AssertionError: ZeRO-2 and ZeRO-3 are incompatible with pipeline parallelism"},
    {"deepspeed-ranks-disagree", "rank0 and rank1",
     "RuntimeError: disagreement between rank0 and rank1: rank0: [1, 2, 3], rank1: [1, 2, 7]"},
    {"launcher-hangup", "session was closed",
     "W1221 17:13:59.240000 46660 torch/distributed/elastic/agent/server/api.py:704] Received 1 death signal, shutting "
     "down workers\nW1221 17:13:59.241000 46660 torch/distributed/elastic/multiprocessing/api.py:897] Sending process "
     "46807 closing signal SIGHUP"},
    {"llvm-error", "pthread_join failed",
     "LLVM ERROR: pthread_join failed: Invalid argument\n[rank4]: RuntimeError: DataLoader worker (pid 69916) is "
     "killed by signal: Aborted. "},
    {"store-address-in-use", "pkzWorkerDict_0:0:WorkerDict.__init__ on 192.0.2.4 (pid 9012)",
     "ray.exceptions.ActorDiedError: The actor died because of an error raised in its creation task, "
     "ray::pkzWorkerDict_0:0:WorkerDict.__init__() (pid=9012, ip=192.0.2.4, "
     "actor_id=c6)\ntorch.distributed.DistNetworkError: The server socket has failed to listen on any local network "
     "address. port: 40001, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use"},
    {"ray-actor-died", "actor CriticModelRayActor (pid 375881)",
     "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.\n        class_name: "
     "CriticModelRayActor\n        actor_id: 66075e4f\n        pid: 375881\n        namespace: f0753efe\n        ip: "
     "0.0.0.0\nThe actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR Worker exit "
     "detail: Worker unexpectedly exits with a connection error code 2. End of file."},
    {"dataset-process-died", "prepared the data set",
     "RuntimeError: One of the subprocesses has abruptly died during map operation.To debug the error, disable "
     "multiprocessing."},
    {"dataset-process-died", "prepared the data set",
     "│ /v/site-packages/datasets/utils/py_utils.py:647 in iflatmap │\n│   645 │   pool_changed = True │\n│ ❱ 647 │   "
     "raise RuntimeError( │\n│   648 │     \"One of the subprocesses has abruptly died during map operation.\" │\n│   "
     "650 │   ) │"},
    {"generation-server-refuses", "did not answer",
     "  File \"/v/site-packages/trl/extras/vllm_client.py\", line 233, in init_communicator\n    raise "
     "Exception(f\"Request failed: {response.status_code}, {response.text}\")\nException: Request failed: 404, "
     "{\"detail\":\"Not Found\"}"},
    {"deepspeed-shards-incomplete", "do not add up",
     "ValueError: consumed 255381772 numels out of 255381776 - something is wrong"},
    {"cuda-out-of-memory", "reported by actor main_task (pid 239)",
     "(main_task pid=239)   File \"/v/site-packages/torch/nn/functional.py\", line 1888, in softmax\n(main_task "
     "pid=239)     ret = input.softmax(dim)\n(main_task pid=239) torch.OutOfMemoryError: CUDA out of memory. Tried to "
     "allocate 5.22 GiB. GPU 0 has a total capacity of 23.69 GiB of which 1.18 GiB is free.\n(main_task pid=239) "
     "Unhandled error (suppress with 'RAY_IGNORE_UNHANDLED_ERRORS=1'): "
     "ray::WorkerDict.actor_rollout_generate_sequences() (pid=579, ip=192.0.2.93, actor_id=92649a01)\n(main_task "
     "pid=239)   File \"/data/verl/single_controller/ray/base.py\", line 399, in func"},
    {"hub-download", "could not be fetched",
     "requests.exceptions.ConnectionError: HTTPSConnectionPool(host='huggingface.co', port=443): Max retries exceeded "
     "with url: /x"},
    {"megatron-options", "Megatron asks for",
     "RuntimeError: Using async gradient all reduce requires setting the environment variable "
     "CUDA_DEVICE_MAX_CONNECTIONS to 1"},
    {"accelerate-deepspeed-use", "cannot prepare",
     "ValueError: When using DeepSpeed, `accelerate.prepare()` requires you to pass at least one of training or "
     "evaluation dataloaders with `batch_size` attribute returning an integer value"},
    {"embedding-index-dtype", "rank 2: indices",
     "[rank2]: RuntimeError: Expected tensor for argument #1 'indices' to have one of the following scalar types: "
     "Long, Int; but got torch.cuda.FloatTensor instead (while checking arguments for embedding)"},
    {"chat-template", "chat template",
     "jinja2.exceptions.TemplateError: Conversation roles must alternate user/assistant/user/assistant/..."},
    {"jax-checkpoint-tree", "the same form",
     "ValueError: User-provided restore item and on-disk value metadata tree structures do not match: x"},
    {"jax-sharding", "other devices",
     "ValueError: Received incompatible devices for jitted computation. Got argument x1 of f with shape float32[3] and "
     "device ids [0] on platform TPU"},
    {"tensorflow-strategy-late", "after other operations",
     "RuntimeError: Collective ops must be configured at program startup"},
    {"checkpoint-not-found", "no complete checkpoint",
     "OSError: Error no file named pytorch_model.bin, model.safetensors found in directory /ckpt."},
    {"torch-compile-exception", "rank 2: torch.compile failed: FileNotFoundError",
     "[rank2]: torch._inductor.exc.InductorError: FileNotFoundError: [Errno 2] No such file or directory: 'g++'"},
    {"torch-compile-exception", "failed: call_function BuiltinVariable",
     "torch._dynamo.exc.Unsupported: call_function BuiltinVariable(print) [] {}"},
    {"object-store-denied", "credentials or rights",
     "google.api_core.exceptions.Forbidden: 403 GET https://storage.googleapis.com"},
};

static void read_text(tess_knowledge *knowledge, const char *text, tess_survey *survey)
{
    char path[512];
    EXPECT_OK(tess_survey_begin(test_mem(), knowledge, survey));
    EXPECT_OK(tess_os_join(path, sizeof(path), test_folder(), "text.log"));
    EXPECT_OK(tess_os_write_atomic(path, text, strlen(text)));
    EXPECT_OK(tess_survey_read(survey, path));
}

/* Whether the entry heads the report with these words and no other entry is a cause; says what is not so. */
static bool is_read(tess_knowledge *knowledge, const char *id, const char *words, const char *text)
{
    static tess_survey survey;
    static tess_log_diagnosis diagnosis;
    const char *head = "";
    bool is_found = false;
    read_text(knowledge, text, &survey);
    EXPECT_OK(tess_log_diagnose(&survey, 0, &diagnosis));
    if (diagnosis.entry >= 0)
        head = tess_knowledge_at(knowledge, diagnosis.entry)->row.id;
    bool is_there = strstr(diagnosis.headline, words + (words[0] == '!')) != NULL;
    bool is_right = is_there == (words[0] != '!');
    for (int i = 0; i < tess_knowledge_n(knowledge); i++) {
        if (survey.matches[i].n_lines == 0)
            continue;
        if (strcmp(tess_knowledge_at(knowledge, i)->row.id, id) == 0) {
            is_found = strcmp(head, id) == 0 || (log_role_of(&survey, i) == TESS_LOG_EFFECT && head[0] == '\0');
        } else if (log_role_of(&survey, i) == TESS_LOG_CAUSE) {
            fprintf(stderr, "another cause: %s; ", tess_knowledge_at(knowledge, i)->row.id);
            is_right = false;
        }
    }
    is_right = is_right && is_found;
    if (!is_right)
        fprintf(stderr, "\"%.100s\": expected %s with '%s': %s: %s\n", text, id, words, head, diagnosis.headline);
    tess_survey_free(&survey);
    return is_right;
}

static void each_text_heads_the_report_with_its_entry(void)
{
    tess_knowledge *knowledge;
    int n_wrong = 0;
    setenv("XDG_CONFIG_HOME", "/nowhere", 1);
    EXPECT_OK(tess_knowledge_create(test_mem(), NULL, 0, &knowledge));
    for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); i++)
        n_wrong += !is_read(knowledge, samples[i].id, samples[i].words, samples[i].text);
    EXPECT_INT(n_wrong, 0);
    tess_knowledge_destroy(&knowledge);
}

static void lines_of_runs_that_go_on_are_no_errors(void)
{
    tess_knowledge *knowledge;
    setenv("XDG_CONFIG_HOME", "/nowhere", 1);
    EXPECT_OK(tess_knowledge_create(test_mem(), NULL, 0, &knowledge));
    for (size_t i = 0; i < sizeof(healthy) / sizeof(healthy[0]); i++) {
        static tess_survey survey;
        read_text(knowledge, healthy[i], &survey);
        for (int e = 0; e < tess_knowledge_n(knowledge); e++)
            if (survey.matches[e].n_lines > 0 && log_role_of(&survey, e) <= TESS_LOG_EFFECT)
                test_fail(__FILE__, __LINE__, "\"%s\" is %s", healthy[i], tess_knowledge_at(knowledge, e)->row.id);
        tess_survey_free(&survey);
    }
    tess_knowledge_destroy(&knowledge);
}

static const test_case cases[] = {
    CASE(each_text_heads_the_report_with_its_entry),
    CASE(lines_of_runs_that_go_on_are_no_errors),
};

TEST_MAIN(cases)
