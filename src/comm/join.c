/* Joins a job: finds the job, meets all ranks, and compares the values that must be equal. */
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/core/rng.h"
#include "base/core/variables.h"
#include "base/os/os.h"
#include "comm/comm_impl.h"
#include "comm/hosts/choice.h"
#include "job/environment.h"
#include "job/persist/persist.h"
#include "job/lives.h"
#include "job/rendezvous.h"
#include "job/warden_call.h"

/* The pause between two reads of the board while a rank waits for others to join, in a small job. A read covers a
 * few words of all ranks, so ranks of a large job pause longer. */
static const uint64_t look_ns = 50000000;

enum { PEERS_TRIED = 64 };

static const comm_transport one_host = {.longest_sleep_ns = COMM_LONGEST_SLEEP_NS};

static tess_status open_block(tess_runtime *rt, tess_variable variable, tess_persist **block)
{
    int fd;
    if (tess_variable_value(variable) == NULL)
        return TESS_OK;
    TESS_TRY(tess_environment_number(variable, 0, INT_MAX, &fd));
    return tess_persist_open(rt->mem, fd, block);
}

static tess_status open_persist(tess_runtime *rt)
{
    tess_status status = open_block(rt, TESS_VAR_PERSIST_FD, &rt->persist);
    if (status == TESS_OK)
        status = open_block(rt, TESS_VAR_PERSIST_DISK_FD, &rt->persist_disk);
    if (status != TESS_OK) {
        tess_persist_close(&rt->persist);
        tess_job_close(&rt->job, false);
    } else if (rt->persist != NULL) {
        tess_persist_attach(rt->persist, rt->mem);
    }
    return status;
}

/* Creates the job of a single rank that MPI started. The rank may still have a warden. */
static tess_status make_own_job(tess_runtime *rt)
{
    TESS_TRY(tess_job_create(1, &rt->job));
    tess_status status = tess_lives_read(&rt->job);
    rt->launched = tess_warden_find(&rt->warden);
    if (status == TESS_OK && rt->launched)
        status = tess_warden_adopt(rt->warden, &rt->job, 0);
    if (status != TESS_OK)
        tess_job_close(&rt->job, true);
    return status;
}

/* Joins a job on one host that torchrun, or any program that sets its variables, has started. Shared memory is
 * sufficient. */
static tess_status meet_by_variables(tess_runtime *rt, const tess_environment *e)
{
    int fd = -1;
    if (e->local_rank == 0) {
        TESS_TRY(tess_job_create(e->world, &rt->job));
        tess_status status = tess_rendezvous_offer(e, rt->job.fd, rt->timeout_s);
        if (status != TESS_OK)
            tess_job_close(&rt->job, true);
        return status;
    }
    TESS_TRY(tess_rendezvous_take(e, rt->timeout_s, &fd));
    return tess_job_open(fd, e->world, &rt->job);
}

tess_status tess_runtime_find_job(tess_runtime *rt, const tess_runtime_options *options)
{
    tess_environment environment;
    int fd = -1;
    TESS_TRY(tess_environment_read(&environment));
    TESS_CHECK(options->backend != TESS_BACKEND_MPI || environment.uses_wire, TESS_E_INVALID,
               "comm.backend=mpi, but this process was not started for several hosts: use mpirun, srun or `tessera "
               "launch`, or comm.backend=auto");
    rt->rank = environment.rank;
    rt->world = environment.world;
    rt->transport = &one_host;
    rt->owns_fd = environment.starter != TESS_STARTER_TESSERA;
    if (environment.uses_wire && rt->world > 1) {
        TESS_TRY(tess_hosts_join(rt, &environment, options));
        rt->launched = true;
        return TESS_OK;
    }
    switch (environment.starter) {
    case TESS_STARTER_TESSERA:
        TESS_CHECK(tess_variable_value(TESS_VAR_SHM_FD) != NULL, TESS_E_INVALID,
                   "TESSERA_SHM_FD is missing, while others of TESSERA_RANK, TESSERA_WORLD and TESSERA_SHM_FD are set: "
                   "a launcher sets all three");
        TESS_TRY(tess_environment_number(TESS_VAR_SHM_FD, 0, INT_MAX, &fd));
        TESS_TRY(tess_job_open(fd, rt->world, &rt->job));
        rt->launched = true;
        return open_persist(rt);
    case TESS_STARTER_TORCHRUN:
        return rt->world == 1 ? tess_job_create(1, &rt->job) : meet_by_variables(rt, &environment);
    case TESS_STARTER_NONE:
        return tess_job_create(1, &rt->job);
    default:
        return make_own_job(rt);
    }
}

