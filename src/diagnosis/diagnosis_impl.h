/* The searches for a root cause, which diagnosis.c tries in turn. Each returns true if it has found the cause and
 * filled in the diagnosis. */
#ifndef TESS_DIAGNOSIS_DIAGNOSIS_IMPL_H
#define TESS_DIAGNOSIS_DIAGNOSIS_IMPL_H

#include "diagnosis/diagnosis.h"
#include "diagnosis/ends.h"
#include "diagnosis/view.h"
#include "diagnosis/sentence.h"

typedef struct diagnosis_search {
    const tess_history *history;
    tess_view view;
    double patience_s;
    int suspect;       /* a rank that others' errors blame, although it did not end badly; -1: none */
    int witness;       /* the rank whose error is quoted if no culprit is known; -1: none */
    bool sites_differ; /* the guard refused operations for their call sites */
    char uneven[160];  /* text with the ranks at each step, if that looks like uneven batches; "" */
    bool *mark;        /* (world) scratch: a set of ranks */
    bool *right;       /* (world) scratch, by place in a team: the majority */
    size_t *cursor;    /* (world) scratch, by place in a team */
    int *queue;        /* (world) scratch */
    tess_end *ends;    /* (world) */
    tess_diagnosis *diagnosis;
} diagnosis_search;

/* ---- disagree.c: members of a team made different requests */
bool diagnosis_find_disagreement(diagnosis_search *search);

/* ---- steps.c: ranks at different steps */
/* Ranks that have long been at different steps disagree, or leave, only for that reason: replaces the diagnosis. */
void diagnosis_refine_by_steps(diagnosis_search *search);
/* Fills in search->uneven: an odd rank at another step than the others may have had a batch more or less. */
void diagnosis_compare_steps(diagnosis_search *search);

/* ---- ending.c: ranks that died, or ended with an error */
tess_end diagnosis_end_of(const tess_history *history, int rank);

/* ---- message_pairs.c: which receive belongs to which send */
/* One side's messages of one direction, peer and tag. */
typedef struct diagnosis_stream {
    uint64_t team, tag;
    int rank, peer; /* the rank that called them, and its peer's place in the team */
    uint8_t op;
} diagnosis_stream;

diagnosis_stream diagnosis_stream_of(int rank, const tess_record *record);
/* The other side of the same messages. */
diagnosis_stream diagnosis_other_side(const diagnosis_search *search, const diagnosis_stream *stream);
bool diagnosis_stream_has(const diagnosis_stream *stream, const tess_record *record);
int diagnosis_message_peer(const diagnosis_search *search, const tess_record *record); /* -1: not known */
/* The peer's record for `record` of `rank`, whether they fit or not; NULL: none yet. */
const tess_record *diagnosis_counterpart(const diagnosis_search *search, int rank, const tess_record *record);

/* ---- blockers.c: ranks that are missing from an operation */
enum { DIAGNOSIS_MOST_OPEN = 64 }; /* newest records of a rank that are searched for open operations */

double diagnosis_waited_s(const diagnosis_search *search, int rank, const tess_record *record);
/* The rank's situation explains its absence: whatever it waits for itself does not matter. */
bool diagnosis_is_explained(const tess_rank_history *rank);
/* Calls visit for each rank missing from `record` of `rank` until it returns true; returns whether it did. */
typedef bool diagnosis_visitor(void *context, int missing, const tess_record *record);
bool diagnosis_visit_missing(const diagnosis_search *search, int rank, const tess_record *record,
                             diagnosis_visitor *visit, void *context);
/* The same for all open operations of `rank`. */
bool diagnosis_visit_blockers(const diagnosis_search *search, int rank, diagnosis_visitor *visit, void *context);
/* The rank waits, or failed while it waited, for others in this operation; in any. */
bool diagnosis_waits_in(const diagnosis_search *search, int rank, const tess_record *record);
bool diagnosis_waits_for_somebody(const diagnosis_search *search, int rank);
/* It is in an operation of a team with a member that is not known, for whom it may wait. */
bool diagnosis_waits_for_unknown(const diagnosis_search *search, int rank);
/* Its newest operation if that has not ended, else NULL. */
const tess_record *diagnosis_newest_open(const diagnosis_search *search, int rank);
/* True if that operation has lasted longer than patience, whether or not ranks are missing. */
bool diagnosis_is_stuck(const diagnosis_search *search, int rank);

/* ---- message.c: sends and receives that do not fit */
bool diagnosis_find_message(diagnosis_search *search);
/* A message without its other side: blames the rank that differs from the step before; a tie if neither or both do. */
void diagnosis_blame_message(diagnosis_search *search, int rank, const tess_record *record);

bool diagnosis_find_numbers(diagnosis_search *search);
/* `sure`: not if the rank may have failed because it waited for another. */
bool diagnosis_find_ending(diagnosis_search *search, bool sure);
/* Blames search->suspect. */
bool diagnosis_find_suspect(diagnosis_search *search);

/* ---- waiting.c: who waits for whom */
bool diagnosis_find_waiting(diagnosis_search *search);
/* A rank whose last operation is open although all other members failed in it: it must have died. */
bool diagnosis_find_vanished(diagnosis_search *search);
/* Fills in the ranks that wait for diagnosis->ranks, the operation, the time, and the first culprit's last operation.
 */
void diagnosis_attach_waiters(diagnosis_search *search);

/* ---- circle.c: `from` leads into a circle of ranks that wait for each other */
void diagnosis_blame_circle(diagnosis_search *search, int from);

/* ---- sentences.c: the headline */
void diagnosis_write_headline(const diagnosis_search *search, tess_sentence *headline);

/* ---- diagnosis_report.c: headline, evidence and advice */
void diagnosis_report(diagnosis_search *search);
const char *diagnosis_advice(const diagnosis_search *search); /* advice.c */

/* ---- evidence.c: situations and names of ranks, lines of evidence */
/* The situation that was noted, or else how the process ended. */
tess_situation diagnosis_situation(const tess_rank_history *rank);
bool diagnosis_is_absence(tess_diagnosis_kind kind); /* ranks are missing */
/* "WHO all_reduce #7 ..., at step.c:41" */
void diagnosis_add_call(const diagnosis_search *search, const char *who, const tess_record *record);
void diagnosis_add_line(tess_diagnosis *diagnosis, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool diagnosis_has_several_hosts(const tess_history *history);
/* "ranks 1 3"; "rank 3", or in a job of several hosts "rank 3 on host h2". */
void diagnosis_name_ranks(const diagnosis_search *search, const int *ranks, int n, tess_sentence *words);

/* Moves the marked ranks, ascending, to a list; returns their number. */
int diagnosis_take_marked(diagnosis_search *search, int *list);

#endif
