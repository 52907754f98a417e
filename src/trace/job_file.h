/* Reads and writes job.json of a trace folder: a job's ranks, how each ended, the launcher's diagnosis, and its
 * notices. The file is written when the job begins, whenever something changes, and when the job ends. If it holds
 * no end, the launcher was killed. Times are on the wall clock, in nanoseconds since 1970. */
#ifndef TESS_TRACE_JOB_FILE_H
#define TESS_TRACE_JOB_FILE_H

#include "tessera/memory.h"
#include "trace/notice.h"

enum { TESS_JOB_FILE_VERSION = 1, TESS_JOB_FILE_MAX_RANKS = 65536 };

typedef struct tess_job_file_rank {
    int pid;
    bool ended, asked; /* asked: the rank was asked to end after another rank had failed */
    int signal, exit_code;
    int blames; /* rank that its own error names; -1: none */
    uint64_t ended_ns;
    char host[64];
    char situation[24]; /* newest finding of the watchdog: "stopped"; "": none */
    char why[256], error[1024];
} tess_job_file_rank;

typedef struct tess_job_file {
    int world;
    uint64_t begin_ns, end_ns; /* end_ns: 0 while the job runs */
    int exit_code;
    char command[512];
    char diagnosis[2048];
    tess_job_file_rank *ranks; /* (world) */
    /* (TESS_NOTICES) newest notices, oldest first. They may name ranks that an earlier, larger life of the job had */
    tess_notice *notices;
    int n_notices;
    uint64_t n_reported; /* number of notices ever reported */
} tess_job_file;

/* Creates a file with all members zero, no notices, and no rank that blames another. TESS_E_INVALID: world is not 1
 * .. TESS_JOB_FILE_MAX_RANKS. */
tess_status tess_job_file_create(tess_mem *mem, int world, tess_job_file *file);
void tess_job_file_free(tess_mem *mem, tess_job_file *file);

/* Writes the file atomically. TESS_E_NO_SPACE, TESS_E_IO. */
tess_status tess_job_file_write(const tess_job_file *file, const char *path);

/* Reads the file. Texts that are too long are cut. Free with tess_job_file_free. TESS_E_NOT_FOUND; TESS_E_FORMAT:
 * the message says what is wrong. */
tess_status tess_job_file_read(tess_mem *mem, const char *path, tess_job_file *file);
/* Reads the complete part of a truncated file: its head, and the ranks before the cut. All other ranks are as
 * _create leaves them. TESS_E_FORMAT: the file is damaged in another way, or no rank is complete. */
tess_status tess_job_file_read_cut(tess_mem *mem, const char *path, tess_job_file *file);
/* Parses text in memory like tess_job_file_read. `what` names the text in messages. */
tess_status tess_job_file_parse(tess_mem *mem, const char *text, size_t size, const char *what, tess_job_file *file);

#endif
