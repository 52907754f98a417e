/* The history of a job as plain data: the operations of each rank, and how it ended. It is filled from the event
 * rings of a dead job, the memory of a live job, PyTorch Flight Recorder dumps or logs. The diagnosis, reports and
 * exports read it. It is a copy that the reader owns. */
#ifndef TESS_DIAGNOSIS_HISTORY_H
#define TESS_DIAGNOSIS_HISTORY_H

#include "tessera/memory.h"
#include "trace/notice.h"
#include "trace/places.h"

enum { TESS_HISTORY_TEXT = 64, TESS_HISTORY_LONG_TEXT = 256, TESS_HISTORY_MAX_RANKS = 65536 };

/* One collective or message of one rank. Times are on the clock of that rank's host; 0: not reached yet. */
typedef struct tess_record {
    uint64_t team;      /* hash of the team; tess_history_team finds its name and members */
    uint64_t sequence;  /* number of the operation in its team; for a message, among the team's messages on this rank */
    uint64_t count;     /* number of elements */
    uint64_t tag;       /* tag of a message; for other operations, a hash of further values that must be equal */
    uint64_t label;     /* purpose of the operation (trace/label.h) */
    uint64_t call_site; /* call site, as in tess_trace_event */
    uint64_t enqueued_ns, started_ns, completed_ns;
    int64_t step, detail;
    int32_t root;  /* root or peer, as an index in the team (tess_team_history.ranks); -1: none */
    uint8_t op;    /* tess_trace_op */
    uint8_t state; /* tess_trace_state */
    uint8_t dtype; /* tess_dtype; TESS_DTYPE_COUNT: a dtype that we do not have */
    uint8_t in_dtype;
    uint8_t reduce_op; /* tess_op; 255: not known (Flight Recorder does not say) */
    char phase[TESS_TRACE_PHASE_BYTES];
    char what[32];                /* label in words: "layer 12" */
    char site[TESS_HISTORY_TEXT]; /* call site in words: "train_step (step.c:41)"; "": only the number is known */
} tess_record;

/* A phase of a rank, which lasts until the next one begins. */
typedef struct tess_phase_span {
    uint64_t begin_ns;
    uint64_t starved_ns; /* time without a core although runnable, up to the begin of the phase; 0: not known */
    int64_t step, detail;
    char phase[TESS_TRACE_PHASE_BYTES];
} tess_phase_span;

/* Why a rank is missing. If several ranks are in trouble, the first in this order is blamed. */
#define TESS_SITUATION_LIST(X)                           \
    X(TESS_RANK_WELL, "well")                            \
    X(TESS_RANK_CRASHED, "crashed")                      \
    X(TESS_RANK_OOM_KILLED, "oom_killed")                \
    X(TESS_RANK_KILLED, "killed")                        \
    X(TESS_RANK_EXITED, "exited")                        \
    X(TESS_RANK_LEFT, "left")                            \
    X(TESS_RANK_HOST_LOST, "host_lost")                  \
    X(TESS_RANK_STOPPED, "stopped")                      \
    X(TESS_RANK_BLOCKED_IN_IO, "blocked_in_io")          \
    X(TESS_RANK_IN_OTHER_COLLECTIVE, "other_collective") \
    X(TESS_RANK_LOADING_DATA, "loading_data")            \
    X(TESS_RANK_SLEEPING, "sleeping")                    \
    X(TESS_RANK_COMPUTING, "computing")                  \
    X(TESS_RANK_NOT_JOINED, "not_joined")                \
    X(TESS_RANK_UNKNOWN, "unknown")

typedef enum tess_situation {
#define X(name, text) name,
    TESS_SITUATION_LIST(X)
#undef X
        TESS_SITUATION_COUNT
} tess_situation;

const char *tess_situation_name(tess_situation situation); /* returns "blocked_in_io" and the like */
/* returns `otherwise` for an unknown name */
tess_situation tess_situation_find(const char *name, tess_situation otherwise);

