/* Traces for Perfetto: waits, phases and arrows on one clock, and valid JSON from any input. */
#include <math.h>
#include <stdlib.h>

#include "base/os/os.h"
#include "base/text/json.h"
#include "doctor/perfetto/perfetto.h"
#include "support/test.h"

#define MS 1000000ull

static const char *timeline_path(void)
{
    static char path[512];
    EXPECT_OK(tess_os_join(path, sizeof(path), test_folder(), "timeline.json"));
    return path;
}

/* Writes the file and returns its events, which *document owns. */
static const json_t *draw(const tess_history *history, json_t **document)
{
    EXPECT_OK(tess_perfetto_write(history, timeline_path()));
    EXPECT_OK(tess_json_load(timeline_path(), 1 << 28, document));
    EXPECT_INT(json_object_size(*document), 2);
    return json_object_get(*document, "traceEvents");
}

static const char *text_of(const json_t *event, const char *key)
{
    const char *text = json_string_value(json_object_get(event, key));
    return text != NULL ? text : "";
}

static double number_of(const json_t *event, const char *key)
{
    return json_number_value(json_object_get(event, key));
}

/* Finds event number `skip` of this kind and name on a rank. */
static const json_t *find(const json_t *events, const char *kind, int rank, const char *name, int skip)
{
    for (size_t i = 0; i < json_array_size(events); i++) {
        const json_t *event = json_array_get(events, i);
        if (strcmp(text_of(event, "ph"), kind) == 0 && (int)number_of(event, "pid") == rank &&
            strcmp(text_of(event, "name"), name) == 0 && skip-- == 0)
            return event;
    }
    return NULL;
}

static const json_t *expect_slice(const json_t *events, int rank, const char *name, int skip, double ts, double dur)
{
    const json_t *event = find(events, "X", rank, name, skip);
    if (event == NULL)
        test_fail(__FILE__, __LINE__, "rank %d has no slice '%s' (%d)", rank, name, skip);
    if (fabs(number_of(event, "ts") - ts) > 1e-4 || fabs(number_of(event, "dur") - dur) > 1e-4)
        test_fail(__FILE__, __LINE__, "slice '%s' of rank %d: at %.3f for %.3f, expected %.3f for %.3f", name, rank,
                  number_of(event, "ts"), number_of(event, "dur"), ts, dur);
    return event;
}

static tess_history *make_history(int world, const char *team)
{
    tess_history *history;
    EXPECT_OK(tess_history_create(test_mem(), TESS_HISTORY_RINGS, world, &history));
    for (int r = 0; r < world; r++) {
        EXPECT_OK(tess_history_add_member(history, 5, team, world, r, r));
        history->ranks[r].present = true;
    }
    return history;
}

static void add(tess_history *history, int rank, uint64_t sequence, uint64_t asked, uint64_t started,
                uint64_t completed)
{
    const tess_record record = {.team = 5,
                                .sequence = sequence,
                                .count = 100,
                                .enqueued_ns = asked,
                                .started_ns = started,
                                .completed_ns = completed,
                                .step = 3,
                                .root = -1,
                                .op = TESS_TRACE_ALL_REDUCE,
                                .dtype = TESS_BF16,
                                .site = "f (\"a\\b\".c:1)",
                                .state = completed ? TESS_TRACE_COMPLETED
                                         : started ? TESS_TRACE_STARTED
                                                   : 0};
    EXPECT_OK(tess_history_add_record(history, rank, &record));
    history->ranks[rank].last_ns = completed ? completed : asked;
}

