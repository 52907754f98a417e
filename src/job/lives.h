/* Passes facts about earlier lives of a job that is restarted over MPI, in variables that mpirun passes to the
 * ranks. Also reports injected faults to the job's launcher. */
#ifndef TESS_JOB_LIVES_H
#define TESS_JOB_LIVES_H

#include "job/job_memory.h"

/* Sets TESSERA_LIVES_BEFORE, TESSERA_OMITTED and TESSERA_PAST for the processes started from here.
 *
 * omitted  (JOB_OMITTED) steps whose evaluation is left out; 0: none
 * past     (n_ranks) earlier processes and their faults, by rank
 * TESS_E_NOMEM: TESSERA_PAST is not set. */
tess_status tess_lives_report(int n_before, const int64_t *omitted, const tess_rank_past *past, int n_ranks);

/* Returns how often the job was started before this process, by `tessera launch` or torchrun; 0: never. */
int tess_lives_before(void);

/* Unsets these variables: the processes started from here are the job's first. */
void tess_lives_forget(void);

/* Writes the values of the variables into the header of a job that begins; without them it is the job's first life.
 * TESS_E_INVALID names the one that cannot be parsed. */
tess_status tess_lives_read(const tess_job *job);

/* ---- Faults that happened to a rank, as a line from its warden to the process that starts the next life ---- */
enum { TESS_LIVES_LINE_BYTES = 64 };

/* Writes the faults as a line, and returns the line. */
const char *tess_lives_line_write(int rank, uint32_t faults, char line[TESS_LIVES_LINE_BYTES]);
/* Parses the line, skipping text before it, and adds its faults to past (n_ranks). Returns false if `line` contains
 * no such line; `past` is then unchanged. */
bool tess_lives_line_read(const char *line, tess_rank_past *past, int n_ranks);

/* ---- The micro-batch that the ranks have chosen, as a line from rank 0 to the same process ---- */

/* Writes the rows as a line, and returns the line. */
const char *tess_lives_rows_write(int64_t rows, char line[TESS_LIVES_LINE_BYTES]);
/* Parses the line, skipping text before it. Returns false if `line` contains no such line; *rows is then unchanged. */
bool tess_lives_rows_read(const char *line, int64_t *rows);

#endif
