/* tessera/diagnosis.h: other programs get what `tessera trace` prints, as values. */
#include <jansson.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/os/os.h"
#include "doctor/job/job.h"
#include "doctor/job/job_report.h"
#include "support/test.h"
#include "tessera/diagnosis.h"
#include "trace/job_file.h"
#include "trace/trace_folder.h"

enum { WORLD = 4, EVENTS = 64 };

static const uint64_t ms = 1000000, team = 77;

/* Writes `n` all_reduces of a millisecond each; the last one does not complete. */
static void write_ring(const char *folder, int rank, int n, uint64_t count_of_last)
{
    char path[512];
    tess_trace_ring *ring;
    EXPECT_OK(tess_trace_ring_path(folder, rank, path, sizeof(path)));
    EXPECT_OK(tess_trace_create(path, EVENTS, rank, WORLD, &ring));
    ring->owner.pid = 1000 + rank;
    ring->owner.wall_ns = UINT64_C(1700000000000000000);
    snprintf(ring->owner.host, sizeof(ring->owner.host), "host%d", rank / 2);
    tess_trace_add_team(ring, team, "world", WORLD, rank);
    for (int i = 0; i < n; i++) {
        tess_trace_event event = {.team = team,
                                  .sequence = (uint64_t)i,
                                  .count = i + 1 < n ? 100 : count_of_last,
                                  .step = i / 4,
                                  .detail = -1,
                                  .root = -1,
                                  .op = TESS_TRACE_ALL_REDUCE,
                                  .phase = "forward"};
        uint64_t number = tess_trace_emit(ring, &event, (uint64_t)(1 + i) * ms);
        if (i + 1 < n)
            tess_trace_update(ring, number, TESS_TRACE_COMPLETED, (uint64_t)(1 + i) * ms + ms / 2);
    }
    tess_trace_close(&ring);
}

/* Writes job.json: rank 1 was killed, and a control character hides in the launcher's text. */
static void write_job(const char *folder)
{
    char path[512];
    tess_job_file file;
    EXPECT_OK(tess_job_file_create(test_mem(), WORLD, &file));
    file.end_ns = UINT64_C(1700000009000000000);
    file.ranks[1] = (tess_job_file_rank){.ended = true, .signal = SIGKILL, .blames = -1};
    snprintf(file.ranks[1].why, sizeof(file.ranks[1].why), "killed\x1b[31m");
    snprintf(file.diagnosis, sizeof(file.diagnosis), "rank 1 was killed");
    EXPECT_OK(tess_os_join(path, sizeof(path), folder, TESS_TRACE_JOB_FILE));
    EXPECT_OK(tess_job_file_write(&file, path));
    tess_job_file_free(test_mem(), &file);
}

static void expect_member(const json_t *object, const char *key, const char *text)
{
    EXPECT_TEXT(json_string_value(json_object_get(object, key)), text);
}

static void expect_ranks(const json_t *list, const int *ranks, int n)
{
    EXPECT_INT((int)json_array_size(list), n);
    for (int i = 0; i < n; i++)
        EXPECT_INT((int)json_integer_value(json_array_get(list, (size_t)i)), ranks[i]);
}

/* Compares all values with the JSON object. */
static void expect_same(const tess_job_report *report, const char *text)
{
    json_t *document = json_loads(text, 0, NULL);
    const json_t *verdict = json_object_get(document, "verdict"), *lines = json_object_get(verdict, "evidence");
    const tess_verdict *v = tess_job_report_verdict(report);
    EXPECT(document != NULL);
    expect_member(verdict, "class", tess_diagnosis_name(v->kind));
    expect_member(verdict, "headline", v->headline);
    expect_member(verdict, "fix", v->fix);
    expect_member(document, "source", v->source);
    expect_member(document, "folder", v->folder);
    expect_member(document, "launcher_said", v->launcher_said);
    expect_ranks(json_object_get(verdict, "guilty"), v->ranks, v->n_ranks);
    expect_ranks(json_object_get(verdict, "waiting"), v->waiting, v->n_waiting);
    EXPECT_INT(json_boolean_value(json_object_get(verdict, "tie")), v->tie);
    EXPECT_INT((int)json_array_size(lines), v->n_evidence);
    for (int i = 0; i < v->n_evidence; i++)
        EXPECT_TEXT(json_string_value(json_array_get(lines, (size_t)i)), v->evidence[i]);
    EXPECT_INT((int)json_integer_value(json_object_get(document, "world")), v->world);
    for (int r = 0; r < v->world; r++) {
        tess_rank_report rank;
        const json_t *row = json_array_get(json_object_get(document, "ranks"), (size_t)r);
        EXPECT_OK(tess_job_report_rank(report, r, &rank));
        expect_member(row, "state", rank.state);
        expect_member(row, "why", rank.why);
        expect_member(row, "host", rank.host);
        expect_member(row, "error", rank.error);
        expect_member(row, "phase", rank.phase);
        EXPECT_INT((int)json_integer_value(json_object_get(row, "pid")), rank.pid);
        EXPECT_INT((int)json_integer_value(json_object_get(row, "step")), (int)rank.step);
    }
    json_decref(document);
}

