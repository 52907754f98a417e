/* Lists the keys that a checkpoint compares when a run on text resumes, in addition to those that decide the layout of
 * the state (TESS_EFFECT_LAYOUT). A change of such a key can be refused before a run ends for it. */
#ifndef TESS_TRAIN_TEXT_RESUME_KEYS_H
#define TESS_TRAIN_TEXT_RESUME_KEYS_H

#include "config/config.h"

/* Whether a run with the configuration `b` refuses a checkpoint of a run with `a` because of this key
 * ("training.seq_len"). Keys of the layout are not looked at. */
bool tess_resume_refuses(const char *key, const tess_config *a, const tess_config *b);

#endif
