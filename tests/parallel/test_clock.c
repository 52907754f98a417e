/* The clocks of communication: time spent waiting, and time hidden behind computation. */
#include <time.h>

#include "base/os/os.h"
#include "tessera/fsdp.h"
#include "support/test.h"
#include "tessera/comm.h"
#include "tessera/fsdp.h"

enum { ROWS = 64, ROW = 32, LATE_MS = 40 };

typedef struct job {
    tess_runtime *runtime;
    tess_mesh *mesh;
    tess_fsdp *fsdp;
    tess_unit *units[2];
    tess_phase_clock clock;
    tess_fsdp_traffic before;
} job;

static tess_status fill_zero(void *context, const char *name, const tess_shape *shape, const tess_box *box, float *dst)
{
    (void)context, (void)name, (void)shape, (void)box, (void)dst;
    return TESS_OK;
}

static void open_job(job *j)
{
    tess_fsdp_policy policy = {TESS_STRATEGY_FULL, TESS_BF16, TESS_F32, 1, 1};
    tess_axis axis = {"dp_shard", -1};
    memset(j, 0, sizeof(*j));
    EXPECT_OK(tess_runtime_create(&(tess_runtime_options){.n_threads = 1}, &j->runtime));
    EXPECT_OK(tess_mesh_create(j->runtime, &axis, 1, &j->mesh));
    EXPECT_OK(tess_fsdp_create(j->mesh, &policy, &j->fsdp));
    tess_fsdp_set_clock(j->fsdp, &j->clock);
    for (int u = 0; u < 2; u++) {
        tess_param_desc desc = {u == 0 ? "first" : "second", {2, {ROWS, ROW}}, true, true};
        EXPECT_OK(tess_fsdp_add_unit(j->fsdp, desc.name, &desc, 1, &j->units[u]));
    }
    EXPECT_OK(tess_fsdp_materialize(j->fsdp, fill_zero, NULL));
    for (int u = 0; u < 2; u++) { /* allocates gathered copies before the clock runs */
        EXPECT_OK(tess_unit_pre_forward(j->units[u]));
        EXPECT_OK(tess_unit_post_forward(j->units[u]));
    }
}

/* Starts the clock and the counters. */
static void begin_round(job *j)
{
    EXPECT_OK(tess_fsdp_params_changed(j->fsdp));
    j->before = tess_fsdp_get_traffic(j->fsdp);
    EXPECT_OK(tess_barrier(tess_runtime_team(j->runtime), NULL));
    tess_phase_start(&j->clock);
}

static void close_job(job *j)
{
    tess_fsdp_destroy(&j->fsdp);
    tess_mesh_destroy(&j->mesh);
    tess_runtime_destroy(&j->runtime);
}

static void nap(int ms)
{
    nanosleep(&(struct timespec){.tv_nsec = 1000000L * ms}, NULL);
}

static double ms_of(const job *j, tess_phase phase)
{
    return (double)j->clock.ns[phase] * 1e-6;
}

static void backward(job *j, int u)
{
    EXPECT_OK(tess_unit_pre_backward(j->units[u]));
    memset(tess_unit_grad(j->units[u], 0), 0, ROWS * ROW * sizeof(float));
    EXPECT_OK(tess_unit_post_backward(j->units[u]));
}

/* Whether all ranks saw what was expected. A stall of this machine can make one wait longer. */
static bool all_agree(const job *j, bool as_expected)
{
    int64_t n = as_expected;
    EXPECT_OK(tess_all_reduce(tess_runtime_team(j->runtime), &n, &n, 1, TESS_I64, TESS_SUM, NULL));
    return n == tess_runtime_world(j->runtime);
}

/* Rank 1 comes late to the first gather of a step: rank 0 waits for it, and rank 1 does not wait. */
static bool step_with_a_late_peer(job *j)
{
    bool late = tess_runtime_rank(j->runtime) == 1;
    EXPECT_OK(tess_fsdp_step_begin(j->fsdp, 1));
    EXPECT_OK(tess_fsdp_micro_begin(j->fsdp, 0));
    if (late)
        nap(LATE_MS);
    EXPECT_OK(tess_unit_pre_forward(j->units[0]));
    double waited = ms_of(j, TESS_PHASE_WAIT), gathered = ms_of(j, TESS_PHASE_GATHER);
    EXPECT_INT(j->clock.phase, TESS_PHASE_OTHER);
    EXPECT_OK(tess_unit_post_forward(j->units[0]));
    EXPECT_OK(tess_unit_pre_forward(j->units[1]));
    EXPECT_OK(tess_unit_post_forward(j->units[1]));
    backward(j, 1);
    backward(j, 0);
    EXPECT_OK(tess_fsdp_step_end(j->fsdp));
    return late ? waited < LATE_MS / 2 : waited > LATE_MS / 2 && gathered < LATE_MS / 2;
}

