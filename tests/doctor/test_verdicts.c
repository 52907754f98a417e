/* The same incident has the same verdict, in whatever form it is known: a live job's board and rings, a dead job's
 * folder, dumps of PyTorch's flight recorder, the ends that a launcher sees, and log texts. */
#include <signal.h>
#include <stdlib.h>

#include "base/os/os.h"
#include "doctor/flight_recorder/flight_recorder.h"
#include "doctor/job/job.h"
#include "doctor/log/log.h"
#include "job/rank_end.h"
#include "support/test.h"
#include "diagnosis/root_cause.h"
#include "trace/job_file.h"
#include "trace/trace_folder.h"

enum { WORLD = 4, LAST = 6, COUNT = 100, EVENTS = 16 };

static const uint64_t second_ns = 1000000000, team = 77;

/* The behaviour of a rank at the last all_reduce. */
typedef enum place { COMES, STAYS_AWAY, CALLS_BARRIER, ASKS_FOR_MORE } place;
/* How its process ends: it runs, leaves in good order, is killed by the system, crashes, exits, is lost with its host,
 * or gives up waiting. */
typedef enum end { RUNS, LEAVES, OUT_OF_MEMORY, CRASHES, EXITS, WITH_HOST, GIVES_UP } end;

typedef struct fate {
    place place;
    end end;
    int at_s; /* second of the end */
} fate;

typedef struct incident {
    const char *name;
    fate ranks[WORLD];
    int blamed;                     /* the rank that those who give up blame; -1: none */
    tess_situation situation;       /* the watchdog's finding about that rank */
    const char *error;              /* errors of those who exit */
    const char *culprits;           /* by every form, "": nobody is to blame */
    const char *live, *dead, *dump; /* the class by each form; NULL: the form knows nothing of it */
    const char *ends;               /* culprits by the ends alone; NULL: there are none */
    const char *log, *log_class;    /* words of the headline */
} incident;

#define GIVE_UP             \
    {                       \
        COMES, GIVES_UP, 40 \
    }
#define WAIT           \
    {                  \
        COMES, RUNS, 0 \
    }

