/* all_to_all_v on one host: each rank copies the blocks that the others have for it. */
#include "comm/shm/shm_impl.h"

/* A row for each rank, stored next to each post: number of elements sent to that rank, their offset, and number
 * expected from it. */
typedef struct part {
    uint64_t sends, offset, expects;
} part;
_Static_assert(sizeof(part) <= CONTROL_INLINE_PER_RANK, "the rows lie beside the posts");

static const part *parts_of(const tess_work *work, int rank)
{
    return (const part *)(const void *)shm_inline(work, rank);
}

static void post(tess_work *work, tess_post *post)
{
    part *mine = (part *)(void *)shm_inline(work, work->team->rank);
    for (int r = 0; r < work->team->size; r++)
        mine[r] = (part){work->counts.in_counts[r], work->counts.in_offsets[r], work->counts.out_counts[r]};
    post->beside = (uint64_t)work->team->size * sizeof(part);
}

static tess_status meet(tess_work *work)
{
    const tess_team *team = work->team;
    for (int from = 0; from < team->size; from++) {
        for (int to = 0; to < team->size; to++) {
            uint64_t sends = parts_of(work, from)[to].sends, expects = parts_of(work, to)[from].expects;
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

/* Returns the part of a block of `total` elements that is in the round. */
static size_t in_round(const tess_work *work, size_t total)
{
    size_t left = total > shm_of(work)->first ? total - shm_of(work)->first : 0;
    return left < shm_of(work)->count ? left : shm_of(work)->count;
}

static void show(tess_work *work, uint8_t *to)
{
    size_t element = shm_element(work);
    for (int r = 0; r < work->team->size; r++) {
        size_t count = in_round(work, work->counts.in_counts[r]);
        if (count > 0 && r != work->team->rank)
            memcpy(to + (size_t)r * shm_stride(work),
                   work->in + (work->counts.in_offsets[r] + shm_of(work)->first) * element, count * element);
    }
}

static void take(tess_work *work)
{
    size_t element = shm_element(work);
    int me = work->team->rank;
    for (int r = 0; r < work->team->size; r++) {
        size_t count = in_round(work, work->counts.out_counts[r]);
        const uint8_t *from = r == me ? work->in + (work->counts.in_offsets[me] + shm_of(work)->first) * element
                              : shm_of(work)->path == SHM_DIRECT
                                  ? shm_in(work, r) + parts_of(work, r)[me].offset * element
                                  : shm_peer(work, r, me);
        if (shm_of(work)->path == SHM_REACHED && r != me)
            shm_reach(work, work->out + work->counts.out_offsets[r] * element, r,
                      shm_post(work, r)->in_address + parts_of(work, r)[me].offset * element, count * element);
        else if (count > 0)
            memcpy(work->out + (work->counts.out_offsets[r] + shm_of(work)->first) * element, from, count * element);
    }
}

const shm_collective shm_all_to_all_v = {
    .block_per_rank = true, .post = post, .meet = meet, .show = show, .take = take};
