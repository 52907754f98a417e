/* Memory of a process for searches over all ranks of a job (rank_end.h). It is allocated together with the job's
 * mapping, so that nothing is allocated once a rank has failed. */
#ifndef TESS_JOB_ENDING_ROOM_H
#define TESS_JOB_ENDING_ROOM_H

#include "diagnosis/ends.h"
#include "diagnosis/progress.h"
#include "tessera/status.h"

/* All arrays have an element for each rank. They hold the ranks at one moment: the board may change during a search. */
typedef struct tess_ending_room {
    tess_end *ends;
    tess_progress_of *places;
    bool *odd;
} tess_ending_room;

/* TESS_E_NOMEM: *room is not set. Free with tess_ending_room_free, which takes NULL as well. */
tess_status tess_ending_room_create(int world, tess_ending_room **room);
void tess_ending_room_free(tess_ending_room **room);

#endif
