/* Private to this folder.
 *
 *   numbers.c   the object, and what becomes of a step     watch.c     every value checked on its way
 *   replay.c    a step computed again; who was first       numbers_text.c     what people are told
 *   replay_batches.c      its micro-batches                          spikes.c    the z-score
 *   finite.c    the search for NaN and infinity            numbers_replicas.c  whether replicas still hold the same
 * bits vote.c      who is the odd one                         drill.c     numbers spoilt on purpose */
#ifndef TESS_TRAIN_NUMBERS_NUMBERS_IMPL_H
#define TESS_TRAIN_NUMBERS_NUMBERS_IMPL_H

#include "train/numbers/replay_batches.h"
#include "train/numbers/numbers.h"

/* In the order in which they come to be. */
typedef enum tess_bad_stage {
    TESS_BAD_WEIGHT, /* before the step */
    TESS_BAD_COMPUTED,
    TESS_BAD_GRADIENT, /* of a rank, as whoever summed it saw it */
    TESS_BAD_SUM,      /* of gradients over micro-batches and ranks, though each was finite */
    TESS_BAD_NONE,
    TESS_BAD_LOSS /* of one rank; no tensor is known */
} tess_bad_stage;

/* The first value of a rank that is no number. Plain bytes: ranks send it to each other. */
typedef struct tess_bad_number {
    int32_t stage, rank;
    int32_t owner;        /* 1: the rank keeps the weight's row */
    int32_t n_ranks;      /* TESS_BAD_GRADIENT: so many had none at this place */
    int32_t loss_is_bad;  /* this rank's own part of the loss was no number either */
    int64_t local, micro; /* micro-batch: of this rank, of the step */
    int64_t order;        /* of what the rank saw in the micro-batch */
    int64_t row, column, n_bad, n_values;
    double value;
    char tensor[160];
} tess_bad_number;

struct tess_numbers {
    tess_engine *engine;
    tess_replay_batches kept;
    tess_watch drill; /* see NULL: none */
    bool checking;    /* every value of the pass under way */
    int64_t local, order;
    tess_bad_number first; /* of the pass under way */

    tess_spikes losses, norms;
    int64_t n_skipped, n_skipped_in_a_row;
};

/* numbers.c: leaves word that the error at hand is the fault of a rank of the job (-1: nobody's). */
void tess_numbers_blame(const tess_numbers *numbers, int rank);

/* drill.c: where the injector may spoil a number (fault.spec), each of its points in one place. */
void tess_numbers_drill_weights(tess_numbers *numbers);
void tess_numbers_drill_gradients(tess_numbers *numbers, int unit);
void tess_numbers_drill_state(tess_numbers *numbers);

/* watch.c */
void tess_numbers_watch(tess_numbers *numbers); /* has the executor tell what it computes, or no longer */
void tess_bad_clear(const tess_numbers *numbers, tess_bad_number *bad);
/* The first bad value of a tensor (n_rows, row) becomes *bad, when there is one and *bad has none yet. */
void tess_bad_look(tess_numbers *numbers, tess_bad_stage stage, const char *what, const char *of, const void *data,
                   tess_dtype dtype, int64_t n_rows, int64_t row, tess_bad_number *bad);
tess_status tess_bad_weights(tess_numbers *numbers, tess_bad_number *bad); /* master weights of this rank */
/* Its part of the step's gradient: whose gradient made it bad, or the sum when nobody saw that. */
tess_status tess_bad_sums(tess_numbers *numbers, tess_bad_number *bad);

/* replay.c: what a second run of the step has shown. */
typedef struct tess_replay {
    bool repeats;          /* the second run is no number either */
    tess_bad_number first; /* of all ranks: of the second run, or when that was well, of the first */
    int culprit;           /* the rank to look at, -1: not known */
    int n_ranks;           /* how many ranks saw the same, at the same place */
    tess_engine_report again;
} tess_replay;
tess_status tess_numbers_replay(tess_numbers *numbers, const tess_loss_sum *own, tess_replay *replay);

/* numbers_text.c */
void tess_bad_describe(const tess_numbers *numbers, const tess_engine_report *report, const tess_replay *replay,
                       char *text, size_t size);

#endif
