/* What is done about a failure: the table of classes, how often failures came lately, which places they came from and
 * what can still be given up, made into one decision and one sentence. Whoever watches the ranks asks and carries it
 * out; no rank decides for itself. Pure: clocks come as arguments, randomness from a seed. */
#ifndef TESS_RECOVER_POLICY_H
#define TESS_RECOVER_POLICY_H

#include "recover/ladder.h"
#include "recover/record.h"
#include "recover/slots.h"

typedef struct tess_recover_settings {
    bool respawns;                   /* a lost rank can be replaced, the others staying */
    bool remembers;                  /* what ranks keep in memory is there for the next, too, when all start again */
    bool rolls_back;                 /* after a NaN, too, go back to the newest checkpoint; once a step */
    int max_failures;                /* so many within window_s end the job; 0: however many there are */
    double window_s;                 /* seconds, as all that follow */
    double backoff_s, backoff_max_s; /* backoff.h */
    double retry_s;                  /* a place that was left out is tried again after this */
    uint64_t seed;                   /* of the pauses */
} tess_recover_settings;

typedef struct tess_recover {
    tess_recover_settings settings;
    tess_worlds worlds;
    tess_slots slots;
    tess_ladder ladder;
    tess_record_of_failures record;
    int64_t best_step; /* most steps done when a failure came */
    int n_in_a_row;    /* failures since then */
} tess_recover;

typedef struct tess_recovery {
    tess_action action; /* never SHRINK: what that comes to */
    tess_failure_class class;
    double delay_s;
    int n_ranks;      /* to go on with */
    bool resized;     /* they are not as many as they were */
    bool from_memory; /* RESTART: from the last step, as the ranks keep it; else from the newest checkpoint */
    bool omits;       /* the evaluation that it failed in is not tried again */
    bool reset;       /* settings have changed: tess_ladder_overrides of the ladder */
    char what[700];   /* what is done and why, to stand behind the failure's text */
} tess_recovery;

/* slots and ladder begin by their own calls. */
void tess_recover_begin(tess_recover *recover, const tess_recover_settings *settings, const tess_worlds *worlds);

/* A failure has come at now_s. */
void tess_recover_decide(tess_recover *recover, const tess_failure *failure, double now_s, tess_recovery *recovery);

/* What a job that stops leaves to be read, when it had been recovered before: how many failures, each with what was
 * done about it, and what to do now. "" when this was the first. Returns text. */
const char *tess_recover_report(const tess_recover *recover, double now_s, char *text, size_t size);

#endif
