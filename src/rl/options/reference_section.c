#include "rl/options/reference_section.h"

#include "base/core/option_rows.h"

static const tess_option reference[] = {
    PATH(reference, path, BITS, "", "folder of the reference's weights; empty: those that the run begins with"),
    INT(reference, update_interval, BITS, "0", 0, 1e12,
        "number of steps after which the reference becomes the policy; 0: never"),
    FLOAT(reference, ema, BITS, "0", 0, 1, "share of itself that the reference keeps at each update (moving average)"),
};
const tess_option_section tess_section_reference =
    SECTION("reference", "the model that the policy is compared with", reference);
