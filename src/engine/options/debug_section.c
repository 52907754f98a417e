#include "engine/options/debug_section.h"

#include "base/core/option_rows.h"

static const tess_option debug[] = {
    INT(debug, seed, BITS, "0", 0, 9007199254740992.0, "seed of initial weights, data order and samples"),
    BOOL(debug, deterministic, NOTHING, "true", "accepted for compatibility; runs are always deterministic"),
    BOOL(debug, trace, NOTHING, "true", "keep each rank's last events in job.dump_folder/trace"),
};
const tess_option_section tess_section_debug = SECTION("debug", "reproducibility and traces", debug);
