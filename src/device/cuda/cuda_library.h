/* Libraries of NVIDIA's that a program may do without: found and opened at run time, as tables of functions. */
#ifndef TESS_DEVICE_CUDA_CUDA_LIBRARY_H
#define TESS_DEVICE_CUDA_CUDA_LIBRARY_H

#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/core/variables.h"
#include "tessera/status.h"

/* A pointer to the function of that name belongs at `offset` of the table. */
typedef struct cuda_symbol {
    const char *name;
    size_t offset;
} cuda_symbol;

/* A static one for each library, whose lock is PTHREAD_MUTEX_INITIALIZER. */
typedef struct cuda_library {
    const char *name;       /* name in messages: "cuBLAS" */
    const char *file;       /* file in messages: "libcublasLt.so" */
    const char *pattern;    /* pattern of the file, for glob(3) */
    tess_variable variable; /* names another file, or is "off" */
    const char *instead;    /* another of its words that does without; NULL: none */
    const char *packages;   /* packages that have it */
    const cuda_symbol *symbols;
    size_t n_symbols;
    void *table;
    pthread_mutex_t lock;
    bool is_open;
    char path[PATH_MAX]; /* once it is open, or was found */
} cuda_library;

/* Fills `table`. Returns the first name that the library lacks, or NULL. */
const char *tess_cuda_library_bind(void *library, const cuda_symbol *symbols, size_t n, void *table);

/* Looks where cuda_find.h says, opens the file and fills the table, once; the library stays. Thread-safe.
 * TESS_E_NOT_FOUND: it is not installed, or shall not be used; TESS_E_INVALID: the variable is wrong;
 * TESS_E_UNSUPPORTED: the file does not load, or lacks a function. */
tess_status tess_cuda_library_open(cuda_library *library);

#endif