/* Rank 1's clock is 7 ms behind; it comes 5 ms after rank 0 to the first operation and never to the second. */
static void waits_phases_and_arrows_are_drawn_on_one_clock(void)
{
    tess_history *history = make_history(2, "dp \"x\"\n\xff\\");
    history->ranks[1].clock_offset_ns = 7 * MS;
    add(history, 0, 1, 100 * MS, 105 * MS + 250, 106 * MS);
    add(history, 0, 2, 110 * MS, 0, 0);
    add(history, 1, 1, 98 * MS, 98 * MS + 250, 99 * MS + 500);
    const tess_phase_span spans[] = {{.begin_ns = 91 * MS, .step = 3, .detail = -1, .phase = "data"},
                                     {.begin_ns = 95 * MS, .step = 3, .detail = 12, .phase = "forward"}};
    for (int i = 0; i < 2; i++)
        EXPECT_OK(tess_history_add_span(history, 1, &spans[i]));
    history->ranks[1].situation = TESS_RANK_STOPPED;
    snprintf(history->ranks[1].why, sizeof(history->ranks[1].why), "state T");
    history->now_ns = 120 * MS;
    json_t *document;
    const json_t *events = draw(history, &document);
    const double t0 = 98000; /* rank 1's first phase, in us: the origin */
    const json_t *wait = expect_slice(events, 0, "wait: all_reduce", 0, 100000 - t0, 5000.25);
    EXPECT_TEXT(text_of(wait, "cname"), "bad");
    const json_t *arguments = json_object_get(wait, "args");
    EXPECT_TEXT(text_of(arguments, "site"), "f (\"a\\b\".c:1)");
    EXPECT_INT((int)number_of(arguments, "elements"), 100);
    expect_slice(events, 0, "all_reduce", 0, 105000.25 - t0, 999.75);
    expect_slice(events, 1, "wait: all_reduce", 0, 105000 - t0, 0.25);
    expect_slice(events, 1, "all_reduce", 0, 105000.25 - t0, 1000.25);
    EXPECT_TEXT(text_of(expect_slice(events, 0, "wait: all_reduce", 1, 110000 - t0, 10000), "cname"), "terrible");
    EXPECT(find(events, "X", 0, "all_reduce", 1) == NULL);
    expect_slice(events, 1, "data", 0, 0, 4000);
    expect_slice(events, 1, "forward", 0, 4000, 120000 - 102000);
    const json_t *from = find(events, "s", 1, "came last", 0), *to = find(events, "f", 0, "came last", 0);
    EXPECT(from != NULL && to != NULL && find(events, "s", 0, "came last", 0) == NULL);
    EXPECT(find(events, "s", 1, "came last", 1) == NULL);
    EXPECT_INT((int)number_of(from, "id"), (int)number_of(to, "id"));
    EXPECT(fabs(number_of(from, "ts") - (105000 - t0)) < 1e-4);
    EXPECT_TEXT(text_of(json_object_get(find(events, "M", 0, "thread_name", 0), "args"), "name"),
                "team dp \"x\"\n\xef\xbf\xbd\\");
    EXPECT_TEXT(text_of(json_object_get(find(events, "M", 1, "process_labels", 0), "args"), "labels"),
                "stopped: state T");
    json_decref(document);
    tess_history_destroy(&history);
}

/* Slices of one track must follow each other or nest, or Perfetto draws them wrongly. */
static void expect_tracks_in_order(const json_t *events, int world, int n_tracks)
{
    for (int rank = 0; rank < world; rank++) {
        for (int track = 0; track < n_tracks; track++) {
            double end = 0;
            for (size_t i = 0; i < json_array_size(events); i++) {
                const json_t *event = json_array_get(events, i);
                if (strcmp(text_of(event, "ph"), "X") != 0 || (int)number_of(event, "pid") != rank ||
                    (int)number_of(event, "tid") != 100 + track)
                    continue;
                EXPECT(number_of(event, "ts") >= end - 1e-6);
                EXPECT(number_of(event, "dur") >= 0);
                end = number_of(event, "ts") + number_of(event, "dur");
            }
        }
    }
}

