/* The file of metrics: lines, rotation, a full disk. */
#include "support/test.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "base/os/os.h"
#include "base/text/json.h"
#include "train/metrics.h"
#include "train/tensorboard.h"

static void masked_crc_gives_the_published_values(void)
{
    EXPECT_INT(tess_masked_crc32c("\x1a\x11"
                                  "CRC test, one two",
                                  19),
               0x5794d08a);
}

static tess_step_report report_of(int64_t step)
{
    return (tess_step_report){.step = step,
                              .steps = 9,
                              .loss = 1.0 / (double)(step + 2),
                              .grad_norm = 0.1,
                              .lr = 1e-3,
                              .n_tokens = 100 * step,
                              .tps = 12.5,
                              .times = {.phase_s = {[TESS_PHASE_FORWARD] = 0.25}, .total_s = 0.5},
                              .log_line = true};
}

/* A run resumes after step 2: its lines of step 3 are removed. */
static void resumed_runs_drop_the_lines_that_run_again(void)
{
    tess_config config = {0};
    tess_metrics *metrics;
    tess_mapping file;
    char path[512];
    snprintf(config.job.dump_folder, sizeof(config.job.dump_folder), "%s", test_folder());
    EXPECT_OK(tess_metrics_open(test_mem(), &config, 0, &metrics));
    for (int64_t step = 1; step <= 3; step++) {
        tess_step_report report = report_of(step);
        EXPECT_OK(tess_metrics_step(metrics, &report));
    }
    tess_metrics_close(&metrics);
    EXPECT_OK(tess_metrics_open(test_mem(), &config, 2, &metrics));
    tess_step_report report = report_of(4);
    EXPECT_OK(tess_metrics_step(metrics, &report));
    tess_metrics_close(&metrics);

    EXPECT_OK(tess_os_join(path, sizeof(path), test_folder(), "metrics.jsonl"));
    EXPECT_OK(tess_os_map(path, &file));
    static const int64_t expected[] = {1, 2, 4};
    const char *at = (const char *)file.data;
    for (int i = 0; i < 3; i++) {
        const char *end = memchr(at, '\n', file.size);
        json_t *line;
        EXPECT_OK(tess_json_parse(at, (size_t)(end - at), "line", true, &line));
        EXPECT_INT(json_integer_value(json_object_get(line, "step")), expected[i]);
        /* The digits read back to the same bits. */
        EXPECT(json_real_value(json_object_get(line, "loss")) == 1.0 / (double)(expected[i] + 2));
        const json_t *times = json_object_get(line, "time_s");
        EXPECT(json_real_value(json_object_get(times, "total")) == 0.5);
        EXPECT(json_real_value(json_object_get(times, "forward")) == 0.25);
        json_decref(line);
        at = end + 1;
    }
    EXPECT_INT(at - (const char *)file.data, file.size);
    tess_os_unmap(&file);
}

static int64_t step_at(const tess_mapping *file, size_t at)
{
    json_t *line;
    const char *begin = (const char *)file->data + at, *end = memchr(begin, '\n', file->size - at);
    EXPECT_OK(tess_json_parse(begin, (size_t)(end - begin), "line", true, &line));
    int64_t step = json_integer_value(json_object_get(line, "step"));
    json_decref(line);
    return step;
}

/* A limit on the file's size, in the middle of a line, acts as a full disk. What could not be written is written once
 * there is room, in its order. */
