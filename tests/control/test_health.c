/* The checks of health: readings, limits, changes, and the watcher's process. */
#include "support/test.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/os/program.h"
#include "base/os/os.h"
#include "base/text/json.h"
#include "control/health/watcher.h"
#include "control/supervise/run_health.h"
#include "control/timers.h"
#include "health/facts.h"

static const tess_health_limits limits = {.at = {[TESS_HEALTH_MEMORY] = 90, [TESS_HEALTH_DISK] = 1000},
                                          .max_failures = 3};

static tess_health_reading value(double number)
{
    return (tess_health_reading){.known = true, .value = number, .who = -1, .rank = -1};
}

/* ---- States ---- */
static void rounds_and_not_checks_are_counted(void)
{
    tess_health health = {0};
    tess_health_change change;
    tess_health_reading bad[TESS_HEALTH_CHECK_COUNT] = {
        [TESS_HEALTH_MEMORY] = value(99), [TESS_HEALTH_DISK] = value(1)};
    tess_health_reading good[TESS_HEALTH_CHECK_COUNT] = {
        [TESS_HEALTH_MEMORY] = value(9), [TESS_HEALTH_DISK] = value(1e9)};
    static const tess_health_state states[] = {TESS_HEALTH_DEGRADED, TESS_HEALTH_DEGRADED, TESS_HEALTH_UNHEALTHY,
                                               TESS_HEALTH_UNHEALTHY};
    static const bool reported[] = {true, false, true, false};
    EXPECT_INT(health.state, TESS_HEALTH_UNKNOWN);
    tess_health_update(&health, &limits, good, &change);
    EXPECT_INT(health.state, TESS_HEALTH_HEALTHY);
    EXPECT(!change.any); /* healthy at first is no change */
    for (int round = 0; round < 4; round++) {
        tess_health_update(&health, &limits, bad, &change);
        EXPECT_INT(health.state, states[round]);
        EXPECT_INT(health.failures, round + 1);
        EXPECT_INT(change.any, reported[round]);
    }
    tess_health_update(&health, &limits, good, &change);
    EXPECT_INT(health.state, TESS_HEALTH_HEALTHY);
    EXPECT_INT(health.failures, 0);
    EXPECT(change.any && change.ended[TESS_HEALTH_MEMORY] && change.ended[TESS_HEALTH_DISK]);
    EXPECT_INT(change.was, TESS_HEALTH_UNHEALTHY);
}

static void a_value_at_its_limit_makes_no_noise(void)
{
    tess_health health = {0};
    tess_health_change change;
    static const struct {
        double memory, disk;
        bool memory_fails, disk_fails, reported;
    } rounds[] = {
        {89.9, 1000, false, false, false}, {90, 999, true, true, true},       {89, 1040, true, true, false},
        {91, 990, true, true, true},       {85.6, 1049, true, true, false},   {85.4, 1049, false, true, true},
        {89.9, 1050, false, false, true},  {89.9, 1000, false, false, false},
    };
    for (size_t i = 0; i < sizeof(rounds) / sizeof(rounds[0]); i++) {
        tess_health_reading readings[TESS_HEALTH_CHECK_COUNT] = {
            [TESS_HEALTH_MEMORY] = value(rounds[i].memory), [TESS_HEALTH_DISK] = value(rounds[i].disk)};
        tess_health_update(&health, &limits, readings, &change);
        EXPECT_INT(health.failing[TESS_HEALTH_MEMORY], rounds[i].memory_fails);
        EXPECT_INT(health.failing[TESS_HEALTH_DISK], rounds[i].disk_fails);
        EXPECT_INT(change.any, rounds[i].reported);
    }
}

static void what_is_not_known_neither_fails_nor_makes_well(void)
{
    tess_health health = {0};
    tess_health_change change;
    tess_health_reading readings[TESS_HEALTH_CHECK_COUNT] = {{0}};
    readings[TESS_HEALTH_LOAD] = value(1e6); /* off: it has no limit */
    tess_health_update(&health, &limits, readings, &change);
    EXPECT_INT(health.state, TESS_HEALTH_UNKNOWN);
    readings[TESS_HEALTH_MEMORY] = value(95);
    tess_health_update(&health, &limits, readings, &change);
    EXPECT_INT(health.state, TESS_HEALTH_DEGRADED);
    readings[TESS_HEALTH_MEMORY].known = false;
    tess_health_update(&health, &limits, readings, &change);
    EXPECT_INT(health.state, TESS_HEALTH_DEGRADED);
    EXPECT(!change.any);
    EXPECT(health.last[TESS_HEALTH_MEMORY].value == 95);
}

