#include "comm/comm_section.h"

#include "base/core/option_rows.h"

SECTION(comm, "collectives", TESS_COMM_OPTIONS);
