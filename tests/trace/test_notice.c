/* Notices of a job: written by several, read whole. */
#include <pthread.h>
#include <stdio.h>

#include "support/test.h"
#include "trace/notice.h"

enum { N_THREADS = 4, EACH = 1000 };

static tess_notices *make_notices(void)
{
    void *memory;
    EXPECT_OK(tess_mem_alloc(test_mem(), TESS_POOL_MISC, sizeof(tess_notices), "notices", &memory));
    memset(memory, 0, sizeof(tess_notices));
    return memory;
}

static void what_is_told_reads_back_in_order(void)
{
    tess_notices *notices = make_notices();
    tess_notice out[TESS_NOTICES];
    EXPECT_INT(tess_notices_read(notices, out), 0);
    uint64_t first = tess_notices_add(notices, TESS_NOTICE_WAIT, 3, 812, "rank 3 kept 7 ranks waiting");
    tess_notices_add(notices, TESS_NOTICE_REPLACED, 5, -1, "rank 5 was killed; replaced");
    uint64_t changes = notices->n_changes;
    tess_notices_replace(notices, first, "rank 3 kept 7 ranks waiting for 2.1 s");
    EXPECT(notices->n_changes > changes);
    EXPECT_INT(tess_notices_read(notices, out), 2);
    EXPECT_TEXT(out[0].text, "rank 3 kept 7 ranks waiting for 2.1 s");
    EXPECT_INT(out[0].rank, 3);
    EXPECT_INT(out[0].step, 812);
    EXPECT_TEXT(tess_notice_name(out[0].kind), "wait");
    EXPECT_TEXT(out[1].text, "rank 5 was killed; replaced");
    EXPECT(out[0].wall_ns > UINT64_C(1700000000000000000) && out[1].wall_ns >= out[0].wall_ns);
    tess_mem_free(test_mem(), notices);
}

static void the_newest_stay(void)
{
    tess_notices *notices = make_notices();
    tess_notice out[TESS_NOTICES];
    char text[32];
    uint64_t first = tess_notices_add(notices, TESS_NOTICE_OTHER, -1, -1, "the first");
    for (int i = 0; i < TESS_NOTICES + 4; i++) {
        snprintf(text, sizeof(text), "number %d", i);
        tess_notices_add(notices, TESS_NOTICE_OTHER, -1, -1, text);
    }
    tess_notices_replace(notices, first, "too late");
    EXPECT_INT(tess_notices_read(notices, out), TESS_NOTICES);
    EXPECT_TEXT(out[0].text, "number 4");
    EXPECT_TEXT(out[TESS_NOTICES - 1].text, text);
    EXPECT_INT(notices->n_reported, TESS_NOTICES + 5);
    tess_notices *copy = make_notices();
    tess_notices_copy(copy, notices);
    EXPECT_INT(tess_notices_read(copy, out), TESS_NOTICES);
    EXPECT_TEXT(out[0].text, "number 4");
    tess_mem_free(test_mem(), copy);
    tess_mem_free(test_mem(), notices);
}

static void a_long_text_is_cut_for_all_to_see(void)
{
    tess_notices *notices = make_notices();
    tess_notice out[TESS_NOTICES];
    char text[TESS_NOTICE_TEXT + 1];
    memset(text, 'x', sizeof(text));
    text[TESS_NOTICE_TEXT - 1] = '\0';
    tess_notices_add(notices, TESS_NOTICE_OTHER, -1, -1, text);
    text[TESS_NOTICE_TEXT - 1] = 'x';
    text[TESS_NOTICE_TEXT] = '\0';
    tess_notices_add(notices, TESS_NOTICE_OTHER, -1, -1, text);
    EXPECT_INT(tess_notices_read(notices, out), 2);
    EXPECT_INT(strlen(out[0].text), TESS_NOTICE_TEXT - 1);
    EXPECT_TEXT(out[0].text + TESS_NOTICE_TEXT - 4, "xxx");
    EXPECT_INT(strlen(out[1].text), TESS_NOTICE_TEXT - 1);
    EXPECT_TEXT(out[1].text + TESS_NOTICE_TEXT - 4, "...");
    tess_mem_free(test_mem(), notices);
}

/* Notices with the right stamp are read out of any bytes, with terminated texts and valid kinds. */
static void what_lies_there_may_be_anything(void)
{
    tess_notices *notices = make_notices();
    tess_notice out[TESS_NOTICES];
    memset((void *)notices, 0xff, sizeof(*notices));
    tess_notices_read(notices, out);
    notices->n_reported = 3;
    notices->slots[1].stamp = 2;
    EXPECT_INT(tess_notices_read(notices, out), 1);
    EXPECT_INT(out[0].kind, TESS_NOTICE_OTHER);
    EXPECT_INT(strlen(out[0].text), TESS_NOTICE_TEXT - 1);
    EXPECT_INT(tess_notice_kind_of("no kind"), TESS_NOTICE_OTHER);
    tess_mem_free(test_mem(), notices);
}

static void *report(void *context)
{
    for (int i = 0; i < EACH; i++)
        tess_notices_add(context, TESS_NOTICE_WARNING, i, i, "told by one of several");
    return NULL;
}

static void several_tell_at_once(void)
{
    pthread_t threads[N_THREADS];
    tess_notices *notices = make_notices();
    tess_notice out[TESS_NOTICES];
    for (int i = 0; i < N_THREADS; i++)
        EXPECT_INT(pthread_create(&threads[i], NULL, report, notices), 0);
    for (int i = 0; i < 100; i++)
        for (size_t n = tess_notices_read(notices, out); n-- > 0;) {
            EXPECT_TEXT(out[n].text, "told by one of several");
            EXPECT_INT(out[n].rank, out[n].step);
        }
    for (int i = 0; i < N_THREADS; i++)
        EXPECT_INT(pthread_join(threads[i], NULL), 0);
    EXPECT_INT(notices->n_reported, N_THREADS * EACH);
    tess_mem_free(test_mem(), notices);
}

static const test_case cases[] = {
    CASE(what_is_told_reads_back_in_order), CASE(the_newest_stay),      CASE(a_long_text_is_cut_for_all_to_see),
    CASE(what_lies_there_may_be_anything),  CASE(several_tell_at_once),
};

TEST_MAIN(cases)
