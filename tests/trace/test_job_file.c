/* The file of a job in its trace folder. */
#include "base/os/os.h"
#include "support/test.h"
#include "trace/job_file.h"

static void what_was_written_reads_back(void)
{
    tess_job_file out, in;
    char path[512];
    EXPECT_OK(tess_os_join(path, sizeof(path), test_folder(), "job.json"));
    EXPECT_OK(tess_job_file_create(test_mem(), 3, &out));
    out.begin_ns = 1700000000000000001;
    out.end_ns = 1700000005000000002;
    out.exit_code = 137;
    strcpy(out.diagnosis, "rank 2 was killed by signal 9 (SIGKILL)");
    out.ranks[2] = (tess_job_file_rank){.pid = 77, .ended = true, .signal = 9, .blames = -1, .ended_ns = 5};
    strcpy(out.ranks[1].error, "caf\xe9: rank 2 was lost");
    out.ranks[1].blames = 2;
    strcpy(out.ranks[0].situation, "stopped");
    out.n_reported = 200;
    out.n_notices = 2;
    out.notices[0] = (tess_notice){.wall_ns = 1700000001000000003, .step = 12, .rank = 2, .kind = TESS_NOTICE_WAIT};
    out.notices[1] = (tess_notice){.step = -1, .rank = 7, .text = "of a life with more ranks"};
    strcpy(out.notices[0].text, "rank 2 kept caf\xe9 waiting");
    EXPECT_OK(tess_job_file_write(&out, path));
    EXPECT_OK(tess_job_file_read(test_mem(), path, &in));
    EXPECT_INT(in.world, 3);
    EXPECT(in.begin_ns == out.begin_ns && in.end_ns == out.end_ns);
    EXPECT_INT(in.exit_code, 137);
    EXPECT_TEXT(in.diagnosis, out.diagnosis);
    EXPECT_INT(in.ranks[2].signal, 9);
    EXPECT_INT(in.ranks[2].ended_ns, 5);
    EXPECT(in.ranks[2].ended && !in.ranks[0].ended);
    EXPECT_INT(in.ranks[1].blames, 2);
    EXPECT_INT(in.ranks[0].blames, -1);
    EXPECT_TEXT(in.ranks[1].error, "caf?: rank 2 was lost"); /* invalid UTF-8 does not damage the file */
    EXPECT_TEXT(in.ranks[0].situation, "stopped");
    EXPECT_INT(in.n_reported, 200);
    EXPECT_INT(in.n_notices, 2);
    EXPECT(in.notices[0].wall_ns == out.notices[0].wall_ns && in.notices[0].kind == TESS_NOTICE_WAIT);
    EXPECT_INT(in.notices[0].step, 12);
    EXPECT_TEXT(in.notices[0].text, "rank 2 kept caf? waiting");
    EXPECT_INT(in.notices[1].rank, 7);
    EXPECT_INT(in.notices[1].step, -1);
    EXPECT_TEXT(in.notices[1].text, "of a life with more ranks");
    tess_job_file_free(test_mem(), &in);
    tess_job_file_free(test_mem(), &out);
}

static void expect_bad(const char *text, const char *needle)
{
    tess_job_file file;
    EXPECT_FAILS(tess_job_file_parse(test_mem(), text, strlen(text), "job.json", &file), TESS_E_FORMAT, needle);
}

static void bad_files_are_told_apart(void)
{
    expect_bad("{", "job.json");
    expect_bad("[]", "not a JSON object");
    expect_bad("{\"version\": 2, \"world\": 4}", "version 2");
    expect_bad("{\"version\": 1, \"world\": 100000}", "'world' is 100000");
    expect_bad("{\"version\": 1, \"world\": 2, \"ranks\": [{\"rank\": 2}]}", "'rank' is 2 in a job of 2");
    expect_bad("{\"version\": 1, \"world\": 2, \"ranks\": [{\"rank\": 0, \"blames\": 7}]}", "'blames' is 7");
    expect_bad("{\"version\": 1, \"world\": 2, \"end_ns\": -1}", "'end_ns' is -1");
    expect_bad("{\"version\": 1, \"world\": 2, \"ranks\": {}}", "'ranks' is not a list");
    expect_bad("{\"version\": 1, \"world\": 2, \"notices\": {}}", "'notices' is not a list");
    expect_bad("{\"version\": 1, \"world\": 2, \"notices\": [3]}", "'notices' is not an object");
    expect_bad("{\"version\": 1, \"world\": 2, \"notices\": [{\"rank\": -2}]}", "about rank -2");
    expect_bad("{\"version\": 1, \"world\": 2, \"notices\": [{\"text\": 5}]}", "'text'");
    expect_bad("{\"version\": 1, \"world\": 2, \"n_told\": -1}", "'n_told' is -1");
}

static void more_notices_than_are_kept_are_refused(void)
{
    char text[TESS_NOTICES * 4 + 128] = "{\"version\": 1, \"world\": 2, \"notices\": [{}";
    for (int i = 0; i < TESS_NOTICES; i++)
        strcat(text, ",{}");
    strcat(text, "]}");
    expect_bad(text, "129 notices, at most 128 are kept");
}

/* Notices come before the ranks: a file that was cut off after them still has them. */
static void a_file_that_was_cut_off_keeps_its_notices(void)
{
    static const char text[] = "{\"version\": 1, \"world\": 2, \"notices\": [{\"rank\": 1, \"text\": \"told\"}], "
                               "\"ranks\": [{\"rank\": 0}, {\"ra";
    tess_job_file file;
    char path[512];
    EXPECT_OK(tess_os_join(path, sizeof(path), test_folder(), "job.json"));
    EXPECT_OK(tess_os_write_atomic(path, text, sizeof(text) - 1));
    EXPECT_OK(tess_job_file_read_cut(test_mem(), path, &file));
    EXPECT_INT(file.n_notices, 1);
    EXPECT_TEXT(file.notices[0].text, "told");
    tess_job_file_free(test_mem(), &file);
}

static const test_case cases[] = {
    CASE(what_was_written_reads_back),
    CASE(bad_files_are_told_apart),
    CASE(more_notices_than_are_kept_are_refused),
    CASE(a_file_that_was_cut_off_keeps_its_notices),
};

TEST_MAIN(cases)