/* Rank 1 comes late to the reduction of a unit while rank 0 still computes. */
static bool step_with_a_late_peer_behind_work(job *j)
{
    bool late = tess_runtime_rank(j->runtime) == 1;
    EXPECT_OK(tess_fsdp_step_begin(j->fsdp, 1));
    EXPECT_OK(tess_fsdp_micro_begin(j->fsdp, 0));
    EXPECT_OK(tess_unit_pre_forward(j->units[0])); /* also gathers the second unit */
    EXPECT_OK(tess_unit_post_forward(j->units[0]));
    EXPECT_OK(tess_unit_pre_forward(j->units[1]));
    EXPECT_OK(tess_unit_post_forward(j->units[1]));
    EXPECT_OK(tess_unit_pre_backward(j->units[1]));
    memset(tess_unit_grad(j->units[1], 0), 0, ROWS * ROW * sizeof(float));
    if (late)
        nap(LATE_MS);
    EXPECT_OK(tess_unit_post_backward(j->units[1])); /* sent; no rank waits yet */
    if (!late)
        nap(2 * LATE_MS);
    double waited = ms_of(j, TESS_PHASE_WAIT);
    backward(j, 0);
    EXPECT_OK(tess_fsdp_step_end(j->fsdp));
    double hidden_ms = (double)(tess_fsdp_get_traffic(j->fsdp).hidden_ns - j->before.hidden_ns) * 1e-6;
    bool several_hosts = tess_runtime_hosts(j->runtime) > 1; /* the arrival of a peer on another host is unknown */
    if (several_hosts)
        EXPECT_INT(hidden_ms, 0);
    return late || (ms_of(j, TESS_PHASE_WAIT) - waited < LATE_MS && (several_hosts || hidden_ms > LATE_MS / 2.0));
}

/* A stall of the machine can spoil one step, so several are tried. */
static void expect_of_one_step(bool (*step)(job *j))
{
    int tries = 200;
    job j;
    open_job(&j);
    begin_round(&j);
    while (tries > 0 && !all_agree(&j, step(&j))) {
        tries--;
        begin_round(&j);
    }
    EXPECT(tries > 0);
    close_job(&j);
}

static void a_late_peer_is_waited_for(void)
{
    expect_of_one_step(step_with_a_late_peer);
}

static void a_late_peer_is_hidden_behind_work(void)
{
    expect_of_one_step(step_with_a_late_peer_behind_work);
}

static void bytes_are_counted(void)
{
    job j;
    open_job(&j);
    begin_round(&j);
    int64_t world = tess_runtime_world(j.runtime), own = ROWS / world * ROW;
    EXPECT_OK(tess_fsdp_step_begin(j.fsdp, 2));
    for (int s = 0; s < 2; s++) {
        EXPECT_OK(tess_fsdp_micro_begin(j.fsdp, s));
        for (int u = 0; u < 2; u++) {
            EXPECT_OK(tess_unit_pre_forward(j.units[u]));
            EXPECT_OK(tess_unit_post_forward(j.units[u]));
        }
        backward(&j, 1);
        backward(&j, 0);
    }
    EXPECT_OK(tess_fsdp_step_end(j.fsdp));
    tess_fsdp_traffic traffic = tess_fsdp_get_traffic(j.fsdp);
    /* Two units stay in two slots for the whole step: one gather each. Of two micro-batches the second is added to the
     * first; alone, a rank writes the first in place. */
    EXPECT_INT(traffic.gathered_bytes - j.before.gathered_bytes, 2 * own * (4 + 2));
    EXPECT_INT(traffic.reduced_bytes, 2 * own * ((world > 1 ? 4 * world + 4 : 0) + 4 * world + 8));
    close_job(&j);
}

static const test_case cases[] = {
    CASE(a_late_peer_is_waited_for, 2),
    CASE(a_late_peer_is_hidden_behind_work, 2),
    {"bytes_read_and_written_are_counted", bytes_are_counted, 1, 0},
    {"bytes_of_two_ranks_are_counted", bytes_are_counted, 2, 0},
};
TEST_MAIN(cases)
