/* The data that `tessera top` shows, read once: a copy of a job's board, and what the system reports on its
 * processes on this host. Texts are clean (no control characters) and end with NUL; numbers are as the ranks wrote
 * them. */
#ifndef TESS_DOCTOR_TOP_SNAPSHOT_H
#define TESS_DOCTOR_TOP_SNAPSHOT_H

#include <jansson.h>

#include "doctor/top/top_memory.h"
#include "diagnosis/missed.h"
#include "job/find.h"
#include "trace/places.h"

typedef struct tess_top_rank {
    tess_board_copy board;
    uint64_t *awaited; /* set of ranks that it waits for; memory of the snapshot */
    char host[JOB_NAME_BYTES];
    bool is_here;      /* its row is of this host */
    double step_age_s; /* time since its newest step ended; negative: none yet */
    tess_traffic traffic[JOB_TRAFFIC];
    char process;      /* state as in proc(5); '\0': the process has ended, or runs on another host */
    int64_t rss_bytes; /* resident memory, including shared pages; -1: unknown */
} tess_top_rank;

typedef struct tess_top_snapshot {
    tess_mem *mem;
    uint64_t taken_ns;
    double age_s; /* age of the job; 0: unknown */
    int world, n_hosts, pid;
    bool running;
    int64_t n_restarts; /* how often the job was restarted or recovered */
    int cause;          /* first rank to fail, according to the job's diagnosis or else the launcher; -1: none */
    char command[TESS_LIVE_COMMAND_BYTES];
    char health[256];       /* problem of the job's host; "": nothing known */
    tess_notice reported;   /* newest report on the job; text "": none */
    double reported_age_s;  /* time since that report was first made */
    tess_top_memory memory; /* n 0: not known */
    json_t *metrics;        /* numbers of the newest step in metrics.jsonl; NULL: not known */
    tess_places places;
    tess_top_rank *ranks; /* (world) */
    tess_wait *waits;     /* (world) scratch of tess_top_sum; in one block with `missed` and the sets */
    tess_missed *missed;  /* (world) */
} tess_top_snapshot;

/* Takes a snapshot of the current state. Free it with tess_top_snapshot_destroy. */
tess_status tess_top_snapshot_take(tess_mem *mem, const tess_live_job *live, tess_top_snapshot **snapshot);
void tess_top_snapshot_destroy(tess_top_snapshot **snapshot);

#endif