static void lines_of_a_full_disk_are_written_later(void)
{
    tess_config config = {0};
    tess_metrics *metrics;
    tess_step_report report = report_of(1);
    tess_mapping file;
    struct rlimit limit;
    uint64_t one = 0, now = 0;
    char path[512];
    snprintf(config.job.dump_folder, sizeof(config.job.dump_folder), "%s", test_folder());
    EXPECT_OK(tess_os_join(path, sizeof(path), test_folder(), "metrics.jsonl"));
    EXPECT_OK(tess_metrics_open(test_mem(), &config, 0, &metrics));
    EXPECT_OK(tess_metrics_step(metrics, &report));
    EXPECT_OK(tess_os_file_size(path, &one));
    signal(SIGXFSZ, SIG_IGN);
    EXPECT_INT(getrlimit(RLIMIT_FSIZE, &limit), 0);
    EXPECT_INT(setrlimit(RLIMIT_FSIZE, &(struct rlimit){one + 20, limit.rlim_max}), 0);
    for (int64_t step = 2; step <= 4; step++) {
        report = report_of(step);
        EXPECT_FAILS(tess_metrics_step(metrics, &report), TESS_E_NO_SPACE, "metrics.jsonl");
        EXPECT_OK(tess_os_file_size(path, &now));
        EXPECT_INT(now, one);
        EXPECT_INT(tess_metrics_waiting(metrics).n_lines, step - 1);
    }
    /* Room for one line and a half: the rest goes on waiting. */
    EXPECT_INT(setrlimit(RLIMIT_FSIZE, &(struct rlimit){2 * one + one / 2, limit.rlim_max}), 0);
    EXPECT_FAILS(tess_metrics_flush(metrics), TESS_E_NO_SPACE, "metrics.jsonl");
    EXPECT_INT(tess_metrics_waiting(metrics).n_lines, 2);
    EXPECT_INT(setrlimit(RLIMIT_FSIZE, &limit), 0);
    report = report_of(5);
    EXPECT_OK(tess_metrics_step(metrics, &report));
    EXPECT_INT(tess_metrics_waiting(metrics).n_lines, 0);
    EXPECT_INT(tess_metrics_waiting(metrics).n_lost, 0);
    tess_metrics_close(&metrics);
    EXPECT_OK(tess_os_map(path, &file));
    size_t at = 0;
    for (int64_t step = 1; step <= 5; step++) {
        EXPECT_INT(step_at(&file, at), step);
        at = (size_t)((const uint8_t *)memchr(file.data + at, '\n', file.size - at) - file.data) + 1;
    }
    EXPECT_INT(at, file.size);
    tess_os_unmap(&file);
}

/* The memory for lines that wait is bounded. */
static void lines_beyond_the_memory_for_them_are_counted(void)
{
    tess_config config = {0};
    tess_metrics *metrics;
    tess_step_report report = report_of(1);
    struct rlimit limit;
    snprintf(config.job.dump_folder, sizeof(config.job.dump_folder), "%s", test_folder());
    EXPECT_OK(tess_metrics_open(test_mem(), &config, 0, &metrics));
    signal(SIGXFSZ, SIG_IGN);
    EXPECT_INT(getrlimit(RLIMIT_FSIZE, &limit), 0);
    EXPECT_INT(setrlimit(RLIMIT_FSIZE, &(struct rlimit){20, limit.rlim_max}), 0);
    for (int i = 0; i < 30000; i++)
        EXPECT(tess_metrics_step(metrics, &report) == TESS_E_NO_SPACE);
    tess_metrics_backlog backlog = tess_metrics_waiting(metrics);
    EXPECT(backlog.n_lines > 5000 && backlog.n_lost > 0);
    EXPECT_INT(backlog.n_lines + backlog.n_lost, 30000);
    EXPECT(tess_mem_stats(test_mem(), TESS_POOL_MISC).bytes < 20 << 20);
    EXPECT_INT(setrlimit(RLIMIT_FSIZE, &limit), 0);
    EXPECT_OK(tess_metrics_flush(metrics));
    tess_metrics_close(&metrics);
}

