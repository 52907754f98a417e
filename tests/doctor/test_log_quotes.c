/* Headlines quote the line that they come from: near the words that a rule matched, without the prefixes of launchers;
 * and the reason that NCCL and PyTorch print after "Last error:". */
#include "support/log_samples.h"

static const struct {
    const char *text, *words, *absent;
} samples[] = {
    /* the words of a long line that count */
    {"[2024-01-19 10:14:05,903] [ERROR] [launch.py:321:sigkill_handler] ['/v/bin/python', '-u', 'main.py', "
     "'--local_rank=0', '--data_path', '../data', '--model_name_or_path', '../model', '--per_device_train_batch_size', "
     "'1', '--zero_stage', '2', '--offload', '--output_dir', './out'] exits with return code = -9",
     "its line: \"...'./out'] exits with return code = -9\"", "main.py"},
    /* the process before a line of NCCL is in the headline already */
    {"n1:77:78 [4] ibvwrap.c:130 NCCL WARN Call to ibv_create_qp failed", "its line: \"Call to ibv_create_qp failed\"",
     "\"n1:77"},
    {"torch.distributed.DistBackendError: NCCL error in: /p/ProcessGroupNCCL.cpp:1197, internal error - please report "
     "this issue to the NCCL developers, NCCL version 2.18.3\nncclInternalError: Internal check failed.\n"
     "Last error:\nError : ring 1 does not contain rank 0\n",
     "should not be: Error : ring 1 does not contain rank 0", NULL},
    /* a refusal for now is not always a limit of threads */
    {"[rank3]: RuntimeError: Resource temporarily unavailable\n", "refused something for now (EAGAIN)",
     "no more threads"},
    {"OSError: [Errno 11] fork: Resource temporarily unavailable\n", "no more threads or processes", NULL},
    /* gloo's placeholder is no host */
    {"RuntimeError: Gloo connectFullMesh failed with [/p/gloo/transport/tcp/pair.h:301] Connect timeout [none]\n",
     "Connect timeout [none]", "host none"},
    /* a host that follows the zone of a time */
    {"2025-05-16T16:39:51.208-07:00ip-10-0-0-3:79:112 [0] nccl_net_ofi_domain_get_ep:969 NCCL WARN NET/OFI Creating "
     "new "
     "endpoint for domain 0x7f failed: Invalid argument",
     "GPU 0 on ip-10-0-0-3 (pid 79)", "00ip"},
    /* NCCL without its host and process */
    {"[3] include/shm.h:28 NCCL WARN Call to posix_fallocate failed : No space left on device", "GPU 3", NULL},
    /* a role and its replica before other prefixes, as TorchX and NeMo-Run print them */
    {"i.pretrain/0 [default0]:[rank0]: Traceback (most recent call last):\n"
     "i.pretrain/0 [default0]:[rank0]:   File \"/p/dist_ckpt_io.py\", line 261, in save_checkpoint\n"
     "i.pretrain/0 [default0]:[rank0]: megatron.core.dist_checkpointing.core.CheckpointingException: Checkpoint "
     "destination directory (/results/step-100) is not empty\n",
     "rank 0: writing a checkpoint failed: megatron.core.dist_checkpointing.core.CheckpointingException: Checkpoint "
     "destination directory (/results/step-100) is not empty",
     NULL},
    /* a backward pass is not the forward pass */
    {"Traceback (most recent call last):\n  File \"/p/schedules.py\", line 9, in forward_backward_no_pipelining\n"
     "RuntimeError: a fault of this step\n",
     "a fault of this step", "forward pass"},
    /* one frame of a torn traceback in a text that has nothing else */
    {"[rank1]:     load_path, _ = engine.load_checkpoint(\n"
     "[rank1]:   File \"/v/site-packages/deepspeed/runtime/engine.py\", line 2980, in load_checkpoint\n"
     "[rank1]:     load_path, states = self._load_checkpoint(load_dir,\n",
     "reading a checkpoint failed: an exception, whose text is not in these logs", NULL},
    {"  step 1 of 9 is done, loss 3.2\n  File \"/p/notes.txt\", line 3, in read\n10:00:00 loss 3.1, step 2\n"
     "10:00:01 loss 3.1, step 3\n10:00:02 loss 3.1, step 4\n10:00:03 loss 3.1, step 5\n10:00:04 loss 3.1, step 6\n"
     "10:00:05 loss 3.1, step 7\n10:00:06 loss 3.1, step 8\n10:00:07 loss 3.1, step 9\n10:00:08 loss 3.1, step 10\n"
     "10:00:09 loss 3.1, step 11\n10:00:10 loss 3.1, step 12\n10:00:11 loss 3.1, step 13\n",
     "no error", "exception"},
    /* lines that only say "error on" or "write error:" */
    {"error on ioctl 0x4008669a for '/lustre/data/x' (10): stripe already set\n", "stripe already set", NULL},
    {"/p/bin/luajit: /p/File.lua:210: write error: wrote 3976 blocks instead of 4125 at /p/THDiskFile.c:340\n",
     "wrote 3976 blocks instead of 4125", NULL},
};

