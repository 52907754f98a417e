/* Saves that are killed, or fail, at every call that they make and at any moment: the newest checkpoint is whole and of
 * the bits that were saved, and the one before it is not lost. TESS_KILL_ROUNDS asks for more rounds than 500. */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/os/os.h"
#include "ckpt/store/read.h"
#include "ckpt/store/store.h"
#include "files.h"
#include "control/launch/launcher.h"
#include "state.h"

enum { ROUNDS = 500, RANKS = 3, EVEN_ROWS = 16, EVEN_ROW = 1024, ALL = -1, NEVER = -1, KILL = -2, KEPT = 2 };

/* A save, and how it is to end. */
typedef struct plan {
    int64_t step, values; /* `values` decides what is saved */
    bool replaces, packed;
    int ranks;      /* 0: one process alone */
    int victim;     /* rank, or ALL */
    int point;      /* tess_save_point, or NEVER */
    int visit;      /* visit of the point, from 1 */
    int what;       /* KILL, an errno, TESS_IO_SHORT */
    double after_s; /* a kill at that time; 0: none */
} plan;

/* Shared with the saving processes. */
typedef struct board {
    plan now;
    char folder[512];
    _Atomic int hits[TESS_SAVE_POINTS]; /* times that something happened there */
    _Atomic int saved;                  /* processes that came to the end of their save, and it was well */
    _Atomic int failed;                 /* ... and it failed */
    _Atomic double took_s;              /* time of the newest save that nobody disturbed */
} board;

static board *b;

typedef struct saved {
    int64_t step, values;
} saved;

static saved newest, before; /* the checkpoints that must be there */

/* ---- The saving process ---- */
static int visits;

static int strike(void *self, tess_save_point point)
{
    const plan *p = self;
    if ((int)point != p->point || ++visits != p->visit)
        return 0;
    atomic_fetch_add(&b->hits[point], 1);
    if (p->what == KILL)
        raise(SIGKILL);
    return p->what;
}

static void die_after(double seconds)
{
    timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL};
    time_t whole = (time_t)seconds;
    struct itimerspec when = {.it_value = {whole, (long)((seconds - (double)whole) * 1e9)}};
    EXPECT(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
    EXPECT(timer_settime(timer, 0, &when, NULL) == 0);
}

/* The small model, and a tensor that zstd compresses. */
typedef struct tensors {
    tess_ckpt_tensor list[N + 1];
    state small;
    float even[EVEN_ROWS * EVEN_ROW];
} tensors;

static void make_tensors(tensors *t, int world, int rank, int64_t values)
{
    make_state(&t->small, world, rank, false, values);
    memcpy(t->list, t->small.tensors, sizeof(t->small.tensors));
    tess_ckpt_tensor *even = &t->list[N];
    *even = (tess_ckpt_tensor){.name = "even", .shape = {2, {EVEN_ROWS, EVEN_ROW}}, .data = t->even};
    even->box = even->primary = chunk_of(&even->shape, world, rank);
    for (int i = 0; i < EVEN_ROWS * EVEN_ROW; i++)
        t->even[i] = (float)values;
}

static tess_status save(tess_team *team, int world, int rank, const plan *p, bool is_victim)
{
    static tensors t;
    tess_io io = {is_victim ? strike : NULL, (void *)p};
    const tess_store_options options = {.codec = p->packed ? TESS_CODEC_ZSTD : TESS_CODEC_NONE, .io = &io};
    make_tensors(&t, world, rank, p->values);
    TESS_TRY(tess_ckpt_save(test_mem(), team, b->folder, p->step, NULL, t.list, N + 1, &options));
    return rank == 0 ? tess_ckpt_prune(&(tess_ckpt_pruner){.mem = test_mem(), .io = &io}, b->folder, KEPT, p->step)
                     : TESS_OK;
}

static void save_and_report(tess_team *team, int world, int rank)
{
    const plan *p = &b->now;
    bool is_victim = p->victim == ALL || p->victim == rank;
    if (is_victim && p->after_s > 0)
        die_after(p->after_s);
    double begin_s = tess_os_now_s();
    tess_status status = save(team, world, rank, p, is_victim);
    atomic_fetch_add(status == TESS_OK ? &b->saved : &b->failed, 1);
    if (status == TESS_OK && rank == 0)
        atomic_store(&b->took_s, tess_os_now_s() - begin_s);
}

