/* The settings that decide, with the number of ranks, the layout of a rank's persistent memory or the bits of a step,
 * and that a run may change when it resumes from a checkpoint. Memory with one layout is useless to ranks with another.
 */
#ifndef TESS_CONFIG_RUN_LAYOUT_H
#define TESS_CONFIG_RUN_LAYOUT_H

#include "config/config.h"

enum { TESS_LAYOUT_KEYS = 19, TESS_RUN_LAYOUT_OVERRIDE = 96 };

typedef struct tess_run_layout {
    int64_t value[TESS_LAYOUT_KEYS];
} tess_run_layout;

/* `config` has passed tess_config_check_step. */
void tess_run_layout_of(const tess_config *config, tess_run_layout *layout);

/* Whether each value is possible for its option: memory that was found may hold anything. */
bool tess_run_layout_is_valid(const tess_run_layout *layout);

/* Writes "section.key=value" for each setting that differs from `other` (NULL: for all), and returns their number. Both
 * layouts are valid. */
int tess_run_layout_words(const tess_run_layout *layout, const tess_run_layout *other,
                          char words[TESS_LAYOUT_KEYS][TESS_RUN_LAYOUT_OVERRIDE]);

#endif
