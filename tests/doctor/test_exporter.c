/* Metrics for Prometheus: who waits for whom, counters that never fall, and what a host leaves to other hosts. */
#include <math.h>
#include <stdlib.h>

#include "doctor/prometheus/exporter_impl.h"
#include "support/test.h"

enum { WORLD = 3 };

/* Ranks 0 and 1 of this host wait for rank 2 of another host in an all_gather of the axis dp. */
static void make_job(tess_top_snapshot *s, tess_top_rank ranks[WORLD], uint64_t awaited[WORLD])
{
    static tess_wait waits[WORLD];
    static tess_missed missed[WORLD];
    const double loss = 2.5;
    *s = (tess_top_snapshot){.world = WORLD,
                             .n_hosts = 2,
                             .running = true,
                             .cause = -1,
                             .ranks = ranks,
                             .n_restarts = 1,
                             .waits = waits,
                             .missed = missed};
    memset(ranks, 0, WORLD * sizeof(*ranks));
    for (int r = 0; r < WORLD; r++) {
        tess_board_copy *b = &ranks[r].board;
        b->state = JOB_RANK_JOINED;
        b->n_steps = 12;
        b->n_tokens = 12000;
        memcpy(&b->loss, &loss, sizeof(loss));
        b->step_ns = 500000000;
        b->wait_age_ns = r < 2 ? UINT64_C(3000000000) : 0;
        awaited[r] = r < 2 ? 1 << 2 : 0;
        ranks[r].awaited = &awaited[r];
        ranks[r].is_here = r < 2;
        ranks[r].step_age_s = 3;
        ranks[r].rss_bytes = -1;
        snprintf(ranks[r].traffic[0].name, sizeof(ranks[r].traffic[0].name), "dp");
        ranks[r].traffic[0].bytes = 4096 + (uint64_t)r;
    }
}

/* Returns the page as text, to be freed with tess_buffer_free. */
static tess_buffer page_of(tess_exporter *e, const tess_exporter_facts *facts, const tess_top_snapshot *job)
{
    tess_buffer out = {.mem = test_mem()};
    tess_exposition page;
    exporter_view view = {
        .exporter = e, .facts = facts, .job = job, .wall_s = 1000, .memory_percent = 50, .group_percent = -1};
    if (job != NULL)
        view.totals = tess_top_sum(job, NULL);
    tess_exposition_begin(&page, &(tess_label){"run", "/r"}, 1, &e->counters, &out);
    EXPECT_OK(exporter_put_families(&page, &view));
    tess_exposition_end(&page);
    return out;
}

static void a_page_says_who_waits_for_whom(void)
{
    tess_top_snapshot s;
    tess_top_rank ranks[WORLD];
    uint64_t awaited[WORLD];
    tess_exporter e = {.mem = test_mem()};
    tess_exporter_facts facts = {.stall_s = 1, .checkpoint_step = 10, .checkpoint_s = 900};
    make_job(&s, ranks, awaited);
    tess_buffer page = page_of(&e, &facts, &s);
    EXPECT_CONTAINS(page.data, "\ntessera_up{run=\"/r\"} 1\n");
    EXPECT_CONTAINS(page.data, "\ntessera_stalled{run=\"/r\"} 1\n");
    EXPECT_CONTAINS(page.data, "\ntessera_culprit_rank{run=\"/r\"} 2\n");
    EXPECT_CONTAINS(page.data, "\ntessera_waits_for_rank{run=\"/r\",rank=\"1\"} 2\n");
    EXPECT_CONTAINS(page.data, "\ntessera_waiting_seconds{run=\"/r\",rank=\"0\"} 3\n");
    EXPECT_CONTAINS(page.data, "\ntessera_last_step_timestamp_seconds{run=\"/r\",rank=\"0\"} 997\n");
    EXPECT_CONTAINS(page.data, "\n# TYPE tessera_collective_bytes_total counter\n"
                               "tessera_collective_bytes_total{run=\"/r\",axis=\"dp\",rank=\"0\"} 4096\n"
                               "tessera_collective_bytes_total{run=\"/r\",axis=\"dp\",rank=\"1\"} 4097\n#");
    EXPECT_CONTAINS(page.data, "\ntessera_host_memory_used_ratio{run=\"/r\"} 0.5\n");
    EXPECT_CONTAINS(page.data, "\ntessera_checkpoint_timestamp_seconds{run=\"/r\"} 900\n");
    EXPECT(strstr(page.data, "rank=\"2\"") == NULL); /* the other host shows it */
    EXPECT(strstr(page.data, "cgroup") == NULL);
    tess_buffer_free(&page);
    facts.stall_s = 5;
    page = page_of(&e, &facts, &s);
    EXPECT_CONTAINS(page.data, "\ntessera_stalled{run=\"/r\"} 0\n");
    EXPECT_CONTAINS(page.data, "\ntessera_culprit_rank{run=\"/r\"} -1\n");
    tess_buffer_free(&page);
    ranks[0].is_here = false; /* the loss and the tokens of the job belong to the host of rank 0 */
    page = page_of(&e, &facts, &s);
    EXPECT(strstr(page.data, "tessera_loss") == NULL && strstr(page.data, "tessera_tokens") == NULL);
    tess_buffer_free(&page);
    tess_exporter_free(&e);
}

