/* The arithmetic of collectives for tests, on a stream of this process's own. */
#ifndef TESS_TESTS_COMM_ARITHMETIC_H
#define TESS_TESTS_COMM_ARITHMETIC_H

#include "comm/reduce.h"
#include "support/test.h"

static inline tess_stream *own_stream(void)
{
    static tess_stream *stream;
    static tess_mem *mem;
    if (stream == NULL) {
        EXPECT_OK(tess_mem_create(&mem));
        EXPECT_OK(tess_stream_create(mem, 1, NULL, &stream));
    }
    return stream;
}

static inline void convert_values(const void *x, tess_dtype from, void *y, tess_dtype to, size_t n)
{
    EXPECT_OK(tess_convert_values(own_stream(), x, from, y, to, n));
}

/* True: every sum is finite. */
static inline bool reduce_tree(const void *const *x, int n_inputs, tess_dtype dtype, float *out, size_t n,
                               bool accumulate, bool streams)
{
    bool finite = true;
    EXPECT_OK(tess_reduce_tree_f32(own_stream(), x, n_inputs, dtype, out, n, accumulate, streams, &finite));
    return finite;
}

#endif