/* Whether every rank has joined. Ranks that have ended since also count; the next operation reports them. */
static bool all_have_joined(const tess_runtime *rt)
{
    for (int r = 0; r < rt->world; r++)
        if (atomic_load(&rt->job.rows[r].state) == JOB_RANK_ABSENT || rt->job.rows[r].version_hash == 0)
            return false;
    return true;
}

static tess_status take_seat(tess_runtime *rt, uint64_t config_hash)
{
    tess_job_row *row = rt->row;
    int32_t nobody = 0;
    TESS_CHECK(atomic_compare_exchange_strong(&row->pid, &nobody, (int32_t)getpid()), TESS_E_INVALID,
               "rank %d of this job was already taken by process %d: a rank joins once, and its children do not",
               rt->rank, nobody);
    TESS_TRY(tess_team_reserve_world(rt));
    row->config_hash = config_hash;
    row->version_hash = tess_hash_text(TESS_VERSION);
    row->ways_hash = tess_runtime_ways_hash(rt);
    row->cores_hash = tess_os_cores_hash();
    row->kernels = rt->offer;
    if (rt->world > 1)
        /* lets the launcher's children, which are the peers, read this process */
        tess_os_allow_reading(rt->job.header->launcher_pid);
    rt->token = tess_os_now_ns() ^ (uint64_t)getpid() << 40;
    row->token = rt->token;
    row->token_address = (uint64_t)(uintptr_t)&rt->token;
    atomic_store(&row->heartbeat_ns, tess_os_now_ns());
    atomic_store(&row->state, JOB_RANK_JOINED);
    /* only the last rank wakes the others: waking all for each rank would be quadratic in their number */
    if (all_have_joined(rt))
        tess_job_wake_all(&rt->job);
    return TESS_OK;
}

/* Lists the ranks that have not joined, as " 1 3", and returns their number. *ended: the lowest rank that has ended,
 * whether it had joined or not; -1: none. */
static int list_absent(const tess_runtime *rt, char *text, size_t size, int *ended)
{
    int n = 0;
    size_t at = 0;
    text[0] = '\0';
    *ended = -1;
    for (int r = 0; r < rt->world; r++) {
        uint32_t state = atomic_load(&rt->job.rows[r].state);
        if (*ended < 0 && (state == JOB_RANK_LOST || state == JOB_RANK_GONE))
            *ended = r;
        if (state != JOB_RANK_ABSENT)
            continue;
        n++;
        if (at + 8 < size)
            at += (size_t)snprintf(text + at, size - at, " %d", r);
    }
    return n;
}

static tess_status give_up(tess_runtime *rt, tess_status status, int blames)
{
    tess_board_error(rt->row, tess_error_message(), blames);
    return status;
}

/* Checks once. Sets *met, or fails with the reason why the ranks cannot meet. Ended and absent ranks are read first,
 * because the last rank may join in between. */
