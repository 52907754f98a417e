/* When a run ends because its validation loss gets no better: pure functions of the evaluations so far, so that all
 * ranks decide alike, and a resumed run as one that never stopped. */
#ifndef TESS_TRAIN_TEXT_EARLY_STOP_H
#define TESS_TRAIN_TEXT_EARLY_STOP_H

#include <jansson.h>

#include "train/train.h"

typedef struct tess_early_stop {
    double best_loss;
    int64_t best_step; /* -1: none yet */
    int64_t last_step; /* step of the newest evaluation that counts; -1: none yet */
    int64_t n_worse;   /* evaluations that count since the best one */
} tess_early_stop;

tess_early_stop tess_early_stop_begin(void);
/* Takes an evaluation in: true if it is the best so far, lower than the one before by more than min_delta. A partial or
 * missing one does not count, and one that is repeated counts once. */
bool tess_early_stop_judge(tess_early_stop *stop, const tess_validation_report *report, double min_delta);
/* Whether as many as `patience` in a row were no better; patience 0: never. */
bool tess_early_stop_is_due(const tess_early_stop *stop, int64_t patience);

/* Converts to a checkpoint's description (NULL: no memory) and back (NULL: the beginning). */
json_t *tess_early_stop_to_json(const tess_early_stop *stop);
tess_early_stop tess_early_stop_from_json(const json_t *json);

/* The form in a rank's place in its task. */
enum { TESS_EARLY_STOP_WORDS = 3 };
void tess_early_stop_pack(const tess_early_stop *stop, int64_t words[TESS_EARLY_STOP_WORDS]);
tess_early_stop tess_early_stop_unpack(const int64_t words[TESS_EARLY_STOP_WORDS]);

#endif
