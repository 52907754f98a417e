/* Samples as bytes, and the journal that keeps them: what is read is what was written, a file that a kill cut off holds
 * all before the cut, and files of other runs are not taken for this one's. */
#include "rl/rl_journal.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/os/os.h"
#include "rl/rl_samples.h"
#include "support/test.h"

static const rl_origin origin = {11, 22, 33};

static rl_sample make_sample(tess_mem *mem, int64_t number, int64_t n_prompt, int64_t n_answer)
{
    rl_sample s = {
        .number = number, .record = number / 3, .finish = TESS_FINISH_END, .grade = RL_SCORED, .reward = -0.0};
    int32_t prompt[64];
    for (int64_t i = 0; i < n_prompt; i++)
        prompt[i] = (int32_t)(number + i);
    EXPECT_OK(rl_sample_begin(mem, &s, prompt, n_prompt));
    for (int64_t i = 0; i < n_answer; i++)
        EXPECT_OK(rl_sample_add(mem, &s, (int32_t)i, -0.1f * (float)i, (int32_t)(number + i)));
    s.n_parts = 1;
    s.part[0] = (rl_reward_part){"signs", 0.25};
    return s;
}

static void expect_equal(const rl_sample *a, const rl_sample *b)
{
    EXPECT(a->number == b->number && a->record == b->record && a->n_prompt == b->n_prompt && a->n == b->n);
    EXPECT(a->finish == b->finish && a->grade == b->grade && a->n_parts == b->n_parts);
    EXPECT(memcmp(&a->reward, &b->reward, sizeof(a->reward)) == 0);
    EXPECT(strcmp(a->part[0].name, b->part[0].name) == 0 && a->part[0].value == b->part[0].value);
    EXPECT(memcmp(a->ids, b->ids, (size_t)a->n * 4) == 0 && memcmp(a->logprob, b->logprob, (size_t)a->n * 4) == 0 &&
           memcmp(a->version, b->version, (size_t)a->n * 4) == 0);
}

static void a_sample_survives_its_bytes(void)
{
    tess_mem *mem = test_mem();
    static const int64_t lengths[][2] = {{1, 0}, {1, 1}, {7, 33}, {64, 500}};
    for (size_t i = 0; i < 4; i++) {
        tess_buffer bytes = {.mem = mem};
        rl_sample s = make_sample(mem, (int64_t)i, lengths[i][0], lengths[i][1]), read = {.finish = RL_UNFINISHED};
        size_t used = 0;
        EXPECT_OK(rl_sample_write(&s, &bytes));
        EXPECT_OK(rl_sample_read(mem, bytes.data, bytes.size, &read, &used));
        EXPECT(used == bytes.size);
        expect_equal(&s, &read);
        for (size_t cut = 0; cut < bytes.size; cut += 1 + bytes.size / 37)
            EXPECT_FAILS(rl_sample_read(mem, bytes.data, cut, &read, &used), TESS_E_FORMAT, NULL);
        expect_equal(&s, &read); /* a failed read has changed nothing */
        rl_sample_free(mem, &s);
        rl_sample_free(mem, &read);
        tess_buffer_free(&bytes);
    }
}

typedef struct reading {
    int n;
    int64_t number[8], round[8];
} reading;

static tess_status note(void *self, int64_t round, const void *bytes, size_t size)
{
    reading *r = self;
    rl_sample s = {.finish = RL_UNFINISHED};
    size_t used;
    EXPECT_OK(rl_sample_read(test_mem(), bytes, size, &s, &used));
    r->number[r->n] = s.number;
    r->round[r->n++] = round;
    rl_sample_free(test_mem(), &s);
    return TESS_OK;
}

static void append(int rank, const rl_origin *of, int64_t number, int64_t round)
{
    tess_mem *mem = test_mem();
    rl_journal *journal;
    rl_sample s = make_sample(mem, number, 3, 5);
    EXPECT_OK(rl_journal_open(mem, test_folder(), 7, rank, of, &journal));
    EXPECT_OK(rl_journal_append(journal, round, &s));
    rl_journal_close(&journal);
    rl_sample_free(mem, &s);
}

static reading read_all(const rl_origin *of)
{
    reading r = {0};
    EXPECT_OK(rl_journal_read(test_folder(), 7, of, note, &r));
    return r;
}

static void records_of_all_ranks_are_read_in_order(void)
{
    EXPECT(read_all(&origin).n == 0); /* no folder */
    append(1, &origin, 40, 0);
    append(0, &origin, 10, 0);
    append(0, &origin, 11, 1);
    reading r = read_all(&origin);
    EXPECT(r.n == 3 && r.number[0] == 10 && r.number[1] == 11 && r.number[2] == 40 && r.round[1] == 1);
    /* The weights that drew them may be left open, the rest may not. */
    EXPECT(read_all(&(rl_origin){11, 22, 0}).n == 3);
    EXPECT(read_all(&(rl_origin){11, 22, 34}).n == 0);
    EXPECT(read_all(&(rl_origin){11, 23, 33}).n == 0);
    EXPECT(read_all(&(rl_origin){12, 22, 33}).n == 0);
    append(0, &(rl_origin){11, 23, 33}, 12, 0); /* another run's: begins the file anew */
    EXPECT(read_all(&origin).n == 1);
}

