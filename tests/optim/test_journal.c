/* An update in place that breaks off at any instruction: a successor ends with the bits of one that did not break off.
 */
#include "optim/journal.h"

#include "job/persist/persist.h"
#include "device/stream.h"
#include "support/single_step.h"
#include "support/test.h"

enum { TENSORS = 3, LANES = 3, STEP = 7, N = 37 + 1 + 130 };

static const int64_t sizes[TENSORS] = {37, 1, 130}, per_lane[TENSORS] = {16, 16, 48};
static const char *const levels[] = {"ref", "avx2", "avx512"};

/* The memory that is kept: the state, its new values, and the journal over it. */
typedef struct fixture {
    tess_persist_set set;
    tess_persist *persist;
    tess_stream *stream;
    optim_journal *journal;
    float *state; /* (TESS_UNDO_ARRAYS, N) */
    float gradient[N], want[TESS_UNDO_ARRAYS * N];
    long n_looks;
} fixture;

static void fill(fixture *f)
{
    for (int i = 0; i < TESS_UNDO_ARRAYS * N; i++)
        f->state[i] = 0.25f + (float)(i % 89) / 64;
    for (int i = 0; i < N; i++)
        f->gradient[i] = (float)(i % 31 - 15) / 16;
}

static void run_kernel(fixture *f, int64_t begin, int64_t end, tess_undo *undo)
{
    float *p = f->state + begin, *m = p + N, *v = m + N;
    if (begin >= end)
        return;
    if (undo != NULL)
        undo->first = begin;
    tess_adamw_update u = {.n = end - begin,
                           .p = p,
                           .m = m,
                           .v = v,
                           .g = f->gradient + begin,
                           .lr = 0.01f,
                           .beta1 = 0.9f,
                           .beta2 = 0.95f,
                           .eps = 1e-8f,
                           .weight_decay = 0.1f,
                           .grad_scale = 0.5f,
                           .bias1 = 0.4f,
                           .bias2 = 0.2f,
                           .undo = undo};
    EXPECT_OK(tess_stream_kernels(f->stream)->adamw(f->stream, &u));
}

/* A lane's part, in two calls of the kernel, as where the middle of a tensor is copied. */
static void update_part(fixture *f, int lane, int64_t begin, int64_t end)
{
    optim_part part = {
        .array = {f->state + begin, f->state + N + begin, f->state + 2 * N + begin}, .begin = begin, .end = end};
    int64_t at = optim_journal_resume(f->journal, lane, &part), cut = begin + 5;
    tess_undo *undo = optim_journal_undo(f->journal, lane);
    if (at < cut && cut < end) {
        run_kernel(f, at, cut, undo);
        at = cut;
    }
    run_kernel(f, at, end, undo);
}

/* Updates from the journal's place to the end. */
static void update(void *context)
{
    fixture *f = context;
    int64_t first = 0;
    EXPECT_INT(optim_journal_begin(f->journal, STEP, LANES), LANES);
    for (int t = 0; t < TENSORS; first += sizes[t++])
        for (int lane = 0; lane * per_lane[t] < sizes[t]; lane++) {
            int64_t begin = lane * per_lane[t], end = begin + per_lane[t] < sizes[t] ? begin + per_lane[t] : sizes[t];
            update_part(f, lane, first + begin, first + end);
        }
    optim_journal_end(f->journal);
}

static bool open_fixture(fixture *f, const char *level)
{
    bool found;
    *f = (fixture){.n_looks = 0};
    if (tess_stream_create(test_mem(), 1, level, &f->stream) == TESS_E_UNSUPPORTED)
        return false;
    EXPECT_OK(tess_persist_set_create(test_mem(), 1, NULL, 1, &f->set));
    EXPECT_OK(tess_persist_open(test_mem(), f->set.fds[0], &f->persist));
    tess_persist_attach(f->persist, test_mem());
    EXPECT_OK(tess_persist_region(f->persist, "state", sizeof(f->want), (void **)&f->state, &found));
    fill(f);
    run_kernel(f, 0, N, NULL);
    memcpy(f->want, f->state, sizeof(f->want));
    fill(f);
    EXPECT_OK(optim_journal_open(test_mem(), OPTIM_RECORD_ROWS, &f->journal));
    return true;
}

