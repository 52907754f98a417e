/* `tessera top`: who waits for whom, rates, bars of memory, and pages that fit any terminal. */
#include <math.h>
#include <stdlib.h>

#include "base/text/text.h"
#include "doctor/top/page.h"
#include "doctor/top/top_facts.h"
#include "support/test.h"

enum { WORLD = 4 };

/* Four ranks in step 13: 0, 1 and 3 wait for 2 in an all_gather; 3 also waits for 0 in another operation. */
static tess_top_snapshot *stuck_job(tess_top_rank *ranks)
{
    static tess_top_snapshot s;
    static tess_wait waits[WORLD];
    static tess_missed missed[WORLD];
    static uint64_t awaited[WORLD];
    s = (tess_top_snapshot){.age_s = 75,
                            .world = WORLD,
                            .n_hosts = 1,
                            .pid = 4711,
                            .running = true,
                            .cause = -1,
                            .ranks = ranks,
                            .waits = waits,
                            .missed = missed};
    snprintf(s.command, sizeof(s.command), "tessera train run.yaml");
    memset(ranks, 0, WORLD * sizeof(ranks[0]));
    for (int r = 0; r < WORLD; r++) {
        tess_board_copy *b = &ranks[r].board;
        double loss = 2.5;
        b->state = JOB_RANK_JOINED;
        b->pid = 5000 + r;
        b->n_steps = 12;
        b->n_tokens = 12 * 1000;
        b->step = 13;
        b->detail = 3;
        b->step_ns = 500000000;
        memcpy(&b->loss, &loss, sizeof(loss));
        snprintf(b->phase, sizeof(b->phase), "backward");
        b->phase_ns[TESS_PHASE_FORWARD] = 3000000000;
        b->phase_ns[TESS_PHASE_BACKWARD] = 6000000000;
        b->phase_ns[TESS_PHASE_WAIT] = 1000000000;
        b->pool_bytes[TESS_POOL_PARAMS] = 12 << 20;
        b->disk_bytes = (uint64_t)24 << 20;
        ranks[r].awaited = &awaited[r];
        awaited[r] = r == 2 ? 0 : 1 << 2;
        ranks[r].process = 'S';
        ranks[r].rss_bytes = 300 << 20;
        if (r == 2)
            continue;
        b->wait_age_ns = UINT64_C(2000000000) + (uint64_t)r * 100000000;
        b->wait_op = (tess_fingerprint){.sequence = 34, .kind = TESS_TRACE_ALL_GATHER_PIECES};
        snprintf(b->wait_team, sizeof(b->wait_team), "world");
    }
    ranks[3].awaited[0] |= 1 << 0;
    ranks[2].process = 'T';
    return &s;
}

static void the_newest_alert_of_the_job_tells_its_health(void)
{
    static const char lines[] =
        "{\"pid\":1,\"event\":\"health\",\"state\":\"degraded\",\"text\":\"degraded: a\\u0007\"}\n"
        "{\"pid\":1,\"event\":\"other\",\"state\":\"healthy\",\"text\":\"b\"}\n"
        "{\"pid\":2,\"event\":\"health\",\"state\":\"degraded\",\"text\":\"degraded: c\"}\n"
        "{\"pid\":2,\"event\":\"health\",\"state\":\"healthy\",\"text\":\"healthy again\"}\n"
        "{\"pid\":3,\"event\":\"health\",\"state\":\"unhea";
    static const char *const want[] = {"", "degraded: a?", "", ""};
    char text[64];
    for (int pid = 0; pid < 4; pid++)
        EXPECT_TEXT(tess_top_health_of(lines, sizeof(lines) - 1, pid, text, sizeof(text)), want[pid]);
    EXPECT_TEXT(tess_top_health_of("", 0, 1, text, sizeof(text)), "");
    EXPECT_TEXT(tess_top_health_of("\n\n", 2, 1, text, sizeof(text)), "");
}

