/* A job's mesh for tests of fsdp, and what all ranks have. */
#ifndef TESS_TESTS_PARALLEL_FSDP_MESH_H
#define TESS_TESTS_PARALLEL_FSDP_MESH_H

#include "support/test.h"
#include "tessera/comm.h"
#include "tessera/fsdp.h"

static tess_runtime *runtime;
static tess_mesh *mesh;

static inline void open_mesh(const tess_axis *axes, int n_axes)
{
    EXPECT_OK(tess_runtime_create(&(tess_runtime_options){.n_threads = 1}, &runtime));
    EXPECT_OK(tess_mesh_create(runtime, axes, n_axes, &mesh));
}

static inline void open_flat(void)
{
    open_mesh((tess_axis[]){{"dp_shard", -1}}, 1);
}

static inline void close_mesh(void)
{
    tess_mesh_destroy(&mesh);
    tess_mem *mem = tess_runtime_mem(runtime);
    for (int pool = 0; pool < TESS_POOL_COUNT; pool++)
        if (pool != TESS_POOL_MISC && pool != TESS_POOL_COMM)
            EXPECT_INT(tess_mem_stats(mem, (tess_pool)pool).bytes, 0);
    tess_runtime_destroy(&runtime);
}

static const tess_fsdp_policy full_f32 = {TESS_STRATEGY_FULL, TESS_F32, TESS_F32, 1, 1};

static inline int64_t sum_over_ranks(int64_t value)
{
    int64_t sum = 0;
    EXPECT_OK(tess_all_reduce(tess_runtime_team(runtime), &value, &sum, 1, TESS_I64, TESS_SUM, NULL));
    return sum;
}

#endif
