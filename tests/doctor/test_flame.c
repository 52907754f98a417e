/* Time of ranks by phase and operation as a flame graph, and the sums of a run's metrics. */
#include "support/test.h"

#include <math.h>
#include <stdlib.h>

#include "base/os/os.h"
#include "doctor/flame/flame.h"
#include "doctor/run/run_numbers.h"
#include "trace/ring.h"

static const uint64_t us = 1000;

static void add_span(tess_history *h, int rank, uint64_t begin, const char *phase)
{
    tess_phase_span span = {.begin_ns = begin * us, .step = 1};
    snprintf(span.phase, sizeof(span.phase), "%s", phase);
    EXPECT_OK(tess_history_add_span(h, rank, &span));
}

/* completed 0: the operation is in flight to the end. */
static void add_record(tess_history *h, int rank, uint64_t enqueued, uint64_t completed, const char *what)
{
    tess_record record = {
        .enqueued_ns = enqueued * us, .completed_ns = completed * us, .op = TESS_TRACE_ALL_GATHER, .dtype = TESS_F32};
    snprintf(record.what, sizeof(record.what), "%s", what);
    EXPECT_OK(tess_history_add_record(h, rank, &record));
}

static const char *written(tess_history *h, const char *name)
{
    static char path[1024];
    char *text;
    size_t size;
    snprintf(path, sizeof(path), "%s/%s", test_folder(), name);
    EXPECT_OK(tess_flame_write(h, path));
    EXPECT_OK(tess_os_read(test_mem(), path, 1 << 20, &text, &size));
    static char copy[1 << 14];
    snprintf(copy, sizeof(copy), "%s", text);
    tess_mem_free(test_mem(), text);
    return copy;
}

static void time_belongs_to_the_newest_operation_in_flight(void)
{
    tess_history *h;
    char want[1024];
    const char *op = tess_trace_op_name(TESS_TRACE_ALL_GATHER);
    EXPECT_OK(tess_history_create(test_mem(), TESS_HISTORY_RINGS, 2, &h));
    add_span(h, 0, 100, "forward");
    add_record(h, 0, 110, 150, "layer 0"); /* 10 computing, 20 of this one, then the next has the time */
    add_record(h, 0, 130, 140, "layer 1");
    add_span(h, 0, 200, "backward"); /* 100 - 140 .. 200 computing */
    add_record(h, 0, 230, 0, "layer <1>");
    h->ranks[0].last_ns = 300 * us;
    add_span(h, 1, 100, "forward");
    h->ranks[1].last_ns = 150 * us;
    snprintf(want, sizeof(want),
             "all;rank 0;backward;%s layer <1> 70\nall;rank 0;backward;compute 30\n"
             "all;rank 0;forward;%s layer 0 20\nall;rank 0;forward;%s layer 1 10\nall;rank 0;forward;compute 70\n"
             "all;rank 1;forward;compute 50\n",
             op, op, op);
    EXPECT_TEXT(written(h, "folded"), want);
    const char *picture = written(h, "flame.svg");
    EXPECT_CONTAINS(picture, "<title>all: 0.00025 s, 100.0%</title>");
    EXPECT_CONTAINS(picture, "<title>rank 1: 5e-05 s, 20.0%</title>");
    EXPECT_CONTAINS(picture, "layer &lt;1&gt;: 7e-05 s, 28.0%</title>");
    tess_history_destroy(&h);
}

static void without_phases_there_is_no_picture(void)
{
    tess_history *h;
    char path[1024];
    snprintf(path, sizeof(path), "%s/none.svg", test_folder());
    EXPECT_OK(tess_history_create(test_mem(), TESS_HISTORY_RINGS, 1, &h));
    EXPECT_FAILS(tess_flame_write(h, path), TESS_E_NOT_FOUND, "no phases");
    tess_history_destroy(&h);
}

static void lines_of_metrics_add_up(void)
{
    static const char *const lines[] = {
        "{\"step\": 1, \"loss\": 4.0, \"n_tokens\": 100, \"ranks\": 2, \"tps\": 50, \"mfu\": 0.5, "
        "\"time_s\": {\"total\": 2, \"data\": 0.5, \"forward\": 1, \"hidden\": 0.25}}",
        "{\"step\": 1, \"validation_loss\": 3.9}",
        "{\"step\": 2, \"loss\": null, \"n_tokens\": 200, \"ranks\": 2, \"tps\": 50, \"time_s\": {\"total\": 2}}",
        "{\"step\": 3, \"loss\": 13, \"n_tokens\": 300, \"ranks\": 4, \"tps\": 100, \"time_s\": {\"total\": 1, "
        "\"forward\": 1}}",
        "{\"step\": 4, \"lo", /* the run is writing it */
    };
    tess_run_numbers r = {0};
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
        tess_run_numbers_add(&r, lines[i], strlen(lines[i]));
    EXPECT_INT(r.n_steps, 3);
    EXPECT_INT(r.last_step, 3);
    EXPECT_INT(r.n_tokens, 300);
    EXPECT_INT(r.n_ranks, 4);
    EXPECT(r.step_s == 5 && r.rank_s == 12 && r.hidden_s == 0.25);
    EXPECT(r.phase_s[TESS_PHASE_FORWARD] == 2 && r.phase_s[TESS_PHASE_DATA] == 0.5);
    EXPECT_INT(r.n_bad, 1);
    EXPECT_INT(r.n_jumps, 1);
    EXPECT(fabs(r.newest_tps - 55) < 1e-9); /* 50, 50, and a tenth of the way to 100 */
}

static const test_case cases[] = {CASE(time_belongs_to_the_newest_operation_in_flight),
                                  CASE(without_phases_there_is_no_picture), CASE(lines_of_metrics_add_up)};
TEST_MAIN(cases)