static int run_rank(void *context)
{
    tess_runtime *runtime;
    (void)context;
    if (tess_runtime_create(NULL, &runtime) != TESS_OK)
        return 1; /* another was killed early */
    save_and_report(tess_runtime_team(runtime), tess_runtime_world(runtime), tess_runtime_rank(runtime));
    tess_runtime_destroy(&runtime);
    return 0;
}

static void run_alone(void)
{
    int status;
    pid_t pid = fork();
    EXPECT(pid >= 0);
    if (pid == 0) {
        save_and_report(NULL, 1, 0);
        _exit(0);
    }
    EXPECT(waitpid(pid, &status, 0) == pid);
}

static void run_plan(const plan *p)
{
    tess_launch_result result;
    b->now = *p;
    atomic_store(&b->saved, 0);
    atomic_store(&b->failed, 0);
    if (p->ranks == 0)
        run_alone();
    else
        EXPECT_OK(tess_launch_function(p->ranks, run_rank, NULL, 60, 600, &result));
}

/* ---- The folder afterwards ---- */
static bool holds(const saved *c)
{
    static tensors got, want;
    make_tensors(&got, 1, 0, -1);
    make_tensors(&want, 1, 0, c->values);
    EXPECT_OK(tess_ckpt_load(test_mem(), NULL, b->folder, c->step, got.list, N + 1, NULL, NULL));
    return memcmp(got.small.data, want.small.data, sizeof(got.small.data)) == 0 &&
           memcmp(got.even, want.even, sizeof(got.even)) == 0;
}

static void report_plan(const plan *p)
{
    fprintf(stderr, "    step %lld, %s, %d ranks, victim %d, %s #%d: %d, after %.6f s; %d saved, %d failed: %s\n",
            (long long)p->step, p->replaces ? "in place of another" : "new", p->ranks, p->victim,
            p->point == NEVER ? "no call" : tess_save_point_name((tess_save_point)p->point), p->visit, p->what,
            p->after_s, b->saved, b->failed, names_in(b->folder));
}

/* Whether the new checkpoint is there. It must be if every process reports success, and must not be if the save failed,
 * unless only its last sync did. */
static bool is_committed(const plan *p)
{
    const saved next = {p->step, p->values};
    int64_t step;
    char temporary[TESS_CKPT_PATH];
    EXPECT_OK(tess_ckpt_folder(b->folder, p->step, ".tmp", temporary));
    EXPECT_OK(tess_ckpt_latest(b->folder, NULL, &step));
    bool committed = step == p->step && holds(&next), killed = p->what == KILL || p->after_s > 0;
    bool all_well = b->saved == (p->ranks > 0 ? p->ranks : 1);
    bool may_be = killed || all_well || p->point >= TESS_SAVE_SYNC_PARENT;
    bool clean = killed || committed || !tess_os_is_dir(temporary); /* nothing of it stays */
    if ((all_well && !committed) || (committed && !may_be) || (!committed && step != newest.step) || !clean) {
        report_plan(p);
        EXPECT(!"what is there is what was told");
    }
    return committed;
}

static void look_after(const plan *p)
{
    const saved next = {p->step, p->values};
    bool committed = is_committed(p);
    if (committed && !p->replaces)
        before = newest;
    if (committed)
        newest = next;
    if (!holds(&newest) || !holds(&before)) {
        report_plan(p);
        EXPECT(!"the newest checkpoint and the one before have the bits that were saved");
    }
}

/* ---- Plans ---- */
static plan next_plan(int64_t round)
{
    plan p = {.step = newest.step + 1, .values = round, .point = NEVER, .victim = ALL, .packed = round % 2};
    p.replaces = round % 3 == 0;
    p.step -= p.replaces;
    return p;
}

static uint64_t draw(int64_t round, uint64_t what, uint64_t n)
{
    return tess_rng_u64(7, TESS_RNG_TEST, (uint64_t)round, what) % n;
}

static bool is_write(int point)
{
    return point == TESS_SAVE_WRITE || point == TESS_SAVE_WRITE_MANIFEST || point == TESS_SAVE_WRITE_MARKER;
}