static void the_rank_that_waits_for_nobody_is_guilty(void)
{
    tess_top_rank ranks[WORLD];
    tess_top_snapshot *s = stuck_job(ranks);
    tess_top_totals t = tess_top_sum(s, NULL);
    EXPECT_INT(t.culprit, 2);
    EXPECT_INT(t.n_waiting, 3);
    EXPECT_INT(t.waiter, 3);
    EXPECT(fabs(t.waited_s - 2.3) < 1e-9);
    EXPECT_INT(t.step, 12);
    EXPECT(t.loss == 2.5);
    EXPECT(t.tokens_per_s == 2000);
    int first;
    EXPECT_INT(tess_top_missing(s, 3, &first), 2);
    EXPECT_INT(first, 0);
    EXPECT_INT(tess_top_missing(s, 2, &first), 0);
    EXPECT_INT(first, -1);
}

static void two_looks_give_the_rate_between_them(void)
{
    tess_top_rank ranks[WORLD], earlier[WORLD];
    tess_top_snapshot before = *stuck_job(earlier), *s;
    before.ranks = earlier;
    s = stuck_job(ranks);
    for (int r = 0; r < WORLD; r++) {
        ranks[r].board.n_steps += 2;
        ranks[r].board.n_tokens += 3000;
        ranks[r].board.phase_ns[TESS_PHASE_DATA] += 750000000;
        ranks[r].board.phase_ns[TESS_PHASE_WAIT] += 250000000;
    }
    tess_top_totals t = tess_top_sum(s, &before);
    EXPECT(t.step_s == 0.5);
    EXPECT(t.tokens_per_s == 3000);
    double share[TESS_PHASE_COUNT];
    EXPECT(tess_top_shares(&ranks[1], &earlier[1], share));
    EXPECT(share[TESS_PHASE_DATA] == 0.75 && share[TESS_PHASE_WAIT] == 0.25 && share[TESS_PHASE_FORWARD] == 0);
}

static void cells_of_a_bar_add_up(void)
{
    for (int width = 0; width <= 40; width++) {
        const double share[TESS_PHASE_COUNT] = {0.001, 0.05, 0.1, 0.2, 0.4, 0.149, 0.1, 0};
        int cells[TESS_PHASE_COUNT], sum = 0;
        tess_top_cells(share, width, cells);
        for (int i = 0; i < TESS_PHASE_COUNT; i++) {
            EXPECT(cells[i] >= (int)(share[i] * width) && cells[i] <= (int)(share[i] * width) + 1);
            sum += cells[i];
        }
        EXPECT_INT(sum, width);
    }
}

static void put(void *self, tess_top_style style, const char *text)
{
    EXPECT(style < TESS_TOP_STYLES);
    EXPECT_OK(tess_buffer_printf(self, "%s", text));
}

static void end_line(void *self)
{
    EXPECT_OK(tess_buffer_printf(self, "\n"));
}

static int draw(const tess_top_snapshot *s, int width, int height, tess_buffer *page)
{
    const tess_top_canvas canvas = {page, put, end_line};
    tess_top_size size = {.width = width, .height = height};
    tess_buffer_free(page);
    return tess_top_draw(s, NULL, &size, &canvas);
}

