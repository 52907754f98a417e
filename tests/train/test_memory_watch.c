/* A pool that grows in every window of steps is named, with what was allocated; one that goes up and down is not. */
#include "support/test.h"

#include "base/mem/mem_watch.h"
#include "train/memory_watch.h"

enum { STEPS = 200, BLOCK = 1000 };

/* After `step`: what is in use of the pool under test, in blocks. */
typedef int shape(int step);

static int grows(int step)
{
    return step;
}
static int grows_in_noise(int step)
{
    return step + step * 7 % 20;
}
static int up_and_down(int step)
{
    return step % 30;
}
static int doubles(int step)
{
    int n = 1;
    while (n < step)
        n *= 2;
    return n;
}
static int settles(int step)
{
    return step < 30 ? step : 30;
}

/* The step in which it was reported, 0: never. */
static int told_at(shape *blocks, char *text, size_t size)
{
    static void *held[4 * STEPS];
    tess_mem *mem;
    tess_memory_watch watch = {0};
    int n = 0, told = 0;
    EXPECT_OK(tess_mem_create(&mem));
    for (int step = 1; step <= STEPS; step++) {
        void *other;
        EXPECT_OK(tess_mem_alloc(mem, TESS_POOL_GRADS, 4 * BLOCK, "a passer-by", &other));
        for (; n < blocks(step); n++)
            EXPECT_OK(tess_mem_alloc(mem, TESS_POOL_GRADS, BLOCK, "a culprit", &held[n]));
        while (n > blocks(step))
            tess_mem_free(mem, held[--n]);
        tess_mem_free(mem, other);
        if (tess_memory_watch_step(&watch, mem, text, size)) {
            EXPECT(told == 0); /* once */
            told = step;
        }
    }
    while (n > 0)
        tess_mem_free(mem, held[--n]);
    EXPECT(tess_mem_destroy(&mem) == 0);
    return told;
}

static void a_leak_is_named_once(void)
{
    char text[256];
    EXPECT(told_at(grows, text, sizeof(text)) == 48);
    EXPECT_TEXT(text,
                "memory leaks: pool grads of this rank has grown by 1000 B a step over 40 steps, to 40.0 KiB; what is "
                "allocated and not freed is 'a culprit'");
    EXPECT(told_at(grows_in_noise, text, sizeof(text)) > 0);
    EXPECT_CONTAINS(text, "'a culprit'");
}

static void what_is_no_leak_is_not_named(void)
{
    char text[256];
    EXPECT(told_at(up_and_down, text, sizeof(text)) == 0);
    EXPECT(told_at(doubles, text, sizeof(text)) == 0);
    EXPECT(told_at(settles, text, sizeof(text)) == 0);
}

static void a_watch_counts_what_is_not_freed(void)
{
    tess_mem *mem;
    void *before, *kept, *freed, *elsewhere;
    char what[TESS_MEM_NAME];
    int64_t bytes;
    EXPECT_OK(tess_mem_create(&mem));
    EXPECT_OK(tess_mem_alloc(mem, TESS_POOL_COMM, 900, "before", &before));
    EXPECT(!tess_mem_watched(mem, what, &bytes));
    tess_mem_watch(mem, TESS_POOL_COMM);
    EXPECT_OK(tess_mem_alloc(mem, TESS_POOL_COMM, 30, "kept", &kept));
    EXPECT_OK(tess_mem_alloc(mem, TESS_POOL_COMM, 500, "freed", &freed));
    EXPECT_OK(tess_mem_alloc(mem, TESS_POOL_MISC, 700, "elsewhere", &elsewhere));
    tess_mem_free(mem, before); /* none of the watch's */
    tess_mem_free(mem, freed);
    EXPECT(tess_mem_watched(mem, what, &bytes) && bytes == 30);
    EXPECT_TEXT(what, "kept");
    tess_mem_watch(mem, TESS_POOL_COMM); /* another one knows nothing of the first one's blocks */
    tess_mem_free(mem, kept);
    EXPECT(!tess_mem_watched(mem, what, &bytes));
    tess_mem_free(mem, elsewhere);
    EXPECT(tess_mem_destroy(&mem) == 0);
}

static const test_case cases[] = {
    CASE(a_leak_is_named_once),
    CASE(what_is_no_leak_is_not_named),
    CASE(a_watch_counts_what_is_not_freed),
};
TEST_MAIN(cases)
