/* What was told of a job while it ran: who kept others waiting, who was slow, what became of a rank that was lost. The
 * newest of it, a line each, in memory that several processes write without a lock, as an event ring: the job's own
 * (job/job_memory.h). The launcher puts a copy into job.json. */
#ifndef TESS_TRACE_NOTICE_H
#define TESS_TRACE_NOTICE_H

#include <stdatomic.h>

#include "tessera/types.h"

enum { TESS_NOTICES = 128, TESS_NOTICE_TEXT = 480 };

/* Names are on disk. */
#define TESS_NOTICE_LIST(X)                                                        \
    X(TESS_NOTICE_OTHER, "other")                                                  \
    X(TESS_NOTICE_WAIT, "wait")           /* a rank kept others waiting */         \
    X(TESS_NOTICE_SLOW, "slow")           /* step after step, or it is no more */  \
    X(TESS_NOTICE_LOST, "lost")           /* a rank, while another was replaced */ \
    X(TESS_NOTICE_REPLACED, "replaced")   /* the job goes on with another */       \
    X(TESS_NOTICE_RESTARTED, "restarted") /* from its checkpoint */                \
    X(TESS_NOTICE_ENDED, "ended")         /* the job does not go on */             \
    X(TESS_NOTICE_STOP, "stop")           /* it was asked to stop */               \
    X(TESS_NOTICE_WARNING, "warning")     /* of a rank: numbers, checkpoints ... */

typedef enum tess_notice_kind {
#define X(name, text) name,
    TESS_NOTICE_LIST(X)
#undef X
        TESS_NOTICE_COUNT
} tess_notice_kind;

typedef struct tess_notice {
    uint64_t wall_ns; /* since 1970: when it was first told */
    int64_t step;     /* -1: in none */
    int32_t rank;     /* that it is about, or that warns; -1: the job */
    uint32_t kind;    /* tess_notice_kind */
    char text[TESS_NOTICE_TEXT];
} tess_notice;

typedef struct tess_notice_slot {
    _Atomic uint64_t stamp; /* 1 + the notice's number, 0 while it is written */
    _Atomic uint64_t words[sizeof(tess_notice) / 8];
} tess_notice_slot;

/* All zero: none. */
typedef struct tess_notices {
    _Atomic uint64_t n_reported; /* ever; number i lies at i % TESS_NOTICES */
    _Atomic uint64_t n_changes;  /* tells that there is something new to copy */
    tess_notice_slot slots[TESS_NOTICES];
} tess_notices;

/* Adds one that is told now; a text that is too long ends with "...". Any thread of any process. Returns its number. */
uint64_t tess_notices_add(tess_notices *notices, tess_notice_kind kind, int rank, int64_t step, const char *text);
/* Gives it another text, unless newer ones have taken its place. By whoever added it. */
void tess_notices_replace(tess_notices *notices, uint64_t number, const char *text);

/* Copies those that are there, oldest first, leaving out torn ones; returns how many. What lies there may be anything:
 * texts are ended, kinds are known ones. */
size_t tess_notices_read(const tess_notices *notices, tess_notice out[TESS_NOTICES]);
/* All that `from` has, in place of what is there; nobody may write either meanwhile. */
void tess_notices_copy(tess_notices *to, const tess_notices *from);

const char *tess_notice_name(uint32_t kind); /* "wait"; "other" of a number that is none */
tess_notice_kind tess_notice_kind_of(const char *name);

#endif
