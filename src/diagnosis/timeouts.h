/* Collectives that timed out, from what ranks printed: who is missing, or asked for something else. Pure functions.
 *
 * Such texts know less than a history (history.h): some ranks left none, a process group has a name but no members, and
 * a rank reports only what it waited in. So a rank is called missing only if its own lines say that it never came, or
 * if it alone is silent among many. */
#ifndef TESS_DIAGNOSIS_TIMEOUTS_H
#define TESS_DIAGNOSIS_TIMEOUTS_H

#include "diagnosis/sentence.h"
#include "tessera/types.h"

/* The collective in which a rank timed out. */
typedef struct tess_timed_work {
    int rank;                    /* -1: not said */
    char file[48];               /* source file of the message: "ProcessGroupNCCL.cpp"; "": not said */
    int line;                    /* in file */
    char group[64];              /* process group: "ID 1 PG GUID 1"; "": not said */
    int64_t sequence;            /* in the group; -1: not said */
    char op[32];                 /* "ALLREDUCE" */
    int64_t numel_in, numel_out; /* -1: not said */
    int64_t timeout_ms, elapsed_ms;
} tess_timed_work;

/* How far a rank came in a group. */
typedef struct tess_timed_progress {
    char group[64];
    int64_t failed;              /* sequence that timed out; -1: not said */
    int64_t enqueued, completed; /* -1: nothing yet */
} tess_timed_progress;

/* A line of one of the texts. */
typedef struct tess_text_place {
    int file;     /* -1: nowhere */
    int64_t line; /* from 1 */
} tess_text_place;

/* What the texts say of a rank. */
typedef struct tess_timed_rank {
    bool seen;         /* they have a line of it */
    bool waits;        /* it timed out in `work` */
    bool has_progress; /* `progress` is of the group that failed */
    bool notified;     /* another rank's timeout was reported to it */
    tess_timed_work work;
    tess_timed_progress progress;
    tess_text_place at; /* of the timeout */
    double time_s;      /* negative: not known */
} tess_timed_rank;

/* How a rank stands to the collective that most wait in. */
typedef enum tess_stand {
    TESS_STAND_IN_IT = 1 << 0,
    TESS_STAND_DIFFERS = 1 << 1,     /* waits at the same place of the same group in something else */
    TESS_STAND_ELSEWHERE = 1 << 2,   /* waits at another place of the same group */
    TESS_STAND_OTHER_GROUP = 1 << 3, /* waits in another group, or at another place of an unknown one */
    TESS_STAND_QUEUED = 1 << 4,      /* has it in its queue */
    TESS_STAND_OUTSIDE = 1 << 5,     /* its own lines say that it was not in the collective */
    TESS_STAND_SILENT = 1 << 6,      /* its lines say nothing of it */
    TESS_STAND_UNSEEN = 1 << 7,      /* has no lines */
    TESS_STAND_WAITS = TESS_STAND_OUTSIDE - 1,
    TESS_STAND_MISSING = TESS_STAND_OUTSIDE | TESS_STAND_SILENT | TESS_STAND_UNSEEN
} tess_stand;

typedef enum tess_timeouts_kind {
    TESS_TIMEOUTS_MISMATCH,   /* ranks wait in different collectives */
    TESS_TIMEOUTS_MISSING,    /* ranks never joined the collective that others wait in */
    TESS_TIMEOUTS_ALL_WAITED, /* nobody is missing */
    TESS_TIMEOUTS_ONE_SIDED   /* the texts do not say who is missing */
} tess_timeouts_kind;

typedef struct tess_timeouts {
    const tess_timed_rank *ranks; /* (n_seen), borrowed */
    int n_seen, n_ranks;          /* n_ranks: of the job, at least n_seen */
    bool world_known;             /* n_ranks is not a guess */
    /* found: */
    const tess_timed_work *usual; /* that most ranks wait in */
    tess_timeouts_kind kind;
    unsigned culprits;       /* stands of the ranks at fault; 0: nobody is named */
    unsigned absent;         /* stands of the ranks that are surely absent; 0: nobody is */
    tess_report_id headline; /* of the finding */
    tess_report_id evidence; /* TESS_REPORT_NONE: none */
} tess_timeouts;

/* Finds the rest from the first four fields. False: no rank waits. */
bool tess_timeouts_find(tess_timeouts *timeouts);
tess_stand tess_timeouts_stand(const tess_timeouts *timeouts, int rank);
int tess_timeouts_count(const tess_timeouts *timeouts, unsigned stands);

/* True if a message of `rank` (-1: not known) at time_s (negative: not known) came after a timeout, and so may be its
 * effect: after any by time, or below one of the same rank in the same file. */
bool tess_timeouts_precede(const tess_timeouts *timeouts, int rank, tess_text_place at, double time_s);

#endif
