/* Reads from the board which ranks wait for which others, for the rules of diagnosis/missed.h. */
#ifndef TESS_JOB_BOARD_WAITS_H
#define TESS_JOB_BOARD_WAITS_H

#include "diagnosis/missed.h"
#include "job/job_memory.h"

typedef struct tess_board_waits {
    tess_wait of[JOB_MAX_RANKS];
    uint64_t missing[JOB_MAX_RANKS][JOB_RANK_WORDS];
} tess_board_waits;

/* Reads the waits of all ranks. The row of a stopped rank keeps the wait that it was stopped in, although the others
 * have come since and wait for it. Such a rank waits for nobody; otherwise they would form a circle. Only states that
 * can matter are read. */
void tess_board_read_waits(const tess_job *job, tess_board_waits *waits);

/* The state of proc(5) of a rank's process, '\0': not known; of a rank on another host as its agent sees it. */
char tess_board_process_state(const tess_job *job, int rank, int pid);

#endif
