/* Windows and shared memory: collective allocations from the job's heap. */
#include "base/core/round_up.h"
#include "comm/comm_impl.h"

/* Allocations of at least this size are aligned to huge pages, so that the kernel may use them. */
static const size_t large_bytes = 4 << 20;

/* The result of a rank that allocates for its host. */
typedef struct made {
    uint64_t offset;
    int32_t status;
    int32_t spare;
} made;
_Static_assert(sizeof(made) <= COMM_EXCHANGE_BYTES, "ranks exchange them");

static tess_status first_failure(const tess_team *team, const made *all, size_t bytes)
{
    for (int r = 0; r < team->size; r++) {
        tess_status status = (tess_status)all[r].status;
        if (status != TESS_OK && all[team->rank].status == TESS_OK)
            TESS_FAIL(status, "rank %d could not get %zu bytes", team->ranks[r], bytes);
        TESS_TRY(status);
    }
    return TESS_OK;
}

tess_status tess_memory_agree(tess_team *team, const comm_wanted *wanted, uint64_t *offset)
{
    tess_runtime *rt = team->runtime;
    made mine = {0}, *all = (made *)(void *)team->lists.exchanged;
    if (wanted->maker == team->rank)
        mine.status = tess_job_alloc(&rt->job, rt->rank, wanted->bytes, wanted->align, &mine.offset);
    bool allocated = wanted->maker == team->rank && mine.status == TESS_OK;
    tess_status status =
        tess_team_exchange(team, wanted->kind, wanted->count, wanted->tag, wanted->call_site, &mine, all, sizeof(mine));
    if (status == TESS_OK)
        status = first_failure(team, all, wanted->bytes);
    if (status != TESS_OK && allocated)
        tess_job_free(&rt->job, rt->rank, mine.offset, wanted->bytes);
    *offset = status == TESS_OK && wanted->maker >= 0 ? all[wanted->maker].offset : 0;
    return status;
}

/* Allocates what `call` asks for: a window of `bytes` for each rank on this host, or one copy for all. */
static tess_status alloc_region(tess_team *team, const char *call, comm_region region, const char *what,
                                const void *site, void **out)
{
    TESS_CHECK(team != NULL && out != NULL && (int)region.pool >= 0 && region.pool < TESS_POOL_COUNT, TESS_E_INVALID,
               "%s: a bad argument", call);
    size_t bytes = region.asked, align = bytes >= large_bytes ? JOB_HUGE_PAGE : JOB_PAGE;
    TESS_CHECK(region.shared || bytes <= SIZE_MAX / 2 / (size_t)team->size, TESS_E_NOMEM, "window '%s' of %zu bytes",
               what, bytes);
    tess_runtime *rt = team->runtime;
    size_t stride = region.shared ? 0 : tess_round_up(bytes > 0 ? bytes : 1, align);
    region.bytes = region.shared ? bytes : stride * (size_t)team->n_local;
    const comm_wanted wanted = {.kind = region.shared ? TESS_TRACE_SHARED_ALLOC : TESS_TRACE_WINDOW_ALLOC,
                                .count = bytes,
                                .call_site = site,
                                .maker = team->local_first,
                                .bytes = region.bytes,
                                .align = align};
    if (rt->dry != NULL) {
        TESS_TRY(tess_mem_alloc(rt->dry->room, region.pool, bytes, what, (void **)&region.local));
    } else {
        TESS_TRY_CTX(tess_memory_agree(team, &wanted, &region.offset), "allocate '%s' for %d ranks of team '%s'", what,
                     team->size, team->name);
        region.local = rt->job.base + region.offset + (size_t)team->local_index * stride;
    }
    *out = region.local;
    region.counted = region.shared && team->local_index > 0 ? 0 : bytes;
    void *memory;
    TESS_TRY_CTX(tess_mem_alloc(rt->mem, TESS_POOL_MISC, sizeof(comm_region), "region of shared memory", &memory),
                 "'%s'", what);
    comm_region *r = memory;
    *r = region;
    tess_list_lock(&rt->list_lock);
    r->next = rt->regions;
    rt->regions = r;
    tess_list_unlock(&rt->list_lock);
    tess_mem_count(rt->mem, r->pool, (int64_t)r->counted);
    return TESS_OK;
}

static void free_region(tess_team *team, void *memory, bool shared, const void *site)
{
    if (memory == NULL)
        return;
    tess_runtime *rt = team->runtime;
    tess_list_lock(&rt->list_lock);
    comm_region **at = &rt->regions;
    while (*at != NULL && ((*at)->local != memory || (*at)->shared != shared))
        at = &(*at)->next;
    comm_region *region = *at;
    if (region != NULL)
        *at = region->next;
    tess_list_unlock(&rt->list_lock);
    if (region == NULL)
        return;
    tess_mem_count(rt->mem, region->pool, -(int64_t)region->counted);
    /* The exchange waits until no rank reads the memory. If a rank was lost, the memory stays allocated until the
     * job ends. */
    tess_trace_op kind = shared ? TESS_TRACE_SHARED_FREE : TESS_TRACE_WINDOW_FREE;
    if (rt->dry != NULL)
        tess_mem_free(rt->dry->room, region->local);
    else if (tess_team_exchange(team, kind, region->asked, 0, site, NULL, NULL, 0) == TESS_OK && team->local_index == 0)
        tess_job_free(&rt->job, rt->rank, region->offset, region->bytes);
    tess_mem_free(rt->mem, region);
}

tess_status tess_window_alloc(tess_team *team, tess_pool pool, size_t bytes, const char *what, void **out)
{
    return alloc_region(team, "tess_window_alloc", (comm_region){.asked = bytes, .pool = pool}, what,
                        __builtin_return_address(0), out);
}

void tess_window_free(tess_team *team, void *window)
{
    free_region(team, window, false, __builtin_return_address(0));
}

tess_status tess_shared_alloc(tess_team *team, tess_pool pool, size_t bytes, const char *what, void **out)
{
    return alloc_region(team, "tess_shared_alloc", (comm_region){.asked = bytes, .pool = pool, .shared = true}, what,
                        __builtin_return_address(0), out);
}

void tess_shared_free(tess_team *team, void *shared)
{
    free_region(team, shared, true, __builtin_return_address(0));
}
