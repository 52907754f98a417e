/* The interface to libraries above the fake driver: the plug-in's rows compiled for the host, and the libraries that
 * play cuBLAS and NCCL. They find the functions in the libcuda.so.1 that the process has loaded. */
#ifndef TESS_TESTS_DEVICE_CUDA_FAKE_FAKE_WORK_H
#define TESS_TESTS_DEVICE_CUDA_FAKE_FAKE_WORK_H

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* FAKE_USES: it is not known whether the memory is read or written. */
typedef enum fake_use { FAKE_READS, FAKE_WRITES, FAKE_USES } fake_use;

/* Memory that an operation uses. bytes 0: the size is not known, and the first byte stands for all. */
typedef struct fake_operand {
    const void *begin;
    size_t bytes;
    fake_use use;
    int place; /* tells the operands of an operation apart */
} fake_operand;

/* An operation of a queue. */
typedef struct fake_work {
    const char *name; /* a constant */
    /* Computes. False: it has not ended, and is called again soon. `begin` is called first, once the queue has come to
     * the operation, before a random delay; it may be NULL. */
    void (*begin)(void *self);
    bool (*run)(void *self);
    void (*drop)(void *self); /* frees `self` */
    void *self;
    const fake_operand *operands; /* the caller's */
    int n_operands;
} fake_work;

struct CUstream_st;
#define FAKE_ENQUEUE "fake_driver_enqueue"
typedef int (*fake_enqueue)(struct CUstream_st *queue, const fake_work *work);

/* NULL: no such driver is loaded. */
static inline fake_enqueue fake_find_enqueue(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), *found;
    fake_enqueue enqueue = NULL;
    found = driver != NULL ? dlsym(driver, FAKE_ENQUEUE) : NULL;
    memcpy(&enqueue, &found, sizeof(found));
    return enqueue;
}

#endif
