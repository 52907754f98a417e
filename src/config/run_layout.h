/* The settings that decide, with the number of ranks, whether ranks can use persistent memory: its layout, and the rest
 * of an update that was interrupted. A run may change them when it resumes from a checkpoint. They are the options with
 * the effect LAYOUT, but for the number of shards, which follows from the others. */
#ifndef TESS_CONFIG_RUN_LAYOUT_H
#define TESS_CONFIG_RUN_LAYOUT_H

#include "config/config.h"

enum { TESS_LAYOUT_MOST = 40, TESS_RUN_LAYOUT_BYTES = 6144 };

typedef struct tess_run_layout {
    char text[TESS_RUN_LAYOUT_BYTES]; /* "section.key=value" of each option, NUL after each; the rest is NUL */
} tess_run_layout;

/* `config` has passed tess_config_check_step. */
void tess_run_layout_of(const tess_config *config, tess_run_layout *layout);

/* Whether the layout has exactly this program's options, and each value is possible for its option: memory that was
 * found may hold anything. */
bool tess_run_layout_is_valid(const tess_run_layout *layout);

/* Lists the settings that differ from `other` (NULL: all), and returns their number. The words are those of *layout.
 * Both layouts are valid. */
int tess_run_layout_words(const tess_run_layout *layout, const tess_run_layout *other,
                          const char *words[TESS_LAYOUT_MOST]);

#endif
