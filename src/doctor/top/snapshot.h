/* What `tessera top` shows, read once: a copy of a job's board with what the system says of its processes here. Texts
 * are clean (no control characters) and ended, numbers are whatever the ranks wrote. */
#ifndef TESS_DOCTOR_TOP_SNAPSHOT_H
#define TESS_DOCTOR_TOP_SNAPSHOT_H

#include "job/find.h"

typedef struct tess_top_rank {
    tess_board_copy board;
    char host[JOB_NAME_BYTES];
    char process;      /* its state as proc(5) has it; '\0': it has ended, or runs on another host */
    int64_t rss_bytes; /* resident, with what it shares; -1: not known */
} tess_top_rank;

typedef struct tess_top_snapshot {
    tess_mem *mem;
    uint64_t taken_ns;
    double age_s; /* of the job; 0: not known */
    int world, n_hosts, pid;
    bool running;
    int cause; /* rank that the job's own guard, or else the launcher, names as the first that failed; -1: none */
    char command[TESS_LIVE_COMMAND_BYTES];
    char health[256];      /* what is wrong with its host; "": nothing is known to be */
    tess_notice reported;  /* the newest of what was told of it; its text "": nothing was */
    double reported_age_s; /* since that was first told */
    tess_top_rank *ranks;  /* (world) */
} tess_top_snapshot;

/* Copies what is there now. Free with tess_top_snapshot_destroy. */
tess_status tess_top_snapshot_take(tess_mem *mem, const tess_live_job *live, tess_top_snapshot **snapshot);
void tess_top_snapshot_destroy(tess_top_snapshot **snapshot);

#endif