static void overlapping_operations_get_lanes_of_their_own(void)
{
    enum { N = 300 };
    tess_history *history = make_history(2, "world");
    uint64_t random = 1;
    for (int r = 0; r < 2; r++) {
        for (uint64_t i = 0; i < N; i++) {
            uint64_t length = (random = random * 6364136223846793005u + 1) >> 44;
            add(history, r, i, 1000 + i * 40000, 1000 + i * 40000 + length / 2, 1000 + i * 40000 + length);
        }
    }
    json_t *document;
    const json_t *events = draw(history, &document);
    EXPECT(find(events, "X", 1, "all_reduce", N - 10) != NULL);
    expect_tracks_in_order(events, 2, 16);
    json_decref(document);
    tess_history_destroy(&history);
}

/* A notice is drawn on its rank's track, or across all tracks; those of an earlier life are left out. */
static void notices_are_moments(void)
{
    const tess_notice notices[] = {
        {.wall_ns = 1000 * MS, .rank = 1, .kind = TESS_NOTICE_WAIT, .step = 7, .text = "of an earlier life"},
        {.wall_ns = 1015 * MS, .rank = 1, .kind = TESS_NOTICE_WAIT, .step = 8, .text = "rank 1 kept rank 0 waiting"},
        {.wall_ns = 1018 * MS, .rank = 9, .kind = TESS_NOTICE_REPLACED, .step = -1, .text = "rank 9 was lost"}};
    tess_history *history = make_history(2, "world");
    json_t *document;
    add(history, 0, 0, 10 * MS, 20 * MS, 21 * MS);
    add(history, 1, 0, 20 * MS, 20 * MS, 21 * MS);
    history->wall_offset_ns = -1000 * (int64_t)MS;
    EXPECT_OK(tess_history_add_notices(history, notices, 3, 3));
    const json_t *events = draw(history, &document);
    const json_t *event = find(events, "i", 1, "wait", 0);
    EXPECT(event != NULL && find(events, "i", 1, "wait", 1) == NULL);
    EXPECT(fabs(number_of(event, "ts") - 5000) < 1e-4);
    EXPECT_TEXT(text_of(event, "s"), "p");
    EXPECT_TEXT(text_of(json_object_get(event, "args"), "text"), "rank 1 kept rank 0 waiting");
    event = find(events, "i", 0, "replaced", 0);
    EXPECT(event != NULL);
    EXPECT_TEXT(text_of(event, "s"), "g");
    json_decref(document);
    tess_history_destroy(&history);
}

static void nonsense_is_still_valid_json(void)
{
    const uint64_t times[] = {0, 1, 1ull << 40, INT64_MAX, UINT64_MAX - 5, UINT64_MAX};
    tess_history *history = make_history(3, "world");
    history->ranks[1].clock_offset_ns = INT64_MIN;
    history->ranks[2].clock_offset_ns = INT64_MAX;
    history->ranks[2].present = false;
    for (int i = 0; i < 6 * 6 * 6; i++) {
        add(history, i % 3, (uint64_t)i / 3, times[i % 6], times[i / 6 % 6], times[i / 36]);
        history->ranks[i % 3].records[history->ranks[i % 3].n_records - 1].op = (uint8_t)i;
    }
    const tess_phase_span span = {.begin_ns = UINT64_MAX, .phase = "\x01\"\\"};
    EXPECT_OK(tess_history_add_span(history, 0, &span));
    json_t *document;
    expect_tracks_in_order(draw(history, &document), 3, 16);
    json_decref(document);
    tess_history_destroy(&history);
    EXPECT_OK(tess_history_create(test_mem(), TESS_HISTORY_LIVE, 1, &history));
    EXPECT_INT(json_array_size(draw(history, &document)), 2); /* the rank's name and place */
    json_decref(document);
    EXPECT_FAILS(tess_perfetto_write(history, "/nowhere/timeline.json"), TESS_E_NOT_FOUND, "/nowhere/timeline.json");
    tess_history_destroy(&history);
}

static const test_case cases[] = {
    CASE(waits_phases_and_arrows_are_drawn_on_one_clock),
    CASE(overlapping_operations_get_lanes_of_their_own),
    CASE(notices_are_moments),
    CASE(nonsense_is_still_valid_json),
};
TEST_MAIN(cases)
