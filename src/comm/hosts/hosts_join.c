/* Makes a job of the processes that MPI, torchrun or `tessera launch` started on several hosts: places of ranks, shared
 * memory on each host, agents between hosts. All processes take part in the same exchanges; a failure of one ends all
 * at the next exchange, with its message.
 *
 * Ranks are numbered by host, then by core (job/place.h). The host's first rank makes the job's memory, and its
 * siblings open it. If all ranks are on one host, MPI has done its part: the job goes on as one of `tessera run`. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/core/rng.h"
#include "base/os/os.h"
#include "comm/comm_impl.h"
#include "comm/hosts/choice.h"
#include "comm/hosts/session.h"
#include "job/lives.h"
#include "job/place.h"
#include "job/warden_call.h"

enum { LEAVE_LOOK_NS = 5000000, WIRE_SLEEP_NS = 50000 };

/* The data that each process publishes once it knows its place. */
typedef struct seat {
    int32_t status;
    int32_t pid, fd; /* process and descriptor with the host's shared memory; set by the host's first rank */
    char error[256];
    tess_agent_address address;         /* addresses of the host's agent; set by the host's first rank */
    uint8_t secret[AGENT_SECRET_BYTES]; /* the value of rank 0 is the job's */
} seat;

typedef struct joining {
    tess_runtime *rt;
    const wire_process *process;
    tess_placement place;
    tess_card *cards; /* (world) indexed by MPI rank, like the next array */
    seat *seats, mine;
    int host, first; /* index of this host, and its first rank */
} joining;

static const seat *seat_of(const joining *j, int rank)
{
    return &j->seats[j->place.process[rank]];
}

static const tess_card *card_of(const joining *j, int rank)
{
    return &j->cards[j->place.process[rank]];
}

static tess_status check_environment(const tess_environment *e, const wire_process *process)
{
    TESS_CHECK(
        e->world == process->size && e->rank == process->rank, TESS_E_INVALID,
        "%s (rank %d of %d), but %s sees rank %d of %d: the program was started for another MPI than the one it "
        "uses; with srun add --mpi=pmix or --mpi=pmi2 (srun --mpi=list), with mpirun take the one that belongs to "
        "%s",
        e->reported_by, e->rank, e->world, process->library, process->rank, process->size, process->library);
    return TESS_OK;
}

static tess_status exchange_cards(joining *j, const tess_environment *e, const tess_runtime_options *options)
{
    tess_card card;
    tess_card_fill(&card);
    card.core = j->process->first_core;
    card.config_hash = options->config_hash;
    card.ways_hash = tess_runtime_ways_hash(j->rt);
    card.kernels = j->rt->offer;
    if (options->backend == TESS_BACKEND_MPI) /* the only rank of its host shares memory with no rank */
        card.host_key = tess_hash_bytes(&(uint64_t){(uint64_t)j->process->rank}, sizeof(uint64_t), card.host_key);
    if (e->has_torchrun) {
        card.torchrun_rank = e->torchrun_rank;
        card.torchrun_world = e->torchrun_world;
    }
    TESS_TRY(tess_wire_gather(&card, j->cards, sizeof(card), j->rt->timeout_s));
    TESS_TRY(tess_place(j->rt->mem, j->cards, j->process->size, &j->place));
    j->rt->world = j->process->size;
    j->rt->rank = j->place.rank[j->process->rank];
    j->host = j->place.host[j->rt->rank];
    while (j->place.host[j->first] != j->host)
        j->first++;
    TESS_CHECK(options->backend != TESS_BACKEND_SHM || j->place.n_hosts == 1, TESS_E_INVALID,
               "comm.backend=shm, but the ranks are on %d hosts: use comm.backend=auto", j->place.n_hosts);
    return TESS_OK;
}

/* Exchanges the status of all processes. If any has failed, all fail with the message of the lowest rank that
 * failed. */
static tess_status agree(joining *j, tess_status status)
{
    j->mine.status = status;
    if (status != TESS_OK)
        snprintf(j->mine.error, sizeof(j->mine.error), "%s", tess_error_message());
    TESS_TRY(tess_wire_gather(&j->mine, j->seats, sizeof(seat), j->rt->timeout_s));
    for (int r = 0; r < j->rt->world; r++) {
        const seat *s = seat_of(j, r);
        if (s->status != TESS_OK)
            return r == j->rt->rank ? status
                                    : TESS_FAIL((tess_status)s->status, "rank %d on host %s: %.*s", r,
                                                card_of(j, r)->host, (int)sizeof(s->error), s->error);
    }
    return TESS_OK;
}

/* ---- Shared memory of the host ---- */
static void fill_board(const joining *j)
{
    tess_job_header *h = j->rt->job.header;
    h->n_hosts = (uint32_t)j->place.n_hosts;
    h->host = (uint32_t)j->host;
    for (int r = 0; r < j->rt->world; r++) {
        const tess_card *card = card_of(j, r);
        tess_job_row *row = &j->rt->job.rows[r];
        row->host = j->place.host[r];
        row->program_hash = card->program_hash;
        snprintf(h->hosts[row->host].name, sizeof(h->hosts[0].name), "%s", card->host);
        if (row->host == j->host)
            continue;
        row->config_hash = card->config_hash;
        row->version_hash = card->version_hash;
        row->ways_hash = card->ways_hash;
        row->cores_hash = card->cores_hash;
        row->kernels = card->kernels;
        atomic_store(&row->pid, card->pid);
        atomic_store(&row->heartbeat_ns, tess_os_now_ns());
        atomic_store(&row->state, JOB_RANK_JOINED);
    }
}