/* A missing result is null, a partial one is marked, and one that is not about text has a loss alone. */
static void evaluations_are_whole_partial_or_null(void)
{
    tess_config config = {0};
    static const char *const lines[] = {
        "{\"step\": 1, \"validation_loss\": 2.5, \"validation_perplexity\": 12.5, \"validation_bits_per_byte\": 1.5, "
        "\"validation_tokens\": 100}",
        "{\"step\": 2, \"validation_loss\": 2.5, \"validation_perplexity\": 12.5, \"validation_bits_per_byte\": 1.5, "
        "\"validation_tokens\": 30, \"validation_partial\": true, \"validation_tokens_all\": 100, "
        "\"validation_error\": \"late\"}",
        "{\"step\": 3, \"validation_loss\": null, \"validation_perplexity\": null, \"validation_bits_per_byte\": null, "
        "\"validation_tokens\": 0, \"validation_error\": \"rank 1: \\\"a\\\"\"}",
        "{\"step\": 4, \"validation_loss\": 2.5, \"validation_tokens\": 7}",
    };
    static const tess_validation_report reports[] = {
        {.step = 1, .n_tokens = 100, .n_tokens_all = 100, .loss = 2.5, .perplexity = 12.5, .bits_per_byte = 1.5},
        {.step = 2,
         .outcome = TESS_VALIDATION_PARTIAL,
         .n_tokens = 30,
         .n_tokens_all = 100,
         .loss = 2.5,
         .perplexity = 12.5,
         .bits_per_byte = 1.5,
         .why = "late"},
        {.step = 3, .outcome = TESS_VALIDATION_MISSING, .why = "rank 1: \"a\""},
        {.step = 4, .n_tokens = 7, .n_tokens_all = 7, .loss = 2.5}};
    tess_metrics *metrics;
    tess_mapping file;
    char path[512], text[1200];
    size_t at = 0;
    snprintf(config.job.dump_folder, sizeof(config.job.dump_folder), "%s", test_folder());
    EXPECT_OK(tess_metrics_open(test_mem(), &config, 0, &metrics));
    for (int i = 0; i < 4; i++) {
        EXPECT_OK(tess_metrics_validation(metrics, &reports[i]));
        at += (size_t)snprintf(text + at, sizeof(text) - at, "%s\n", lines[i]);
    }
    tess_metrics_close(&metrics);
    EXPECT_OK(tess_os_join(path, sizeof(path), test_folder(), "metrics.jsonl"));
    EXPECT_OK(tess_os_map(path, &file));
    EXPECT_INT(file.size, at);
    EXPECT(memcmp(file.data, text, at) == 0);
    tess_os_unmap(&file);
}

static void event_files_hold_framed_records(void)
{
    tess_tensorboard *board;
    char command[600];
    EXPECT_OK(tess_tensorboard_open(test_mem(), test_folder(), &board));
    EXPECT_OK(tess_tensorboard_scalar(board, "loss", 300, 2.5f));
    EXPECT_OK(tess_tensorboard_flush(board));
    tess_tensorboard_close(&board);
    snprintf(command, sizeof(command), "cat %s/events.out.tfevents.* > %s/all", test_folder(), test_folder());
    EXPECT_INT(system(command), 0);
    tess_mapping file;
    snprintf(command, sizeof(command), "%s/all", test_folder());
    EXPECT_OK(tess_os_map(command, &file));
    size_t at = 0;
    int n_records = 0;
    while (at < file.size) {
        uint64_t size;
        uint32_t size_crc, crc;
        EXPECT(at + 12 <= file.size);
        memcpy(&size, file.data + at, 8);
        memcpy(&size_crc, file.data + at + 8, 4);
        EXPECT_INT(size_crc, tess_masked_crc32c(&size, 8));
        EXPECT(at + 16 + size <= file.size);
        memcpy(&crc, file.data + at + 12 + size, 4);
        EXPECT_INT(crc, tess_masked_crc32c(file.data + at + 12, size));
        if (n_records == 1) { /* wall time, step 300, then the summary of at least ten bytes */
            const uint8_t *event = file.data + at + 12;
            EXPECT(event[0] == 0x09 && event[9] == 0x10 && event[10] == 0xac && event[11] == 0x02 && event[12] == 0x2a);
        }
        at += 16 + size;
        n_records++;
    }
    EXPECT_INT(n_records, 2);
    tess_os_unmap(&file);
}

static const test_case cases[] = {
    CASE(masked_crc_gives_the_published_values),  CASE(resumed_runs_drop_the_lines_that_run_again),
    CASE(lines_of_a_full_disk_are_written_later), CASE(lines_beyond_the_memory_for_them_are_counted),
    CASE(evaluations_are_whole_partial_or_null),  CASE(event_files_hold_framed_records),
};
TEST_MAIN(cases)
