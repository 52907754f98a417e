/* Notices on a job while it ran, read from its folder afterwards. */
#include "base/os/os.h"
#include "doctor/job/job.h"
#include "doctor/job/job_report.h"
#include "support/test.h"
#include "trace/trace_folder.h"
#include "trace/job_file.h"

enum { WORLD = 4 };

static const uint64_t begin_ns = UINT64_C(1700000000000000000);

static void begin(tess_job_file *file)
{
    EXPECT_OK(tess_job_file_create(test_mem(), WORLD, file));
    file->end_ns = begin_ns + UINT64_C(9000000000);
}

static void note(tess_job_file *file, int64_t step, int after_s, const char *text)
{
    tess_notice *notice = &file->notices[file->n_notices++];
    *notice = (tess_notice){.wall_ns = begin_ns + (uint64_t)after_s * 1000000000u, .step = step, .rank = 1};
    snprintf(notice->text, sizeof(notice->text), "%s", text);
}

/* Writes the file of a host, and frees it. */
static void write_host(tess_job_file *file, int host)
{
    char path[512];
    EXPECT_OK(tess_trace_job_path(test_folder(), host, path, sizeof(path)));
    EXPECT_OK(tess_job_file_write(file, path));
    tess_job_file_free(test_mem(), file);
}

static void read_report(bool as_json, tess_buffer *out)
{
    tess_history *history;
    tess_report report;
    *out = (tess_buffer){.mem = test_mem()};
    EXPECT_OK(tess_job_history_read(test_mem(), test_folder(), &history));
    EXPECT_OK(tess_report_make(history, 0.75, &report));
    EXPECT_OK(tess_report_put(&report, as_json ? TESS_FORM_JSON : TESS_FORM_TEXT, out));
    tess_report_free(&report);
    tess_history_destroy(&history);
}

static void the_newest_are_listed(void)
{
    tess_job_file file;
    tess_buffer out;
    char text[64];
    begin(&file);
    file.n_reported = 150;
    note(&file, 2, 0, "an older one");
    for (int i = 0; i < 9; i++) {
        snprintf(text, sizeof(text), "number %d", i);
        note(&file, 3 + i, 1 + i, text);
    }
    note(&file, -1, 10, "rank 1 was killed\x1b[31m; replaced");
    write_host(&file, 0);
    read_report(false, &out);
    EXPECT_CONTAINS(out.data, "told while it ran (and 140 before; --json has more of them):\n  20");
    EXPECT_CONTAINS(out.data, "  step 3  number 0\n");
    EXPECT_CONTAINS(out.data, "  rank 1 was killed?[31m; replaced\n");
    EXPECT(strstr(out.data, "an older one") == NULL);
    tess_buffer_free(&out);
    read_report(true, &out);
    EXPECT_CONTAINS(out.data, "\"text\": \"an older one\"");
    EXPECT_CONTAINS(out.data, "\"wall_ns\": 1700000010000000000");
    EXPECT_CONTAINS(out.data, "\"n_told\": 150");
    tess_buffer_free(&out);
}

static void without_notices_nothing_is_listed(void)
{
    tess_job_file file;
    tess_buffer out;
    begin(&file);
    write_host(&file, 0);
    read_report(false, &out);
    EXPECT(strstr(out.data, "told while it ran") == NULL);
    tess_buffer_free(&out);
}

static void notices_of_all_hosts_are_in_order_of_time(void)
{
    static const struct {
        int host, after_s;
        const char *text;
    } reported[] = {{0, 2, "the second"}, {1, 3, "the third"}, {12, 1, "the first"}};
    char path[512];
    for (int i = 0; i < 3; i++) {
        tess_job_file file;
        begin(&file);
        note(&file, 5, reported[i].after_s, reported[i].text);
        write_host(&file, reported[i].host);
    }
    EXPECT_OK(tess_trace_job_path(test_folder(), 2, path, sizeof(path)));
    EXPECT_OK(tess_os_write_atomic(path, "{", 1));
    tess_buffer out;
    read_report(false, &out);
    const char *first = strstr(out.data, "the first"), *second = strstr(out.data, "the second");
    EXPECT(first != NULL && second > first && strstr(second, "the third") != NULL);
    EXPECT_CONTAINS(out.data, "damaged: the reports of host 2 cannot be read: ");
    tess_buffer_free(&out);
}

/* The first host wrote its file before it heard how the ranks of the other one ended. */
static void a_rank_ended_as_its_own_host_says(void)
{
    tess_buffer out;
    for (int host = 0; host < 2; host++) {
        tess_job_file file;
        begin(&file);
        for (int r = 0; r < (host == 0 ? 2 : WORLD); r++)
            file.ranks[r].ended = true;
        write_host(&file, host);
    }
    read_report(false, &out);
    EXPECT_CONTAINS(out.data, "finished: all ranks ended in good order");
    tess_buffer_free(&out);
}

static const test_case cases[] = {
    CASE(a_rank_ended_as_its_own_host_says),
    CASE(the_newest_are_listed),
    CASE(without_notices_nothing_is_listed),
    CASE(notices_of_all_hosts_are_in_order_of_time),
};

TEST_MAIN(cases)
