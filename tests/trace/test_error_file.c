/* The record of a job that did not end well. */
#include "base/os/os.h"
#include "support/test.h"
#include "trace/error_file.h"

static tess_error_file made;

static const tess_error_file *make(void)
{
    made = (tess_error_file){.time_ns = 1700000000000000001,
                             .attempt = 2,
                             .world = 4,
                             .rank = 3,
                             .pid = 77,
                             .signal = 11,
                             .exit_code = 139,
                             .job_code = 139,
                             .step = 12,
                             .steps_done = 11,
                             .n_messages = 1};
    strcpy(made.kind, "crash");
    strcpy(made.host, "h2");
    strcpy(made.phase, "backward");
    strcpy(made.cause, "rank 3 was killed by \"caf\xe9\"");
    strcpy(made.output, "line 1\n\tline 2\n");
    strcpy(made.output_file, "logs/attempt_2/3/stderr.log");
    made.messages[0].rank = 1;
    strcpy(made.messages[0].text, "rank 3 was lost");
    return &made;
}

static void what_was_written_reads_back(void)
{
    static tess_error_file in;
    const tess_error_file *out = make();
    char path[512];
    EXPECT_OK(tess_os_join(path, sizeof(path), test_folder(), "error.json"));
    EXPECT_OK(tess_error_file_write(out, path));
    EXPECT_OK(tess_error_file_read(path, &in));
    EXPECT(in.time_ns == out->time_ns && in.step == 12 && in.steps_done == 11);
    EXPECT_INT(in.attempt, 2);
    EXPECT_INT(in.world, 4);
    EXPECT_INT(in.rank, 3);
    EXPECT_INT(in.pid, 77);
    EXPECT_INT(in.signal, 11);
    EXPECT_INT(in.job_code, 139);
    EXPECT_TEXT(in.kind, "crash");
    EXPECT_TEXT(in.host, "h2");
    EXPECT_TEXT(in.phase, "backward");
    EXPECT_TEXT(in.cause, "rank 3 was killed by \"caf?\""); /* invalid UTF-8 does not damage the file */
    EXPECT_TEXT(in.output, out->output);
    EXPECT_TEXT(in.output_file, out->output_file);
    EXPECT_INT(in.n_messages, 1);
    EXPECT_INT(in.messages[0].rank, 1);
    EXPECT_TEXT(in.messages[0].text, "rank 3 was lost");
}

static void a_record_without_a_rank_says_so(void)
{
    static tess_error_file in;
    char path[512];
    EXPECT_OK(tess_os_join(path, sizeof(path), test_folder(), "error.json"));
    EXPECT_OK(tess_error_file_write(&(tess_error_file){.rank = -1, .step = -1, .steps_done = -1}, path));
    EXPECT_OK(tess_error_file_read(path, &in));
    EXPECT_INT(in.rank, -1);
    EXPECT(in.step == -1 && in.steps_done == -1);
}

static tess_status parse(const char *text, tess_error_file *file)
{
    return tess_error_file_parse(text, strlen(text), "error.json", file);
}

static void files_of_torch_have_a_message(void)
{
    static tess_error_file in;
    EXPECT_OK(parse("{\"message\": {\"message\": \"ValueError: 3\", \"extraInfo\": {\"timestamp\": \"1\"}}}", &in));
    EXPECT_TEXT(in.cause, "ValueError: 3");
    EXPECT_INT(in.rank, -1);
    EXPECT_OK(parse("{\"message\": \"a text\", \"errorCode\": 3}", &in));
    EXPECT_TEXT(in.cause, "a text");
}

static void damaged_files_are_refused(void)
{
    static const char *const wrong[] = {
        "",
        "[]",
        "{}",
        "{\"message\": 3}",
        "{\"message\": {\"message\": 3}}",
        "{\"message\": \"a\", \"format\": 1, \"rank\": \"three\"}",
        "{\"message\": \"a\", \"format\": 1, \"rank\": 99999999999}",
        "{\"message\": \"a\", \"format\": 1, \"messages\": [3]}",
    };
    static tess_error_file in;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        EXPECT_FAILS(parse(wrong[i], &in), TESS_E_FORMAT, "");
}

static const test_case cases[] = {
    CASE(what_was_written_reads_back),
    CASE(a_record_without_a_rank_says_so),
    CASE(files_of_torch_have_a_message),
    CASE(damaged_files_are_refused),
};

TEST_MAIN(cases)