static const incident incidents[] = {
    {"a rank that never arrived",
     {WAIT, WAIT, {STAYS_AWAY, RUNS, 0}, WAIT},
     2,
     TESS_RANK_UNKNOWN,
     "",
     "2",
     "missing_rank",
     "missing_rank",
     "missing_rank",
     NULL,
     "rank 2 never joined ALLREDUCE #6",
     "missing"},
    {"two ranks that stay away",
     {WAIT, {STAYS_AWAY, RUNS, 0}, {STAYS_AWAY, RUNS, 0}, WAIT},
     -1,
     TESS_RANK_WELL,
     "",
     "1 2",
     "missing_rank",
     "missing_rank",
     "missing_rank",
     NULL,
     "ranks 1-2 never joined ALLREDUCE #6",
     "missing"},
    {"a rank that is stopped",
     {WAIT, WAIT, WAIT, {STAYS_AWAY, RUNS, 0}},
     3,
     TESS_RANK_STOPPED,
     "",
     "3",
     "rank_stopped",
     "rank_stopped",
     "missing_rank",
     NULL,
     "rank 3 never joined ALLREDUCE #6",
     "missing"},
    {"a rank that has left",
     {GIVE_UP, GIVE_UP, GIVE_UP, {STAYS_AWAY, LEAVES, 5}},
     3,
     TESS_RANK_LEFT,
     "",
     "3",
     "rank_left",
     "rank_left",
     "missing_rank",
     "3",
     "rank 3 never joined ALLREDUCE #6",
     "missing"},
    {"two against two",
     {WAIT, WAIT, {CALLS_BARRIER, RUNS, 0}, {CALLS_BARRIER, RUNS, 0}},
     -1,
     TESS_RANK_WELL,
     "",
     "",
     "extra",
     "extra",
     "extra",
     NULL,
     "(a tie)",
     "mismatch"},
    {"a straggler",
     {{STAYS_AWAY, RUNS, 0}, WAIT, WAIT, WAIT},
     0,
     TESS_RANK_COMPUTING,
     "",
     "0",
     "rank_busy",
     "rank_busy",
     "missing_rank",
     NULL,
     "rank 0 never joined ALLREDUCE #6",
     "missing"},
    {"a straggler for which the others gave up",
     {{STAYS_AWAY, RUNS, 0}, GIVE_UP, GIVE_UP, GIVE_UP},
     0,
     TESS_RANK_COMPUTING,
     "",
     "0",
     "rank_busy",
     "rank_busy",
     "missing_rank",
     "0",
     "rank 0 never joined ALLREDUCE #6",
     "missing"},
    {"another collective",
     {WAIT, {CALLS_BARRIER, RUNS, 0}, WAIT, WAIT},
     1,
     TESS_RANK_WELL,
     "",
     "1",
     "mismatch_op",
     "mismatch_op",
     "mismatch_op",
     NULL,
     "rank 1 in BARRIER #6",
     "mismatch"},
    {"another size",
     {WAIT, WAIT, WAIT, {ASKS_FOR_MORE, RUNS, 0}},
     3,
     TESS_RANK_WELL,
     "",
     "3",
     "mismatch_count",
     "mismatch_count",
     "mismatch_count",
     NULL,
     "rank 3 in ALLREDUCE #6 of 101 elements",
     "mismatch"},
    {"killed, because memory ran out",
     {GIVE_UP, GIVE_UP, {STAYS_AWAY, OUT_OF_MEMORY, 10}, GIVE_UP},
     2,
     TESS_RANK_OOM_KILLED,
     "",
     "2",
     "rank_lost",
     "rank_lost",
     "missing_rank",
     "2",
     "rank 2 on n1 (pid 102): a process got SIGKILL",
     "error"},
    {"a crash",
     {GIVE_UP, {STAYS_AWAY, CRASHES, 10}, GIVE_UP, GIVE_UP},
     1,
     TESS_RANK_CRASHED,
     "",
     "1",
     "rank_lost",
     "rank_lost",
     "missing_rank",
     "1",
     "rank 1 on n0 (pid 101): a process crashed",
     "error"},
    {"an exception in one rank",
     {GIVE_UP, {STAYS_AWAY, EXITS, 10}, GIVE_UP, GIVE_UP},
     1,
     TESS_RANK_WELL,
     "ValueError: sample 7 is empty",
     "1",
     "failed",
     "failed",
     "missing_rank",
     "1",
     "rank 1 on n0",
     "error"},
    {"a host that is lost",
     {GIVE_UP, GIVE_UP, {STAYS_AWAY, WITH_HOST, 10}, {STAYS_AWAY, WITH_HOST, 10}},
     2,
     TESS_RANK_HOST_LOST,
     "",
     "2 3",
     "rank_lost",
     "rank_lost",
     "missing_rank",
     "2",
     "n1",
     "error"},
    {"all fail in one second",
     {{STAYS_AWAY, EXITS, 10}, {STAYS_AWAY, EXITS, 10}, {STAYS_AWAY, EXITS, 10}, {STAYS_AWAY, EXITS, 10}},
     -1,
     TESS_RANK_WELL,
     "RuntimeError: the plans differ",
     "",
     "failed",
     "failed",
     NULL,
     "",
     "ranks 0-3: a Python exception",
     "error"},
    {"one exits and one is killed in the same second",
     {{STAYS_AWAY, EXITS, 10}, {STAYS_AWAY, CRASHES, 10}, {STAYS_AWAY, RUNS, 0}, {STAYS_AWAY, RUNS, 0}},
     -1,
     TESS_RANK_WELL,
     "",
     "1",
     "rank_lost",
     "rank_lost",
     NULL,
     "1",
     "rank 1 on n0",
     "error"},
};

/* ---- The verdict of a history ---- */
static const char *name_ranks(const int *ranks, int n, char text[64])
{
    size_t at = 0;
    text[0] = '\0';
    for (int i = 0; i < n; i++)
        at += (size_t)snprintf(text + at, 64 - at, "%s%d", i > 0 ? " " : "", ranks[i]);
    return text;
}

