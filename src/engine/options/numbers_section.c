#include "engine/options/numbers_section.h"

#include "base/core/option_rows.h"

static const tess_option numbers[] = {
    CHOICE(numbers, on_nonfinite, BITS, "stop", "stop|skip",
           "reaction to a loss or gradient that is NaN or infinite: stop: end the run; skip: leave out the update of "
           "the step"),
    INT(numbers, max_skips, BITS, "10", 0, 1e9, "number of steps in a row that may be skipped"),
    CHOICE(numbers, check, CALLS, "replay", "replay|always",
           "how the origin of a NaN is found: replay: by computing the step again; always: by checking every value "
           "when it is computed"),
    FLOAT(numbers, spike_z, CALLS, "6", 0, 100,
          "warn of a loss or gradient norm this many deviations above the newest 128; 0: never"),
    FLOAT(numbers, skip_update_lossz, BITS, "0", 0, 100,
          "leave out the update of a step whose loss is this many deviations above the newest 128; 0: never"),
    FLOAT(numbers, skip_update_gradz, BITS, "0", 0, 100,
          "leave out the update of a step whose gradient norm is this many deviations above the newest 128; 0: never"),
    INT(numbers, replica_check_interval, CALLS, "100", 0, 1e12,
        "steps between checks that all copies of weights and optimizer state are the same bits; 0: never"),
};
const tess_option_section tess_section_numbers = SECTION("numbers", "NaN, spikes, replicas", numbers);
