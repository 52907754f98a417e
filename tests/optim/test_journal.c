/* An update in place that breaks off at any moment: whoever goes on ends with the bits of one that did not. */
#include "optim/journal.h"

#include "support/test.h"

enum { N = 5000, CHUNKS = 4, PER_CHUNK = 1250 };

/* Moments of a chunk at which the process may die. */
typedef enum moment { BEFORE, PROTECTED, TORN, CHANGED, COMMITTED, MOMENTS } moment;

static float arrays[JOURNAL_ARRAYS][N];

static void fill(void)
{
    for (int a = 0; a < JOURNAL_ARRAYS; a++)
        for (int i = 0; i < N; i++)
            arrays[a][i] = (float)(a * N + i);
}

static void change(int chunk, int n)
{
    for (int a = 0; a < JOURNAL_ARRAYS; a++)
        for (int i = 0; i < n; i++)
            arrays[a][chunk * PER_CHUNK + i] = arrays[a][chunk * PER_CHUNK + i] * 3 + 1; /* twice is not once */
}

/* From where the journal says to the moment of death, in `dies`; -1: to the end. */
static void update(optim_journal *j, tess_stream *stream, int dies, moment at)
{
    int64_t chunk_elements;
    int64_t first = optim_journal_begin(j, stream, 7, &chunk_elements);
    EXPECT_INT(chunk_elements, JOURNAL_PER_THREAD);
    for (int c = (int)first; c < CHUNKS; c++) {
        optim_chunk chunk = {.n = PER_CHUNK};
        for (int a = 0; a < JOURNAL_ARRAYS; a++)
            chunk.array[a] = &arrays[a][c * PER_CHUNK];
        if (c == dies && at == BEFORE)
            return;
        optim_journal_protect(j, stream, c, &chunk);
        if (c == dies && at == PROTECTED)
            return;
        change(c, c == dies && at == TORN ? PER_CHUNK / 3 : PER_CHUNK);
        if (c == dies && (at == TORN || at == CHANGED))
            return;
        optim_journal_commit(j, c);
        if (c == dies)
            return;
    }
}

static void an_update_that_breaks_off_at_any_moment_is_ended_to_the_same_bits(void)
{
    static float want[JOURNAL_ARRAYS][N];
    tess_keep_set set;
    tess_stream *stream;
    EXPECT_OK(tess_keep_set_create(test_mem(), 1, NULL, 1, &set));
    EXPECT_OK(tess_stream_create(test_mem(), 1, NULL, &stream));
    fill();
    for (int c = 0; c < CHUNKS; c++)
        change(c, PER_CHUNK);
    memcpy(want, arrays, sizeof(want));
    for (int first = 0; first < CHUNKS * MOMENTS; first++)
        for (int second = 0; second < CHUNKS * MOMENTS; second++) { /* dies, and dies again while it is ended */
            tess_keep *keep;
            optim_journal *journal;
            EXPECT_OK(tess_keep_open(test_mem(), set.fds[0], &keep));
            tess_keep_clear(keep);
            EXPECT_OK(optim_journal_open(keep, test_mem(), &journal));
            fill();
            update(journal, stream, first / MOMENTS, first % MOMENTS);
            update(journal, stream, second / MOMENTS, second % MOMENTS);
            update(journal, stream, -1, BEFORE);
            EXPECT_SAME(&arrays[0][0], &want[0][0], (size_t)JOURNAL_ARRAYS * N);
            optim_journal_close(keep, test_mem(), &journal);
            tess_keep_close(&keep);
        }
    tess_stream_destroy(&stream);
    tess_keep_set_destroy(&set, true);
}

static void without_memory_that_is_kept_there_is_no_journal(void)
{
    optim_journal *journal;
    EXPECT_OK(optim_journal_open(NULL, test_mem(), &journal));
    EXPECT(journal == NULL);
    optim_journal_close(NULL, test_mem(), &journal);
}

static const test_case cases[] = {
    {"an_update_that_breaks_off_at_any_moment_is_ended_to_the_same_bits",
     an_update_that_breaks_off_at_any_moment_is_ended_to_the_same_bits},
    {"without_memory_that_is_kept_there_is_no_journal", without_memory_that_is_kept_there_is_no_journal},
};

TEST_MAIN(cases)