static void a_file_that_was_cut_off_goes_on(void)
{
    char path[1024];
    uint64_t whole;
    EXPECT_OK(tess_os_join(path, sizeof(path), test_folder(), "rollout-00000007/rank-00000.samples"));
    append(0, &origin, 10, 0);
    EXPECT_OK(tess_os_file_size(path, &whole));
    for (int64_t cut = 1; cut < 60; cut += 7) {
        append(0, &origin, 11, 0);
        uint64_t size;
        EXPECT_OK(tess_os_file_size(path, &size));
        EXPECT(truncate(path, (off_t)(size - (uint64_t)cut)) == 0);
        EXPECT(read_all(&origin).n == 1);
    }
    append(0, &origin, 12, 0);
    reading r = read_all(&origin);
    EXPECT(r.n == 2 && r.number[0] == 10 && r.number[1] == 12);
}

static void a_flipped_bit_ends_a_file(void)
{
    char path[1024], *bytes;
    size_t size;
    tess_status status;
    append(0, &origin, 10, 0);
    append(0, &origin, 11, 0);
    EXPECT_OK(tess_os_join(path, sizeof(path), test_folder(), "rollout-00000007/rank-00000.samples"));
    EXPECT_OK(tess_os_read(test_mem(), path, 1 << 20, &bytes, &size));
    const size_t end = rl_journal_parse(bytes, size, &origin, NULL, NULL, &status);
    EXPECT(end == size);
    const size_t second = 32 + (size - 32) / 2;
    for (size_t at = second; at < size; at += 13) {
        bytes[at] ^= 4;
        EXPECT(rl_journal_parse(bytes, size, &origin, NULL, NULL, &status) == second);
        bytes[at] ^= 4;
    }
    tess_mem_free(test_mem(), bytes);
}

/* A lost rank has drawn sample 10, another one has graded it; an earlier run has left a file with other samples. */
static void each_sample_is_shown_once_with_its_grade(void)
{
    tess_mem *mem = test_mem();
    rl_journal *journal;
    rl_samples samples;
    int64_t *rollouts;
    size_t n;
    rl_sample drawn = make_sample(mem, 10, 3, 5);
    append(2, &(rl_origin){11, 21, 30}, 10, 0);
    append(0, &origin, 11, 0);
    append(0, &origin, 10, 0);
    drawn.grade = RL_UNGRADED;
    drawn.reward = 0;
    EXPECT_OK(rl_journal_open(mem, test_folder(), 7, 1, &origin, &journal));
    EXPECT_OK(rl_journal_append(journal, 0, &drawn));
    EXPECT_OK(rl_journal_append_bytes(journal, RL_ROUND_SCORES, "scores", 6));
    rl_journal_close(&journal);
    EXPECT_OK(rl_samples_read(mem, test_folder(), 7, &samples));
    EXPECT_INT(samples.n, 2);
    EXPECT(samples.sample[0].number == 10 && samples.sample[0].grade == RL_SCORED && samples.sample[1].number == 11);
    rl_samples_free(&samples);
    EXPECT_OK(rl_samples_read(mem, test_folder(), 8, &samples));
    EXPECT_INT(samples.n, 0);
    rl_samples_free(&samples);
    EXPECT_OK(rl_journal_rollouts(mem, test_folder(), &rollouts, &n));
    EXPECT(n == 1 && rollouts[0] == 7);
    tess_mem_free(mem, rollouts);
    rl_sample_free(mem, &drawn);
}

static void old_rollouts_are_removed(void)
{
    char path[1024];
    append(0, &origin, 10, 0);
    EXPECT_OK(tess_os_join(path, sizeof(path), test_folder(), "rollout-00000007"));
    EXPECT_OK(rl_journal_prune(test_folder(), 7));
    EXPECT(tess_os_is_dir(path));
    EXPECT_OK(rl_journal_prune(test_folder(), 8));
    EXPECT(!tess_os_is_dir(path));
}

static const test_case cases[] = {
    CASE(a_sample_survives_its_bytes),
    CASE(records_of_all_ranks_are_read_in_order),
    CASE(a_file_that_was_cut_off_goes_on),
    CASE(a_flipped_bit_ends_a_file),
    CASE(each_sample_is_shown_once_with_its_grade),
    CASE(old_rollouts_are_removed),
};
TEST_MAIN(cases)