static void the_page_says_who_and_why(void)
{
    tess_top_rank ranks[WORLD];
    tess_buffer page = {.mem = test_mem()};
    tess_top_snapshot *s = stuck_job(ranks);
    EXPECT_INT(draw(s, 0, 0, &page), WORLD);
    EXPECT_CONTAINS(page.data, "step 12, loss 2.5000, 2.00 k tokens/s, 0.5 s a step");
    EXPECT_CONTAINS(
        page.data,
        "rank 2 keeps 3 ranks waiting for 2.30s: stopped, in backward 3; in all_gather_pieces #34 of 'world'\n");
    EXPECT_CONTAINS(page.data, "rank 0+1 all_gather");
    EXPECT_CONTAINS(page.data, "FFFFFFFBBBBBBBBBBBBBB...");
    EXPECT_CONTAINS(page.data, "par 12M; on disk 24M");
    snprintf(ranks[2].board.why, sizeof(ranks[2].board.why), "state T since 2.1 s");
    draw(s, 0, 0, &page);
    EXPECT_CONTAINS(page.data, ": state T since 2.1 s; in all_gather");
    ranks[2].board.state = JOB_RANK_LOST;
    ranks[2].board.signal = 9;
    s->cause = 2;
    draw(s, 0, 0, &page);
    EXPECT_CONTAINS(page.data, "rank 2: SIGKILL, in phase 'backward' of step 13\n");
    tess_buffer_free(&page);
}

static void places_are_on_the_page(void)
{
    tess_top_rank ranks[WORLD];
    tess_buffer page = {.mem = test_mem()};
    tess_top_snapshot *s = stuck_job(ranks);
    draw(s, 0, 0, &page);
    EXPECT(strstr(page.data, "place") == NULL);
    s->places = (tess_places){2, {{2, 2, "pp"}, {2, 1, "tp"}}};
    draw(s, 0, 0, &page);
    EXPECT_CONTAINS(page.data, "rank place ");
    EXPECT_CONTAINS(page.data, "   2 pp 1, tp 0 ");
    tess_buffer_free(&page);
}

static void the_newest_report_is_on_the_page(void)
{
    tess_top_rank ranks[WORLD];
    tess_buffer page = {.mem = test_mem()};
    tess_top_snapshot *s = stuck_job(ranks);
    s->reported = (tess_notice){.rank = 3, .step = 12, .kind = TESS_NOTICE_WAIT, .text = "rank 3 kept 2 ranks waiting"};
    s->reported_age_s = 245;
    EXPECT_INT(draw(s, 0, 0, &page), WORLD);
    EXPECT_CONTAINS(page.data, "\n4m05s ago, step 12: rank 3 kept 2 ranks waiting\nrank ");
    EXPECT_INT(draw(s, 80, 9, &page), 4); /* below the newest report and the titles */
    draw(s, 80, 6, &page);
    EXPECT(strstr(page.data, "4m05s") == NULL);
    s->reported.rank = 2; /* the wait for it is shown above */
    draw(s, 0, 0, &page);
    EXPECT(strstr(page.data, "4m05s") == NULL);
    tess_buffer_free(&page);
}

static void the_end_is_told(void)
{
    tess_top_rank ranks[WORLD];
    char text[2048];
    tess_top_snapshot *s = stuck_job(ranks);
    EXPECT_TEXT(tess_top_ending(s, text, sizeof(text)), "");
    s->running = false;
    EXPECT_CONTAINS(tess_top_ending(s, text, sizeof(text)), "process 4711 ended while 4 of 4 ranks had not left");
    for (int r = 0; r < WORLD; r++)
        ranks[r].board.state = JOB_RANK_LEFT;
    EXPECT_TEXT(tess_top_ending(s, text, sizeof(text)), "the job has ended in good order");
}

/* No line is wider than the terminal, and only lines of ranks are left out. */
static void a_page_fits_any_terminal(void)
{
    tess_top_rank ranks[WORLD];
    tess_buffer page = {.mem = test_mem()};
    tess_top_snapshot *s = stuck_job(ranks);
    for (int width = 1; width <= 220; width++) {
        for (int height = 1; height <= 12; height++) {
            int shown = draw(s, width, height, &page), lines = 0, column = 0;
            EXPECT(shown >= 0 && shown <= height);
            for (const char *c = page.data; *c != '\0'; c++) {
                column = *c == '\n' ? 0 : column + 1;
                lines += *c == '\n';
                EXPECT(column <= width);
            }
            EXPECT(lines <= (height > 4 ? height : 4));
        }
    }
    tess_buffer_free(&page);
}

