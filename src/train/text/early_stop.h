/* Decides whether a run ends because its validation loss no longer improves. The functions depend only on the
 * evaluations so far, so all ranks decide the same, and a resumed run decides like one that never stopped. */
#ifndef TESS_TRAIN_TEXT_EARLY_STOP_H
#define TESS_TRAIN_TEXT_EARLY_STOP_H

#include <jansson.h>

#include "train/train.h"

typedef struct tess_early_stop {
    double best_loss;
    int64_t best_step; /* -1: none yet */
    int64_t last_step; /* step of the newest evaluation that counted; -1: none yet */
    int64_t n_worse;   /* number of evaluations since the best one that counted */
} tess_early_stop;

tess_early_stop tess_early_stop_begin(void);
/* Adds an evaluation. Returns true if it is the best so far: its loss is lower than the best by more than min_delta.
 * A partial or missing evaluation does not count. A repeated one counts once. */
bool tess_early_stop_judge(tess_early_stop *stop, const tess_validation_report *report, double min_delta);
/* Whether the newest `patience` evaluations did not improve. If patience is 0, returns false. */
bool tess_early_stop_is_due(const tess_early_stop *stop, int64_t patience);

/* Converts to JSON for a checkpoint's description (NULL: out of memory), and back (NULL gives the initial state). */
json_t *tess_early_stop_to_json(const tess_early_stop *stop);
tess_early_stop tess_early_stop_from_json(const json_t *json);

/* Packs the state into words of a rank's place in its task (tess_task_place). */
enum { TESS_EARLY_STOP_WORDS = 3 };
void tess_early_stop_pack(const tess_early_stop *stop, int64_t words[TESS_EARLY_STOP_WORDS]);
tess_early_stop tess_early_stop_unpack(const int64_t words[TESS_EARLY_STOP_WORDS]);

#endif
