#include "comm/shm/shm_impl.h"

/* Beside each post: how much this rank sends to each rank, from where, and how much it expects of each. */
typedef struct table {
    uint64_t sends[JOB_MAX_RANKS], offsets[JOB_MAX_RANKS], expects[JOB_MAX_RANKS];
} table;
_Static_assert(sizeof(table) <= CONTROL_INLINE, "the tables lie beside the posts");

static const table *table_of(const tess_work *work, int rank)
{
    return (const table *)(const void *)shm_inline(work, rank);
}

static void post(tess_work *work, tess_post *post)
{
    (void)post;
    table *mine = (table *)(void *)shm_inline(work, work->team->rank);
    for (int r = 0; r < work->team->size; r++) {
        mine->sends[r] = work->counts.in_counts[r];
        mine->offsets[r] = work->counts.in_offsets[r];
        mine->expects[r] = work->counts.out_counts[r];
    }
}

static tess_status meet(tess_work *work)
{
    const tess_team *team = work->team;
    for (int from = 0; from < team->size; from++) {
        for (int to = 0; to < team->size; to++) {
            uint64_t sends = table_of(work, from)->sends[to], expects = table_of(work, to)->expects[from];
            if (sends != expects) {
                char what[256];
                return TESS_FAIL(TESS_E_MISMATCH, "%s: rank %d sends %llu elements to rank %d, which expects %llu",
                                 tess_fingerprint_format(&work->fp, team->name, what, sizeof(what)), team->ranks[from],
                                 (unsigned long long)sends, team->ranks[to], (unsigned long long)expects);
            }
            if (sends > work->n)
                work->n = sends;
        }
    }
    return TESS_OK;
}

/* The part of a block of `total` elements that lies in the round. */
static size_t in_round(const tess_work *work, size_t total)
{
    size_t left = total > work->first ? total - work->first : 0;
    return left < work->count ? left : work->count;
}

static void show(const tess_work *work, uint8_t *to)
{
    size_t element = shm_element(work);
    for (int r = 0; r < work->team->size; r++) {
        size_t count = in_round(work, work->counts.in_counts[r]);
        if (count > 0 && r != work->team->rank)
            memcpy(to + (size_t)r * shm_stride(work), work->in + (work->counts.in_offsets[r] + work->first) * element,
                   count * element);
    }
}

static void take(tess_work *work)
{
    size_t element = shm_element(work);
    int me = work->team->rank;
    for (int r = 0; r < work->team->size; r++) {
        size_t count = in_round(work, work->counts.out_counts[r]);
        const uint8_t *from = r == me ? work->in + (work->counts.in_offsets[me] + work->first) * element
                              : work->path == SHM_DIRECT ? shm_in(work, r) + table_of(work, r)->offsets[me] * element
                                                         : shm_peer(work, r, me);
        if (work->path == SHM_REACHED && r != me)
            tess_reach(work, work->out + work->counts.out_offsets[r] * element, r,
                       shm_post(work, r)->in_address + table_of(work, r)->offsets[me] * element, count * element);
        else if (count > 0)
            memcpy(work->out + (work->counts.out_offsets[r] + work->first) * element, from, count * element);
    }
}

const shm_collective shm_all_to_all_v = {
    .block_per_rank = true, .post = post, .meet = meet, .show = show, .take = take};