static void close_fixture(fixture *f)
{
    optim_journal_close(test_mem(), &f->journal);
    tess_persist_attach(NULL, test_mem());
    tess_persist_close(&f->persist);
    tess_persist_set_destroy(&f->set, true);
    tess_stream_destroy(&f->stream);
}

static single_step stepping(fixture *f, void (*look)(void *context), long most)
{
    single_step run = {.body = update, .look = look, .context = f, .most = most};
    run.areas[0].address = f->state;
    run.areas[0].bytes = sizeof(f->want);
    run.areas[1].address = tess_persist_find(f->persist, "journal", &run.areas[1].bytes);
    return run;
}

/* Ended here and now; every ninth time by one that dies on its way, and then another. */
static void end_update(void *context)
{
    fixture *f = context;
    if (f->n_looks++ % 9 == 0) {
        single_step run = stepping(f, NULL, 1 + f->n_looks * 61 % 997);
        single_step_run(&run);
    }
    update(f);
    EXPECT_SAME(f->state, f->want, (size_t)TESS_UNDO_ARRAYS * N);
    f->gradient[N - 1] += 1; /* nothing is left of it: gradients are those of the next step soon */
    update(f);
    f->gradient[N - 1] -= 1;
    EXPECT_SAME(f->state, f->want, (size_t)TESS_UNDO_ARRAYS * N);
}

static void an_update_that_breaks_off_at_any_instruction_is_ended_to_the_same_bits(void)
{
    for (size_t level = 0; level < sizeof(levels) / sizeof(levels[0]); level++) {
        static fixture f;
        if (!open_fixture(&f, levels[level]))
            continue;
        single_step run = stepping(&f, end_update, 0);
        long n = single_step_run(&run);
        printf("%s: %ld instructions, %ld of them changed what is kept\n", levels[level], n, f.n_looks);
        if (n >= 0) {
            EXPECT(f.n_looks > N * TESS_UNDO_ARRAYS / TESS_UNDO_BLOCK);
            EXPECT_SAME(f.state, f.want, (size_t)TESS_UNDO_ARRAYS * N);
        }
        close_fixture(&f);
    }
}

static void the_next_step_begins_anew_with_its_own_lanes(void)
{
    static fixture f;
    EXPECT(open_fixture(&f, "ref"));
    update(&f);
    EXPECT_INT(optim_journal_begin(f.journal, STEP, LANES + 2), LANES);
    EXPECT_INT(optim_journal_begin(f.journal, STEP + 1, LANES + 2), LANES + 2);
    EXPECT_INT(optim_journal_begin(f.journal, STEP + 2, 10 * JOURNAL_LANES), JOURNAL_LANES);
    optim_part part = {.array = {f.state, f.state + N, f.state + 2 * N}, .begin = 0, .end = N};
    EXPECT_INT(optim_journal_resume(f.journal, 0, &part), 0);
    EXPECT_INT(optim_journal_resume(f.journal, JOURNAL_LANES - 1, &part), 0);
    EXPECT_SAME(f.state, f.want, (size_t)TESS_UNDO_ARRAYS * N);
    close_fixture(&f);
}

static void without_memory_that_is_kept_there_is_no_journal(void)
{
    optim_journal *journal;
    EXPECT_OK(optim_journal_open(test_mem(), OPTIM_RECORD_ROWS, &journal));
    EXPECT(journal == NULL);
    optim_journal_close(test_mem(), &journal);
}

static const test_case cases[] = {
    CASE(an_update_that_breaks_off_at_any_instruction_is_ended_to_the_same_bits),
    CASE(the_next_step_begins_anew_with_its_own_lanes),
    CASE(without_memory_that_is_kept_there_is_no_journal),
};

TEST_MAIN(cases)
