/* Writes and reads error.json: why a job did not end well. The process that survives the ranks writes it: the launcher,
 * a warden, or the rank itself if nobody watches it. It has the form of torchelastic's error files, so torchrun shows
 * its message, and a program that uses torch's @record writes a file that is read here. */
#ifndef TESS_TRACE_ERROR_FILE_H
#define TESS_TRACE_ERROR_FILE_H

#include "tessera/memory.h"

#define TESS_ERROR_FILE "error.json"
#define TESS_ERROR_FILE_PREVIOUS "error.previous.json"

enum { TESS_ERROR_FILE_VERSION = 1, TESS_ERROR_MESSAGES = 8, TESS_ERROR_OUTPUT_BYTES = 2000 };

/* The error of one rank. */
typedef struct tess_error_of_rank {
    int rank;
    char text[1024];
} tess_error_of_rank;

typedef struct tess_error_file {
    uint64_t time_ns; /* time of the end on the wall clock */
    char version[32], command[512], folder[1024];
    int attempt;   /* number of earlier lives of the job */
    int world;     /* 0: not known */
    char kind[40]; /* class of the failure: "killed by a signal" (job/failure.h) */
    char advice[256];
    int rank; /* rank where it began; -1: not known, or none */
    char host[64];
    int pid;                  /* 0: not known */
    int signal, exit_code;    /* how that rank ended; both 0: it did not, or its host is gone */
    int job_code;             /* exit code of the job */
    int64_t step, steps_done; /* -1: not known, or before the first */
    char phase[32];
    char cause[2048];                                 /* the failure as a sentence */
    tess_error_of_rank messages[TESS_ERROR_MESSAGES]; /* (n_messages) errors of ranks, that of `rank` first */
    int n_messages;
    char output_file[4096];               /* path of the rank's output on its host; "": it is not */
    char output[TESS_ERROR_OUTPUT_BYTES]; /* its last lines */
} tess_error_file;

/* Writes the file atomically. TESS_E_NO_SPACE, TESS_E_IO. */
tess_status tess_error_file_write(const tess_error_file *file, const char *path);
/* Reads the file. A file of torch's @record has its message as `cause` and nothing else. TESS_E_NOT_FOUND;
 * TESS_E_FORMAT: the message says what is wrong. */
tess_status tess_error_file_read(const char *path, tess_error_file *file);
tess_status tess_error_file_parse(const char *text, size_t size, const char *what, tess_error_file *file);

#endif