static void expect_verdict(const incident *i, const char *form, tess_history *history, double patience_s,
                           const char *class)
{
    char who[64];
    tess_diagnosis diagnosis;
    EXPECT_OK(tess_diagnosis_find(history, patience_s, &diagnosis));
    name_ranks(diagnosis.ranks, diagnosis.tie ? 0 : diagnosis.n_ranks, who);
    if (strcmp(who, i->culprits) != 0 || (class != NULL && strcmp(tess_diagnosis_name(diagnosis.kind), class) != 0))
        test_fail(__FILE__, __LINE__, "%s, by the %s: %s of ranks '%s', expected %s of '%s': %s", i->name, form,
                  tess_diagnosis_name(diagnosis.kind), who, class, i->culprits, diagnosis.headline);
    tess_diagnosis_free(history, &diagnosis);
    tess_history_destroy(&history);
}

static bool has_ended(const fate *f)
{
    return f->end != RUNS;
}

static int signal_of(const fate *f)
{
    return f->end == OUT_OF_MEMORY ? SIGKILL : f->end == CRASHES ? SIGSEGV : 0;
}

static int code_of(const fate *f)
{
    return f->end == EXITS || f->end == GIVES_UP ? 1 : signal_of(f) != 0 ? 128 + signal_of(f) : 0;
}

static const char *error_of(const incident *i, int rank)
{
    return i->ranks[rank].end == EXITS ? i->error : i->ranks[rank].end == GIVES_UP ? "a rank did not come" : "";
}

/* ---- Rings, for the live job and for the folder ---- */
static void fill_ring(tess_trace_ring *ring, const incident *incident, int rank, uint64_t begin_ns)
{
    const fate *f = &incident->ranks[rank];
    tess_trace_add_team(ring, team, "world", WORLD, rank);
    for (int i = 0; i < LAST + (f->place != STAYS_AWAY); i++) {
        bool is_last = i == LAST;
        tess_trace_event event = {.team = team,
                                  .sequence = (uint64_t)i,
                                  .count = is_last && f->place == ASKS_FOR_MORE ? COUNT + 1 : COUNT,
                                  .step = i,
                                  .detail = -1,
                                  .root = -1,
                                  .op =
                                      is_last && f->place == CALLS_BARRIER ? TESS_TRACE_BARRIER : TESS_TRACE_ALL_REDUCE,
                                  .call_site = 0x40,
                                  .phase = "backward"};
        uint64_t now_ns = begin_ns + (uint64_t)i * second_ns;
        uint64_t number = tess_trace_emit(ring, &event, now_ns);
        if (!is_last)
            tess_trace_update(ring, number, TESS_TRACE_COMPLETED, now_ns + second_ns / 2);
        else if (f->end == GIVES_UP)
            tess_trace_update(ring, number, TESS_TRACE_FAILED, begin_ns + (uint64_t)f->at_s * second_ns);
    }
}

/* ---- The board ---- */
static bool loses_host(const incident *incident)
{
    for (int r = 0; r < WORLD; r++)
        if (incident->ranks[r].end == WITH_HOST)
            return true;
    return false;
}

static void end_on_board(const tess_job *job, const incident *incident, int rank)
{
    const fate *f = &incident->ranks[rank];
    tess_job_row *row = &job->rows[rank];
    int blames = f->end == GIVES_UP ? incident->blamed : f->end == EXITS && incident->blamed == rank ? rank : -1;
    if (error_of(incident, rank)[0] != '\0')
        tess_board_error(row, error_of(incident, rank), blames);
    if (f->end == GIVES_UP)
        atomic_store(&row->broken_team, team);
    if (f->end == LEAVES)
        atomic_store(&row->state, JOB_RANK_LEFT);
    if (f->end == LEAVES)
        tess_ending_note(job, rank, 0, false);
    else if (has_ended(f))
        tess_ending_lose(job, rank, signal_of(f), code_of(f));
}

