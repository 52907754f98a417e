/* The learning rate of a run's steps, and whether a resumed run goes on with another than its checkpoint was made with.
 */
#ifndef TESS_TRAIN_LEARNING_RATE_H
#define TESS_TRAIN_LEARNING_RATE_H

#include "base/text/json.h"
#include "train/train_config.h"

/* The learning rate of `step`, counted from 1. The schedule begins after step `begin`. */
double tess_config_lr(const tess_config *config, int64_t begin, int64_t step);

/* Compares the schedule of `config` with that of `saved`, the configuration in a checkpoint after `step`. Writes a
 * sentence for people if one of 65 steps from the next one to the last one gets another learning rate; else text
 * becomes
 * "". */
void tess_config_compare_lr(const tess_config *config, const json_t *saved, int64_t begin, int64_t step, char *text,
                            size_t size);

#endif
