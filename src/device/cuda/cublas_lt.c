#include "device/cuda/cublas_lt.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/cuda/cuda_find.h"

#define FILE_PATTERN "libcublasLt.so.1[0-9]*"

static const struct function {
    const char *symbol;
    size_t offset;
} functions[] = {
#define X(type, name, symbol, parameters) {symbol, offsetof(cublas_lt, name)},
    CUBLAS_LT_LIST(X)
#undef X
};

static tess_status load(cublas_lt *lt)
{
    void *library = dlopen(lt->path, RTLD_NOW | RTLD_LOCAL);
    TESS_CHECK(library != NULL, TESS_E_UNSUPPORTED, "cannot load cuBLAS: %s; TESSERA_CUBLAS=own does without",
               dlerror());
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
        void *found = dlsym(library, functions[i].symbol);
        TESS_CHECK(found != NULL, TESS_E_UNSUPPORTED, "%s is no cublasLt that Tessera can use: it has no %s", lt->path,
                   functions[i].symbol);
        memcpy((char *)lt + functions[i].offset, &found, sizeof(found));
    }
    return TESS_OK;
}

static tess_status open_library(cublas_lt *lt, bool *is_there)
{
    const char *wish = getenv("TESSERA_CUBLAS");
    *is_there = true;
    if (wish != NULL && (strcmp(wish, "off") == 0 || strcmp(wish, "own") == 0)) {
        *is_there = false;
        return TESS_OK;
    }
    if (wish != NULL && wish[0] != '\0') {
        TESS_CHECK(strchr(wish, '/') != NULL, TESS_E_INVALID,
                   "TESSERA_CUBLAS is '%s', expected off, own, or the path of libcublasLt.so (with a '/' in it)", wish);
        snprintf(lt->path, sizeof(lt->path), "%s", wish);
        return load(lt);
    }
    *is_there = tess_cuda_find_library(FILE_PATTERN, lt->path);
    return *is_there ? load(lt) : TESS_OK;
}

tess_status tess_cublas_lt_open(const cublas_lt **out)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static cublas_lt lt;
    static bool is_known, is_there;
    pthread_mutex_lock(&lock);
    tess_status status = is_known ? TESS_OK : open_library(&lt, &is_there);
    is_known = status == TESS_OK;
    pthread_mutex_unlock(&lock);
    *out = status == TESS_OK && is_there ? &lt : NULL;
    return status;
}