static void fill_board(const tess_job *job, const incident *incident)
{
    job->header->n_hosts = loses_host(incident) ? 2 : 1;
    for (int h = 0; h < 2; h++)
        snprintf(job->header->hosts[h].name, sizeof(job->header->hosts[h].name), "n%d", h);
    for (int r = 0; r < WORLD; r++) {
        job->rows[r].host = loses_host(incident) ? r / 2 : 0; /* rings of other hosts cannot be read */
        atomic_store(&job->rows[r].state, JOB_RANK_JOINED);
        fill_ring(tess_job_ring(job, r), incident, r, tess_os_now_ns() - 60 * second_ns);
    }
    if (incident->blamed >= 0)
        tess_board_situation(&job->rows[incident->blamed], incident->situation, "");
    for (int give_up = 0; give_up < 2; give_up++) /* first those who cause the failure */
        for (int r = 0; r < WORLD; r++)
            if ((incident->ranks[r].end == GIVES_UP) == give_up)
                end_on_board(job, incident, r);
}

static void judge_board(const incident *incident)
{
    tess_live_job live = {.world = WORLD, .n_hosts = loses_host(incident) ? 2 : 1};
    tess_history *history;
    EXPECT_OK(tess_job_create(WORLD, &live.job));
    fill_board(&live.job, incident);
    EXPECT_OK(tess_job_history_live(test_mem(), &live, &history));
    expect_verdict(incident, "board", history, 1, incident->live);
    tess_job_close(&live.job, true);
}

/* Whichever rank is seen to end first. */
static void judge_ends(const incident *incident)
{
    tess_job job;
    EXPECT_OK(tess_job_create(WORLD, &job));
    fill_board(&job, incident);
    for (int r = 0; r < WORLD && incident->ends != NULL; r++) {
        char who[64] = "", report[2048];
        if (!has_ended(&incident->ranks[r]) || (incident->ranks[r].end == WITH_HOST && r != incident->blamed))
            continue;
        int code, cause = tess_ending_find(&job, r, true, &code), stuck = tess_ending_stuck(&job, cause);
        tess_ending_report(&job, cause, stuck, report, sizeof(report));
        bool is_shared = strncmp(report, incident->error, strlen(incident->error)) == 0 && incident->error[0] != '\0';
        if (!is_shared)
            name_ranks(stuck >= 0 ? &stuck : &cause, 1, who);
        if (strcmp(who, incident->ends) != 0)
            test_fail(__FILE__, __LINE__, "%s, by the ends, rank %d first: '%s', expected '%s': %s", incident->name, r,
                      who, incident->ends, report);
    }
    tess_job_close(&job, true);
}

/* ---- The folder of a dead job ---- */
static void make_folder(const incident *incident, char folder[512])
{
    snprintf(folder, 512, "%s/%d", test_folder(), (int)(incident - incidents));
    EXPECT_OK(tess_os_make_dirs(folder));
}

static void put(const char *folder, const char *name, const char *text)
{
    char path[1024];
    EXPECT_OK(tess_os_join(path, sizeof(path), folder, name));
    EXPECT_OK(tess_os_write_atomic(path, text, strlen(text)));
}

static void write_ring(const char *folder, const incident *incident, int rank)
{
    char path[1024];
    tess_trace_ring *ring;
    EXPECT_OK(tess_trace_ring_path(folder, rank, path, sizeof(path)));
    EXPECT_OK(tess_trace_create(path, EVENTS, rank, WORLD, &ring));
    ring->owner.wall_ns = 1700000000 * second_ns;
    ring->owner.monotonic_ns = second_ns;
    snprintf(ring->owner.host, sizeof(ring->owner.host), "n%d", rank / 2);
    fill_ring(ring, incident, rank, second_ns);
    tess_trace_close(&ring);
}

static void judge_folder(const incident *incident)
{
    char folder[512], path[1024];
    tess_job_file file;
    tess_history *history;
    make_folder(incident, folder);
    EXPECT_OK(tess_job_file_create(test_mem(), WORLD, &file));
    file.end_ns = (1700000000 + 60) * second_ns;
    for (int r = 0; r < WORLD; r++) {
        const fate *f = &incident->ranks[r];
        tess_job_file_rank *to = &file.ranks[r];
        write_ring(folder, incident, r);
        to->ended = true;
        to->asked = !has_ended(f); /* the launcher ends those who run */
        to->signal = has_ended(f) ? signal_of(f) : SIGTERM;
        to->exit_code = code_of(f);
        to->ended_ns = (uint64_t)(1700000000 + (has_ended(f) ? f->at_s : 50)) * second_ns;
        to->blames = f->end == GIVES_UP ? incident->blamed : f->end == EXITS && incident->blamed == r ? r : -1;
        snprintf(to->host, sizeof(to->host), "n%d", r / 2);
        snprintf(to->error, sizeof(to->error), "%s", error_of(incident, r));
        if (r == incident->blamed || f->end == WITH_HOST)
            snprintf(to->situation, sizeof(to->situation), "%s", tess_situation_name(incident->situation));
    }
    EXPECT_OK(tess_os_join(path, sizeof(path), folder, TESS_TRACE_JOB_FILE));
    EXPECT_OK(tess_job_file_write(&file, path));
    tess_job_file_free(test_mem(), &file);
    EXPECT_OK(tess_job_history_read(test_mem(), folder, &history));
    expect_verdict(incident, "folder", history, 1, incident->dead);
}

