/* The settings that decide, with the number of ranks, whether ranks can use persistent memory: its layout, and the rest
 * of an update that was interrupted. A run may change them when it resumes from a checkpoint. They are the options with
 * the effect LAYOUT, but for the number of shards, which follows from the others. */
#ifndef TESS_CONFIG_RUN_LAYOUT_H
#define TESS_CONFIG_RUN_LAYOUT_H

#include "config/config.h"

enum { TESS_LAYOUT_MOST = 40, TESS_RUN_LAYOUT_OVERRIDE = 96 };

typedef struct tess_run_layout {
    uint64_t keys;                   /* a hash of the options' keys, in their order */
    int64_t value[TESS_LAYOUT_MOST]; /* (tess_run_layout_keys), in the same order; the rest are 0 */
} tess_run_layout;

/* The number of these options. */
int tess_run_layout_keys(void);

/* `config` has passed tess_config_check_step. */
void tess_run_layout_of(const tess_config *config, tess_run_layout *layout);

/* Whether the layout is of this program's options, and each value is possible for its option: memory that was found may
 * hold anything. */
bool tess_run_layout_is_valid(const tess_run_layout *layout);

/* Writes "section.key=value" for each setting that differs from `other` (NULL: for all), and returns their number. Both
 * layouts are valid. */
int tess_run_layout_words(const tess_run_layout *layout, const tess_run_layout *other,
                          char words[TESS_LAYOUT_MOST][TESS_RUN_LAYOUT_OVERRIDE]);

#endif
