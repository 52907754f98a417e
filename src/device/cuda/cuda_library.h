/* Optional NVIDIA libraries: found and opened at run time, as tables of functions. */
#ifndef TESS_DEVICE_CUDA_CUDA_LIBRARY_H
#define TESS_DEVICE_CUDA_CUDA_LIBRARY_H

#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/core/variables.h"
#include "tessera/status.h"

/* A function of the library. A pointer to it is stored at `offset` of the table. */
typedef struct cuda_symbol {
    const char *name;
    size_t offset;
} cuda_symbol;

/* The description and state of a library. There is one static structure for each, whose lock is initialised with
 * PTHREAD_MUTEX_INITIALIZER. */
typedef struct cuda_library {
    const char *name;       /* name in messages: "cuBLAS" */
    const char *file;       /* file in messages: "libcublasLt.so" */
    const char *pattern;    /* pattern of the file, for glob(3) */
    tess_variable variable; /* environment variable that names another file, or is "off" */
    const char *instead;    /* another value of the variable that means not to use the library; NULL: none */
    const char *packages;   /* names of the packages that contain the library */
    const cuda_symbol *symbols;
    size_t n_symbols;
    void *table;
    pthread_mutex_t lock;
    bool is_open;
    char path[PATH_MAX]; /* the file, once it has been found */
} cuda_library;

/* Fills `table` with pointers to the functions. Returns the first name that the library lacks, or NULL. */
const char *tess_cuda_library_bind(void *library, const cuda_symbol *symbols, size_t n, void *table);

/* Finds the file as cuda_find.h says, opens it and fills the table, once per process; the library is never closed.
 * Thread-safe. TESS_E_NOT_FOUND: the library is not installed, or not to be used. TESS_E_INVALID: the variable is
 * wrong. TESS_E_UNSUPPORTED: the file cannot be loaded, or lacks a function. */
tess_status tess_cuda_library_open(cuda_library *library);

#endif
