/* Keeps and shows what ranks write to standard output and standard error. The process that starts ranks gives each of
 * them pipes; a thread reads them, appends the bytes to files and shows whole lines, "[rank3]: text". Bytes in files
 * are exactly those that the rank wrote. A line of more than OUTPUT_LINE_BYTES is shown in pieces, so that lines of
 * several processes that share a terminal never mix. */
#ifndef TESS_CONTROL_LAUNCH_OUTPUT_RANK_OUTPUT_H
#define TESS_CONTROL_LAUNCH_OUTPUT_RANK_OUTPUT_H

#include "base/core/reporter.h"
#include "control/launch/output/output_plan.h"
#include "tessera/memory.h"

/* Bytes of a line with its prefix. A write of 4096 bytes to a pipe is atomic. */
enum { OUTPUT_LINE_BYTES = 4096 };

typedef struct rank_output rank_output;

/* The ranks that a process starts: n from `first`, which are the local ranks from `first_local`. */
typedef struct output_ranks {
    int first, first_local, n;
    int attempt;   /* number of earlier lives of the job */
    bool is_fixed; /* false: the numbers may change when the ranks have joined the job (rank_output_name) */
} output_ranks;

/* Creates the pipes and starts the thread. *out NULL: the plan keeps nothing. Call it while the signals that the caller
 * waits for are blocked. TESS_E_INVALID: there are too few file descriptors; a default plan then keeps nothing. */
tess_status rank_output_open(tess_mem *mem, const tess_output_plan *plan, const output_ranks *ranks,
                             const tess_reporter *reporter, rank_output **out);
/* Called in the child that becomes rank number i of those here: puts the pipes in place of its streams. NULL does
 * nothing. */
void rank_output_enter(const rank_output *out, int i);
/* Says that rank number i of those here is `rank` of the job. host: its host, if the job has several; else "". Only
 * the first call has an effect. */
void rank_output_name(rank_output *out, int i, int rank, const char *host);
/* Reads what the ranks have written, shows and stores it, and frees everything. Call it when all ranks have ended.
 * NULL does nothing. */
void rank_output_close(tess_mem *mem, rank_output **out);

/* Writes the path of a file: FOLDER/attempt_0/3/stderr.log. */
tess_status rank_output_path(const char *folder, int attempt, int rank, const char *name, char *path, size_t size);
/* Copies the last lines of standard error of a rank that has ended, or of its standard output if it wrote no error.
 * Only what it wrote in this life counts: an earlier command's text may stand before it.
 * `path` receives the file's name; "": there is no file. Returns text. */
const char *rank_output_tail(const char *folder, int attempt, int rank, char *path, size_t path_size, char *text,
                             size_t size);

#endif