static void the_tighter_limit_counts(void)
{
    tess_health health = {0};
    tess_health_change change;
    tess_health_reading readings[TESS_HEALTH_CHECK_COUNT] = {
        [TESS_HEALTH_MEMORY] = value(80), [TESS_HEALTH_DISK] = value(4000), [TESS_HEALTH_FILES] = value(950)};
    readings[TESS_HEALTH_MEMORY].limit = 70;
    readings[TESS_HEALTH_DISK].limit = 5000;
    readings[TESS_HEALTH_FILES].limit = 900; /* its own limit: none is configured */
    tess_health_update(&health, &limits, readings, &change);
    EXPECT(health.failing[TESS_HEALTH_MEMORY] && health.failing[TESS_HEALTH_DISK] && health.failing[TESS_HEALTH_FILES]);
    EXPECT(health.last[TESS_HEALTH_DISK].limit == 5000);
    memset(&health, 0, sizeof(health));
    readings[TESS_HEALTH_MEMORY].limit = 99;
    readings[TESS_HEALTH_DISK].limit = 10;
    readings[TESS_HEALTH_FILES].limit = 1000;
    tess_health_update(&health, &limits, readings, &change);
    EXPECT_INT(health.state, TESS_HEALTH_HEALTHY);
}

/* ---- Readings ---- */
static void write_file(const char *name, const char *text)
{
    char path[600];
    snprintf(path, sizeof(path), "%s/%s", test_folder(), name);
    char *slash = strrchr(path, '/');
    *slash = '\0';
    EXPECT_OK(tess_os_make_dirs(path));
    *slash = '/';
    EXPECT_OK(tess_os_write_atomic(path, text, strlen(text)));
}

static void write_limits(const char *name, int most_files)
{
    char text[400];
    snprintf(text, sizeof(text),
             "Limit                     Soft Limit           Hard Limit           Units     \n"
             "Max open files            %d                 524288               files     \n",
             most_files);
    write_file(name, text);
}

static void readings_are_those_of_the_system(void)
{
    write_file("proc/meminfo", "MemTotal:       1000 kB\nMemFree:         10 kB\nMemAvailable:    250 kB\n");
    EXPECT(tess_health_read_memory(test_folder()).value == 75);
    write_file("proc/meminfo", "MemTotal:       1000 kB\n");
    EXPECT(!tess_health_read_memory(test_folder()).known);
    write_file("proc/loadavg", "3.00 2.00 1.00 1/100 4711\n");
    EXPECT(tess_health_read_load(test_folder()).value == 3.0 / tess_os_cores());

    write_limits("proc/11/limits", 100);
    write_file("proc/11/fd/0", "");
    write_file("proc/11/fd/1", "");
    write_limits("proc/12/limits", 10);
    write_file("proc/12/fd/0", "");
    const int pids[] = {11, 0, 13, 12};
    tess_health_reading files = tess_health_read_files(test_folder(), pids, 4);
    EXPECT(files.known && files.value == 1 && files.limit == 9); /* one of ten is more than two of a hundred */
    EXPECT_INT(files.who, 12);
    EXPECT_INT(files.rank, 3);
    EXPECT(!tess_health_read_files(test_folder(), pids + 1, 2).known);
    const int own = getpid();
    EXPECT(tess_health_read_files("", &own, 1).value >= 3);
    tess_health_reading memory = tess_health_read_memory("");
    EXPECT(memory.known && memory.value > 0 && memory.value < 100);
}

static void a_disk_needs_room_for_two_of_the_newest_checkpoint(void)
{
    char folder[600];
    tess_health_reading bytes, files;
    snprintf(folder, sizeof(folder), "%s/out/checkpoint", test_folder());
    tess_health_read_disk(folder, &bytes, &files); /* does not exist yet */
    EXPECT(bytes.known && bytes.value > 0 && bytes.limit == 0);
    write_file("out/checkpoint/step-00000010/rank-00000.data", "0123456789");
    write_file("out/checkpoint/step-00000020/rank-00000.data", "012345678901234");
    write_file("out/checkpoint/step-00000020/manifest.json", "01234");
    write_file("out/checkpoint/step-00000030.tmp/rank-00000.data", "0");
    tess_health_read_disk(folder, &bytes, &files);
    EXPECT(bytes.limit == 40);
    tess_health_read_disk("no/such/folder", &bytes, &files);
    EXPECT(bytes.known);
}

/* ---- Alerts ---- */
static void hear(void *self, const char *line)
{
    strcat(self, line);
    strcat(self, "\n");
}

