/* Notices about a running job: which rank kept others waiting, which was slow, what happened to a lost rank. Each is
 * one line, and the newest are kept. They are in the job's memory (job/job_memory.h), to which several processes
 * write without a lock, as in an event ring. The launcher copies them to job.json. */
#ifndef TESS_TRACE_NOTICE_H
#define TESS_TRACE_NOTICE_H

#include <stdatomic.h>

#include "tessera/types.h"

enum { TESS_NOTICES = 128, TESS_NOTICE_TEXT = 480 };

/* Kinds of notices. Their names are stored on disk. */
#define TESS_NOTICE_LIST(X)                                                                           \
    X(TESS_NOTICE_OTHER, "other")                                                                     \
    X(TESS_NOTICE_WAIT, "wait")           /* a rank kept others waiting */                            \
    X(TESS_NOTICE_SLOW, "slow")           /* a rank was slow in every step, or is no longer slow */   \
    X(TESS_NOTICE_LOST, "lost")           /* a rank was lost, while another one was being replaced */ \
    X(TESS_NOTICE_REPLACED, "replaced")   /* the job continues with a replacement */                  \
    X(TESS_NOTICE_RESTARTED, "restarted") /* the job restarted from its checkpoint */                 \
    X(TESS_NOTICE_ENDED, "ended")         /* the job does not continue */                             \
    X(TESS_NOTICE_STOP, "stop")           /* the job was asked to stop */                             \
    X(TESS_NOTICE_WARNING, "warning")     /* a rank's warning: numbers, checkpoints ... */

typedef enum tess_notice_kind {
#define X(name, text) name,
    TESS_NOTICE_LIST(X)
#undef X
        TESS_NOTICE_COUNT
} tess_notice_kind;

typedef struct tess_notice {
    uint64_t wall_ns; /* time of the first report, in ns since 1970 */
    int64_t step;     /* -1: no step */
    int32_t rank;     /* rank that it is about, or that warns; -1: the whole job */
    uint32_t kind;    /* tess_notice_kind */
    char text[TESS_NOTICE_TEXT];
} tess_notice;

typedef struct tess_notice_slot {
    _Atomic uint64_t stamp; /* 1 + the notice's number; 0 while the slot is written */
    _Atomic uint64_t words[sizeof(tess_notice) / 8];
} tess_notice_slot;

/* If all bytes are zero, there are no notices. */
typedef struct tess_notices {
    _Atomic uint64_t n_reported; /* number of notices ever reported; number i is in slot i % TESS_NOTICES */
    _Atomic uint64_t n_changes;  /* incremented when there is something new to copy */
    tess_notice_slot slots[TESS_NOTICES];
} tess_notices;

/* Adds a notice with the present time. A text that is too long ends with "...". Any thread of any process may call
 * it. Returns the notice's number. */
uint64_t tess_notices_add(tess_notices *notices, tess_notice_kind kind, int rank, int64_t step, const char *text);
/* Replaces the text of a notice, unless a newer notice has taken its slot. Only the writer of the notice may call
 * it. */
void tess_notices_replace(tess_notices *notices, uint64_t number, const char *text);

/* Copies the notices, oldest first, and leaves out incomplete ones. Returns their number. The memory may hold any
 * bytes: texts are terminated, and unknown kinds become TESS_NOTICE_OTHER. */
size_t tess_notices_read(const tess_notices *notices, tess_notice out[TESS_NOTICES]);
/* Replaces all notices by those of `from`. No process may write to either meanwhile. */
void tess_notices_copy(tess_notices *to, const tess_notices *from);

const char *tess_notice_name(uint32_t kind); /* returns "wait" and the like; "other" for an unknown number */
tess_notice_kind tess_notice_kind_of(const char *name);

#endif
