/* job.json of a trace folder: a job's ranks, how each ended, the launcher's diagnosis, and its notices. Written when
 * the job begins, when there is news, and at its end: a file without an end means that the launcher was killed. Times
 * are wall clock, nanoseconds since 1970. */
#ifndef TESS_TRACE_JOB_FILE_H
#define TESS_TRACE_JOB_FILE_H

#include "tessera/memory.h"
#include "trace/notice.h"

enum { TESS_JOB_FILE_VERSION = 1, TESS_JOB_FILE_MAX_RANKS = 65536 };

typedef struct tess_job_file_rank {
    int pid;
    bool ended, asked; /* asked: the rank was asked to end after another one had failed */
    int signal, exit_code;
    int blames; /* the rank that its own error names, -1: none */
    uint64_t ended_ns;
    char host[64];
    char situation[24]; /* the watchdog's newest finding: "stopped"; "": none */
    char why[256], error[1024];
} tess_job_file_rank;

typedef struct tess_job_file {
    int world;
    uint64_t begin_ns, end_ns; /* end: 0 while the job runs */
    int exit_code;
    char command[512];
    char diagnosis[2048];
    tess_job_file_rank *ranks; /* (world) */
    tess_notice *notices;      /* (TESS_NOTICES) the newest, oldest first; earlier lives may have had more ranks */
    int n_notices;
    uint64_t n_reported; /* notices ever */
} tess_job_file;

/* All zero, no rank blames another, no notices. TESS_E_INVALID: world is not 1 .. TESS_JOB_FILE_MAX_RANKS. */
tess_status tess_job_file_create(tess_mem *mem, int world, tess_job_file *file);
void tess_job_file_free(tess_mem *mem, tess_job_file *file);

/* Writes it atomically. TESS_E_NO_SPACE, TESS_E_IO. */
tess_status tess_job_file_write(const tess_job_file *file, const char *path);

/* TESS_E_NOT_FOUND; TESS_E_FORMAT says what is wrong. Texts that are too long are cut. Free with tess_job_file_free. */
tess_status tess_job_file_read(tess_mem *mem, const char *path, tess_job_file *file);
/* Reads what is whole of a file that was cut off: its head, and the ranks before the cut; the others are as _create
 * leaves them. TESS_E_FORMAT: it is damaged otherwise, or no rank is whole. */
tess_status tess_job_file_read_cut(tess_mem *mem, const char *path, tess_job_file *file);
/* tess_job_file_read of text in memory; `what` names it in messages. */
tess_status tess_job_file_parse(tess_mem *mem, const char *text, size_t size, const char *what, tess_job_file *file);

#endif
