/* Notices about a job while it ran: which rank kept others waiting, which was slow, what became of a lost rank. The
 * newest are kept, a line each, in memory that several processes write without a lock, like an event ring: the job's
 * own (job/job_memory.h). The launcher copies them to job.json. */
#ifndef TESS_TRACE_NOTICE_H
#define TESS_TRACE_NOTICE_H

#include <stdatomic.h>

#include "tessera/types.h"

enum { TESS_NOTICES = 128, TESS_NOTICE_TEXT = 480 };

/* Names are stored on disk. */
#define TESS_NOTICE_LIST(X)                                                                      \
    X(TESS_NOTICE_OTHER, "other")                                                                \
    X(TESS_NOTICE_WAIT, "wait")           /* a rank kept others waiting */                       \
    X(TESS_NOTICE_SLOW, "slow")           /* a rank was slow step after step, or no longer is */ \
    X(TESS_NOTICE_LOST, "lost")           /* a rank was lost, while another was replaced */      \
    X(TESS_NOTICE_REPLACED, "replaced")   /* the job goes on with a replacement */               \
    X(TESS_NOTICE_RESTARTED, "restarted") /* the job restarted from its checkpoint */            \
    X(TESS_NOTICE_ENDED, "ended")         /* the job does not go on */                           \
    X(TESS_NOTICE_STOP, "stop")           /* the job was asked to stop */                        \
    X(TESS_NOTICE_WARNING, "warning")     /* a rank's warning: numbers, checkpoints ... */

typedef enum tess_notice_kind {
#define X(name, text) name,
    TESS_NOTICE_LIST(X)
#undef X
        TESS_NOTICE_COUNT
} tess_notice_kind;

typedef struct tess_notice {
    uint64_t wall_ns; /* time of the first report, since 1970 */
    int64_t step;     /* -1: no step */
    int32_t rank;     /* the rank concerned, or the one that warns; -1: the job */
    uint32_t kind;    /* tess_notice_kind */
    char text[TESS_NOTICE_TEXT];
} tess_notice;

typedef struct tess_notice_slot {
    _Atomic uint64_t stamp; /* 1 + the notice's number, 0 while it is written */
    _Atomic uint64_t words[sizeof(tess_notice) / 8];
} tess_notice_slot;

/* All zero: no notices. */
typedef struct tess_notices {
    _Atomic uint64_t n_reported; /* ever; number i lies at i % TESS_NOTICES */
    _Atomic uint64_t n_changes;  /* grows when there is something new to copy */
    tess_notice_slot slots[TESS_NOTICES];
} tess_notices;

/* Adds a notice with the present time; a text that is too long ends with "...". Any thread or process. Returns its
 * number. */
uint64_t tess_notices_add(tess_notices *notices, tess_notice_kind kind, int rank, int64_t step, const char *text);
/* Replaces the text of a notice unless newer ones have taken its slot. For its author only. */
void tess_notices_replace(tess_notices *notices, uint64_t number, const char *text);

/* Copies the notices, oldest first, without torn ones; returns how many. The memory may hold anything: texts are
 * terminated, and unknown kinds become TESS_NOTICE_OTHER. */
size_t tess_notices_read(const tess_notices *notices, tess_notice out[TESS_NOTICES]);
/* Replaces all notices by those of `from`; neither may be written meanwhile. */
void tess_notices_copy(tess_notices *to, const tess_notices *from);

const char *tess_notice_name(uint32_t kind); /* "wait"; "other" for an unknown number */
tess_notice_kind tess_notice_kind_of(const char *name);

#endif
