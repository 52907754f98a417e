/* The table of a job's timers, and which orders are refused. */
#include "control/timers.h"
#include "support/test.h"

static tess_timers timers;
static double silence_s[WATCHDOG_KINDS], stall_s;

static void make(const char *text)
{
    tess_config config;
    EXPECT_OK(tess_config_parse(test_mem(), text, strlen(text), "c.yaml", &config));
    tess_timers_make(&config, 5, &timers);
    for (int kind = 0; kind < WATCHDOG_KINDS; kind++)
        silence_s[kind] = tess_timers_silence(&config, (watchdog_kind)kind);
    stall_s = tess_timers_stall(&config);
    tess_config_free(&config);
}

static void expect_holds(const char *text)
{
    make(text);
    test_expect_status(__FILE__, __LINE__, text, tess_timers_check(&timers), TESS_OK, NULL);
}

static void expect_refused(const char *text, const char *why)
{
    make(text);
    test_expect_status(__FILE__, __LINE__, text, tess_timers_check(&timers), TESS_E_INVALID, why);
}

static const tess_timer *timer(const char *name)
{
    for (int i = 0; i < timers.n; i++)
        if (strcmp(timers.rows[i].name, name) == 0)
            return &timers.rows[i];
    return NULL;
}

static void every_timer_of_a_job_is_in_the_table(void)
{
    static const char *const rows[] = {"deadline, evaluation          1800  3 x comm.timeout_s",
                                       "silence, training              300  1/2 x comm.timeout_s",
                                       "silence, checkpoint            900  3/2 x comm.timeout_s",
                                       "no step                       3600  1800 + validation.timeout_s",
                                       "evaluation                    1800  validation.timeout_s",
                                       "ranks meet                     600  comm.timeout_s",
                                       "a host calls                    60  fixed",
                                       "emergency save                 120  checkpoint.emergency_grace_s",
                                       "back-off, longest               60  recovery.backoff_max_s",
                                       "elastic retry                  600  elastic.retry_s",
                                       "silence                  deadline                 an alert must come"};
    tess_buffer text = {.mem = test_mem()};
    make("elastic: {min_ranks: 1}\n");
    EXPECT(timers.n <= TESS_TIMERS);
    EXPECT_OK(tess_timers_put(&timers, TESS_FORM_TEXT, &text));
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        EXPECT_CONTAINS(text.data, rows[i]);
    tess_buffer_free(&text);
}

static void what_is_off_is_neither_shown_nor_in_the_way(void)
{
    expect_holds("health: {enable: false}\nvalidation: {enable: false}\nrecovery: {enable: false}\n"
                 "checkpoint: {emergency_grace_s: 0}\ncomm: {soft_timeout_s: 0}\n");
    EXPECT(timer("silence") == NULL && timer("evaluation") == NULL && timer("back-off, first") == NULL);
    EXPECT(timer("emergency save") == NULL && timer("notice") == NULL && timer("elastic retry") == NULL);
    expect_holds("health: {heartbeat_s: 0, stall_s: 0}\nvalidation: {timeout_s: 0}\n");
    EXPECT(timer("silence") == NULL && timer("no step") == NULL && timer("health look") != NULL);
}

/* Changing the deadline alone keeps all timers in order. */
static void what_is_not_set_follows_the_deadline(void)
{
    expect_holds("");
    expect_holds("comm: {timeout_s: 3600}\n");
    EXPECT(silence_s[WATCHDOG_TRAINING] == 1800);
    EXPECT(silence_s[WATCHDOG_EVALUATION] == 5400);
    EXPECT(stall_s == 5400);
    expect_holds("comm: {timeout_s: 1}\n");
    expect_holds("comm: {soft_timeout_s: 10}\n");
    expect_holds("validation: {timeout_s: 86400}\n");
    EXPECT(stall_s == 88200);
    expect_holds("health: {heartbeat_s: 120}\n");
    EXPECT(silence_s[WATCHDOG_CHECKPOINT] == 360);
}

static void the_wrong_order_is_refused_with_both_names_and_the_reason(void)
{
    expect_refused(
        "comm: {soft_timeout_s: 2, timeout_s: 1}\n",
        "timer 'notice, training' is 2 s (comm.soft_timeout_s) and must be shorter than 'deadline, training', "
        "which is 1 s (comm.timeout_s): who keeps others waiting is to be named before they give up");
    expect_refused("health: {heartbeat_s: 600}\n",
                   "'silence, training' is 600 s (health.heartbeat_s) and must be shorter than 'deadline, training'");
    expect_holds("health: {stall_s: 1800, heartbeat_s: 300}\n"); /* old defaults, which files spell out */
    expect_refused("health: {stall_s: 1799}\n",
                   "'evaluation' is 1800 s (validation.timeout_s) and must be shorter than 'no step'");
    expect_refused("recovery: {backoff_s: 90}\n", "'back-off, first' is 90 s (recovery.backoff_s)");
    expect_refused("recovery: {window_s: 30}\n", "'back-off, longest' is 60 s (recovery.backoff_max_s)");
    expect_holds("recovery: {backoff_s: 60}\n");
    expect_holds("recovery: {window_s: 30, max_failures: 0}\n");
}

static const test_case cases[] = {
    CASE(every_timer_of_a_job_is_in_the_table),
    CASE(what_is_off_is_neither_shown_nor_in_the_way),
    CASE(what_is_not_set_follows_the_deadline),
    CASE(the_wrong_order_is_refused_with_both_names_and_the_reason),
};
TEST_MAIN(cases)
