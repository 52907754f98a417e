#include "comm/ways.h"

#include "comm/ondevice/ondevice.h"
#include "device/elementwise.h"

/* ---- Teams ---- */
static bool is_single(int size, TESS_UNUSED int n_local)
{
    return size == 1;
}

static bool is_on_one_host(int size, int n_local)
{
    return n_local == size;
}

static bool is_any(TESS_UNUSED int size, TESS_UNUSED int n_local)
{
    return true;
}

/* ---- Operations on a device ---- */
static bool shows(const tess_work *work)
{
    return work->team->size == 1 || ondevice_find(work->team, work->in) != NULL;
}

static bool reads_windows(const tess_work *work)
{
    switch (work->fp.kind) {
    case TESS_TRACE_ALL_GATHER:
        return shows(work);
    case TESS_TRACE_REDUCE_SCATTER_PIECES:
        return shows(work) && work->team->size <= TESS_REDUCE_RUNS_INPUTS;
    case TESS_TRACE_ALL_GATHER_PIECES:
        return shows(work) && work->pieces.n <= CONTROL_INLINE / sizeof(uint64_t);
    case TESS_TRACE_ALL_REDUCE:
        return shows(work) && work->in == work->out;
    default:
        return false;
    }
}

static bool fits_windows(const tess_work *work)
{
    return tess_team_is_local(work->team) && reads_windows(work);
}

static bool fits_link(const tess_work *work)
{
    const bool adds = work->dtype == TESS_F32 && (work->op == TESS_SUM || work->op == TESS_AVG);
    if (!tess_hosts_is_linked(work->team))
        return false;
    return work->fp.kind == TESS_TRACE_ALL_TO_ALL_V ||
           (reads_windows(work) && (work->fp.kind != TESS_TRACE_ALL_REDUCE || adds));
}

static bool fits_all(TESS_UNUSED const tess_work *work)
{
    return true;
}

#define BY_WINDOWS "all_gather, all_gather_pieces, reduce_scatter_pieces, all_reduce in place"

static const comm_way ways[] = {
    {"self", "host", "a single rank", "all", 30, "a copy", &tess_backend_self, .fits_team = is_single},
    {"shm", "host", "ranks of one host", "all", 20, "peers read shared memory, or private memory through the system",
     &tess_backend_shm, .fits_team = is_on_one_host},
    {"mpi", "host", "ranks of several hosts", "all", 10,
     "shared memory in a host, and MPI or TCP between hosts, striped over the ranks of a host or through its first "
     "rank",
     &tess_backend_mpi, .fits_team = is_any},
    {"device windows", "device", "ranks of one host", BY_WINDOWS ", boxes, messages", 30,
     "one kernel reads the memory that all ranks show; a receiver copies from its sender's window", &ondevice_direct,
     .fits = fits_windows, .flags = TESS_FINGERPRINT_DEVICE | TESS_FINGERPRINT_WINDOWS},
    {"nccl", "device", "ranks of several hosts", BY_WINDOWS " (sums of float32), all_to_all_v, boxes, messages", 20,
     "messages from GPU to GPU, and windows in a host", &tess_backend_linked, .fits = fits_link,
     .flags = TESS_FINGERPRINT_DEVICE | TESS_FINGERPRINT_WINDOWS},
    {"through the host", "device", "any ranks", "all", 10,
     "a copy to pinned memory, the way of the same team for memory of the host, and a copy back", &ondevice_staged,
     .fits = fits_all, .flags = TESS_FINGERPRINT_DEVICE},
};

enum { N_WAYS = sizeof(ways) / sizeof(ways[0]) };

const comm_way *tess_comm_ways(int *n)
{
    *n = N_WAYS;
    return ways;
}

static const comm_way *better(const comm_way *best, const comm_way *way)
{
    return best == NULL || way->score > best->score ? way : best;
}

const comm_way *tess_way_of_team(int size, int n_local)
{
    const comm_way *best = NULL;
    for (int i = 0; i < N_WAYS; i++)
        if (ways[i].fits_team != NULL && ways[i].fits_team(size, n_local))
            best = better(best, &ways[i]);
    return best;
}

const comm_way *tess_way_of_work(const tess_work *work)
{
    const comm_way *best = NULL;
    for (int i = 0; i < N_WAYS; i++)
        if (ways[i].fits != NULL && ways[i].fits(work))
            best = better(best, &ways[i]);
    return best;
}