static tess_status make_memory(joining *j)
{
    tess_job *job = &j->rt->job;
    TESS_TRY(tess_job_create(j->rt->world, job));
    TESS_TRY(tess_lives_read(job));
    fill_board(j);
    j->mine.pid = (int32_t)getpid();
    j->mine.fd = job->fd;
    if (j->rt->rank == 0)
        TESS_CHECK(getrandom(j->mine.secret, sizeof(j->mine.secret), 0) == (ssize_t)sizeof(j->mine.secret), TESS_E_IO,
                   "no random bytes for the job's secret");
    return TESS_OK;
}

static tess_status open_memory(joining *j)
{
    char path[64];
    const seat *first = seat_of(j, j->first);
    snprintf(path, sizeof(path), "/proc/%d/fd/%d", first->pid, first->fd);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return tess_os_error("open the shared memory of this host", path);
    tess_status status = tess_job_open(fd, j->rt->world, &j->rt->job);
    if (status != TESS_OK)
        tess_os_close(&fd);
    return status;
}

/* ---- Warden and agents ---- */
static tess_status call_warden(joining *j)
{
    tess_runtime *rt = j->rt;
    TESS_TRY(tess_warden_adopt(rt->warden, &rt->job, rt->rank));
    if (rt->rank != j->first || j->place.n_hosts == 1)
        return TESS_OK;
    return tess_warden_listen(rt->warden, &j->mine.address);
}

static tess_status introduce_agents(joining *j)
{
    tess_agent_address hosts[JOB_MAX_HOSTS];
    if (j->place.n_hosts == 1 || j->rt->rank != j->first)
        return TESS_OK;
    for (int r = j->rt->world - 1; r >= 0; r--) /* the first rank of each host calls last */
        hosts[j->place.host[r]] = seat_of(j, r)->address;
    return tess_warden_meet(j->rt->warden, hosts, j->place.n_hosts, seat_of(j, 0)->secret);
}

/* Copies the MPI rank of each rank to the runtime. */
static tess_status copy_processes(joining *j)
{
    tess_runtime *rt = j->rt;
    if (j->place.n_hosts == 1)
        return TESS_OK;
    TESS_TRY(tess_mem_alloc_array(rt->mem, TESS_POOL_MISC, (size_t)rt->world, sizeof(int), "processes of the ranks",
                                  (void **)&rt->processes));
    memcpy(rt->processes, j->place.process, (size_t)rt->world * sizeof(int));
    return TESS_OK;
}

static tess_status run(joining *j, const tess_environment *e, const tess_runtime_options *options)
{
    size_t n = (size_t)j->process->size;
    tess_mem *mem = j->rt->mem;
    TESS_TRY(check_environment(e, j->process));
    TESS_TRY(tess_mem_alloc_array(mem, TESS_POOL_MISC, n, sizeof(tess_card), "cards", (void **)&j->cards));
    TESS_TRY(tess_mem_alloc_array(mem, TESS_POOL_MISC, n, sizeof(seat), "seats", (void **)&j->seats));
    TESS_TRY(exchange_cards(j, e, options));
    bool first = j->rt->rank == j->first;
    TESS_TRY(agree(j, first ? make_memory(j) : TESS_OK));
    TESS_TRY(agree(j, first ? TESS_OK : open_memory(j)));
    TESS_TRY(agree(j, call_warden(j)));
    TESS_TRY(agree(j, introduce_agents(j)));
    return copy_processes(j);
}

/* Waits until all ranks have left, as MPI_Finalize would. If one is lost, stops using MPI. */
static void leave(tess_runtime *rt)
{
    bool all_left = false, lost = false;
    while (!all_left && !lost) {
        uint32_t ticket = tess_job_sleep_begin(&rt->job, rt->rank);
        all_left = true;
        for (int r = 0; r < rt->world && !lost; r++) {
            uint32_t state = atomic_load(&rt->job.rows[r].state);
            all_left = all_left && state == JOB_RANK_LEFT;
            lost = state == JOB_RANK_LOST || state == JOB_RANK_GONE || atomic_load(&rt->job.rows[r].broken_team) != 0;
        }
        tess_wire_poll(); /* this rank's last messages may still be in flight */
        if (!all_left && !lost)
            tess_job_sleep(&rt->job, rt->rank, ticket, LEAVE_LOOK_NS);
        tess_job_sleep_end(&rt->job, rt->rank);
    }
    tess_wire_in_job(lost);
}

static const comm_transport one_host = {.longest_sleep_ns = COMM_LONGEST_SLEEP_NS, .leave = leave};
static const comm_transport several_hosts = {
    .name = tess_wire_name, .longest_sleep_ns = WIRE_SLEEP_NS, .poll = tess_wire_poll, .leave = leave};

tess_status tess_hosts_join(tess_runtime *rt, const tess_environment *e, const tess_runtime_options *options)
{
    joining j = {.rt = rt};
    TESS_CHECK(tess_warden_find(&rt->warden), TESS_E_UNSUPPORTED,
               "%s started this program by itself: start it as `%s ... tessera run -- PROGRAM`, so that somebody "
               "outside sees how each rank ends",
               tess_starter_name(e->starter), e->starter == TESS_STARTER_TORCHRUN ? "torchrun" : "mpirun");
    TESS_TRY(tess_wire_open(e, rt->warden, rt->timeout_s, options->tls, &j.process));
    tess_wire_in_job(true);
    tess_status status = run(&j, e, options);
    tess_mem_free(rt->mem, j.cards);
    tess_mem_free(rt->mem, j.seats);
    tess_placement_free(rt->mem, &j.place);
    rt->transport = j.place.n_hosts > 1 ? &several_hosts : &one_host;
    if (status != TESS_OK && rt->job.base != NULL)
        tess_job_close(&rt->job, true);
    if (status != TESS_OK) {
        tess_mem_free(rt->mem, rt->processes);
        rt->processes = NULL;
    }
    return status;
}
