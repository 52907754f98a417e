/* The settings that decide, beside the number of ranks, what a rank keeps in memory and where, and which a run may
 * change when it goes on from a checkpoint. What is kept with some of them is of no use to ranks with others. */
#ifndef TESS_TRAIN_RUN_LAYOUT_H
#define TESS_TRAIN_RUN_LAYOUT_H

#include "train/train_config.h"

enum { TESS_LAYOUT_KEYS = 6, TESS_RUN_LAYOUT_OVERRIDE = 96 };

typedef struct tess_run_layout {
    int64_t value[TESS_LAYOUT_KEYS];
} tess_run_layout;

/* Of a configuration that tess_config_check_step has passed. */
void tess_run_layout_of(const tess_config *config, tess_run_layout *layout);

/* Whether each value is one that its option can have: memory that was found may hold anything. */
bool tess_run_layout_is_valid(const tess_run_layout *layout);

/* "section.key=value" of those that differ from `other`, or of all (NULL). Both valid. Returns their number. */
int tess_run_layout_words(const tess_run_layout *layout, const tess_run_layout *other,
                          char words[TESS_LAYOUT_KEYS][TESS_RUN_LAYOUT_OVERRIDE]);

#endif
