/* A job that has ended, read from its folder: rings, job.json and reports of the watchdog, whole and damaged. */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/os/os.h"
#include "doctor/job/job.h"
#include "doctor/job/job_report.h"
#include "support/test.h"
#include "trace/trace_folder.h"
#include "trace/job_file.h"

enum { WORLD = 4, EVENTS = 64 };

static const uint64_t ms = 1000000, team = 77;

static tess_trace_ring *open_ring(const char *folder, int rank)
{
    char path[512];
    tess_trace_ring *ring;
    EXPECT_OK(tess_trace_ring_path(folder, rank, path, sizeof(path)));
    EXPECT_OK(tess_trace_create(path, EVENTS, rank, WORLD, &ring));
    ring->owner.pid = 1000 + rank;
    ring->owner.wall_ns = UINT64_C(1700000000000000000);
    ring->owner.monotonic_ns = (uint64_t)rank * 1000 * ms; /* each rank has a clock of its own */
    snprintf(ring->owner.host, sizeof(ring->owner.host), "host%d", rank / 2);
    tess_trace_add_team(ring, team, "world", WORLD, rank);
    return ring;
}

/* Writes `n` all_reduces of a millisecond each; the last one does not complete. */
static void add_operations(tess_trace_ring *ring, int rank, int n, uint64_t count_of_last)
{
    uint64_t base = (uint64_t)rank * 1000 * ms;
    for (int i = 0; i < n; i++) {
        tess_trace_event event = {.team = team,
                                  .sequence = (uint64_t)i,
                                  .count = i + 1 < n ? 100 : count_of_last,
                                  .step = i / 4,
                                  .detail = -1,
                                  .root = -1,
                                  .op = TESS_TRACE_ALL_REDUCE,
                                  .call_site = 0x40,
                                  .phase = "forward"};
        uint64_t now_ns = base + (uint64_t)(1 + i) * ms;
        uint64_t number = tess_trace_emit(ring, &event, now_ns);
        if (i + 1 < n)
            tess_trace_update(ring, number, TESS_TRACE_COMPLETED, now_ns + ms / 2);
    }
}

static void write_ring(const char *folder, int rank, int n, uint64_t count_of_last)
{
    tess_trace_ring *ring = open_ring(folder, rank);
    add_operations(ring, rank, n, count_of_last);
    tess_trace_close(&ring);
}

static void write_job(const char *folder, tess_job_file *file)
{
    char path[512];
    EXPECT_OK(tess_os_join(path, sizeof(path), folder, TESS_TRACE_JOB_FILE));
    EXPECT_OK(tess_job_file_write(file, path));
    tess_job_file_free(test_mem(), file);
}

static void expect_diagnosis(const char *folder, tess_diagnosis_kind kind, int culprit, const char *needle)
{
    tess_history *history;
    tess_report report;
    tess_buffer out = {.mem = test_mem()};
    EXPECT_OK(tess_job_history_read(test_mem(), folder, &history));
    EXPECT_INT(history->world, WORLD);
    EXPECT_OK(tess_report_make(history, 0.75, &report));
    EXPECT_OK(tess_report_put(&report, TESS_FORM_TEXT, &out));
    if (report.diagnosis.kind != kind || (culprit >= 0 && report.diagnosis.ranks[0] != culprit))
        test_fail(__FILE__, __LINE__, "expected %s of rank %d:\n%s", tess_diagnosis_name(kind), culprit, out.data);
    EXPECT_CONTAINS(out.data, needle);
    tess_buffer_free(&out);
    tess_report_free(&report);
    tess_history_destroy(&history);
}

static void the_odd_request_is_found_in_files(void)
{
    for (int r = 0; r < WORLD; r++)
        write_ring(test_folder(), r, 20, r == 2 ? 101 : 100);
    expect_diagnosis(test_folder(), TESS_DIAGNOSIS_MISMATCH_COUNT, 2, "rank 2 on host host1 called all_reduce #19");
}

