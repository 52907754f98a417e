/* Changes of a job's configuration: which keys may change at a step, and what is left when a change is not taken. */
#include "control/reload/reload.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>
#include <signal.h>

#include "base/core/variables.h"
#include "base/os/os.h"
#include "control/reload/reload_keys.h"
#include "support/test.h"

enum { TEXT = 1024 };

static char newest[2048]; /* newest line of the reload */

static void keep_line(TESS_UNUSED void *self, const char *text)
{
    snprintf(newest, sizeof(newest), "%s", text);
}

static const tess_reporter reporter = {keep_line, NULL};

/* ---- Keys ---- */
static int fixed(const char *a, const char *b, char *text)
{
    tess_config one, two;
    EXPECT_OK(tess_config_parse(test_mem(), a, strlen(a), "a.yaml", &one));
    EXPECT_OK(tess_config_parse(test_mem(), b, strlen(b), "b.yaml", &two));
    int n = tess_reload_compare(&one, &two, TESS_RELOAD_FIXED, text, TEXT);
    tess_config_free(&one);
    tess_config_free(&two);
    return n;
}

static void keys_that_a_checkpoint_compares_are_fixed(void)
{
    static const char *const refused[][2] = {
        {"training: {seq_len: 16}\n", "training: {seq_len: 32}\n"},
        {"", "training: {freeze: [embed]}\n"},
        {"", "validation: {enable: false}\n"},
        {"", "validation: {fraction: 0.1}\n"},
        {"", "validation: {files: [a.txt]}\n"},
        {"", "optimizer: {beta1: 0.5}\n"},
        {"", "debug: {seed: 1}\n"},
        {"", "data: {files: [a.txt]}\n"},
    };
    static const char *const free_to_change[][2] = {
        {"", "optimizer: {lr: 1}\n"},
        {"", "validation: {interval: 7}\n"},
        {"validation: {files: [a.txt]}\n", "validation: {files: [b.txt]}\n"},
        {"validation: {files: [a.txt]}\n", "validation: {files: [a.txt], enable: false}\n"},
        {"validation: {fraction: 0}\n", "validation: {fraction: 0, enable: false}\n"},
    };
    char text[TEXT];
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        EXPECT(fixed(refused[i][0], refused[i][1], text) == 1);
        EXPECT(text[0] != '\0');
    }
    for (size_t i = 0; i < sizeof(free_to_change) / sizeof(free_to_change[0]); i++)
        EXPECT(fixed(free_to_change[i][0], free_to_change[i][1], text) == 0);
}

/* ---- A change that is not taken ---- */
static char folder[256], path[300];
static tess_config config;
static tess_config_source source;

static void write_file(int64_t alert_s, double lr, int64_t step)
{
    FILE *f = fopen(path, "w");
    EXPECT(f != NULL);
    fprintf(f,
            "job: {reload: true, reload_step: %lld, dump_folder: %s}\ndata: {files: [a.txt]}\n"
            "model: {config: model.json}\nhealth: {memory_percent: %lld}\noptimizer: {lr: %g}\n"
            "validation: {enable: false}\n",
            (long long)step, folder, (long long)alert_s, lr);
    fclose(f);
}

