/* Saves by a process next to the ranks of other engines: what is saved is what was there at the start, failures come at
 * the wait on all ranks, and without the process that writes ranks stand still. */
#include <sys/stat.h>
#include <unistd.h>

#include "base/os/os.h"
#include "ckpt/async/async.h"
#include "control/launch/launcher.h"
#include "support/test.h"
#include "tessera/ckpt.h"

enum { ROWS = 17, COLUMNS = 59, N = ROWS * COLUMNS, RANKS = 3, PATIENCE_S = 120 }; /* no number of ranks divides N */

static char folder[256];

/* ---- Ranks ---- */
typedef struct rank {
    tess_runtime *runtime;
    tess_team *team;
    int64_t numbers[N]; /* columns of this rank, row by row */
    uint16_t halves[N];
    tess_checkpoint_tensor tensors[2]; /* the numbers cut in columns; the halves whole on each rank */
    tess_checkpoint_state state;
    tess_checkpoint_saver *saver;
} rank;

static void fill(rank *r, int64_t seed)
{
    const tess_box *box = &r->tensors[0].box;
    for (int64_t row = 0; row < ROWS; row++)
        for (int64_t k = 0; k < box->size[1]; k++)
            r->numbers[row * box->size[1] + k] = seed << 40 | (row * COLUMNS + box->begin[1] + k);
    for (int i = 0; i < N; i++)
        r->halves[i] = (uint16_t)(seed * 31 + i);
}

static void describe(rank *r)
{
    int64_t begin, n;
    tess_shard_rows(COLUMNS, tess_team_size(r->team), tess_team_rank(r->team), &begin, &n);
    r->tensors[0] =
        (tess_checkpoint_tensor){"numbers", TESS_I64, {2, {ROWS, COLUMNS}}, {{0, begin}, {ROWS, n}}, r->numbers};
    r->tensors[1] = (tess_checkpoint_tensor){"halves", TESS_F16, {1, {N}}, {{0}, {N}}, r->halves};
    r->state = (tess_checkpoint_state){.tensors = r->tensors, .n_tensors = 2};
}

static void join(rank *r, int keep)
{
    EXPECT_OK(tess_runtime_create(NULL, &r->runtime));
    r->team = tess_runtime_team(r->runtime);
    describe(r);
    EXPECT_OK(tess_checkpoint_saver_create(r->runtime, &r->state, keep, &r->saver));
}

static void leave(rank *r)
{
    tess_checkpoint_saver_destroy(&r->saver);
    EXPECT(r->saver == NULL);
    EXPECT_OK(tess_barrier(r->team, NULL));
    tess_runtime_destroy(&r->runtime);
}

/* Whether the checkpoint of a step holds what fill(seed) made. */
static void expect_saved(rank *r, int64_t step, int64_t seed)
{
    static rank want;
    want.team = r->team;
    describe(&want);
    fill(&want, seed);
    memset(r->numbers, 0, sizeof(r->numbers));
    memset(r->halves, 0, sizeof(r->halves));
    EXPECT_OK(tess_checkpoint_verify(folder, step));
    EXPECT_OK(tess_checkpoint_load(r->runtime, folder, step, &r->state));
    EXPECT_SAME(r->numbers, want.numbers, (size_t)(ROWS * r->tensors[0].box.size[1]));
    EXPECT_SAME(r->halves, want.halves, N);
}

static void wait_until_done(const rank *r)
{
    double deadline_s = tess_os_now_s() + PATIENCE_S;
    while (!tess_checkpoint_save_done(r->saver) && tess_os_now_s() < deadline_s)
        usleep(1000);
    EXPECT(tess_checkpoint_save_done(r->saver));
}

/* ---- Jobs ---- */
static int call(void *context)
{
    void (*run)(void);
    memcpy(&run, context, sizeof(run));
    run();
    return 0;
}

/* Runs a job of ranks, next to a service if `serves`. */
static void run_job(void (*run)(void), bool serves)
{
    tess_async_service *service = NULL;
    tess_launch_result result;
    snprintf(folder, sizeof(folder), "%s/saves", test_folder());
    if (serves)
        EXPECT_OK(tess_async_service_start(&service));
    EXPECT_OK(tess_launch_function(RANKS, call, &run, PATIENCE_S, 2 * PATIENCE_S, &result));
    tess_async_service_stop(&service);
    if (result.exit_code != 0)
        test_fail(__FILE__, __LINE__, "the job ended with code %d: %s", result.exit_code, result.report);
}

