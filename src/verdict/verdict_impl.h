/* The parts of the reasoning; verdict.c asks them one after the other. Each fills in the verdict and returns true when
 * it has found who is guilty. */
#ifndef TESS_VERDICT_VERDICT_IMPL_H
#define TESS_VERDICT_VERDICT_IMPL_H

#include "verdict/verdict.h"
#include "verdict/view.h"
#include "verdict/words.h"

typedef struct verdict_search {
    const tess_history *history;
    tess_view view;
    double patience_s;
    int suspect;      /* a rank that others' errors lead to, but whose own end says nothing; -1: none */
    int witness;      /* in whose words a finding without a guilty rank is told; -1: none */
    bool places_told; /* the guard has refused operations for the places that they were called from */
    char uneven[160]; /* who is at which step, where that is what uneven batches look like; "" */
    bool *mark;       /* (world) scratch: who is on a list */
    bool *right;      /* (world) scratch, by place in a team: who asked for what most asked for */
    size_t *cursor;   /* (world) scratch, by place in a team */
    int *queue;       /* (world) scratch */
    tess_verdict *verdict;
} verdict_search;

/* ---- disagree.c: ranks of a team asked for different things */
bool verdict_find_disagreement(verdict_search *search);

/* ---- steps.c: where ranks asked for different things, or left, because they have long been at different steps, that
 * is what is told. */
void verdict_refine_by_steps(verdict_search *search);
/* Whoever is at another step than most when it calls what they do not may have had a batch more or less: fills in
 * search->uneven. */
void verdict_compare_steps(verdict_search *search);

/* ---- message.c: sends and receives that do not fit */
bool verdict_find_message(verdict_search *search);
/* The message that the peer should have posted for `record` of `rank` is there, fitting or not. */
bool verdict_message_is_met(const verdict_search *search, int rank, const tess_record *record);
int verdict_message_peer(const verdict_search *search, const tess_record *record); /* -1: not known */
/* Nobody took part on the other side of `record`: which of the two went another way than in the step before? Puts them
 * into the verdict, as a tie when that does not tell. */
void verdict_judge_message(verdict_search *search, int rank, const tess_record *record);

/* ---- ending.c: ranks that died, or ended by an error */
bool verdict_find_numbers(verdict_search *search);
/* `sure`: only when no operation of the rank says that it failed waiting for another. */
bool verdict_find_ending(verdict_search *search, bool sure);
/* Nothing but others' errors speak of search->suspect. */
bool verdict_find_suspect(verdict_search *search);
/* What became of the rank, from what was noted of it or from how its process ended. */
tess_situation verdict_situation(const tess_rank_history *rank);
bool verdict_is_death(tess_situation situation); /* crashed .. host lost, other than LEFT */

/* ---- waiting.c: who waits for whom */
bool verdict_find_waiting(verdict_search *search);
/* A rank whose last operation just stays open, where all others of the team failed in it: it was no more. */
bool verdict_find_vanished(verdict_search *search);
/* Whether an operation of the rank waits, or failed waiting, for others. */
bool verdict_waits_for_somebody(const verdict_search *search, int rank);
/* Its newest operation has not ended for longer than patience, whoever is there. */
bool verdict_is_stuck(const verdict_search *search, int rank);
double verdict_waited_s(const verdict_search *search, int rank, const tess_record *record);
/* Fills in who waits for verdict->ranks, in which operation and how long, and what the first of them did last. */
void verdict_attach_waiters(verdict_search *search);

/* Calls visit for every rank that has not come to an operation in which `rank` waits, until it says stop; true: it did.
 */
typedef bool verdict_visitor(void *context, int missing, const tess_record *record);
bool verdict_visit_blockers(const verdict_search *search, int rank, verdict_visitor *visit, void *context);

/* ---- circle.c: all that `from` waits for, wait for each other */
void verdict_name_circle(verdict_search *search, int from);

/* ---- sentences.c: the headline */
void verdict_say(const verdict_search *search, tess_words *words);

/* ---- tell.c: all that is told */
bool verdict_is_absence(tess_verdict_kind kind); /* ranks do not come */
void verdict_tell(verdict_search *search);
const char *verdict_advice(const verdict_search *search); /* advice.c */
/* "rank 2 called all_reduce #7 ..., at step.c:41", of `who` and what it did. */
void verdict_add_call(const verdict_search *search, const char *who, const tess_record *record);
void verdict_add_line(tess_verdict *verdict, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* "rank 3", in a job over several hosts "rank 3 on host h2". */
void verdict_name_rank(const tess_history *history, int rank, tess_words *words);
void verdict_name_ranks(const verdict_search *search, const int *ranks, int n, tess_words *words);

/* Moves who is marked, ascending, to a list of the verdict; unmarks all. */
int verdict_take_marked(verdict_search *search, int *list);

#endif
