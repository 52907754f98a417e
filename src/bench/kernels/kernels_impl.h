/* The subjects of `tessera bench kernels`: families of kernels at the shapes of real models. kernels.c loops
 * over them. A row of the kernel table that no family has is measured at the sizes of its example. To add a family, add
 * a table and a line in kernels.c. */
#ifndef TESS_BENCH_KERNELS_KERNELS_IMPL_H
#define TESS_BENCH_KERNELS_KERNELS_IMPL_H

#include "bench/bench.h"
#include "bench/bench_memory.h"
#include "bench/peers.h"
#include "bench/race.h"
#include "device/device.h"
#include "device/kernel_rows.h"

enum { KERNEL_MAX_OPERANDS = 16 };

/* A device other than the host, with events that measure its time. */
typedef struct kernels_apart {
    tess_device *device; /* NULL: the stream uses the host's memory */
    tess_stream *stream;
    tess_event *from, *to; /* NULL: the device cannot measure times */
    double from_s;         /* time of the host's clock at event `from` */
    char *x, *y;           /* (bytes) for measuring the memory's limit; larger than caches */
    size_t bytes;
    tess_bench_clock clock;
} kernels_apart;

typedef struct kernels_bench {
    tess_mem *mem;
    const tess_bench_options *options;
    tess_bench_report *report;
    tess_stream *stream;
    tess_bench_arrays *arrays;     /* arrays for measuring the memory's limit; NULL on a device other than the host */
    const tess_bench_peers *peers; /* libraries to compare with; may be NULL */
    int rounds;
    kernels_apart *apart;
} kernels_bench;

/* A shape. Sizes that the family does not use are 0. */
typedef struct kernel_shape {
    const struct kernel_subject *subjects; /* the list ends with a subject without a name */
    const char *model;
    tess_dtype dtype;
    bool quick;            /* --quick runs only these */
    int64_t T, C, V;       /* tokens (per sequence), channels (per head), vocabulary */
    int64_t seqs, H, H_kv; /* sequences, heads */
} kernel_shape;

/* A kernel with its operands at a shape. */
typedef struct kernel_operands {
    tess_stream *stream;
    const tess_kernels *kernels;
    const kernel_shape *shape;
    const struct kernel_subject *subject;
    tess_kernel_args args;
    int n;
    void *x[KERNEL_MAX_OPERANDS]; /* (n) memory of the operands */
    tess_attention_seq seqs[8];
} kernel_operands;

/* A row of the kernel table. Its operands and its work follow from the row's description. */
typedef struct kernel_subject {
    const char *name;
    tess_kernel_row_id row;
    tess_kernel_args args;            /* values that all shapes share */
    tess_member T, C, V, TC, H, H_kv; /* the sizes that the shape gives; 0: the row has no such size */
    tess_member without[4];           /* operands that stay NULL */
    bool decodes;                     /* each sequence has one query */
    /* Adds what is not described: members of lists. May be NULL. */
    tess_status (*finish)(const kernels_bench *bench, kernel_operands *operands);
} kernel_subject;

typedef struct kernel_family {
    const char *title;
    bool computes; /* arithmetic limits it, not memory */
    const kernel_shape *shapes;
    int n_shapes;
    void (*name)(const kernel_subject *subject, const kernel_shape *shape, char *name, size_t size);
} kernel_family;

extern const kernel_family kernels_attention, kernels_decode, kernels_rows, kernels_vocab, kernels_parameters;
extern const kernel_family kernels_others; /* has no shapes: its subjects are examples of rows that no family has */

/* Creates the operands of a subject, which kernels_bench_release frees, even after an error. */
tess_status kernels_bench_create(const kernels_bench *bench, kernel_operands *operands);

/* Adds the tables of matrix products, which are also raced against the peers. */
tess_status kernels_bench_gemm(const kernels_bench *bench);

/* Opens the device that --device names, and its stream; on the host, there is none. Always close it. */
tess_status kernels_apart_open(kernels_apart *apart, tess_mem *mem, const tess_bench_options *options);
void kernels_apart_close(kernels_apart *apart);
/* Returns the rate that the maker of the device states, or else the rate of a copy within its memory. `limit` is a
 * kernels_limit. */
double kernels_apart_limit(const kernels_apart *apart, int limit);

/* The first allocates an operand in the memory of the stream's device, filled with numbers in (-1, 1). The second
 * fills it with i * factor % modulus. */
tess_status kernels_bench_operand(const kernels_bench *bench, int64_t count, tess_dtype dtype, void **out);
tess_status kernels_bench_integers(const kernels_bench *bench, int64_t count, int64_t factor, int64_t modulus,
                                   void **out);
/* Frees operands; any may be NULL. */
void kernels_bench_release(const kernels_bench *bench, void *const *operands, int n);

/* Kinds of limits of a race: peak arithmetic, or memory traffic with cold caches. */
typedef enum kernels_limit {
    KERNELS_LIMIT_F32,
    KERNELS_LIMIT_BF16,
    KERNELS_LIMIT_TRIAD,
    KERNELS_LIMIT_READ
} kernels_limit;
void kernels_bench_limit(const kernels_bench *bench, kernels_limit limit, tess_bench_race *race);

#endif