/* The job's folder may be given instead of its trace folder. A ring that has wrapped begins at any event. */
static void a_killed_rank_is_found_in_job_json(void)
{
    char folder[512];
    tess_job_file file;
    EXPECT_OK(tess_os_join(folder, sizeof(folder), test_folder(), "trace"));
    EXPECT_OK(tess_os_make_dirs(folder));
    for (int r = 0; r < WORLD; r++)
        write_ring(folder, r, r == 3 ? 150 : 151, 100);
    EXPECT_OK(tess_job_file_create(test_mem(), WORLD, &file));
    file.ranks[3] = (tess_job_file_rank){.ended = true, .signal = SIGKILL, .blames = -1};
    snprintf(file.diagnosis, sizeof(file.diagnosis), "rank 3 was killed");
    write_job(folder, &file);
    expect_diagnosis(test_folder(), TESS_DIAGNOSIS_LOST, 3, "was killed by signal 9 (SIGKILL)");
    expect_diagnosis(test_folder(), TESS_DIAGNOSIS_LOST, 3, "the launcher said: rank 3 was killed");
}

static void write_life(const char *name, uint64_t begin_ns, const char *command, const char *diagnosis)
{
    char folder[512];
    tess_job_file file;
    EXPECT_OK(tess_os_join(folder, sizeof(folder), test_folder(), name));
    EXPECT_OK(tess_os_make_dirs(folder));
    for (int r = 0; r < WORLD; r++)
        write_ring(folder, r, 150, 100);
    EXPECT_OK(tess_job_file_create(test_mem(), WORLD, &file));
    file.begin_ns = begin_ns;
    file.end_ns = begin_ns + 10;
    for (int r = 0; r < WORLD; r++)
        file.ranks[r].ended = true;
    snprintf(file.command, sizeof(file.command), "%s", command);
    snprintf(file.diagnosis, sizeof(file.diagnosis), "%s", diagnosis);
    write_job(folder, &file);
}

/* The restarted job ended well; the report also has the diagnosis of its earlier life. */
static void an_earlier_life_of_the_job_is_reported(void)
{
    tess_history *history;
    write_life("trace.previous", 100, "tessera train a.yaml", "rank 1 was killed by signal 9 (SIGKILL)");
    write_life("trace", 200, "tessera train a.yaml", "");
    expect_diagnosis(test_folder(), TESS_DIAGNOSIS_FINISHED, -1,
                     "an earlier life of this job: rank 1 was killed by signal 9 (SIGKILL); tessera trace ");
    write_life("trace", 200, "tessera train b.yaml", "");
    EXPECT_OK(tess_job_history_read(test_mem(), test_folder(), &history));
    EXPECT_TEXT(history->before, ""); /* another job in the same folder */
    tess_history_destroy(&history);
}

static void what_the_watchdog_saw_is_reported(void)
{
    tess_job_file file;
    for (int r = 0; r < WORLD; r++)
        write_ring(test_folder(), r, r == 1 ? 9 : 10, 100);
    EXPECT_OK(tess_job_file_create(test_mem(), WORLD, &file));
    snprintf(file.ranks[1].situation, sizeof(file.ranks[1].situation), "blocked_in_io");
    snprintf(file.ranks[1].why, sizeof(file.ranks[1].why), "read of /data/x.bin\x1b[31m");
    file.end_ns = UINT64_C(1700000009000000000);
    write_job(test_folder(), &file);
    expect_diagnosis(test_folder(), TESS_DIAGNOSIS_IO, 1, "read of /data/x.bin?[31m");
}

/* The launcher was killed and wrote nothing. The others showed signs of life while they waited for rank 2. */
static void waits_last_until_the_last_sign_of_life(void)
{
    for (int r = 0; r < WORLD; r++) {
        tess_trace_ring *ring = open_ring(test_folder(), r);
        add_operations(ring, r, r == 2 ? 19 : 20, 100);
        if (r != 2)
            atomic_store(&ring->alive_ns, (uint64_t)r * 1000 * ms + 20 * ms + 4200 * ms);
        tess_trace_close(&ring);
    }
    expect_diagnosis(test_folder(), TESS_DIAGNOSIS_MISSING, 2, " for 4.2 s");
}

static void add_phase(tess_trace_ring *ring, const char *phase, int step, uint64_t now_ns)
{
    tess_trace_event event = {.op = TESS_TRACE_PHASE, .step = step, .detail = -1, .root = -1};
    snprintf(event.phase, sizeof(event.phase), "%s", phase);
    tess_trace_emit(ring, &event, now_ns);
}

