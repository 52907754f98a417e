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
    strcpy(out.verdict, "rank 2 was killed by signal 9 (SIGKILL)");
    out.ranks[2] = (tess_job_file_rank){.pid = 77, .ended = true, .signal = 9, .blames = -1, .ended_ns = 5};
    strcpy(out.ranks[1].error, "caf\xe9: rank 2 was lost");
    out.ranks[1].blames = 2;
    strcpy(out.ranks[0].situation, "stopped");
    EXPECT_OK(tess_job_file_write(&out, path));
    EXPECT_OK(tess_job_file_read(test_mem(), path, &in));
    EXPECT_INT(in.world, 3);
    EXPECT(in.begin_ns == out.begin_ns && in.end_ns == out.end_ns);
    EXPECT_INT(in.exit_code, 137);
    EXPECT_TEXT(in.verdict, out.verdict);
    EXPECT_INT(in.ranks[2].signal, 9);
    EXPECT_INT(in.ranks[2].ended_ns, 5);
    EXPECT(in.ranks[2].ended && !in.ranks[0].ended);
    EXPECT_INT(in.ranks[1].blames, 2);
    EXPECT_INT(in.ranks[0].blames, -1);
    EXPECT_TEXT(in.ranks[1].error, "caf?: rank 2 was lost"); /* bytes that are no UTF-8 do not spoil the file */
    EXPECT_TEXT(in.ranks[0].situation, "stopped");
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
    expect_bad("[]", "no object");
    expect_bad("{\"version\": 2, \"world\": 4}", "version 2");
    expect_bad("{\"version\": 1, \"world\": 100000}", "'world' is 100000");
    expect_bad("{\"version\": 1, \"world\": 2, \"ranks\": [{\"rank\": 2}]}", "'rank' is 2 in a job of 2");
    expect_bad("{\"version\": 1, \"world\": 2, \"ranks\": [{\"rank\": 0, \"blames\": 7}]}", "'blames' is 7");
    expect_bad("{\"version\": 1, \"world\": 2, \"end_ns\": -1}", "'end_ns' is -1");
    expect_bad("{\"version\": 1, \"world\": 2, \"ranks\": {}}", "no list");
}

static const test_case cases[] = {
    {"what_was_written_reads_back", what_was_written_reads_back},
    {"bad_files_are_told_apart", bad_files_are_told_apart},
};

TEST_MAIN(cases)
