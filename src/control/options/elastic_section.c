#include "control/options/elastic_section.h"

#include "base/core/option_rows.h"

static const tess_option elastic[] = {
    INT(elastic, min_ranks, NOTHING, "0", 0, 512,
        "leave out a place whose ranks keep failing while this many ranks remain; 0: never"),
    INT(elastic, max_ranks, NOTHING, "0", 0, 512,
        "grow to as many ranks, at a checkpoint, when there is room for elastic.retry_s; 0: as many as were started"),
    FLOAT(elastic, retry_s, NOTHING, "600", 0, 1e9,
          "seconds until a place that was left out is tried again, at the next checkpoint"),
};
const tess_option_section tess_section_elastic = SECTION("elastic", "another number of ranks", elastic);