/* A board that a faulty program has overwritten may hold any bytes. */
static void any_bytes_are_drawn(void)
{
    static tess_top_rank ranks[WORLD];
    tess_buffer page = {.mem = test_mem()};
    uint64_t x = 88172645463325252u;
    for (int round = 0; round < 300; round++) {
        tess_top_snapshot *s = stuck_job(ranks);
        for (int r = 0; r < WORLD; r++) {
            uint8_t *bytes = (uint8_t *)&ranks[r];
            uint64_t *awaited = ranks[r].awaited;
            for (size_t i = 0; i < sizeof(ranks[r]); i++) {
                x ^= x << 13, x ^= x >> 7, x ^= x << 17;
                bytes[i] = round % 3 == 0 ? (uint8_t)x : round % 3 == 1 ? 0xFF : (uint8_t)(x % 2 * 0x80);
            }
            ranks[r].awaited = awaited;
            *awaited = x;
            tess_board_copy *b = &ranks[r].board; /* the snapshot cleans texts and ends them with NUL */
            b->phase[0] = b->op_team[0] = b->wait_team[0] = b->why[0] = b->error[0] = ranks[r].host[0] = '\0';
        }
        draw(s, round % 250, round % 7, &page);
        tess_buffer json = {.mem = test_mem()};
        EXPECT_OK(tess_top_put(s, NULL, TESS_FORM_JSON, &json));
        tess_buffer_free(&json);
    }
    tess_buffer_free(&page);
}

static void figures_keep_to_their_columns(void)
{
    char text[64];
    EXPECT_TEXT(tess_top_bytes(0, text, sizeof(text)), "0B");
    EXPECT_TEXT(tess_top_bytes(1023, text, sizeof(text)), "1.0K");
    EXPECT_TEXT(tess_top_bytes(312.0 * (1 << 20), text, sizeof(text)), "312M");
    EXPECT_TEXT(tess_top_seconds(245, text, sizeof(text)), "4m05s");
    EXPECT_TEXT(tess_top_seconds(9.996, text, sizeof(text)), "10.0s");
    for (double v = 1e-9; v < 1e30; v *= 1.37) {
        EXPECT(strlen(tess_top_bytes(fmin(v, 1e17), text, sizeof(text))) <= 5);
        EXPECT(strlen(tess_top_seconds(v, text, sizeof(text))) <= 6);
    }
}

/* Other lines are passed over, a cut one too; only the newest are kept. */
static void memory_over_time_is_a_bar_a_line(void)
{
    static tess_top_memory m;
    char spark[TESS_TOP_SPARK], lines[100 * 64], *at = lines;
    at += sprintf(at,
                  "step\": 0}\n{\"step\": 1, \"in_use\": {\"params\": 8}}\n{\"step\": 1, \"peak\": {\"params\": 9}}\n");
    at += sprintf(at, "{\"step\": 3, \"in_use\": {\"params\": 16, \"comm\": 1}}\n{\"step\": 4, \"in_u");
    tess_top_memory_of(lines, (size_t)(at - lines), &m);
    EXPECT(m.n == 2 && m.step[0] == 1 && m.step[1] == 3);
    EXPECT(m.bytes[TESS_POOL_PARAMS][1] == 16 && m.bytes[TESS_POOL_COMM][0] == 0);
    EXPECT_TEXT(tess_top_spark(m.bytes[TESS_POOL_PARAMS], 2, spark), "\u2585\u2588");
    EXPECT_TEXT(tess_top_spark(m.bytes[TESS_POOL_GRADS], 2, spark), "\u2581\u2581");
    at = lines;
    for (int i = 0; i < 100; i++)
        at += sprintf(at, "{\"step\": %d, \"in_use\": {\"params\": %d}}\n", i, i);
    tess_top_memory_of(lines, (size_t)(at - lines), &m);
    EXPECT(m.n == TESS_TOP_HISTORY && m.step[0] == 100 - TESS_TOP_HISTORY && m.step[m.n - 1] == 99);
    EXPECT(m.bytes[TESS_POOL_PARAMS][0] == 100 - TESS_TOP_HISTORY && m.bytes[TESS_POOL_PARAMS][m.n - 1] == 99);
}