/* ---- Cases ---- */
static rank the_rank;

static void save_and_overwrite(void)
{
    rank *r = &the_rank;
    char *meta;
    join(r, 2);
    EXPECT(tess_checkpoint_saver_is_async(r->saver));
    EXPECT(tess_checkpoint_save_done(r->saver));
    EXPECT_OK(tess_checkpoint_save_wait(r->saver)); /* nothing is under way */
    for (int64_t step = 1; step <= 4; step++) {
        fill(r, step);
        EXPECT_OK(tess_checkpoint_save_start(r->saver, folder, step, &r->state, "{\"a\": 1}"));
        fill(r, 100 + step); /* the next step changes the state */
    }
    wait_until_done(r);
    EXPECT_OK(tess_checkpoint_save_wait(r->saver));
    expect_saved(r, 4, 4);
    expect_saved(r, 3, 3);
    EXPECT_FAILS(tess_checkpoint_verify(folder, 2), TESS_E_NOT_FOUND, "step-00000002"); /* two are kept */
    EXPECT_OK(tess_checkpoint_meta(folder, 4, &meta));
    EXPECT_TEXT(meta, "{\"a\":1}");
    free(meta);
    leave(r);
}

static void a_save_is_of_its_start(void)
{
    run_job(save_and_overwrite, true);
}

/* The writer works where the service was started. */
static void save_in_another_place(void)
{
    rank *r = &the_rank;
    join(r, 0);
    fill(r, 5);
    EXPECT(chdir(test_folder()) == 0);
    EXPECT_OK(tess_checkpoint_save_start(r->saver, "saves", 5, &r->state, NULL));
    EXPECT_OK(tess_checkpoint_save_wait(r->saver));
    expect_saved(r, 5, 5);
    leave(r);
}

static void a_folder_is_that_of_the_rank(void)
{
    run_job(save_in_another_place, true);
}

static void save_and_end(void)
{
    rank *r = &the_rank;
    join(r, 0);
    fill(r, 6);
    EXPECT_OK(tess_checkpoint_save_start(r->saver, folder, 6, &r->state, NULL));
    leave(r);
}

static void a_save_outlives_its_ranks(void)
{
    run_job(save_and_end, true);
    EXPECT_OK(tess_checkpoint_verify(folder, 6));
}

/* The fault hits the writer's work for one rank. */
static void fail_and_save(void)
{
    rank *r = &the_rank;
    join(r, 0);
    for (int64_t step = 1; step <= 2; step++) {
        fill(r, step);
        EXPECT_OK(tess_checkpoint_save_start(r->saver, folder, step, &r->state, NULL));
    }
    wait_until_done(r);
    EXPECT_FAILS(tess_checkpoint_save_wait(r->saver), TESS_E_NO_SPACE, "rank-00001.data");
    EXPECT_OK(tess_checkpoint_save_wait(r->saver)); /* said once */
    expect_saved(r, 1, 1);
    EXPECT_FAILS(tess_checkpoint_verify(folder, 2), TESS_E_NOT_FOUND, "step-00000002");
    fill(r, 3);
    EXPECT_OK(tess_checkpoint_save_start(r->saver, folder, 3, &r->state, NULL));
    EXPECT_OK(tess_checkpoint_save_wait(r->saver));
    expect_saved(r, 3, 3);
    leave(r);
}

static void fail_and_start(void)
{
    rank *r = &the_rank;
    join(r, 0);
    fill(r, 2);
    EXPECT_OK(tess_checkpoint_save_start(r->saver, folder, 2, &r->state, NULL));
    EXPECT_FAILS(tess_checkpoint_save_start(r->saver, folder, 4, &r->state, NULL), TESS_E_NO_SPACE, "step 2");
    EXPECT_FAILS(tess_checkpoint_verify(folder, 4), TESS_E_NOT_FOUND, "");
    EXPECT_OK(tess_checkpoint_save_start(r->saver, folder, 4, &r->state, NULL));
    EXPECT_OK(tess_checkpoint_save_wait(r->saver));
    expect_saved(r, 4, 2);
    leave(r);
}

static void failures_come_at_the_wait_on_all_ranks(void)
{
    setenv("TESSERA_FAULT", "rank=1 step=2 point=save:write kind=enospc", 1);
    run_job(fail_and_save, true);
    run_job(fail_and_start, true);
    unsetenv("TESSERA_FAULT");
}

