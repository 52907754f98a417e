#include "device/cuda/cublas_lt.h"

#include "device/cuda/cuda_library.h"

static const cuda_symbol symbols[] = {
#define X(type, name, symbol, parameters) {symbol, offsetof(cublas_lt, name)},
    CUBLAS_LT_LIST(X)
#undef X
};

tess_status tess_cublas_lt_open(const cublas_lt **out)
{
    /* The library is the process's: it is loaded once, and stays. */
    static cublas_lt lt;
    static cuda_library library = {.name = "cuBLAS",
                                   .file = "libcublasLt.so",
                                   .pattern = CUBLAS_LT_PATTERN,
                                   .variable = TESS_VAR_CUBLAS,
                                   .instead = "own",
                                   .packages = CUBLAS_LT_PACKAGES,
                                   .symbols = symbols,
                                   .n_symbols = sizeof(symbols) / sizeof(symbols[0]),
                                   .table = &lt,
                                   .lock = PTHREAD_MUTEX_INITIALIZER};
    *out = NULL;
    tess_status status = tess_cuda_library_open(&library);
    if (status == TESS_E_NOT_FOUND) { /* cuBLAS is optional */
        tess_error_clear();
        return TESS_OK;
    }
    TESS_TRY(status);
    lt.path = library.path;
    *out = &lt;
    return TESS_OK;
}
