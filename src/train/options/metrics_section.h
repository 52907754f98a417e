/* Options of log lines and of the files of metrics. */
#ifndef TESS_TRAIN_OPTIONS_METRICS_SECTION_H
#define TESS_TRAIN_OPTIONS_METRICS_SECTION_H

#include "base/core/options.h"

typedef struct tess_metrics_section {
    int64_t log_freq;
    int64_t pipeline_timeline;
    bool enable_tensorboard;
    char tensorboard_folder[TESS_TEXT_SIZE];
} tess_metrics_section;

extern const tess_option_section tess_section_metrics;

#endif