enum { PATIENCE_S = 120 }; /* limit for what ends by itself, on a busy machine */

static double silence_s;

static void look(void *self, tess_health_view *view)
{
    (void)self;
    view->readings[TESS_HEALTH_HEARTBEAT] = value(silence_s);
    view->readings[TESS_HEALTH_HEARTBEAT].rank = 3;
}

static char *read_text(const char *name)
{
    char path[600], *text;
    size_t size;
    snprintf(path, sizeof(path), "%s/%s", test_folder(), name);
    EXPECT_OK(tess_os_read(test_mem(), path, 10000, &text, &size));
    return text;
}

static void check_line(const char *text)
{
    json_t *line;
    EXPECT_OK(tess_json_parse(text, strcspn(text, "\n"), "alert", true, &line));
    EXPECT_INT(json_integer_value(json_object_get(line, "pid")), 4711);
    EXPECT_TEXT(json_string_value(json_object_get(line, "event")), "health");
    EXPECT_TEXT(json_string_value(json_object_get(line, "state")), "degraded");
    EXPECT_TEXT(json_string_value(json_object_get(line, "was")), "unknown");
    const json_t *check = json_object_get(json_object_get(line, "checks"), "heartbeat");
    EXPECT(json_is_true(json_object_get(check, "failing")));
    EXPECT_INT(json_integer_value(json_object_get(check, "rank")), 3);
    EXPECT(json_real_value(json_object_get(check, "value")) == 12);
    json_decref(line);
}

static void alerts_reach_the_file_and_the_program(void)
{
    char file[600], script[700], heard[4000] = "";
    snprintf(file, sizeof(file), "%s/out/alerts.jsonl", test_folder());
    snprintf(script, sizeof(script),
             "cd %s; cat >>lines; echo \"$TESSERA_ALERT_EVENT $TESSERA_ALERT_STATE $TESSERA_ALERT_JOB\" >>words",
             test_folder());
    char *const command[] = {"sh", "-c", script, NULL};
    tess_health_options options = {.limits = {.at = {[TESS_HEALTH_HEARTBEAT] = 10}, .max_failures = 2},
                                   .checkpoint_folder = test_folder(),
                                   .alerts = {file, command, PATIENCE_S, "out", 4711},
                                   .look = look,
                                   .reporter = {hear, heard}};
    static const double silences_s[] = {12, 30, 31, 2, 1};
    tess_health health = {0};
    for (int i = 0; i < 5; i++) {
        silence_s = silences_s[i];
        tess_health_round(&options, &health);
    }
    EXPECT_TEXT(heard, "health: degraded: rank 3 gave no sign of life for 12 s (limit 10 s)\n"
                       "health: unhealthy (2 looks in a row): rank 3 gave no sign of life for 30 s (limit 10 s)\n"
                       "health: healthy again: rank 3 gave no sign of life for 2 s (limit 10 s)\n");
    char *words = read_text("words"), *lines = read_text("lines"), *kept = read_text("out/alerts.jsonl");
    EXPECT_TEXT(words, "health degraded out\nhealth unhealthy out\nhealth healthy out\n");
    EXPECT_TEXT(lines, kept);
    check_line(kept);
    tess_mem_free(test_mem(), words);
    tess_mem_free(test_mem(), lines);
    tess_mem_free(test_mem(), kept);
}

/* The sender does not wait for a slow program. */
static void an_alert_aside_keeps_nobody_waiting(void)
{
    char file[600], script[700];
    snprintf(file, sizeof(file), "%s/alerts.jsonl", test_folder());
    snprintf(script, sizeof(script), "cd %s; while [ ! -e go ]; do sleep 0.01; done; cat >heard; mv heard line",
             test_folder());
    char *const command[] = {"sh", "-c", script, NULL};
    const tess_alert_channel channel = {file, command, PATIENCE_S, "out", 1};
    tess_alert_send_aside(&channel, &(tess_alert){.event = "recovery", .state = "restart", .text = "rank 1 died"});
    write_file("go", "");
    char path[600];
    snprintf(path, sizeof(path), "%s/line", test_folder());
    double begin_s = tess_os_now_s();
    while (!tess_os_is_file(path) && tess_os_now_s() - begin_s < PATIENCE_S)
        usleep(5000);
    char *line = read_text("line");
    EXPECT_CONTAINS(line, "\"event\":\"recovery\",\"state\":\"restart\",\"text\":\"rank 1 died\"");
    tess_mem_free(test_mem(), line);
}

static bool has_ended(int pid)
{
    char state = tess_os_process_state(pid);
    return state == '\0' || state == 'Z';
}

