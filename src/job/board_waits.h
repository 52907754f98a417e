/* Reads from the board which ranks wait for which others, for the rules of diagnosis/missed.h. */
#ifndef TESS_JOB_BOARD_WAITS_H
#define TESS_JOB_BOARD_WAITS_H

#include "diagnosis/missed.h"
#include "job/job_memory.h"
#include "tessera/memory.h"

typedef struct tess_board_waits {
    tess_wait *of;     /* (world) */
    uint64_t *missing; /* (world, words of a set) the sets that `of` points to */
    uint64_t *missed;  /* (words of a set) union of all sets */
} tess_board_waits;

/* Allocates memory for `world` ranks, in one block. Free with tess_board_waits_free. */
tess_status tess_board_waits_create(tess_mem *mem, int world, tess_board_waits *waits);
void tess_board_waits_free(tess_mem *mem, tess_board_waits *waits);

/* Reads the waits of all ranks. The row of a stopped rank keeps the wait that it was stopped in, although the others
 * have come since and wait for it. Such a rank waits for nobody; otherwise they would form a circle. Only states that
 * can matter are read. */
void tess_board_read_waits(const tess_job *job, tess_board_waits *waits);

/* Since when `rank`, which this rank waits for, has waited for others; 0: it waits for nobody, or is stopped. */
uint64_t tess_board_awaited_waits(const tess_job *job, int rank);

/* Returns the state of a rank's process as in proc(5); '\0': not known. For a rank on another host, it is the state
 * that its agent reports. */
char tess_board_process_state(const tess_job *job, int rank, int pid);

#endif