/* Rank 2 takes 12 ms where the others take 10; they wait for it at the end of the step. */
static void a_slow_rank_is_named_with_its_phase(void)
{
    enum { STEPS = 30 };
    tess_trace_ring *rings[WORLD];
    for (int r = 0; r < WORLD; r++) {
        char path[512];
        EXPECT_OK(tess_trace_ring_path(test_folder(), r, path, sizeof(path)));
        EXPECT_OK(tess_trace_create(path, 128, r, WORLD, &rings[r]));
        rings[r]->owner.wall_ns = UINT64_C(1700000000000000000);
        tess_trace_add_team(rings[r], team, "world", WORLD, r);
        for (int step = 0; step < STEPS; step++) {
            uint64_t begin = (uint64_t)(1000 + 20 * step) * ms, end = begin + 12 * ms;
            uint64_t come = begin + (uint64_t)(r == 2 ? 12 : 10) * ms;
            tess_trace_event event = {
                .team = team, .sequence = (uint64_t)step, .step = step, .root = -1, .op = TESS_TRACE_BARRIER};
            add_phase(rings[r], "forward", step, begin);
            uint64_t number = tess_trace_emit(rings[r], &event, come);
            tess_trace_update(rings[r], number, TESS_TRACE_STARTED, end);
            tess_trace_update(rings[r], number, TESS_TRACE_COMPLETED, end);
            add_phase(rings[r], "optimizer", step, end);
        }
        tess_trace_close(&rings[r]);
    }
    tess_history *history;
    tess_report report;
    tess_buffer out = {.mem = test_mem()};
    EXPECT_OK(tess_job_history_read(test_mem(), test_folder(), &history));
    EXPECT_OK(tess_report_make(history, 0.75, &report));
    EXPECT_OK(tess_report_put(&report, TESS_FORM_TEXT, &out));
    EXPECT_CONTAINS(out.data, "rank 2 is slow in forward: 20% over the others, 2.00 ms a step");
    EXPECT_CONTAINS(out.data, "ranks waited 0.18 s, 100% of it for rank 2");
    EXPECT_INT(report.n_stragglers, 1);
    tess_buffer_free(&out);
    tess_report_free(&report);
    tess_history_destroy(&history);
}

/* The others wait for the rank whose ring file is damaged. */
static void a_damaged_ring_is_reported_and_the_others_are_read(void)
{
    char path[512];
    tess_job_file file;
    for (int r = 0; r < WORLD; r++)
        write_ring(test_folder(), r, 10, 100);
    EXPECT_OK(tess_trace_ring_path(test_folder(), 2, path, sizeof(path)));
    int fd = open(path, O_WRONLY | O_TRUNC);
    EXPECT(write(fd, "TESSRING", 8) == 8);
    close(fd);
    EXPECT_OK(tess_job_file_create(test_mem(), WORLD, &file));
    file.end_ns = UINT64_C(1700000009000000000);
    write_job(test_folder(), &file);
    expect_diagnosis(test_folder(), TESS_DIAGNOSIS_MISSING, 2, "its header alone has 4096");
}

static void cut(const char *name, off_t by)
{
    char path[512];
    struct stat file;
    EXPECT_OK(tess_os_join(path, sizeof(path), test_folder(), name));
    EXPECT_INT(stat(path, &file), 0);
    EXPECT_INT(truncate(path, by > 0 ? file.st_size - by : file.st_size / 2), 0);
}

static void write_crash(void)
{
    tess_job_file file;
    for (int r = 0; r < WORLD; r++)
        write_ring(test_folder(), r, r == 1 ? 150 : 151, 100);
    EXPECT_OK(tess_job_file_create(test_mem(), WORLD, &file));
    file.end_ns = UINT64_C(1700000009000000000);
    file.ranks[1] = (tess_job_file_rank){.ended = true, .signal = SIGSEGV, .blames = -1};
    write_job(test_folder(), &file);
}

static void of_a_job_file_that_was_cut_the_whole_ranks_are_used(void)
{
    write_crash();
    cut(TESS_TRACE_JOB_FILE, 1);
    expect_diagnosis(test_folder(), TESS_DIAGNOSIS_LOST, 1, "(SIGSEGV)");
    expect_diagnosis(test_folder(), TESS_DIAGNOSIS_LOST, 1, "damaged: ");
    expect_diagnosis(test_folder(), TESS_DIAGNOSIS_LOST, 1, "job.json: not valid JSON");
    cut(TESS_TRACE_JOB_FILE, 300); /* the last rank is cut off, the entry of rank 1 is whole */
    expect_diagnosis(test_folder(), TESS_DIAGNOSIS_LOST, 1, "the ranks before that place are used");
}