/* Numbers of the newest step alone: no texts, no line of an evaluation, and none that was cut. */
static void the_newest_metrics_are_on_the_page(void)
{
    static const char lines[] =
        "{\"step\": 7, \"loss\": 9, \"expert_load\": 9}\n"
        "{\"step\": 8, \"loss\": null, \"expert_load\": 1.25, \"idle_experts\": 2, \"a\\u0007\": 1, "
        "\"skipped\": true, \"time_s\": {\"total\": 1}}\n"
        "{\"step\": 8, \"validation_loss\": 2}\n[3]\n{\"step\": 9, \"loss\": 1";
    tess_top_rank ranks[WORLD];
    tess_buffer page = {.mem = test_mem()};
    tess_top_snapshot *s = stuck_job(ranks);
    s->metrics = tess_top_metrics_of(lines, sizeof(lines) - 1);
    EXPECT_INT(draw(s, 0, 0, &page), WORLD);
    EXPECT_CONTAINS(page.data, "\nmetrics: step 8, expert_load 1.25, idle_experts 2\n");
    EXPECT_INT(draw(s, 160, 10, &page), WORLD);
    EXPECT_CONTAINS(page.data, "expert_load");
    EXPECT_INT(draw(s, 160, 9, &page), WORLD); /* the ranks need its line */
    EXPECT(strstr(page.data, "expert_load") == NULL);
    tess_buffer_free(&page);
    EXPECT_OK(tess_top_put(s, NULL, TESS_FORM_JSON, &page));
    EXPECT_CONTAINS(page.data, "\"metrics\":{\"step\":8,\"expert_load\":1.25,\"idle_experts\":2},\"ranks\"");
    tess_buffer_free(&page);
    EXPECT_OK(tess_top_put(s, NULL, TESS_FORM_METRICS, &page));
    EXPECT_CONTAINS(page.data, "# TYPE tessera_metrics_expert_load gauge\ntessera_metrics_expert_load 1.25\n");
    tess_buffer_free(&page);
    json_decref(s->metrics);
    EXPECT(tess_top_metrics_of("[1]\n", 4) == NULL);
}

/* Rank 2 was stopped in a wait for rank 1, which has come since and waits for rank 2 as all others do through it. */
static void a_stopped_rank_is_the_culprit_of_a_circle(void)
{
    tess_top_rank ranks[WORLD];
    tess_top_snapshot *s = stuck_job(ranks);
    for (int r = 0; r < WORLD; r++)
        ranks[r].awaited[0] = r == 1 ? 1 << 2 : 1 << 1;
    ranks[2].board.wait_age_ns = 5000000000;
    EXPECT_INT(tess_top_sum(s, NULL).culprit, 2);
    ranks[2].process = 'S';
    EXPECT_INT(tess_top_sum(s, NULL).culprit, 1);
}

static const test_case cases[] = {
    CASE(memory_over_time_is_a_bar_a_line),
    CASE(the_newest_alert_of_the_job_tells_its_health),
    CASE(the_rank_that_waits_for_nobody_is_guilty),
    CASE(a_stopped_rank_is_the_culprit_of_a_circle),
    CASE(two_looks_give_the_rate_between_them),
    CASE(cells_of_a_bar_add_up),
    CASE(the_page_says_who_and_why),
    CASE(places_are_on_the_page),
    CASE(the_newest_report_is_on_the_page),
    CASE(the_newest_metrics_are_on_the_page),
    CASE(the_end_is_told),
    CASE(a_page_fits_any_terminal),
    CASE(any_bytes_are_drawn),
    CASE(figures_keep_to_their_columns),
};
TEST_MAIN(cases)