/* ---- Dumps of PyTorch ---- */
static void write_dump(const char *folder, const incident *incident, int rank)
{
    char name[64], text[8192];
    const fate *f = &incident->ranks[rank];
    size_t at = (size_t)snprintf(text, sizeof(text),
                                 "{\"version\":\"2.10\",\"pg_config\":{\"0\":{\"name\":\"0\",\"desc\":"
                                 "\"default_pg\",\"ranks\":\"[0, 1, 2, 3]\"}},\"entries\":[");
    for (int i = 0; i < LAST + (f->place != STAYS_AWAY); i++) {
        int count = i == LAST && f->place == ASKS_FOR_MORE ? COUNT + 1 : COUNT;
        at += (size_t)snprintf(text + at, sizeof(text) - at,
                               "%s{\"record_id\":%d,\"process_group\":[\"0\",\"default_pg\"],\"collective_seq_id\":%d,"
                               "\"profiling_name\":\"nccl:%s\",\"time_created_ns\":%d000000000,\"input_sizes\":[[%d]],"
                               "\"input_dtypes\":[\"Float\"],\"output_sizes\":[[%d]],\"output_dtypes\":[\"Float\"],"
                               "\"state\":\"%s\",\"frames\":[]}",
                               i > 0 ? "," : "", i, i + 1,
                               i == LAST && f->place == CALLS_BARRIER ? "barrier" : "all_reduce", 100 + i, count, count,
                               i == LAST ? "scheduled" : "completed");
    }
    snprintf(text + at, sizeof(text) - at, "]}");
    snprintf(name, sizeof(name), "nccl_trace_rank_%d.json", rank);
    put(folder, name, text);
}

/* Ranks that are killed or end by an exception leave no dump. */
static void judge_dumps(const incident *incident)
{
    char folder[512];
    tess_history *history;
    if (incident->dump == NULL)
        return;
    make_folder(incident, folder);
    for (int r = 0; r < WORLD; r++)
        if (!has_ended(&incident->ranks[r]) || incident->ranks[r].end == GIVES_UP)
            write_dump(folder, incident, r);
    EXPECT_OK(tess_flight_recorder_read(test_mem(), folder, &history));
    expect_verdict(incident, "dumps", history, 0, incident->dump);
}

/* ---- Logs ---- */
static size_t add_end(const incident *incident, int rank, bool is_root, char *text, size_t size, size_t at)
{
    const fate *f = &incident->ranks[rank];
    int code = signal_of(f) != 0 ? -signal_of(f) : code_of(f);
    return (size_t)snprintf(text + at, size - at,
                            "%s[0]:\n  time      : 2025-01-01_10:00:%02d\n  host      : n%d\n  rank      : %d "
                            "(local_rank: %d)\n  exitcode  : %d (pid: %d)\n",
                            is_root ? "Root Cause (first observed failure):\n" : "", f->at_s, rank / 2, rank, rank % 2,
                            code, 100 + rank);
}

