/* The parts of the reasoning; diagnosis.c asks them one after the other. Each fills in the verdict and returns true
 * when it has found who is guilty. */
#ifndef TESS_DIAGNOSIS_DIAGNOSIS_IMPL_H
#define TESS_DIAGNOSIS_DIAGNOSIS_IMPL_H

#include "diagnosis/diagnosis.h"
#include "diagnosis/view.h"
#include "diagnosis/sentence.h"

typedef struct diagnosis_search {
    const tess_history *history;
    tess_view view;
    double patience_s;
    int suspect;          /* a rank that others' errors lead to, but whose own end says nothing; -1: none */
    int witness;          /* in whose words a finding without a guilty rank is told; -1: none */
    bool places_reported; /* the guard has refused operations for the places that they were called from */
    char uneven[160];     /* who is at which step, where that is what uneven batches look like; "" */
    bool *mark;           /* (world) scratch: who is on a list */
    bool *right;          /* (world) scratch, by place in a team: who asked for what most asked for */
    size_t *cursor;       /* (world) scratch, by place in a team */
    int *queue;           /* (world) scratch */
    tess_diagnosis *diagnosis;
} diagnosis_search;

/* ---- disagree.c: ranks of a team asked for different things */
bool diagnosis_find_disagreement(diagnosis_search *search);

/* ---- steps.c: where ranks asked for different things, or left, because they have long been at different steps, that
 * is what is told. */
void diagnosis_refine_by_steps(diagnosis_search *search);
/* Whoever is at another step than most when it calls what they do not may have had a batch more or less: fills in
 * search->uneven. */
void diagnosis_compare_steps(diagnosis_search *search);

/* ---- situation.c */
/* What became of the rank, from what was noted of it or from how its process ended. */
tess_situation diagnosis_situation(const tess_rank_history *rank);
bool diagnosis_is_death(tess_situation situation); /* crashed .. host lost, other than LEFT */

/* ---- message_pairs.c: which receive belongs to which send */
/* Messages of one direction and tag, as one of the two sides made them. */
typedef struct diagnosis_stream {
    uint64_t team, tag;
    int rank, peer; /* whose records; whose place they name */
    uint8_t op;
} diagnosis_stream;

diagnosis_stream diagnosis_stream_of(int rank, const tess_record *record);
/* The same messages as the other side sees them. */
diagnosis_stream diagnosis_other_side(const diagnosis_search *search, const diagnosis_stream *stream);
bool diagnosis_stream_has(const diagnosis_stream *stream, const tess_record *record);
int diagnosis_message_peer(const diagnosis_search *search, const tess_record *record); /* -1: not known */
/* What the peer did for `record` of `rank`, fitting or not; NULL: nothing yet. */
const tess_record *diagnosis_counterpart(const diagnosis_search *search, int rank, const tess_record *record);
bool diagnosis_message_is_met(const diagnosis_search *search, int rank, const tess_record *record); /* it did */

/* ---- blockers.c: who has not come to an operation */
enum { DIAGNOSIS_MOST_OPEN = 64 }; /* newest records of a rank among which those that wait are looked for */

double diagnosis_waited_s(const diagnosis_search *search, int rank, const tess_record *record);
/* What the system says of the rank explains why it does not come; what it waits for is then no matter. */
bool diagnosis_is_explained(const tess_rank_history *rank);
/* Calls visit for every rank that has not come to `record` of `rank`, until it says stop; true: it did. */
typedef bool diagnosis_visitor(void *context, int missing, const tess_record *record);
bool diagnosis_visit_missing(const diagnosis_search *search, int rank, const tess_record *record,
                             diagnosis_visitor *visit, void *context);
/* The same of all operations in which `rank` waits. */
bool diagnosis_visit_blockers(const diagnosis_search *search, int rank, diagnosis_visitor *visit, void *context);
/* Whether the rank waits, or failed waiting, for others in the operation; in any. */
bool diagnosis_waits_in(const diagnosis_search *search, int rank, const tess_record *record);
bool diagnosis_waits_for_somebody(const diagnosis_search *search, int rank);
/* Its newest operation, where that has not ended; else NULL. */
const tess_record *diagnosis_newest_open(const diagnosis_search *search, int rank);
/* That has not ended for longer than patience, whoever is there. */
bool diagnosis_is_stuck(const diagnosis_search *search, int rank);

/* ---- message.c: sends and receives that do not fit */
bool diagnosis_find_message(diagnosis_search *search);
/* Nobody took part on the other side of `record`: which of the two went another way than in the step before? Puts them
 * into the verdict, as a tie when that does not tell. */
void diagnosis_judge_message(diagnosis_search *search, int rank, const tess_record *record);

/* ---- ending.c: ranks that died, or ended by an error */
bool diagnosis_find_numbers(diagnosis_search *search);
/* `sure`: only when no operation of the rank says that it failed waiting for another. */
bool diagnosis_find_ending(diagnosis_search *search, bool sure);
/* Nothing but others' errors speak of search->suspect. */
bool diagnosis_find_suspect(diagnosis_search *search);

/* ---- waiting.c: who waits for whom */
bool diagnosis_find_waiting(diagnosis_search *search);
/* A rank whose last operation just stays open, where all others of the team failed in it: it was no more. */
bool diagnosis_find_vanished(diagnosis_search *search);
/* Fills in who waits for verdict->ranks, in which operation and how long, and what the first of them did last. */
void diagnosis_attach_waiters(diagnosis_search *search);

/* ---- circle.c: all that `from` waits for, wait for each other */
void diagnosis_name_circle(diagnosis_search *search, int from);

/* ---- sentences.c: the headline */
void diagnosis_say(const diagnosis_search *search, tess_sentence *words);

/* ---- diagnosis_report.c: all that is told */
void diagnosis_report(diagnosis_search *search);
const char *diagnosis_advice(const diagnosis_search *search); /* advice.c */

/* ---- evidence.c: what all parts write down */
bool diagnosis_is_absence(tess_diagnosis_kind kind); /* ranks do not come */
/* "rank 2 called all_reduce #7 ..., at step.c:41", of `who` and what it did. */
void diagnosis_add_call(const diagnosis_search *search, const char *who, const tess_record *record);
void diagnosis_add_line(tess_diagnosis *diagnosis, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* "rank 3", in a job over several hosts "rank 3 on host h2". */
void diagnosis_name_rank(const tess_history *history, int rank, tess_sentence *words);
void diagnosis_name_ranks(const diagnosis_search *search, const int *ranks, int n, tess_sentence *words);

/* Moves who is marked, ascending, to a list of the verdict; unmarks all. */
int diagnosis_take_marked(diagnosis_search *search, int *list);

#endif
