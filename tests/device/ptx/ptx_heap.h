/* The memory that kernels may use as global memory: every block of the process's heap, with its exact size. This
 * library has malloc and its relatives, which the process uses if the library comes before libc. So an access outside a
 * block is found, also between blocks. */
#ifndef TESS_TESTS_DEVICE_PTX_PTX_HEAP_H
#define TESS_TESTS_DEVICE_PTX_PTX_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ptx_block {
    uintptr_t begin;
    size_t bytes;
    uint8_t *unwritten;          /* (bytes) 1: nothing was written there yet; NULL: all was written */
    struct ptx_access *accesses; /* records of the kernel that runs (ptx_races.h), or NULL */
    size_t n_accesses;
    bool of_gpu;
} ptx_block;

/* Returns the block that has this address; NULL: there is none. Until a GPU's memory is known, the stack and the
 * variables of the program are blocks, too, each as a whole. The result is valid until that block is freed. */
ptx_block *ptx_heap_find(uintptr_t address);
/* Whether malloc of this library is the process's. */
bool ptx_heap_is_used(void);
/* Notes that the bytes hold no value until a kernel writes them, or that the host has written them. They are in one
 * block. */
void ptx_heap_forget(void *begin, size_t bytes);
void ptx_heap_learn(void *begin, size_t bytes);
/* Notes that a block is memory of a GPU. After the first call, kernels may use such blocks only. */
void ptx_heap_is_of_gpu(void *begin);
/* Lists memory of a GPU that is not of the heap, and takes it off the list. */
void ptx_heap_add(void *begin, size_t bytes);
void ptx_heap_remove(void *begin);
bool ptx_heap_knows_gpus(void);
/* Memory that is not listed. */
void *ptx_heap_own(size_t bytes);
void ptx_heap_own_free(void *memory);

#endif
