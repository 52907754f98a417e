/* Creates a rank's runtime: its seat in the job and its teams (comm), and the faults of a drill (inject). */
#include "tessera/runtime.h"

#include <string.h>

#include "base/core/variables.h"
#include "base/core/abi.h"

#include "comm/seat.h"
#include "inject/inject.h"

tess_status tess_runtime_create(const tess_runtime_options *given, tess_runtime **out)
{
    TESS_CHECK(out != NULL, TESS_E_INVALID, "tess_runtime_create: a NULL argument");
    tess_runtime_options options = {0};
    if (given != NULL) {
        TESS_TRY(TESS_CHECK_SIZE(tess_runtime_options, given));
        memcpy(&options, given,
               tess_abi_bytes(given->size, offsetof(tess_runtime_options, tls), sizeof(tess_runtime_options)));
    }
    TESS_TRY(tess_runtime_join_job(&options, out));
    const tess_fault_spec faults = {.text = options.fault != NULL ? options.fault : tess_variable_value(TESS_VAR_FAULT),
                                    .seed = options.fault_seed,
                                    .world = tess_runtime_world(*out),
                                    .any_rank = tess_runtime_life(*out) > 1,
                                    .phases = options.phases};
    tess_status status = tess_inject_begin(*out, &faults);
    if (status != TESS_OK) {
        tess_fail_context(status, "join the job");
        tess_runtime_destroy(out);
    }
    return status;
}