static tess_status look_around(tess_runtime *rt, double waited_s, bool *met)
{
    char absent[512], end[640];
    int ended, n_absent = list_absent(rt, absent, sizeof(absent), &ended);
    uint32_t agents = atomic_load(&rt->job.header->agent_state);
    *met = all_have_joined(rt) && (rt->job.header->n_hosts == 1 || agents == JOB_AGENT_UP);
    if (agents == JOB_AGENT_FAILED)
        return give_up(rt, TESS_FAIL(TESS_E_IO, "%s", rt->job.header->agent_error), -1);
    if (!*met && ended >= 0)
        return give_up(rt,
                       TESS_FAIL(TESS_E_PEER_LOST, "%s; this rank (%d) was joining the job",
                                 tess_board_describe_end(&rt->job, ended, end, sizeof(end)), rt->rank),
                       ended);
    if (!*met && n_absent > 0 && waited_s > rt->timeout_s)
        return give_up(rt,
                       TESS_FAIL(TESS_E_TIMEOUT, "%d of %d ranks did not join the job within %.3g s: rank%s%s",
                                 n_absent, rt->world, rt->timeout_s, n_absent > 1 ? "s" : "", absent),
                       -1);
    return TESS_OK;
}

static tess_status wait_for_all(tess_runtime *rt)
{
    double begin_s = tess_os_now_s();
    tess_status status = TESS_OK;
    for (bool met = false; !met && status == TESS_OK;) {
        uint32_t ticket = tess_job_sleep_begin(&rt->job, rt->rank);
        status = look_around(rt, tess_os_now_s() - begin_s, &met);
        if (!met && status == TESS_OK)
            tess_job_sleep(&rt->job, rt->rank, ticket, look_ns * comm_patience(rt->world));
        tess_job_sleep_end(&rt->job, rt->rank);
    }
    return status;
}

static uint64_t value_of(const tess_runtime *rt, int rank, size_t offset)
{
    uint64_t value;
    memcpy(&value, (const char *)&rt->job.rows[rank] + offset, sizeof(value));
    return value;
}

/* Whether all compared ranks have the same value at `offset` of their rows. */
static bool all_have_one(const tess_runtime *rt, size_t offset, bool skip_zero)
{
    uint64_t first = 0;
    bool any = false, same = true;
    for (int r = 0; r < rt->world && same; r++) {
        uint64_t value = value_of(rt, r, offset);
        if (skip_zero && value == 0)
            continue;
        same = !any || value == first;
        first = value;
        any = true;
    }
    return same;
}

/* Finds ranks whose value at `offset` of the row differs from that of the majority. In a tie, the value of the first
 * rank counts. `skip_zero`: ranks without a value are not compared. */
static tess_status compare_rows(const tess_runtime *rt, size_t offset, bool skip_zero, const char *what)
{
    uint64_t best = 0;
    int best_members = 0;
    if (all_have_one(rt, offset, skip_zero))
        return TESS_OK;
    for (int r = 0; r < rt->world; r++) {
        uint64_t value = value_of(rt, r, offset);
        int members = 0;
        for (int q = 0; q < rt->world; q++)
            members += value_of(rt, q, offset) == value;
        if (members > best_members && !(skip_zero && value == 0)) {
            best = value;
            best_members = members;
        }
    }
    char text[512];
    size_t at = 0;
    int n_odd = 0;
    for (int r = 0; r < rt->world; r++) {
        uint64_t value = value_of(rt, r, offset);
        if (value == best || (skip_zero && value == 0))
            continue;
        n_odd++;
        if (at + 120 < sizeof(text))
            at += (size_t)snprintf(text + at, sizeof(text) - at,
                                   rt->job.header->n_hosts > 1 ? " %d on host %s (%016llx)" : " %d%.0s (%016llx)", r,
                                   tess_runtime_host_name(rt, rt->job.rows[r].host), (unsigned long long)value);
    }
    return TESS_FAIL(TESS_E_MISMATCH, "ranks differ in their %s: rank%s%s, the %d others have %016llx%s", what,
                     n_odd > 1 ? "s" : "", text, best_members, (unsigned long long)best,
                     n_odd == best_members ? "; a tie" : "");
}

