#include "train/options/sample_section.h"

#include "base/core/option_rows.h"

static const tess_option sample[] = {
    TEXT(sample, prompt, CALLS, "", "text to continue at the end of training; empty: no sample"),
    INT(sample, max_new_tokens, CALLS, "100", 0, 1e6, "number of tokens of the sample"),
    FLOAT(sample, temperature, CALLS, "0.8", 0, 100, "temperature of the sample; 0: always the likeliest token"),
    INT(sample, top_k, CALLS, "0", 0, 1e6, "draw from the k likeliest tokens; 0: all"),
    FLOAT(sample, top_p, CALLS, "0.95", 0, 1, "draw from the likeliest tokens that reach this probability"),
};
const tess_option_section tess_section_sample = SECTION("sample", "text generated at the end", sample);