/* One rank alone is wrong; all get its message, and nothing is under way. */
static void start_badly(void)
{
    rank *r = &the_rank;
    int64_t step;
    join(r, 0);
    fill(r, 1);
#define REFUSED(status, text) \
    EXPECT_FAILS(tess_checkpoint_save_start(r->saver, folder, 1, &r->state, NULL), status, text)
    if (tess_team_rank(r->team) == 1)
        r->tensors[0].box.begin[1]++;
    REFUSED(TESS_E_INVALID, "numbers");
    if (tess_team_rank(r->team) == 1) {
        r->tensors[0].box.begin[1]--;
        r->tensors[1].dtype = TESS_BF16;
    }
    REFUSED(TESS_E_MISMATCH, "names, dtypes or shapes");
    r->tensors[1].dtype = TESS_F16;
    EXPECT_FAILS(tess_checkpoint_save_start(r->saver, folder, 1, &r->state, "[]"), TESS_E_INVALID, "no JSON object");
    EXPECT(tess_checkpoint_save_done(r->saver));
    EXPECT_FAILS(tess_checkpoint_newest(r->runtime, folder, &step), TESS_E_NOT_FOUND, "");
    if (tess_team_rank(r->team) == 1) /* a hole: seen by the writer, when all ranks' parts are there */
        r->tensors[0].box.size[0]--;
    EXPECT_OK(tess_checkpoint_save_start(r->saver, folder, 1, &r->state, NULL));
    EXPECT_FAILS(tess_checkpoint_save_wait(r->saver), TESS_E_INVALID, "numbers");
    if (tess_team_rank(r->team) == 1)
        r->tensors[0].box.size[0]++;
    EXPECT_OK(tess_checkpoint_save_start(r->saver, folder, 1, &r->state, NULL));
    EXPECT_OK(tess_checkpoint_save_wait(r->saver));
    expect_saved(r, 1, 1);
    leave(r);
}

static void bad_tensors_are_refused_at_the_start(void)
{
    run_job(start_badly, true);
}

static void save_here(void)
{
    rank *r = &the_rank;
    join(r, 1);
    EXPECT(!tess_checkpoint_saver_is_async(r->saver));
    for (int64_t step = 1; step <= 2; step++) {
        fill(r, step);
        EXPECT_OK(tess_checkpoint_save_start(r->saver, folder, step, &r->state, NULL));
        EXPECT(tess_checkpoint_save_done(r->saver));
        EXPECT_OK(tess_checkpoint_verify(folder, step));
        EXPECT_OK(tess_checkpoint_save_wait(r->saver));
    }
    expect_saved(r, 2, 2);
    EXPECT_FAILS(tess_checkpoint_verify(folder, 1), TESS_E_NOT_FOUND, "");
    leave(r);
}

static void without_a_writer_ranks_stand_still(void)
{
    run_job(save_here, false);
}

/* Nothing of it is touched: it is too large to be copied. */
static void save_without_room(void)
{
    rank *r = &the_rank;
    tess_checkpoint_saver *saver;
    join(r, 0);
    tess_checkpoint_tensor large = {"large", TESS_F32, {1, {INT64_C(1) << 38}}, {{0}, {INT64_C(1) << 38}}, r->numbers};
    const tess_checkpoint_state state = {.tensors = &large, .n_tensors = 1};
    tess_checkpoint_saver_destroy(&r->saver);
    EXPECT_OK(tess_checkpoint_saver_create(r->runtime, &state, 0, &saver));
    EXPECT(!tess_checkpoint_saver_is_async(saver));
    fill(r, 8);
    EXPECT_OK(tess_checkpoint_save_start(saver, folder, 8, &r->state, NULL));
    expect_saved(r, 8, 8);
    tess_checkpoint_saver_destroy(&saver);
    leave(r);
}

static void without_room_for_the_copy_ranks_stand_still(void)
{
    run_job(save_without_room, true);
}

static const test_case cases[] = {
    CASE(a_save_is_of_its_start),
    CASE(a_folder_is_that_of_the_rank),
    CASE(a_save_outlives_its_ranks),
    CASE(failures_come_at_the_wait_on_all_ranks),
    CASE(bad_tensors_are_refused_at_the_start),
    CASE(without_a_writer_ranks_stand_still),
    CASE(without_room_for_the_copy_ranks_stand_still),
};
TEST_MAIN(cases)
