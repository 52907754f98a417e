/* Texts of DeepSpeed, Megatron-LM, Horovod, checkpoints and data, made from the formats of their
 * sources: which entry they are, whom they are about, and that no other entry is called a cause. */
#include "support/log_samples.h"

static const log_named_sample samples[] = {
    /* DeepSpeed, Megatron, numbers */
    {"deepspeed-ranks-disagree", "",
     "RuntimeError: disagreement between rank0 and rank3: rank0: [1, 2], rank3: [1, 3]"},
    {"deepspeed-checkpoint-world", "",
     "ZeRORuntimeException: The checkpoint being loaded used a DP world size of 8 but the current world size is 4."},
    {"megatron-result-invalid", "rank 13 on node-15 (GPU 5)",
     "AssertionError: Rank 13: found NaN in local grad norm in backward pass before data-parallel communication "
     "collective. Device: 5, node: node-15"},
    {"megatron-result-invalid", "rank 3 on n1 (GPU 2)",
     "RuntimeError: Rank 3, node n1, device 2, iteration 17: Unexpected result nan (message='found NaN in local "
     "forward loss calculation')"},
    {"megatron-gpu-fault", "rank 3 on n1 (GPU 2)",
     "Rank 3, node n1, device 2, iteration #17: Possible persistent error!!"},
    {"loss-printed-nan", "",
     " iteration     5426/  250000 | consumed samples: 8 | lm loss: NAN | loss scale: 1.0 | grad norm: 1.0 |"},
    {"loss-anomaly", "", "RuntimeError: Train loss contains a NaN."},
    {"loss-anomaly", "",
     "Monitored metric val_loss = nan is not finite. Previous best value was 1.000. Signaling Trainer to stop."},
    {"loss-printed-nan", "", "{'loss': 0.0, 'grad_norm': nan, 'learning_rate': 1e-05, 'epoch': 0.1}"},
    {"loss-scale-minimum", "",
     "FloatingPointError: Minimum loss scale reached (0.0001). Your loss is probably exploding."},
    {"deepspeed-loss-scale-minimum", "",
     "Exception: Current loss scale already at minimum - cannot decrease scale anymore. Exiting run."},
    /* Horovod */
    {"horovod-stall", "ranks 1,3",
     "[1,0]<stderr>:[W stall_inspector.cc:107] One or more tensors were submitted to be reduced, gathered or "
     "broadcasted by subset of ranks and "
     "are waiting for remainder of ranks for more than 60 seconds. This may indicate that different ranks are trying "
     "to submit\n"
     "[1,0]<stderr>:Missing ranks:\n[1,0]<stderr>:1: [grad.0, grad.1]\n[1,0]<stderr>:3!: [grad.0]"},
    {"horovod-shut-down", "",
     "horovod.common.exceptions.HorovodInternalError: Horovod has been shut down. This was caused by an exception on "
     "one of the ranks"},
    {"horovod-process-failed", "rank 1",
     "RuntimeError: Horovod detected that one or more processes exited with non-zero status, thus causing the job to "
     "be terminated. The first "
     "process to do so was:\nProcess name: 1\nExit code: 1"},
    {"horovod-mismatch", "",
     "Mismatched ALLREDUCE tensor shapes: One rank sent a tensor of shape [3], but another rank sent a tensor of shape "
     "[4]."},
    /* checkpoints */
    {"checkpoint-write-failed", "",
     "RuntimeError: [enforce fail at inline_container.cc:595] . unexpected pos 448 vs 342"},
    {"checkpoint-write-failed", "", "RuntimeError: basic_ios::clear: iostream error"},
    {"checkpoint-serialize", "",
     "safetensors_rust.SafetensorError: Error while serializing: IoError(Os { code: 5, kind: Other, message: \"x\" })"},
    {"checkpoint-serialize", "", "RuntimeError: Parent directory /out/step_9 does not exist."},
    {"checkpoint-exception", "ranks 1,3",
     "torch.distributed.checkpoint.api.CheckpointException: CheckpointException ranks:dict_keys([1, 3])"},
    {"checkpoint-safe-load", "", "_pickle.UnpicklingError: Weights only load failed. This file can still be loaded"},
    {"pickle-empty", "", "EOFError: Ran out of input"},
    {"checkpoint-device", "",
     "RuntimeError: Attempting to deserialize object on CUDA device 7 but torch.cuda.device_count() is 4."},
    {"checkpoint-keys", "", "RuntimeError: Missing key in checkpoint state_dict: model.x."},
    {"checkpoint-load-failed", "", "ERROR: Invalid metadata file /ckpt/latest_checkpointed_iteration.txt. Exiting"},
    {"megatron-no-checkpoint", "", "WARNING: could not find the metadata file /ckpt/latest_checkpointed_iteration.txt"},
    /* data */
    {"dataloader-worker-died", "",
     "    raise RuntimeError(f'DataLoader worker (pid(s) {pids_str}) exited unexpectedly') from e\n"
     "RuntimeError: DataLoader worker (pid(s) 12, 13) exited unexpectedly"},
    {"killed", "rank 2", "Process 2 exit with status code 137."},
    {"cuda-unknown-error", "local rank 3",
     "[default3]:terminate called after throwing an instance of 'c10::CUDAError'\n"
     "[default3]:  what():  CUDA error: unknown error"},
    {"mpich-error", "rank 0",
     "Rank 0 [Sat May 22 07:06:41 2021] [c3-0c2s4n2] Fatal error in MPI_Comm_spawn: Other MPI error, error stack:\n"
     "MPI_Comm_spawn(144).........: MPI_Comm_spawn(cmd=\"w\", argv=(nil), maxprocs=2, MPI_INFO_NULL, root=0) failed\n"
     "MPID_Comm_spawn_multiple(70): Function MPID_Comm_spawn_multiple not implemented"},
    {"dataloader-worker-killed", "process (pid 12)",
     "RuntimeError: DataLoader worker (pid 12) is killed by signal: Killed. "},
    {"dataloader-shm", "process (pid 12)",
     "RuntimeError: DataLoader worker (pid 12) is killed by signal: Bus error. It is possible that dataloader's"},
    {"python-name-missing", "rank 2",
     "[rank2]: KeyError: Caught KeyError in DataLoader worker process 3.\n[rank2]: Original Traceback (most recent "
     "call last):\n[rank2]: KeyError: 'x'"},
    {"batch-does-not-stack", "",
     "RuntimeError: stack expects each tensor to be equal size, but got [3] at entry 0 and [4] at entry 1"},
    {"shapes-differ-between-ranks", "",
     "Cannot apply desired operation due to shape mismatches. All shapes across devices must be valid."},
    {"too-many-files", "", "RuntimeError: received 0 items of ancdata"},
    {"python-exception", "rank 3", "[rank3]: RuntimeError: tokens of document 7 are missing"},
    {"python-own-check", "rank 3", "[rank3]: AssertionError"},
    {"python-exception", "", "    pyarrow.lib.ArrowTypeError: x"},
    {"data-file-damaged", "rank 3", "[rank3]: pyarrow.lib.ArrowInvalid: Parquet magic bytes not found in footer"},
    {"python-exception", "", "Exception: a reason"},
    {"python-exception", "", "2025-01-01 10:00:00,100 - trainer - ERROR - ValueError: x"},
    {"python-exception", "", "2025-01-01 10:00:00,100 ValueError: x"},
    /* A loss that is not there */
    {"loss-left-out", "",
     " iteration       10/  250000 | elapsed time per iteration (ms): 12.0 | loss scale: 1.0 | grad norm: 0.751 | "},
    {"loss-left-out", "",
     " iteration       10/  250000 | loss scale: 512.0 | grad norm: 0.751 | number of skipped iterations:   0 |"},
    {"ucx-device-open", "",
     "[1767225600.123456] [n1:77  :0]  ib_md.c:1933 UCX  ERROR ibv_open_device(mlx5_9) failed: No such file or "
     "directory"},
};

static void each_text_is_its_entry_and_names_whom_it_is_about(void)
{
    test_log_expect_whom(samples, sizeof(samples) / sizeof(samples[0]));
}

static const test_case cases[] = {CASE(each_text_is_its_entry_and_names_whom_it_is_about)};

TEST_MAIN(cases)