static void headlines_quote_what_they_come_from(void)
{
    tess_knowledge *knowledge = test_log_knowledge();
    for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); i++) {
        tess_log_diagnosis d;
        test_log_diagnose(knowledge, samples[i].text, &d);
        if (strstr(d.headline, samples[i].words) == NULL ||
            (samples[i].absent != NULL && strstr(d.headline, samples[i].absent) != NULL))
            test_fail(__FILE__, __LINE__, "\"%.90s\": expected \"%s\" without \"%s\" in \"%s\"", samples[i].text,
                      samples[i].words, samples[i].absent != NULL ? samples[i].absent : "", d.headline);
    }
    tess_knowledge_destroy(&knowledge);
}

/* Texts of NCCL's newer parts, of the resiliency extension, XGMI, UCX, Horovod and CNTK, made from their sources. */
static const log_named_sample named[] = {
    {"nccl-gin-failed", "", "n1:7:8 [0] gin.cc:9 NCCL WARN GIN Proxy: RMA backend not found"},
    {"nccl-memory-manager", "", "n1:7:8 [0] mem_manager.cc:9 NCCL WARN MemManager: Barrier failed during resume"},
    {"nccl-unix-socket", "", "n1:7:8 [0] linux_ipcsocket.cc:9 NCCL WARN UDS: Receiving data over socket failed : 3"},
    {"nccl-symbol-missing", "",
     "n1:7:8 [0] ibvsymbols.cc:9 NCCL WARN dlvsym failed on ibv_query_ece - none version IBVERBS_1.10"},
    {"nccl-warns", "", "n1:7:8 [0] topo.cc:9 NCCL WARN TOPO/NET : Only matched 3 devices, 4 requested from mlx5_0"},
    {"nvrx-straggler", "rank 3",
     "STRAGGLER DETECTION WARNING: Some GPUs have worse relative performance. Affected ranks: {StragglerId(rank=3, "
     "node='n2')}"},
    {"nvrx-node-unhealthy", "host n2", "GPU health check failed for node n2: GPU 3 has pending row remaps"},
    {"rocm-xgmi-link", "GPU 0000:9d:00.0",
     "amdgpu 0000:9d:00.0: {1}socket: 6, die: 1, 3 new uncorrectable hardware errors detected in xgmi_wafl block"},
    {"rocm-xgmi-link", "GPU 0000:9d:00.0",
     "amdgpu 0000:9d:00.0: amdgpu: XGMI: Set topology failure on device 5a3, hive 5a1, ret -22"},
    {"ucx-retry-exceeded", "",
     "[n1:6807 :0:6807] ib_mlx5_log.c:115  FATAL: Error on mlx5_3:1 QP 0xe6d7 wqe[7821]: Transport retry count "
     "exceeded "
     "(synd 0x15 vend 0x81) opcode SEND"},
    {"horovod-process-failed", "local rank 0 on n1",
     "RuntimeError: Horovod detected that one or more processes exited with non-zero status, thus causing the job to "
     "be "
     "terminated. The first process to do so was:\nProcess name: n1[0]\nExit code: 1\n"},
    {"cuda-library-error", "GPU 1 on n2",
     "CUBLAS failure 13: CUBLAS_STATUS_EXECUTION_FAILED ; GPU=1 ; hostname=n2 ; expr=cublas_gemm(h, CUBLAS_OP_N)"},
};

static void each_text_is_its_entry(void)
{
    test_log_expect_whom(named, sizeof(named) / sizeof(named[0]));
}

static const test_case cases[] = {CASE(headlines_quote_what_they_come_from), CASE(each_text_is_its_entry)};

TEST_MAIN(cases)