static void begin(tess_reload *r)
{
    tess_config_text *text;
    snprintf(folder, sizeof(folder), "%s/tess_reload_XXXXXX", getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp");
    EXPECT(mkdtemp(folder) != NULL);
    snprintf(path, sizeof(path), "%s/run.yaml", folder);
    source = (tess_config_source){.path = path};
    write_file(50, 0.25, 0);
    EXPECT_OK(tess_config_text_read(&source, path, &text));
    EXPECT_OK(tess_config_text_share(text));
    EXPECT_OK(tess_config_copy(&text->config, &config));
    tess_reload_begin(r, &source, text, &config, &reporter);
    r->n_ranks = 1;
}

static void end(tess_reload *r)
{
    tess_reload_end(r);
    tess_config_free(&config);
    EXPECT_OK(tess_os_remove_tree(folder));
}

static bool look(tess_reload *r)
{
    newest[0] = '\0';
    r->looked_s = r->changed_s = -1; /* does not wait, and reads a file that was written within one tick of its clock */
    return tess_reload_look(r);
}

/* The learning rate that ranks read that start now. */
static double shared_lr(void)
{
    tess_config_text *text;
    EXPECT_OK(tess_config_text_read(&source, tess_variable_value(TESS_VAR_CONFIG), &text));
    double lr = text->config.optimizer.lr;
    tess_config_text_free(&text);
    return lr;
}

static void a_change_without_room_leaves_the_old_values_to_all(void)
{
    tess_reload r;
    begin(&r);
    for (int i = 0; i < TESS_RELOADS; i++) {
        write_file(51 + i % 2, 0.25, 0);
        EXPECT(look(&r));
    }
    write_file(70, 0.25, 0);
    EXPECT(!look(&r));
    EXPECT(strstr(newest, "nothing is changed: there is no room for more than 64 changes") != NULL);
    write_file(51 + (TESS_RELOADS - 1) % 2, 0.5, 9);
    EXPECT(!look(&r));
    EXPECT(strstr(newest, "after step 9: ") != NULL);
    test_expect_status(__FILE__, __LINE__, "65 changes", tess_reload_change(&r), TESS_E_UNSUPPORTED,
                       "no room for more than 64 changes");
    EXPECT(config.optimizer.lr == 0.25);
    EXPECT(shared_lr() == 0.25);
    EXPECT(tess_reload_due(&r, 10) == 0);
    end(&r);
}

static void a_text_that_cannot_be_shared_changes_nothing(void)
{
    struct rlimit all, none;
    tess_reload r;
    begin(&r);
    write_file(50, 0.5, 9);
    EXPECT(!look(&r));
    signal(SIGXFSZ, SIG_IGN);
    EXPECT(getrlimit(RLIMIT_FSIZE, &all) == 0);
    none = (struct rlimit){.rlim_cur = 1, .rlim_max = all.rlim_max};
    EXPECT(setrlimit(RLIMIT_FSIZE, &none) == 0);
    tess_status status = tess_reload_change(&r);
    EXPECT(setrlimit(RLIMIT_FSIZE, &all) == 0);
    test_expect_status(__FILE__, __LINE__, "a full disk", status, status != TESS_OK ? status : TESS_E_IO,
                       "File too large");
    EXPECT(config.optimizer.lr == 0.25);
    EXPECT(shared_lr() == 0.25);
    end(&r);
}

static void a_change_is_undone_until_a_rank_has_begun_a_step(void)
{
    tess_reload r;
    begin(&r);
    test_expect_status(__FILE__, __LINE__, "no change", tess_reload_undo(&r), TESS_E_NOT_FOUND, NULL);
    for (int settled = 0; settled < 2; settled++) {
        write_file(50, 0.5, 9 + settled);
        EXPECT(!look(&r));
        EXPECT(tess_reload_due(&r, 9) == 9 + settled);
        EXPECT_OK(tess_reload_change(&r));
        EXPECT(config.optimizer.lr == 0.5);
        EXPECT(shared_lr() == 0.5);
        EXPECT(tess_reload_due(&r, 9 + 2 * settled) == 0);
        test_expect_status(__FILE__, __LINE__, "undo", tess_reload_undo(&r), settled ? TESS_E_NOT_FOUND : TESS_OK,
                           NULL);
        EXPECT(config.optimizer.lr == (settled ? 0.5 : 0.25));
        EXPECT(shared_lr() == (settled ? 0.5 : 0.25));
    }
    write_file(50, 0.125, 10);
    EXPECT(!look(&r));
    EXPECT(strstr(newest, "job.reload_step=10 does not count again") != NULL);
    end(&r);
}

static const test_case cases[] = {
    CASE(keys_that_a_checkpoint_compares_are_fixed),
    CASE(a_change_without_room_leaves_the_old_values_to_all),
    CASE(a_text_that_cannot_be_shared_changes_nothing),
    CASE(a_change_is_undone_until_a_rank_has_begun_a_step),
};
TEST_MAIN(cases)