typedef struct tess_rank_history {
    bool present;     /* its ring, row of the board or dump was found */
    bool ended;       /* its process ended, by exit_code or signal; both 0: it left in good order */
    bool asked;       /* it was asked to end after another rank's failure, so it is not the cause */
    bool lost_any;    /* the oldest records were overwritten */
    bool lost_newest; /* its ring was truncated, so it may have done more than its records show */
    int pid, signal, exit_code;
    int first_error; /* 1 + the rank that its error blames; 0: none */
    tess_situation situation;
    char host[TESS_HISTORY_TEXT];
    char why[TESS_HISTORY_LONG_TEXT]; /* the situation as text: "state T since 2.1 s", "read of /data/x.bin" */
    char error[1024];                 /* error that it reported; "": none */
    int64_t clock_offset_ns;          /* added to its times, gives the reader's clock */
    uint64_t last_ns;                 /* last time that it showed activity, on its own clock */
    uint64_t ended_ns;                /* end of its process, on the reader's clock; 0: not known */
    tess_record *records;             /* ascending by enqueued_ns */
    size_t n_records;
    tess_phase_span *spans;
    size_t n_spans;
} tess_rank_history;

typedef struct tess_team_history {
    uint64_t hash;
    char name[32];
    int *ranks; /* ranks of the job, in team order; -1: a member of unknown rank */
    int n_ranks;
} tess_team_history;

typedef enum tess_history_source { TESS_HISTORY_RINGS, TESS_HISTORY_LIVE, TESS_HISTORY_PYTORCH } tess_history_source;

const char *tess_history_source_name(tess_history_source source); /* returns "rings", "live" or "pytorch" */

typedef struct tess_history {
    tess_mem *mem;
    tess_history_source source;
    int world;
    tess_rank_history *ranks; /* (world) */
    tess_team_history *teams;
    size_t n_teams;
    tess_places places;
    tess_notice *notices; /* newest notices of the running job, oldest first; NULL: none */
    int n_notices;
    uint64_t n_reported;    /* number of notices ever reported */
    int64_t wall_offset_ns; /* added to the wall clock, gives the reader's clock */
    uint64_t now_ns;        /* time of reading, on the reader's clock; for a dead job, its newest event */
    char folder[4096];      /* folder that it was read from; "": none */
    char reported[2048];    /* the launcher's report when the job ended; "": none */
    char before[1024];      /* report on the earlier job in "FOLDER.previous"; "": none */
    char damage[2048];      /* one line for each damaged or missing file; "": none */
} tess_history;

/* Creates an empty history of `world` ranks (1 .. TESS_HISTORY_MAX_RANKS), none of them present. Its memory is
 * counted in the pool MISC. */
tess_status tess_history_create(tess_mem *mem, tess_history_source source, int world, tess_history **history);
void tess_history_destroy(tess_history **history);

/* Adds a line to `damage`, if there is room. */
void tess_history_note_damage(tess_history *history, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Merges notices with those that the history has, by time, and keeps the newest. The notices are copied. n_reported:
 * number of notices ever reported. */
tess_status tess_history_add_notices(tess_history *history, const tess_notice *notices, int n, uint64_t n_reported);

/* Appends a copy of the record. */
tess_status tess_history_add_record(tess_history *history, int rank, const tess_record *record);
tess_status tess_history_add_span(tess_history *history, int rank, const tess_phase_span *span);
/* Makes `rank` member number `position` of the team. Creates the team if it is new. */
tess_status tess_history_add_member(tess_history *history, uint64_t hash, const char *name, int n_ranks, int position,
                                    int rank);
/* If exactly as many ranks have no team as a team has unknown members, makes them its members. Call it after all
 * members have been added. */
tess_status tess_history_infer_members(tess_history *history);
/* returns NULL if it is not known */
const tess_team_history *tess_history_team(const tess_history *history, uint64_t hash);
size_t tess_history_team_index(const tess_history *history, uint64_t hash); /* returns n_teams if it is not known */
int tess_team_place(const tess_team_history *team, int rank);               /* returns -1 if the rank is not a member */

/* Adds the events of one rank as records and spans. Events are in order, oldest first. */
tess_status tess_history_add_events(tess_history *history, int rank, const tess_trace_event *events, size_t n);

#endif