static void a_loss_that_is_no_number_is_shown(void)
{
    static const char *const want[] = {"NaN", "+Inf", "-Inf"};
    const double losses[] = {NAN, INFINITY, -INFINITY};
    tess_top_snapshot s;
    tess_top_rank ranks[WORLD];
    uint64_t awaited[WORLD];
    tess_exporter e = {.mem = test_mem()};
    make_job(&s, ranks, awaited);
    for (int i = 0; i < 3; i++) {
        char line[64];
        memcpy(&ranks[0].board.loss, &losses[i], sizeof(losses[i]));
        tess_buffer page = page_of(&e, &(tess_exporter_facts){.checkpoint_step = -1}, &s);
        snprintf(line, sizeof(line), "\ntessera_loss{run=\"/r\"} %s\n", want[i]);
        EXPECT_CONTAINS(page.data, line);
        tess_buffer_free(&page);
    }
    tess_exporter_free(&e);
}

/* A recovery resets the memory, and a job that goes back to a checkpoint has fewer tokens. */
static void counters_never_fall(void)
{
    static const struct {
        uint64_t n_steps, n_tokens, bytes;
        int tokens, shown;
    } looks[] = {{12, 12000, 4096, 0, 4096}, /* tokens of earlier launches do not count */
                 {0, 0, 0, -1, 4096},        /* before the first step the tokens are not known */
                 {11, 11000, 100, 0, 4196},
                 {12, 12000, 150, 1000, 4246}};
    tess_top_snapshot s;
    tess_top_rank ranks[WORLD];
    uint64_t awaited[WORLD];
    tess_exporter e = {.mem = test_mem()};
    make_job(&s, ranks, awaited);
    for (size_t i = 0; i < sizeof(looks) / sizeof(looks[0]); i++) {
        char line[96];
        ranks[0].board.n_steps = looks[i].n_steps;
        ranks[0].board.n_tokens = looks[i].n_tokens;
        ranks[0].traffic[0].bytes = looks[i].bytes;
        tess_buffer page = page_of(&e, &(tess_exporter_facts){.checkpoint_step = -1}, &s);
        snprintf(line, sizeof(line), "\ntessera_tokens_total{run=\"/r\"} %d\n", looks[i].tokens);
        EXPECT((strstr(page.data, line) != NULL) == (looks[i].tokens >= 0));
        snprintf(line, sizeof(line), "\ntessera_collective_bytes_total{run=\"/r\",axis=\"dp\",rank=\"0\"} %d\n",
                 looks[i].shown);
        EXPECT_CONTAINS(page.data, line);
        tess_buffer_free(&page);
    }
    tess_exporter_free(&e);
}

