#include "train/options/validation_section.h"

#include "base/core/option_rows.h"

static const tess_option validation[] = {
    BOOL(validation, enable, CALLS, "true", "evaluate at intervals and at the end"),
    PATHS(validation, files, BITS, "text to evaluate on; empty: the end of data.files, see fraction"),
    FLOAT(validation, fraction, BITS, "0.05", 0, 0.9,
          "share at the end of each data file that is held out (validation.files is empty)"),
    INT(validation, interval, CALLS, "100", 1, 1e12, "steps between evaluations"),
    INT(validation, patience, BITS, "0", 0, 1e6,
        "evaluations in a row without a better loss after which the run ends; its best model is in best/; 0: never"),
    FLOAT(validation, min_delta, BITS, "0", 0, 1e9, "a loss is better if it is lower than the best by more than this"),
    INT(validation, steps, CALLS, "0", 0, 1e12, "micro-batches of an evaluation; 0: all of the text"),
    FLOAT(validation, timeout_s, CALLS, "1800", 0, 1e9,
          "seconds after which an evaluation ends and counts as partial; 0: never"),
    INT(validation, retries, CALLS, "3", 0, 100,
        "times that ranks go on with smaller micro-batches after one failed; then the result is partial or missing"),
};
const tess_option_section tess_section_validation = SECTION("validation", "held-out text", validation);