/* Reads the folder through the internal functions, as before there was a public header. */
static void print_json(const char *folder, double patience_s, tess_buffer *out)
{
    tess_history *history;
    tess_report report;
    EXPECT_OK(tess_job_history_read(test_mem(), folder, &history));
    EXPECT_OK(tess_report_make(history, patience_s, &report));
    EXPECT_OK(tess_report_put(&report, TESS_FORM_JSON, out));
    tess_report_free(&report);
    tess_history_destroy(&history);
}

static void the_values_are_those_of_the_printed_report(void)
{
    char *json, *text;
    tess_job_report *report;
    tess_buffer expected = {.mem = test_mem()};
    for (int r = 0; r < WORLD; r++)
        write_ring(test_folder(), r, r == 1 ? 9 : 10, 100);
    write_job(test_folder());
    print_json(test_folder(), 0.75, &expected);
    EXPECT_OK(tess_job_report_read(test_folder(), -1, &report));
    EXPECT_OK(tess_job_report_json(report, &json));
    EXPECT_OK(tess_job_report_text(report, &text));
    EXPECT_TEXT(json, expected.data);
    expect_same(report, json);
    const tess_verdict *verdict = tess_job_report_verdict(report);
    EXPECT_INT(verdict->kind, TESS_DIAGNOSIS_LOST);
    EXPECT_INT(verdict->n_ranks, 1);
    EXPECT_INT(verdict->ranks[0], 1);
    EXPECT_INT(verdict->n_waiting, 3);
    EXPECT_CONTAINS(text, verdict->headline);
    free(json);
    free(text);
    tess_buffer_free(&expected);
    tess_job_report_destroy(&report);
    EXPECT(report == NULL);
    tess_job_report_destroy(&report);
}

static void a_wait_counts_from_the_given_patience_on(void)
{
    tess_job_report *report;
    for (int r = 0; r < WORLD; r++)
        write_ring(test_folder(), r, r == 3 ? 50 : 60, 100);
    EXPECT_OK(tess_job_report_read(test_folder(), 1000, &report));
    EXPECT_INT(tess_job_report_verdict(report)->kind, TESS_DIAGNOSIS_UNDECIDED);
    EXPECT_INT(tess_job_report_verdict(report)->n_ranks, 0);
    tess_job_report_destroy(&report);
    EXPECT_OK(tess_job_report_read(test_folder(), 0, &report));
    EXPECT_INT(tess_job_report_verdict(report)->kind, TESS_DIAGNOSIS_MISSING);
    EXPECT_INT(tess_job_report_verdict(report)->ranks[0], 3);
    tess_job_report_destroy(&report);
}

static void what_is_no_job_is_refused(void)
{
    char path[512];
    tess_rank_report rank;
    tess_job_report *report;
    EXPECT_FAILS(tess_job_report_read(NULL, -1, &report), TESS_E_INVALID, "no job is named");
    EXPECT_FAILS(tess_job_report_read(test_folder(), -1, &report), TESS_E_NOT_FOUND, "neither traces of a job");
    EXPECT(report == NULL);
    snprintf(path, sizeof(path), "%s/none", test_folder());
    EXPECT_FAILS(tess_job_report_read(path, -1, &report), TESS_E_NOT_FOUND, "none");
    EXPECT_OK(tess_os_write_atomic(path, "text", 4));
    EXPECT_FAILS(tess_job_report_read(path, -1, &report), TESS_E_INVALID, "is one file");
    tess_os_remove(path);
    for (int r = 0; r < WORLD; r++)
        write_ring(test_folder(), r, 10, 100);
    EXPECT_OK(tess_job_report_read(test_folder(), -1, &report));
    EXPECT_FAILS(tess_job_report_rank(report, WORLD, &rank), TESS_E_INVALID, "ranks 0 .. 3");
    EXPECT_FAILS(tess_job_report_rank(report, -1, &rank), TESS_E_INVALID, "no rank -1");
    tess_job_report_destroy(&report);
}

static const test_case cases[] = {
    CASE(the_values_are_those_of_the_printed_report),
    CASE(a_wait_counts_from_the_given_patience_on),
    CASE(what_is_no_job_is_refused),
};

TEST_MAIN(cases)
