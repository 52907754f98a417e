#include "train/options/metrics_section.h"

#include "base/core/option_rows.h"

static const tess_option metrics[] = {
    INT(metrics, log_freq, CALLS, "10", 1, 1e9, "steps between log lines"),
    BOOL(metrics, enable_tensorboard, NOTHING, "true", "write TensorBoard event files"),
    INT(metrics, pipeline_timeline, CALLS, "0", 0, 1e9,
        "steps between pictures of when each stage worked, in the log and in pipeline/ of job.dump_folder; 0: none"),
    PATH(metrics, tensorboard_folder, NOTHING, "tb", "folder of the TensorBoard files, inside job.dump_folder"),
};
const tess_option_section tess_section_metrics = SECTION("metrics", "log lines and files", metrics);
