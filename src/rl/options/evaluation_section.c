#include "rl/options/evaluation_section.h"

#include "base/core/option_rows.h"

static const tess_option evaluation[] = {
    INT(evaluation, n, CALLS, "16", 1, 65536, "samples of each prompt of validation.files"),
    FLOAT(evaluation, temperature, CALLS, "1", 0, 100, "temperature of these samples; 0: always the likeliest token"),
    FLOAT(evaluation, threshold, CALLS, "1", -1e30, 1e30, "smallest reward that counts as right"),
    BOOL(evaluation, at_start, CALLS, "true", "evaluate before the first step too"),
};
const tess_option_section tess_section_evaluation =
    SECTION("evaluation", "held-out prompts: validation.files", evaluation);
