/* The lines of PyTorch's watchdog, taken apart. */
#ifndef TESS_DOCTOR_LOG_LOG_WATCHDOG_H
#define TESS_DOCTOR_LOG_LOG_WATCHDOG_H

#include <stddef.h>
#include <stdbool.h>
#include <stdint.h>

/* "[rank6]:[E717 13:20:49.4 ProcessGroupNCCL.cpp:632] [Rank 6] Watchdog caught collective operation timeout: WorkNCCL(
 * SeqNum=56731, OpType=ALLREDUCE, NumelIn=467019003, NumelOut=467019003, Timeout(ms)=600000) ran for 600053
 * milliseconds before timing out." Older ones say TensorShape=[4096, 11008] instead of the counts, or neither. */
typedef struct log_work {
    int rank;                    /* -1: not said */
    char file[48];               /* "ProcessGroupNCCL.cpp"; "" : not said */
    int line;                    /* in file */
    char group[64];              /* "ID 1 PG GUID 1": the process group; "" : not said */
    int64_t sequence;            /* SeqNum; -1: not said */
    char op[32];                 /* "ALLREDUCE" */
    int64_t numel_in, numel_out; /* -1: not said */
    int64_t timeout_ms, elapsed_ms;
} log_work;

/* False: the line is none. */
bool log_parse_work(const char *line, size_t size, log_work *work);

/* "last enqueued work: 56731, last completed work: 56730", also "last enqueued NCCL work". */
typedef struct log_progress {
    char group[64];
    int64_t failed;              /* "at work sequence id: 56731"; -1: not said */
    int64_t enqueued, completed; /* -1 where nothing was yet */
} log_progress;

bool log_parse_progress(const char *line, size_t size, log_progress *progress);

/* "ALLREDUCE #56731 of 467019003 elements"; returns text. */
const char *log_describe_work(const log_work *work, char *text, size_t size);

#endif
