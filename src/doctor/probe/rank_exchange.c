/* Checks communication between the ranks with a small all_reduce of known sums, and with barriers. */
#include <stdio.h>
#include <string.h>

#include "base/os/os.h"
#include "device/bf16.h"
#include "doctor/probe/ranks_impl.h"

enum { N_BARRIERS = 100, MOST_ELEMENTS = 65537 };

/* Element i is 1 on one rank in three and 0 on all others. Sums over any number of ranks are then exact in every
 * dtype. */
static int value(int rank, size_t i)
{
    return ((size_t)rank + i) % 3 == 0;
}

static int expected(int n_ranks, size_t i, tess_op op)
{
    int first = (int)((3 - i % 3) % 3); /* first rank whose element i is 1 */
    int ones = first < n_ranks ? (n_ranks - first + 2) / 3 : 0;
    return op == TESS_SUM ? ones : op == TESS_MAX ? ones > 0 : ones == n_ranks;
}

static void put(void *values, tess_dtype dtype, size_t i, int value)
{
    switch (dtype) {
    case TESS_I32:
        ((int32_t *)values)[i] = value;
        return;
    case TESS_I64:
        ((int64_t *)values)[i] = value;
        return;
    case TESS_U8:
        ((uint8_t *)values)[i] = (uint8_t)value;
        return;
    default:
        tess_put_float(values, dtype, i, (float)value);
    }
}

typedef struct trial {
    tess_team *team;
    void *in, *out;
    uint8_t want[8]; /* the expected bytes of one element */
} trial;

/* Runs one all_reduce and writes its first wrong element to `wrong`. */
static tess_status try_one(trial *t, tess_dtype dtype, tess_op op, size_t n, char *wrong)
{
    static const char *const names[] = {[TESS_SUM] = "sum", [TESS_MAX] = "max", [TESS_MIN] = "min"};
    size_t size = tess_dtype_size(dtype);
    int rank = tess_team_rank(t->team), n_ranks = tess_team_size(t->team);
    for (size_t i = 0; i < n; i++)
        put(t->in, dtype, i, value(rank, i));
    TESS_TRY(tess_all_reduce(t->team, t->in, t->out, n, dtype, op, NULL));
    for (size_t i = 0; i < n && wrong[0] == '\0'; i++) {
        put(t->want, dtype, 0, expected(n_ranks, i, op));
        if (memcmp(t->want, (char *)t->out + i * size, size) != 0)
            snprintf(wrong, PROBE_WRONG_BYTES, "all_reduce %s of %zu %s: element %zu is wrong on rank %d", names[op], n,
                     tess_dtype_name(dtype), i, rank);
    }
    return TESS_OK;
}

static tess_status try_all(trial *t, char *wrong)
{
    static const size_t sizes[] = {1, 1000, MOST_ELEMENTS};
    static const tess_op ops[] = {TESS_SUM, TESS_MAX, TESS_MIN};
    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++)
        for (int dtype = 0; dtype < TESS_DTYPE_COUNT; dtype++)
            for (size_t o = 0; o < sizeof(ops) / sizeof(ops[0]); o++)
                TESS_TRY(try_one(t, (tess_dtype)dtype, ops[o], sizes[s], wrong));
    return TESS_OK;
}

tess_status probe_try_all_reduce(tess_team *team, char *wrong)
{
    tess_mem *mem = tess_runtime_mem(tess_team_runtime(team));
    trial t = {.team = team};
    wrong[0] = '\0';
    TESS_TRY(tess_mem_alloc(mem, TESS_POOL_MISC, 2 * MOST_ELEMENTS * sizeof(int64_t), "probe", &t.in));
    t.out = (int64_t *)t.in + MOST_ELEMENTS;
    tess_status status = try_all(&t, wrong);
    tess_mem_free(mem, t.in);
    return status;
}

tess_status probe_time_barrier(tess_team *team, double *us)
{
    TESS_TRY(tess_barrier(team, NULL));
    double begin = tess_os_now_s();
    for (int i = 0; i < N_BARRIERS; i++)
        TESS_TRY(tess_barrier(team, NULL));
    *us = (tess_os_now_s() - begin) * 1e6 / N_BARRIERS;
    return TESS_OK;
}