static void a_program_that_hangs_is_killed_with_its_children(void)
{
    char file[600], script[700];
    snprintf(file, sizeof(file), "%s/child", test_folder());
    snprintf(script, sizeof(script), "sleep 3600 & echo $! >%s.new; mv %s.new %s; wait", file, file, file);
    char *const hanging[] = {"sh", "-c", script, NULL}, *const failing[] = {"sh", "-c", "exit 3", NULL},
                *const missing[] = {"no-such-program", NULL};
    EXPECT_FAILS(tess_os_hook(hanging, "", NULL, 0, 0.5), TESS_E_TIMEOUT, "longer than 0.5 s");
    for (double limit_s = 1; !tess_os_is_file(file) && limit_s < PATIENCE_S;
         limit_s *= 2) /* killed before it had written */
        EXPECT_FAILS(tess_os_hook(hanging, "", NULL, 0, limit_s), TESS_E_TIMEOUT, "longer than");
    char *child = read_text("child");
    double begin_s = tess_os_now_s();
    while (!has_ended(atoi(child)) && tess_os_now_s() - begin_s < PATIENCE_S)
        usleep(5000);
    EXPECT(has_ended(atoi(child)));
    tess_mem_free(test_mem(), child);
    EXPECT_FAILS(tess_os_hook(failing, "x", NULL, 0, PATIENCE_S), TESS_E_IO, "ended with code 3");
    EXPECT_FAILS(tess_os_hook(missing, "x", NULL, 0, PATIENCE_S), TESS_E_NOT_FOUND, "no such program");
}

/* The watcher ends without waiting for the next round. */
static void the_watcher_ends_when_it_is_told(void)
{
    tess_health_watcher watcher;
    tess_health_options options = {.interval_s = 1000, .checkpoint_folder = test_folder(), .limits = limits};
    EXPECT_OK(tess_health_watcher_start(&options, &watcher));
    int pid = watcher.pid;
    EXPECT(pid > 0);
    tess_health_watcher_stop(&watcher);
    EXPECT_INT(tess_os_process_state(pid), '\0');
    tess_health_watcher_stop(&watcher);
}

/* ---- Limits ---- */
/* Programs that use tessera/health.h get the limits of `tessera train`. */
static void the_public_limits_are_those_of_a_run(void)
{
    static const char text[] = "validation:\n  enable: false\n";
    tess_health_limits shared;
    tess_config config;
    tess_health_limits_default(&shared);
    EXPECT_OK(tess_config_parse(test_mem(), text, strlen(text), "c.yaml", &config));
    tess_health_limits run = tess_run_health_limits(&config);
    run.at[TESS_HEALTH_HEARTBEAT] = tess_timers_silence(&config, watchdog_kind_of("forward"));
    run.at[TESS_HEALTH_LOSS] = run.at[TESS_HEALTH_GRAD_NORM] = config.numbers.spike_z;
    run.at[TESS_HEALTH_NOT_FINITE] = 1; /* a run checks this at every step */
    for (int i = 0; i < TESS_HEALTH_CHECK_COUNT; i++)
        if (run.at[i] != shared.at[i])
            test_fail(__FILE__, __LINE__, "%s: %g in a run, %g in public", tess_health_check_name((tess_health_check)i),
                      run.at[i], shared.at[i]);
    EXPECT_INT(run.max_failures, shared.max_failures);
    EXPECT(config.health.interval_s == 10);
    EXPECT(shared.at[TESS_HEALTH_GPU_MEMORY] == 95 && shared.at[TESS_HEALTH_MEMORY] == 90);
    EXPECT(shared.at[TESS_HEALTH_FILES] == 10000 && shared.at[TESS_HEALTH_HEARTBEAT] == 300);
    EXPECT_INT(shared.max_failures, 3);
    tess_config_free(&config);
}

static const test_case cases[] = {
    CASE(the_public_limits_are_those_of_a_run),
    CASE(rounds_and_not_checks_are_counted),
    CASE(a_value_at_its_limit_makes_no_noise),
    CASE(what_is_not_known_neither_fails_nor_makes_well),
    CASE(the_tighter_limit_counts),
    CASE(readings_are_those_of_the_system),
    CASE(a_disk_needs_room_for_two_of_the_newest_checkpoint),
    CASE(alerts_reach_the_file_and_the_program),
    CASE(an_alert_aside_keeps_nobody_waiting),
    CASE(a_program_that_hangs_is_killed_with_its_children),
    CASE(the_watcher_ends_when_it_is_told),
};
TEST_MAIN(cases)
