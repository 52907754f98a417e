#include "device/finite.h"

#include <math.h>
#include <stdatomic.h>

#include "device/bf16.h"
#include "device/elementwise.h"
#include "device/stream_impl.h"

/* Values in a block. The first block that contains a bad value is searched again, value by value. */
enum { BLOCK = 4096 };

/* A value is finite if its exponent is not all ones. Compilers vectorize these loops. */
static bool all_finite_f32(const uint32_t *bits, int64_t n)
{
    uint32_t largest = 0;
    for (int64_t i = 0; i < n; i++) {
        uint32_t exponent = bits[i] & 0x7f800000u;
        largest = exponent > largest ? exponent : largest;
    }
    return largest != 0x7f800000u;
}

static bool all_finite_bf16(const uint16_t *bits, int64_t n)
{
    uint16_t largest = 0;
    for (int64_t i = 0; i < n; i++) {
        uint16_t exponent = bits[i] & 0x7f80u;
        largest = exponent > largest ? exponent : largest;
    }
    return largest != 0x7f80u;
}

bool tess_all_finite(const void *data, tess_dtype dtype, int64_t n)
{
    return dtype == TESS_F32 ? all_finite_f32(data, n) : all_finite_bf16(data, n);
}

double tess_value_at(const void *data, tess_dtype dtype, int64_t i)
{
    return (double)tess_get_float(data, dtype, (size_t)i);
}

typedef struct finite_search {
    const tess_find_not_finite_args *args;
    _Atomic int64_t first;
} finite_search;

static void search_blocks(void *context, int64_t begin, int64_t end, TESS_UNUSED int worker)
{
    finite_search *s = context;
    const tess_find_not_finite_args *a = s->args;
    for (int64_t at = begin; at < end; at += BLOCK) {
        int64_t n = end - at < BLOCK ? end - at : BLOCK;
        if (tess_all_finite((const char *)a->x + (size_t)at * tess_dtype_size(a->dtype), a->dtype, n))
            continue;
        int64_t found = at, first = atomic_load(&s->first);
        while (isfinite(tess_value_at(a->x, a->dtype, found)))
            found++;
        while (found < first && !atomic_compare_exchange_weak(&s->first, &first, found))
            continue;
        return;
    }
}

/* The row is the same in all tables of the host. */
tess_status tess_ref_find_not_finite(tess_stream *stream, const tess_find_not_finite_args *a)
{
    finite_search s = {.args = a, .first = INT64_MAX};
    TESS_TRY(tess_check_dtype("find_not_finite", a->dtype));
    tess_threads_run(stream->threads, search_blocks, &s, a->n, BLOCK);
    *a->first = s.first == INT64_MAX ? -1 : s.first;
    return TESS_OK;
}

int64_t tess_count_not_finite(const void *data, tess_dtype dtype, int64_t n)
{
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++)
        count += !isfinite(tess_value_at(data, dtype, i));
    return count;
}
