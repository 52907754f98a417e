/* Declarations that the files of this folder share.
 *
 *   numbers.c           creates the object, computes z-scores, decides what to do about a step's numbers
 *   watch.c             checks every value of a run
 *   replay.c            computes a step again, and finds the rank that was first
 *   numbers_replicas.c  compares replicas bit for bit, and finds the rank that differs
 *   drill.c             corrupts numbers on purpose */
#ifndef TESS_ENGINE_NUMBERS_NUMBERS_IMPL_H
#define TESS_ENGINE_NUMBERS_NUMBERS_IMPL_H

#include "engine/numbers/numbers.h"

/* Stages in the order of a step. */
typedef enum tess_bad_stage {
    TESS_BAD_WEIGHT, /* a weight, before the step */
    TESS_BAD_COMPUTED,
    TESS_BAD_GRADIENT, /* a gradient of one rank, as the rank that adds them received it */
    TESS_BAD_SUM,      /* the sum over micro-batches and ranks, though each addend was finite */
    TESS_BAD_NONE,
    TESS_BAD_LOSS /* loss of one rank; no tensor is known */
} tess_bad_stage;

/* The first value on a rank that is not finite. Ranks send it to each other as bytes. */
typedef struct tess_bad_number {
    int32_t stage, rank;  /* rank: of the job */
    int32_t owner;        /* 1: the rank is primary for the weight's row */
    int32_t n_ranks;      /* TESS_BAD_GRADIENT: how many ranks' gradients are bad at this place */
    int32_t loss_is_bad;  /* this rank's own part of the loss is not finite either */
    int64_t local, micro; /* number of the micro-batch: on this rank, and in the step */
    int64_t pass;         /* pass of the micro-batch, if it is known: TESS_BAD_COMPUTED */
    int64_t order;        /* number of the tensor in the micro-batch */
    int64_t row, column, n_bad, n_values;
    double value;
    char tensor[160];
} tess_bad_number;

/* Copies of the micro-batches of one step on this rank. */
typedef struct tess_recording {
    tess_mem *mem;
    int64_t max_tokens; /* largest number of tokens in a micro-batch */
    tess_batch_source source;
    tess_batch *batches; /* (capacity) copies; each owns one block, which starts at `ids`; NULL: not allocated yet */
    int64_t n, next;     /* next: the next one to replay */
    size_t capacity;
} tess_recording;

struct tess_numbers {
    tess_engine *engine;
    tess_recording recording;
    tess_watch drill; /* member `see` NULL: no drill */
    bool checking;    /* check every value of the current run */
    int64_t local, pass, order;
    tess_bad_number first; /* first bad number of the current run */

    tess_spikes losses, norms;
    int64_t n_skipped, n_skipped_in_a_row;
    int64_t told_step; /* step of the latest warning about a spike; 0: none */
    double told_z;     /* height of that spike, in standard deviations */
};

/* numbers.c: reports the current error as caused by a rank of the job (-1: unknown). */
void tess_numbers_blame(const tess_numbers *numbers, int rank);

/* drill.c: the points where faults may corrupt a number (fault.spec). */
tess_status tess_numbers_drill_weights(tess_numbers *numbers);
tess_status tess_numbers_drill_gradients(tess_numbers *numbers, int unit);
tess_status tess_numbers_drill_state(tess_numbers *numbers);

/* watch.c */
void tess_numbers_watch(tess_numbers *numbers); /* turns the executor's watch on or off, as checks and drills need */
void tess_bad_clear(const tess_numbers *numbers, tess_bad_number *bad);
tess_status tess_bad_weights(tess_numbers *numbers, tess_bad_number *bad); /* master weights of this rank */
/* Checks this rank's rows of the summed gradient: finds the addend that made a row bad, or, if all addends were
 * finite, the sum. */
tess_status tess_bad_sums(tess_numbers *numbers, tess_bad_number *bad);

/* Gathers every rank's finding. *all (world, bytes) receives them; the caller frees it. Collective. */
tess_status tess_numbers_gather(const tess_engine *engine, const char *label, const void *own, size_t bytes,
                                void **all);

/* replay.c: what a second run of the step showed. */
typedef struct tess_replay {
    bool repeats; /* the second run is not finite either */
    /* First bad number over all ranks: of the second run, or, if that was finite, of the first */
    tess_bad_number first;
    int culprit; /* rank that caused it; -1: unknown */
    int n_ranks; /* how many ranks found it at the same place */
    tess_engine_report again;
} tess_replay;
tess_status tess_numbers_replay(tess_numbers *numbers, const tess_loss_sum *own, tess_replay *replay);
void tess_recording_free(tess_recording *recording);

/* numbers_replicas.c: finds by majority which of `n` ranks that should hold the same value do not. value[i * stride]
 * belongs to rank i.
 * ODD: one value has more holders than any other; odd[i] marks the ranks that hold another one
 * TIE: several values have the most holders, so no rank can be named; odd is all false */
typedef enum tess_vote { TESS_VOTE_SAME, TESS_VOTE_ODD, TESS_VOTE_TIE } tess_vote;
tess_vote tess_vote_on(const uint64_t *value, size_t stride, int n, bool *odd);

#endif
