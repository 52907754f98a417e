#include "comm/nccl/nccl_library.h"

#include <string.h>

#include "base/core/variables.h"
#include "device/cuda/cuda_library.h"
#include "device/cuda/cuda_report.h"

static const cuda_symbol symbols[] = {
#define X(type, name, symbol, parameters) {symbol, offsetof(nccl_library, name)},
    NCCL_LIST(X)
#undef X
};

/* NCCL variables that would break the guarantees of links. */
static tess_status check_variables(void)
{
    const char *blocking = tess_variable_value(TESS_VAR_NCCL_COMM_BLOCKING),
               *id = tess_variable_value(TESS_VAR_NCCL_COMM_ID);
    TESS_CHECK(blocking == NULL || strcmp(blocking, "0") == 0, TESS_E_INVALID,
               "NCCL_COMM_BLOCKING is '%s', with which NCCL waits for ever for a rank that does not come: unset it",
               blocking);
    TESS_CHECK(id == NULL, TESS_E_INVALID,
               "NCCL_COMM_ID is '%s', but each of Tessera's communicators has an id of its own: unset it", id);
    return TESS_OK;
}

tess_status tess_nccl_open(const nccl_library **out)
{
    /* The library is loaded once and stays loaded until the process ends. */
    static nccl_library nccl;
    static cuda_library library = {.name = "NCCL",
                                   .file = "libnccl.so.2",
                                   .pattern = TESS_NCCL_PATTERN,
                                   .variable = TESS_VAR_NCCL,
                                   .packages = TESS_NCCL_PACKAGES,
                                   .symbols = symbols,
                                   .n_symbols = sizeof(symbols) / sizeof(symbols[0]),
                                   .table = &nccl,
                                   .lock = PTHREAD_MUTEX_INITIALIZER};
    int version = 0;
    TESS_TRY(check_variables());
    TESS_TRY(tess_cuda_library_open(&library));
    TESS_CHECK(nccl.version(&version) == NCCL_SUCCESS && version >= NCCL_LEAST_VERSION, TESS_E_UNSUPPORTED,
               "%s is NCCL %d.%d, too old: 2.18 or newer is needed; install " TESS_NCCL_PACKAGES
               ", or do without it (TESSERA_NCCL=off)",
               library.path, version / 10000, version / 100 % 100);
    nccl.path = library.path;
    nccl.version_number = version;
    *out = &nccl;
    return TESS_OK;
}