/* Ranks go on while the process that shows them is replaced. A counter that began with their counts would fall if the
 * first process has bridged a restart, and Prometheus would count all of it again. */
static void a_later_process_counts_from_zero(void)
{
    tess_top_snapshot s;
    tess_top_rank ranks[WORLD];
    uint64_t awaited[WORLD];
    tess_exporter e = {.mem = test_mem(), .is_later = true};
    make_job(&s, ranks, awaited);
    for (int i = 0; i < 3; i++) {
        char line[96];
        ranks[0].traffic[0].bytes = (uint64_t[]){4096, 4100, 7}[i];
        tess_buffer page = page_of(&e, &(tess_exporter_facts){.checkpoint_step = -1}, &s);
        snprintf(line, sizeof(line), "\ntessera_collective_bytes_total{run=\"/r\",axis=\"dp\",rank=\"0\"} %d\n",
                 ((int[]){0, 4, 4})[i]);
        EXPECT_CONTAINS(page.data, line);
        EXPECT(strstr(page.data, "tessera_culprit_rank") == NULL); /* waits are not judged: stall_s is 0 */
        tess_buffer_free(&page);
    }
    tess_exporter_free(&e);
}

static void alerts_are_counted_by_state(void)
{
    static const char text[] = "{\"event\":\"health\",\"state\":\"degraded\"}\n"
                               "{\"event\":\"health\",\"state\":\"degraded\"}\n"
                               "{\"event\":\"health\",\"state\":\"made up\"}\n[]\nnot JSON\n\n"
                               "{\"event\":\"recovery\",\"state\":\"restarted\"}\n{\"event\":7}\n";
    tess_exporter e = {.mem = test_mem()};
    exporter_count_alerts(&e, text, sizeof(text) - 1);
    EXPECT_INT((int)e.n_health[0], 0);
    EXPECT_INT((int)e.n_health[1], 2);
    EXPECT_INT((int)e.n_recovery[2], 1);
    tess_buffer page = page_of(&e, &(tess_exporter_facts){.folder = ".", .checkpoint_step = -1}, NULL);
    EXPECT_CONTAINS(page.data, "\ntessera_up{run=\"/r\"} 0\n");
    EXPECT_CONTAINS(page.data, "\ntessera_health_alerts_total{run=\"/r\",state=\"degraded\"} 2\n");
    EXPECT_CONTAINS(page.data, "\ntessera_recovery_alerts_total{run=\"/r\",state=\"restarted\"} 1\n");
    EXPECT(strstr(page.data, "tessera_step{") == NULL);
    tess_buffer_free(&page);
    tess_exporter_free(&e);
}

static void hostile_names_stay_inside_their_quotes(void)
{
    tess_buffer out = {.mem = test_mem()};
    tess_exposition page;
    const tess_label labels[] = {{"name", "a\"} 1\nb\\ \xff\xc3\xa9"}};
    tess_exposition_begin(&page, NULL, 0, NULL, &out);
    tess_exposition_family(&page, "m", TESS_METRIC_GAUGE, "First line.\nSecond \\ line.");
    EXPECT_OK(tess_exposition_add(&page, labels, 1, 0.1));
    EXPECT_TEXT(out.data, "# HELP m First line.\\nSecond \\\\ line.\n# TYPE m gauge\n"
                          "m{name=\"a\\\"} 1\\nb\\\\ ?\xc3\xa9\"} 0.1\n");
    tess_exposition_end(&page);
    tess_buffer_free(&out);
}

static const test_case cases[] = {
    CASE(a_page_says_who_waits_for_whom),
    CASE(a_loss_that_is_no_number_is_shown),
    CASE(counters_never_fall),
    CASE(a_later_process_counts_from_zero),
    CASE(alerts_are_counted_by_state),
    CASE(hostile_names_stay_inside_their_quotes),
};

TEST_MAIN(cases)
