/* Distributes samples and numbers that one rank has to all ranks. */
#include <string.h>

#include "rl/rl_impl.h"
#include "tessera/comm.h"

/* Packs the samples that this rank owns, in the list's order. */
static tess_status pack(const rl *r, rl_sample *const *samples, const int32_t *owner, int64_t n, tess_buffer *out)
{
    for (int64_t i = 0; i < n; i++)
        if (owner[i] == tess_team_rank(r->team))
            TESS_TRY(rl_sample_write(samples[i], out));
    return TESS_OK;
}

/* all (world, stride): the bytes of each rank. */
static tess_status unpack(rl *r, rl_sample *const *samples, const int32_t *owner, int64_t n, const char *all,
                          const int64_t *sizes, size_t stride)
{
    for (int rank = 0; rank < tess_team_size(r->team); rank++) {
        size_t at = 0, used = 0;
        for (int64_t i = 0; i < n; i++) {
            if (owner[i] != rank)
                continue;
            int64_t number = samples[i]->number;
            TESS_TRY_CTX(
                rl_sample_read(r->mem, all + (size_t)rank * stride + at, (size_t)sizes[rank] - at, samples[i], &used),
                "rank %d, sample %lld", rank, (long long)number);
            TESS_CHECK(samples[i]->number == number, TESS_E_MISMATCH, "rank %d has drawn sample %lld in place of %lld",
                       rank, (long long)samples[i]->number, (long long)number);
            at += used;
        }
    }
    return TESS_OK;
}

/* Bytes that each rank contributes to a round at most, so that a collective is never too large. */
static tess_status gather(rl *r, const tess_buffer *mine, char *all, size_t stride)
{
    enum { ROUND = 64 << 20 };
    for (size_t at = 0; at < stride; at += ROUND) {
        const size_t n = stride - at < ROUND ? stride - at : ROUND;
        TESS_AUTO(tess_mem_drop) char *round = NULL;
        TESS_TRY(tess_mem_alloc_array(r->mem, TESS_POOL_MISC, (size_t)tess_team_size(r->team) + 1, n, "exchange",
                                      (void **)&round));
        char *own = round + (size_t)tess_team_size(r->team) * n;
        memset(own, 0, n);
        if (mine->size > at)
            memcpy(own, mine->data + at, mine->size - at < n ? mine->size - at : n);
        TESS_TRY(tess_all_gather(r->team, own, round, n, TESS_U8, NULL));
        for (int rank = 0; rank < tess_team_size(r->team); rank++)
            memcpy(all + (size_t)rank * stride + at, round + (size_t)rank * n, n);
    }
    return TESS_OK;
}

static tess_status exchange(rl *r, rl_sample *const *samples, const int32_t *owner, int64_t n, const tess_buffer *mine,
                            int64_t *sizes)
{
    const int world = tess_team_size(r->team);
    int64_t size = (int64_t)mine->size;
    size_t stride = 0;
    TESS_AUTO(tess_mem_drop) char *all = NULL;
    TESS_TRY(tess_all_gather(r->team, &size, sizes, 1, TESS_I64, NULL));
    for (int rank = 0; rank < world; rank++)
        stride = (size_t)sizes[rank] > stride ? (size_t)sizes[rank] : stride;
    TESS_TRY(tess_mem_alloc_array(r->mem, TESS_POOL_MISC, (size_t)world, stride + 1, "exchange", (void **)&all));
    TESS_TRY(gather(r, mine, all, stride));
    return unpack(r, samples, owner, n, all, sizes, stride);
}

tess_status rl_exchange(rl *r, rl_sample *const *samples, const int32_t *owner, int64_t n)
{
    TESS_AUTO(tess_buffer_free) tess_buffer mine = {.mem = r->mem};
    TESS_AUTO(tess_mem_drop) int64_t *sizes = NULL;
    if (tess_team_size(r->team) == 1)
        return TESS_OK;
    TESS_TRY(TESS_NEW(r->mem, tess_team_size(r->team), "exchange", &sizes));
    tess_team_label(r->team, "samples", r->newest.state.rollout);
    tess_status status = pack(r, samples, owner, n, &mine);
    if (status == TESS_OK)
        status = exchange(r, samples, owner, n, &mine, sizes);
    tess_team_label(r->team, NULL, -1);
    return status;
}

tess_status rl_share_floats(rl *r, float *values, int64_t n)
{
    /* Floats are added as integers, so a sum with zeros keeps every bit, also of -0. */
    return tess_all_reduce(r->team, values, values, (size_t)n, TESS_I32, TESS_SUM, NULL);
}

tess_status rl_share_bytes(tess_team *team, tess_buffer *bytes)
{
    int64_t size = (int64_t)bytes->size;
    if (team == NULL)
        return TESS_OK;
    TESS_TRY(tess_broadcast(team, &size, 1, TESS_I64, 0, NULL));
    if (tess_team_rank(team) != 0) {
        TESS_TRY(tess_mem_grow(bytes->mem, TESS_POOL_MISC, (size_t)size + 1, "bytes of rank 0", (void **)&bytes->data));
        bytes->size = bytes->capacity = (size_t)size;
    }
    return tess_broadcast(team, bytes->data, (size_t)size, TESS_U8, 0, NULL);
}