static size_t add_lines(const incident *incident, int rank, char *text, size_t size, size_t at)
{
    const fate *f = &incident->ranks[rank];
    int count = f->place == ASKS_FOR_MORE ? COUNT + 1 : COUNT;
    if (f->place != STAYS_AWAY)
        return (size_t)snprintf(text + at, size - at,
                                "[rank%d]:[E101 10:00:40.0 ProcessGroupNCCL.cpp:607] [PG ID 0 PG GUID 0(default_pg) "
                                "Rank %d] Watchdog caught collective "
                                "operation timeout: WorkNCCL(SeqNum=%d, OpType=%s, NumelIn=%d, NumelOut=%d, "
                                "Timeout(ms)=30000) ran for 30060 milliseconds before timing out.\n",
                                rank, rank, LAST, f->place == CALLS_BARRIER ? "BARRIER" : "ALLREDUCE", count, count);
    if (f->end == EXITS)
        return (size_t)snprintf(text + at, size - at, "[rank%d]: %s\n", rank, incident->error);
    if (f->end == RUNS || f->end == LEAVES)
        return (size_t)snprintf(
            text + at, size - at,
            "[rank%d]:[E101 10:00:41.0 ProcessGroupNCCL.cpp:1743] [PG ID 0 PG GUID 0(default_pg) Rank "
            "%d] last enqueued work: %d, last completed work: %d\n",
            rank, rank, LAST - 1, LAST - 1);
    return 0;
}

/* The agent of a host that is lost prints no table, and those who give up are not the first. */
static bool is_in_table(const fate *f)
{
    return f->end == OUT_OF_MEMORY || f->end == CRASHES || f->end == EXITS;
}

static tess_knowledge *knowledge;

static void judge_log(const incident *incident)
{
    char folder[512], path[1024], text[8192];
    size_t at = (size_t)snprintf(text, sizeof(text), "world_size=4\n");
    tess_survey survey;
    tess_log_diagnosis diagnosis;
    int first = -1;
    for (int r = 0; r < WORLD; r++) {
        const fate *f = &incident->ranks[r];
        at += add_lines(incident, r, text, sizeof(text), at);
        if (is_in_table(f) && first < 0)
            first = r;
        if (f->end == WITH_HOST && r % 2 == 0)
            at += (size_t)snprintf(text + at, sizeof(text) - at, "srun: error: Node failure on n%d\n", r / 2);
    }
    for (int r = WORLD - 1; r >= 0 && first >= 0; r--)
        if (is_in_table(&incident->ranks[r]))
            at += add_end(incident, r, r == first, text, sizeof(text), at);
    make_folder(incident, folder);
    put(folder, "job.log", text);
    EXPECT_OK(tess_survey_begin(test_mem(), knowledge, &survey));
    EXPECT_OK(tess_os_join(path, sizeof(path), folder, "job.log"));
    EXPECT_OK(tess_survey_read(&survey, path));
    EXPECT_OK(tess_log_diagnose(&survey, WORLD, &diagnosis));
    if (strstr(diagnosis.headline, incident->log) == NULL ||
        strcmp(tess_log_kind_name(diagnosis.kind), incident->log_class) != 0)
        test_fail(__FILE__, __LINE__, "%s, by the log: %s, expected '%s': %s\n%s", incident->name,
                  tess_log_kind_name(diagnosis.kind), incident->log, diagnosis.headline, text);
    tess_survey_free(&survey);
}

static void judge_all(void (*judge)(const incident *incident))
{
    for (size_t i = 0; i < sizeof(incidents) / sizeof(incidents[0]); i++)
        judge(&incidents[i]);
}

static void by_a_live_board(void)
{
    judge_all(judge_board);
}

static void by_the_ends_that_a_launcher_sees(void)
{
    judge_all(judge_ends);
}

static void by_the_folder_of_a_dead_job(void)
{
    judge_all(judge_folder);
}

static void by_dumps_of_a_flight_recorder(void)
{
    judge_all(judge_dumps);
}

static void by_log_texts(void)
{
    setenv("XDG_CONFIG_HOME", "/nowhere", 1);
    EXPECT_OK(tess_knowledge_create(test_mem(), NULL, 0, &knowledge));
    judge_all(judge_log);
    tess_knowledge_destroy(&knowledge);
}

static const test_case cases[] = {
    CASE(by_a_live_board),
    CASE(by_the_ends_that_a_launcher_sees),
    CASE(by_the_folder_of_a_dead_job),
    CASE(by_dumps_of_a_flight_recorder),
    CASE(by_log_texts),
};

TEST_MAIN(cases)