static tess_status compare_ranks(const tess_runtime *rt)
{
    static const struct {
        size_t offset;
        bool skip_zero;
        const char *what;
    } common[] = {{offsetof(tess_job_row, version_hash), false, "version of libtessera"},
                  {offsetof(tess_job_row, program_hash), true, "program"},
                  {offsetof(tess_job_row, config_hash), true, "configuration"},
                  {offsetof(tess_job_row, ways_hash), false, "comm.tuning or comm.reduction"}};
    for (size_t i = 0; i < sizeof(common) / sizeof(common[0]); i++) {
        tess_status status = compare_rows(rt, common[i].offset, common[i].skip_zero, common[i].what);
        if (status != TESS_OK) {
            tess_board_error(rt->row, tess_error_message(), -1);
            return status;
        }
    }
    return TESS_OK;
}

static const char *describe_rank(const tess_runtime *rt, int rank, char *text, size_t size)
{
    if (tess_runtime_hosts(rt) == 1)
        snprintf(text, size, "rank %d", rank);
    else
        snprintf(text, size, "rank %d (host %s)", rank, tess_runtime_host_name(rt, rt->job.rows[rank].host));
    return text;
}

/* Every rank counts for itself, and all get the same result. */
static tess_status vote_on_kernels(tess_runtime *rt)
{
    const tess_job_row *rows = rt->job.rows;
    char odd[128], other[128];
    const tess_kernels_choice c = tess_kernels_vote(&rows[0].kernels, sizeof(rows[0]), rt->world);
    if (c.refused_by >= 0) {
        describe_rank(rt, c.fixed_by, other, sizeof(other));
        describe_rank(rt, c.refused_by, odd, sizeof(odd));
        return give_up(
            rt,
            TESS_FAIL(TESS_E_MISMATCH,
                      "%s names kernels '%s' (TESSERA_CPU), but %s %s '%s': name one table on all hosts that "
                      "all have (`tessera info` lists it), or none: ranks then take the best that all have",
                      other, tess_kernels_name(c.level), odd,
                      rows[c.refused_by].kernels.is_fixed ? "was told" : "has no better ones than",
                      tess_kernels_name(rows[c.refused_by].kernels.level)),
            -1);
    }
    rt->kernels = tess_kernels_name(c.level);
    if (c.fixed_by < 0 && c.level < c.most)
        snprintf(rt->kernels_vote, sizeof(rt->kernels_vote), "%s has no kernels '%s': all ranks compute with '%s'",
                 describe_rank(rt, c.least_of, odd, sizeof(odd)), tess_kernels_name(c.most), rt->kernels);
    return TESS_OK;
}

/* Tests whether this rank can read private memory of other ranks. The token proves that a process id belongs to the
 * expected process, because it may mean another process elsewhere. In a large job, each rank tests only the ranks
 * after it. If no rank can read a certain rank, those before it notice. One such rank suffices to make all ranks
 * copy through shared memory (shm_can_reach). */
static void try_reading_peers(tess_runtime *rt)
{
    bool all = true;
    for (int i = 1; i < rt->world && i <= PEERS_TRIED && all; i++) {
        const int r = (rt->rank + i) % rt->world;
        const tess_job_row *row = &rt->job.rows[r];
        uint64_t token = 0;
        if (row->host != rt->row->host)
            continue;
        all = tess_os_read_process(atomic_load(&row->pid), &token, row->token_address, sizeof(token)) &&
              token == row->token;
    }
    atomic_store(&rt->row->reads_peers, all);
}

tess_status tess_runtime_join(tess_runtime *rt, uint64_t config_hash)
{
    TESS_TRY(take_seat(rt, config_hash));
    tess_board_phase(rt->row, "", -1, -1, tess_os_now_ns());
    tess_status status = wait_for_all(rt);
    if (status == TESS_OK)
        status = compare_ranks(rt);
    if (status == TESS_OK)
        status = vote_on_kernels(rt);
    if (status != TESS_OK) {
        tess_runtime_part(rt);
        return status;
    }
    try_reading_peers(rt);
    return TESS_OK;
}

void tess_runtime_part(tess_runtime *rt)
{
    if (rt->world > 1)
        tess_os_allow_reading(0);
    atomic_store(&rt->row->state, JOB_RANK_LEFT);
    tess_job_wake_all(&rt->job);
}