/* The clearing point is not reached if nothing was left. */
static void leave_something(int64_t step)
{
    char folder[TESS_CKPT_PATH];
    EXPECT_OK(tess_ckpt_folder(b->folder, step, ".tmp", folder));
    EXPECT_OK(tess_os_make_dirs(folder));
}

static void strike_at(int64_t round, int point, int visit, int what, int ranks)
{
    plan p = next_plan(round);
    p.point = point, p.visit = visit, p.what = what, p.ranks = ranks;
    p.packed |= point == TESS_SAVE_TRIM;
    if ((point == TESS_SAVE_RENAME || point == TESS_SAVE_SET_ASIDE) && p.replaces)
        p.replaces = false, p.step++;
    if (point == TESS_SAVE_EXCHANGE && !p.replaces)
        p.replaces = true, p.step--;
    if (ranks > 0)
        p.victim = is_write(point) || point == TESS_SAVE_CREATE || point == TESS_SAVE_SYNC
                       ? (int)draw(round, 0, (uint64_t)ranks)
                       : 0;
    if (point == TESS_SAVE_CLEAR)
        leave_something(p.step);
    run_plan(&p);
    look_after(&p);
}

static void begin_with_two(void)
{
    for (int64_t step = 1; step <= 2; step++) {
        const plan p = {.step = step, .values = step, .point = NEVER};
        run_plan(&p);
        before = newest;
        newest = (saved){step, step};
    }
    EXPECT(holds(&before) && holds(&newest));
}

/* Ends the save at each call, in each way. Returns the number of rounds. */
static int64_t strike_everywhere(int64_t round)
{
    static const int whats[] = {KILL, ENOSPC, EIO, TESS_IO_SHORT};
    for (int point = 0; point < TESS_SAVE_POINTS; point++) {
        for (int visit = 1; visit <= 2; visit++)
            for (int w = 0; w < (is_write(point) ? 4 : 3); w++)
                strike_at(round++, point, visit, whats[w], 0);
        strike_at(round++, point, 1, point % 2 ? KILL : EIO, RANKS);
    }
    for (int point = 0; point < TESS_SAVE_POINTS; point++)
        if (b->hits[point] < 3)
            test_fail(__FILE__, __LINE__, "%s: struck %d times", tess_save_point_name((tess_save_point)point),
                      b->hits[point]);
    return round;
}

/* The duration of an undisturbed save. */
static double measure(int64_t *round, int ranks)
{
    plan p = next_plan((*round)++);
    p.ranks = ranks;
    run_plan(&p);
    look_after(&p);
    return b->took_s;
}

static void kill_whenever(int64_t round, double span_s, int ranks)
{
    plan p = next_plan(round);
    p.ranks = ranks;
    p.victim = ranks > 0 && draw(round, 1, 2) ? (int)draw(round, 2, (uint64_t)ranks) : ALL;
    p.after_s = 1e-6 + span_s * 1.2 * (double)draw(round, 3, 1000) / 1000;
    run_plan(&p);
    look_after(&p);
}

static void make_board(void)
{
    if (tess_os_is_dir("/dev/shm")) /* a sync matters only when power fails, which is not tested here */
        setenv("TMPDIR", "/dev/shm", 1);
    EXPECT_OK(tess_os_share("kills", sizeof(*b), (void **)&b));
    snprintf(b->folder, sizeof(b->folder), "%s", test_folder());
}

static void no_kill_and_no_error_loses_a_checkpoint(void)
{
    const char *text = getenv("TESS_KILL_ROUNDS");
    int64_t rounds = text != NULL ? atoll(text) : ROUNDS, round = 10;
    make_board();
    begin_with_two();
    round = strike_everywhere(round);
    double alone_s = measure(&round, 0), together_s = measure(&round, RANKS);
    for (; round < rounds; round++)
        kill_whenever(round, round % 16 ? alone_s : together_s, round % 16 ? 0 : RANKS);
    tess_os_unmap_shared(b, sizeof(*b));
}

static const test_case cases[] = {
    CASE(no_kill_and_no_error_loses_a_checkpoint, 0, 600),
};
TEST_MAIN(cases)
