/* Reads private memory of peers by a system call. This copies once (a stage copies twice), and needs no meeting for
 * each chunk. */
#include "base/os/os.h"
#include "comm/reduce.h"
#include "comm/shm/shm_impl.h"

enum {
    OWN_AREA = 3, /* index of this rank's private area among its stages */
    /* bytes of each rank read at a time, so that the data of all ranks stays in the second-level cache */
    CHUNK_BYTES = 64 << 10
};

/* Minimum size for this path. Below it, two copies through a stage are faster than a system call. */
static const size_t least_bytes = 32 << 10;

bool tess_can_reach(const tess_team *team, int rank, size_t bytes)
{
    return bytes >= least_bytes && atomic_load(&team->runtime->job.rows[team->ranks[rank]].reads_peers) != 0;
}

bool shm_can_reach(const tess_work *work)
{
    /* Size of one read. If sums are folded, it is a rank's part. */
    size_t bytes =
        work->n * shm_element(work) / (shm_of(work)->collective->fold != NULL ? (size_t)work->team->size : 1);
    bool all = !shm_of(work)->collective->never_direct && !shm_of(work)->collective->never_reached;
    for (int r = 0; r < work->team->size && all; r++)
        all = tess_can_reach(work->team, r, bytes);
    return all;
}

bool tess_reach(const tess_team *team, void *to, int rank, uint64_t address, size_t bytes)
{
    int pid = atomic_load(&team->runtime->job.rows[team->ranks[rank]].pid);
    return bytes == 0 || tess_os_read_process(pid, to, address, bytes);
}

void shm_reach(tess_work *work, void *to, int rank, uint64_t address, size_t bytes)
{
    if (!tess_reach(work->team, to, rank, address, bytes))
        shm_of(work)->unreadable = rank + 1;
}

void shm_reach_reduce(tess_work *work, size_t first, size_t n, uint8_t *out)
{
    const tess_team *team = work->team;
    const void **parts = team->lists.rows;
    size_t element = shm_element(work), most = tess_control_stage_bytes(team->size) / (size_t)team->size;
    size_t chunk = (most < CHUNK_BYTES ? most : CHUNK_BYTES) / 64 * 64 / element;
    uint8_t *bounce = shm_stage(work, team->rank, OWN_AREA);
    for (size_t at = 0; at < n; at += chunk) {
        size_t count = n - at < chunk ? n - at : chunk, byte = (first + at) * element;
        for (int r = 0; r < team->size; r++) {
            uint8_t *copy = bounce + (size_t)r * chunk * element;
            parts[r] = r == team->rank ? work->in + byte : copy;
            if (r != team->rank)
                shm_reach(work, copy, r, shm_post(work, r)->in_address + byte, count * element);
        }
        void *to = out + at * element;
        tess_work_note(work, tess_reduce(tess_work_stream(work), parts, team->size, work->dtype, work->op, &to, 1,
                                         count, shm_streams(work->out_bytes)));
    }
}
