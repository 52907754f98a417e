/* Computes the learning rate of a run's steps, and finds out whether a resumed run follows another schedule than
 * before. */
#ifndef TESS_ENGINE_LEARNING_RATE_H
#define TESS_ENGINE_LEARNING_RATE_H

#include "base/text/json.h"
#include "config/config.h"

/* The learning rate of `step`, counted from 1. The schedule begins after step `begin`. */
double tess_config_lr(const tess_config *config, int64_t begin, int64_t step);

/* The settings that decide the schedule. */
typedef struct tess_lr_settings {
    double lr, min_lr_factor, decay_ratio;
    int64_t steps, schedule_steps, warmup_steps;
    int decay_type;
} tess_lr_settings;

tess_lr_settings tess_lr_settings_of(const tess_config *config);
/* Reads the settings from `saved`, the configuration in a checkpoint. Settings that an older checkpoint lacks are
 * taken from `config`. */
tess_lr_settings tess_lr_settings_read(const tess_config *config, const json_t *saved);

/* Compares the schedule of `config` with that of `settings`, which the steps up to `step` followed. Compares up to
 * 65 steps from the next one to the last one. If one of them has another learning rate, writes a sentence about it
 * to text; otherwise text becomes "". */
void tess_config_compare_lr(const tess_config *config, const tess_lr_settings *settings, int64_t begin, int64_t step,
                            char *text, size_t size);

#endif
