/* The searches for a root cause, which root_cause.c tries in turn. Each returns true if it has found the cause and
 * filled in the diagnosis. */
#ifndef TESS_DIAGNOSIS_DIAGNOSIS_IMPL_H
#define TESS_DIAGNOSIS_DIAGNOSIS_IMPL_H

#include "base/mem/scoped.h"
#include "diagnosis/root_cause.h"
#include "diagnosis/ends.h"
#include "diagnosis/view.h"
#include "diagnosis/sentence.h"

typedef struct diagnosis_search {
    tess_scope own;
    const tess_history *history;
    tess_view view;
    double patience_s;
    int suspect;       /* rank that other ranks' errors blame, although it did not end badly; -1: none */
    int witness;       /* rank whose error is quoted if no culprit is known; -1: none */
    bool sites_differ; /* the guard refused operations because their call sites differ */
    char uneven[160];  /* text with each rank's step, if batches look uneven; "": they do not */
    bool *mark;        /* (world) scratch: a set of ranks */
    bool *right;       /* (world) scratch, by index in a team: member of the majority */
    size_t *cursor;    /* (world) scratch, by index in a team */
    int *queue;        /* (world) scratch */
    tess_end *ends;    /* (world) how each rank ended */
    tess_diagnosis *diagnosis;
} diagnosis_search;

/* ---- disagree.c: members of a team made different requests */
bool diagnosis_find_disagreement(diagnosis_search *search);

/* ---- steps.c: ranks at different steps */
/* Replaces the diagnosis if ranks were at different steps long before they disagreed or left, because this explains
 * both. */
void diagnosis_refine_by_steps(diagnosis_search *search);
/* Fills in search->uneven: an odd rank that is at another step than the others may have had one batch more or less. */
void diagnosis_compare_steps(diagnosis_search *search);

/* ---- ending.c: ranks that died, or ended with an error */
tess_end diagnosis_end_of(const tess_history *history, int rank);

/* ---- message_pairs.c: which receive matches which send */
/* The messages of one side with one direction, peer and tag. */
typedef struct diagnosis_stream {
    uint64_t team, tag;
    int rank, peer; /* rank that called them, and its peer's index in the team */
    uint8_t op;
} diagnosis_stream;

diagnosis_stream diagnosis_stream_of(int rank, const tess_record *record);
/* Returns the stream of the other side of the same messages. */
diagnosis_stream diagnosis_other_side(const diagnosis_search *search, const diagnosis_stream *stream);
bool diagnosis_stream_has(const diagnosis_stream *stream, const tess_record *record);
/* returns -1 if the peer is not known */
int diagnosis_message_peer(const diagnosis_search *search, const tess_record *record);
/* Returns the peer's record that corresponds to `record` of `rank`, even if the two do not match. NULL: there is
 * none yet. */
const tess_record *diagnosis_counterpart(const diagnosis_search *search, int rank, const tess_record *record);

/* ---- blockers.c: ranks that are missing from an operation */
enum { DIAGNOSIS_MOST_OPEN = 64 }; /* newest records of a rank that are searched for open operations */

double diagnosis_waited_s(const diagnosis_search *search, int rank, const tess_record *record);
/* Whether the rank's situation explains its absence. It then does not matter which ranks it waits for. */
bool diagnosis_is_explained(const tess_rank_history *rank);
/* Calls `visit` for each rank missing from `record` of `rank` until `visit` returns true. Returns whether it did. */
typedef bool diagnosis_visitor(void *context, int missing, const tess_record *record);
bool diagnosis_visit_missing(const diagnosis_search *search, int rank, const tess_record *record,
                             diagnosis_visitor *visit, void *context);
/* Does the same for all open operations of `rank`. */
bool diagnosis_visit_blockers(const diagnosis_search *search, int rank, diagnosis_visitor *visit, void *context);
/* The first returns whether the rank waits for others in this operation, or failed while it waited. The second
 * returns the same for any operation. */
bool diagnosis_waits_in(const diagnosis_search *search, int rank, const tess_record *record);
bool diagnosis_waits_for_somebody(const diagnosis_search *search, int rank);
/* Whether the rank is in an operation of a team with an unknown member, for which it may wait. */
bool diagnosis_waits_for_unknown(const diagnosis_search *search, int rank);
/* Returns the rank's newest operation if it is still open, else NULL. */
const tess_record *diagnosis_newest_open(const diagnosis_search *search, int rank);
/* Whether that operation has lasted longer than search->patience_s, even if no rank is missing. */
bool diagnosis_is_stuck(const diagnosis_search *search, int rank);

/* ---- message.c: sends and receives that do not match */
bool diagnosis_find_message(diagnosis_search *search);
/* Blames a rank for a message without a counterpart: the one of the two that differs from its previous step. It is a
 * tie if neither or both differ. */
void diagnosis_blame_message(diagnosis_search *search, int rank, const tess_record *record);

bool diagnosis_find_numbers(diagnosis_search *search);
/* `sure`: ignores ranks that may have failed only because they waited for another rank. */
bool diagnosis_find_ending(diagnosis_search *search, bool sure);
/* Blames search->suspect. */
bool diagnosis_find_suspect(diagnosis_search *search);

/* ---- waiting.c: which ranks wait for which */
bool diagnosis_find_waiting(diagnosis_search *search);
/* Finds a rank whose last operation is open although all other members failed in it: the rank must have died. */
bool diagnosis_find_vanished(diagnosis_search *search);
/* Fills in the ranks that wait for diagnosis->ranks, the operation, the waiting time, and the last operation of the
 * first culprit. */
void diagnosis_attach_waiters(diagnosis_search *search);

/* ---- circle.c: ranks that wait for each other, reached from rank `from` */
void diagnosis_blame_circle(diagnosis_search *search, int from);

/* ---- sentences.c: the headline */
void diagnosis_write_headline(const diagnosis_search *search, tess_sentence *headline);

/* ---- diagnosis_report.c: headline, evidence and advice */
void diagnosis_report(diagnosis_search *search);
const char *diagnosis_advice(const diagnosis_search *search); /* defined in advice.c */

/* ---- evidence.c: situations and names of ranks, lines of evidence */
/* Returns the situation that was recorded, or else how the process ended. */
tess_situation diagnosis_situation(const tess_rank_history *rank);
bool diagnosis_is_absence(tess_diagnosis_kind kind); /* whether the kind means that ranks are missing */
/* Adds the line "WHO all_reduce #7 ..., at step.c:41". */
void diagnosis_add_call(const diagnosis_search *search, const char *who, const tess_record *record);
void diagnosis_add_line(tess_diagnosis *diagnosis, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool diagnosis_has_several_hosts(const tess_history *history);
/* Appends "ranks 1 3" or "rank 3"; in a job of several hosts, "rank 3 on host h2". */
void diagnosis_name_ranks(const diagnosis_search *search, const int *ranks, int n, tess_sentence *words);

/* Moves the marked ranks to a list, in ascending order. Returns their number. */
int diagnosis_take_marked(diagnosis_search *search, int *list);

#endif