static void of_a_job_file_without_a_whole_rank_nothing_is_used(void)
{
    static const char text[] = "{\"version\": 1, \"world\": 4, \"ranks\": [{\"rank\": 99}]}";
    tess_job_file file;
    char path[512];
    snprintf(path, sizeof(path), "%s/%s", test_folder(), TESS_TRACE_JOB_FILE);
    EXPECT_OK(tess_os_write_atomic(path, text, sizeof(text) - 1));
    EXPECT(tess_job_file_read_cut(test_mem(), path, &file) != TESS_OK);
    EXPECT(file.world == 0 && file.ranks == NULL);
    tess_error_clear();
}

static void of_a_ring_that_was_cut_the_whole_events_are_used(void)
{
    write_crash();
    cut("rank-00001.ring", 1);
    expect_diagnosis(test_folder(), TESS_DIAGNOSIS_LOST, 1, "all_reduce #149");
    expect_diagnosis(test_folder(), TESS_DIAGNOSIS_LOST, 1,
                     "rank-00001.ring is cut off at 12287 of 12288 bytes: 1 of its");
    cut("rank-00002.ring", 0); /* half of the file has the slots 0 to 22 with the newest 23 events */
    expect_diagnosis(test_folder(), TESS_DIAGNOSIS_LOST, 1,
                     "rank-00002.ring is cut off at 6144 of 12288 bytes: 48 of its");
}

/* A ring without its newest events does not show how far its rank came. */
static void a_rank_whose_newest_events_are_lost_is_not_blamed(void)
{
    tess_history *history;
    tess_report report;
    for (int r = 0; r < WORLD; r++)
        write_ring(test_folder(), r, r == 3 ? 50 : 60, 100);
    cut("rank-00001.ring", 20 * TESS_TRACE_EVENT_BYTES);
    EXPECT_OK(tess_job_history_read(test_mem(), test_folder(), &history));
    EXPECT(history->ranks[1].lost_newest);
    EXPECT_OK(tess_report_make(history, 0, &report));
    EXPECT_INT(report.diagnosis.kind, TESS_DIAGNOSIS_MISSING);
    EXPECT_INT(report.diagnosis.n_ranks, 1);
    EXPECT_INT(report.diagnosis.ranks[0], 3);
    tess_report_free(&report);
    tess_history_destroy(&history);
}

static void a_folder_without_traces_is_refused(void)
{
    tess_history *history;
    EXPECT_FAILS(tess_job_history_read(test_mem(), test_folder(), &history), TESS_E_NOT_FOUND, "holds traces");
}

static void as_json_it_says_the_same(void)
{
    tess_history *history;
    tess_report report;
    tess_buffer out = {.mem = test_mem()};
    for (int r = 0; r < WORLD; r++)
        write_ring(test_folder(), r, 20, r == 2 ? 101 : 100);
    EXPECT_OK(tess_job_history_read(test_mem(), test_folder(), &history));
    EXPECT_OK(tess_report_make(history, 0.75, &report));
    EXPECT_OK(tess_report_put(&report, TESS_FORM_JSON, &out));
    EXPECT_CONTAINS(out.data, "\"version\": 1");
    EXPECT_CONTAINS(out.data, "\"class\": \"mismatch_count\"");
    EXPECT_CONTAINS(out.data, "\"call_site\": \"program+0x40\"");
    tess_buffer_free(&out);
    EXPECT_OK(tess_report_last(&report, 2, 2, &out));
    EXPECT_CONTAINS(out.data, "#18");
    EXPECT(strstr(out.data, "#17") == NULL);
    tess_buffer_free(&out);
    tess_report_free(&report);
    tess_history_destroy(&history);
}

static const test_case cases[] = {
    CASE(the_odd_request_is_found_in_files),
    CASE(a_killed_rank_is_found_in_job_json),
    CASE(an_earlier_life_of_the_job_is_reported),
    CASE(what_the_watchdog_saw_is_reported),
    CASE(waits_last_until_the_last_sign_of_life),
    CASE(a_damaged_ring_is_reported_and_the_others_are_read),
    CASE(of_a_job_file_that_was_cut_the_whole_ranks_are_used),
    CASE(of_a_job_file_without_a_whole_rank_nothing_is_used),
    CASE(of_a_ring_that_was_cut_the_whole_events_are_used),
    CASE(a_rank_whose_newest_events_are_lost_is_not_blamed),
    CASE(a_slow_rank_is_named_with_its_phase),
    CASE(a_folder_without_traces_is_refused),
    CASE(as_json_it_says_the_same),
};

TEST_MAIN(cases)
