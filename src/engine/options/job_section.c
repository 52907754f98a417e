#include "engine/options/job_section.h"

#include "base/core/option_rows.h"

SECTION(job, "the run, its folder and its device", TESS_JOB_OPTIONS);
