#include "job/rank_end.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "base/text/text.h"
#include "job/call_sites.h"
#include "job/ending_room.h"

int tess_ending_code(int wait_status)
{
    return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

static void add_to_past(tess_rank_past *past)
{
    past->n_before++;
    for (int i = 0; i < JOB_FAULTS; i++)
        past->faults_before |= (uint32_t)(past->happened[i] > 0) << i;
    memset(past->happened, 0, sizeof(past->happened));
}

bool tess_ending_note(const tess_job *job, int rank, int wait_status, bool asked)
{
    tess_job_row *row = &job->rows[rank];
    int code = tess_ending_code(wait_status);
    bool failed = code != 0 && !asked;
    add_to_past(&job->past[rank]);
    atomic_store(&row->exit_code, code);
    if (failed)
        tess_ending_lose(job, rank, WIFSIGNALED(wait_status) ? WTERMSIG(wait_status) : 0, code);
    else if (atomic_load(&row->state) != JOB_RANK_LEFT)
        atomic_store(&row->state, JOB_RANK_GONE);
    atomic_store(&row->ended, 1);
    tess_job_wake_all(job);
    return failed;
}

void tess_ending_lose(const tess_job *job, int rank, int signal, int exit_code)
{
    tess_job_row *row = &job->rows[rank];
    atomic_store(&row->signal, signal);
    atomic_store(&row->exit_code, exit_code);
    atomic_store(&row->state, JOB_RANK_LOST);
    atomic_store(&row->ended, 1);
    int32_t nobody = -1;
    atomic_compare_exchange_strong(&job->header->first_lost, &nobody, tess_ending_cause(job, rank));
    tess_job_wake_all(job);
}

/* A rank that still runs is not a cause. */
static bool is_over(const tess_job *job, int rank)
{
    uint32_t state =
        rank >= 0 && rank < (int)job->header->world ? atomic_load(&job->rows[rank].state) : JOB_RANK_ABSENT;
    return state != JOB_RANK_ABSENT && state != JOB_RANK_JOINED;
}

static const tess_end *read_ends(const tess_job *job)
{
    tess_end *ends = job->room->ends;
    for (int r = 0; r < (int)job->header->world; r++) {
        const tess_job_row *row = &job->rows[r];
        uint32_t state = atomic_load(&row->state); /* LOST is written after signal and exit code */
        int signal = atomic_load(&row->signal), blamed = atomic_load(&row->blames) - 1;
        tess_situation how = tess_end_how(signal, atomic_load(&row->exit_code));
        if (state != JOB_RANK_LOST)
            how = is_over(job, r) ? TESS_RANK_LEFT : TESS_RANK_WELL;
        else if (how == TESS_RANK_LEFT)
            how = TESS_RANK_HOST_LOST;
        ends[r] = (tess_end){.how = how,
                             .signal = signal,
                             .blames = blamed == r || is_over(job, blamed) ? blamed : -1,
                             .gave_up = atomic_load(&row->broken_team) != 0};
    }
    return ends;
}

int tess_ending_cause(const tess_job *job, int rank)
{
    return tess_ends_cause(read_ends(job), (int)job->header->world, rank);
}

int tess_ending_find(const tess_job *job, int seen_first, bool early, int *code)
{
    const tess_end *ends = read_ends(job);
    int world = (int)job->header->world;
    int cause = early ? tess_ends_first(ends, world, seen_first) : tess_ends_cause(ends, world, seen_first);
    *code = early && tess_end_is_bad(ends[cause].how) ? atomic_load(&job->rows[cause].exit_code) : 0;
    return cause;
}

bool tess_ending_keeps_waiting(const tess_job *job, int rank)
{
    uint32_t situation = atomic_load(&job->rows[rank].situation);
    return situation == TESS_RANK_STOPPED || situation == TESS_RANK_BLOCKED_IN_IO ||
           situation == TESS_RANK_IN_OTHER_COLLECTIVE || situation == TESS_RANK_LOADING_DATA ||
           situation == TESS_RANK_SLEEPING || situation == TESS_RANK_COMPUTING || situation == TESS_RANK_NOT_JOINED;
}

bool tess_ending_leaves_finding(const tess_job *job, int rank)
{
    const tess_job_row *row = &job->rows[rank];
    int blamed = atomic_load(&row->blames) - 1;
    bool gave_up = atomic_load(&row->broken_team) != 0 && blamed >= 0 && blamed != rank;
    return gave_up && tess_ending_keeps_waiting(job, rank);
}

int tess_ending_stuck(const tess_job *job, int rank)
{
    int blamed = atomic_load(&job->rows[rank].blames) - 1;
    if (blamed < 0 || blamed >= (int)job->header->world)
        return -1;
    if (tess_ending_keeps_waiting(job, blamed))
        return blamed;
    return tess_ending_leaves_finding(job, rank) ? rank : -1;
}

/* Finds a rank that waits for `rank`, or did so until it gave up; -1: none. */
static int find_waiter(const tess_job *job, int rank)
{
    for (int r = 0; r < (int)job->header->world; r++) {
        const tess_job_row *row = &job->rows[r];
        uint64_t missing = atomic_load_explicit(&tess_job_awaited(job, r)[rank / 64], memory_order_relaxed);
        bool waits = atomic_load(&row->wait_since_ns) != 0 || atomic_load(&row->broken_team) != 0;
        if (r != rank && waits && (missing >> rank % 64 & 1) != 0)
            return r;
    }
    return -1;
}

/* Formats " on host h2" in a job of several hosts. */
static const char *on_host(const tess_job *job, int rank, char *text, size_t size)
{
    if (job->header->n_hosts > 1)
        snprintf(text, size, " on host %s", job->header->hosts[job->rows[rank].host].name);
    return text;
}

bool tess_ending_report_progress(const tess_job *job, int rank, char text[TESS_ENDING_PROGRESS])
{
    tess_progress_of *ranks = job->room->places;
    bool *odd = job->room->odd;
    int world = (int)job->header->world;
    for (int r = 0; r < world; r++) {
        const tess_job_row *row = &job->rows[r];
        uint32_t state = atomic_load(&row->state);
        bool left = state == JOB_RANK_LEFT || state == JOB_RANK_GONE;
        ranks[r] = (tess_progress_of){.step = atomic_load_explicit(&row->step, memory_order_relaxed),
                                      .micro = -1,
                                      .ended = left && atomic_load(&row->broken_team) == 0};
    }
    return tess_progress_mismatch(ranks, world, odd, text, TESS_ENDING_PROGRESS) && odd[rank];
}

static const char *report_stuck(const tess_job *job, int rank, int stuck, char *text, size_t size)
{
    tess_board_copy waiter, blamed;
    char what[256], phase[96], host[96] = "", progress[TESS_ENDING_PROGRESS];
    int waits = rank != stuck ? rank : find_waiter(job, stuck);
    tess_board_export(&job->rows[stuck], &blamed);
    tess_board_describe_phase(&blamed, phase, sizeof(phase));
    size_t at = tess_text_add(text, size, 0, "rank %d%s ", stuck, on_host(job, stuck, host, sizeof(host)));
    if (waits >= 0) {
        tess_board_export(&job->rows[waits], &waiter);
        at = tess_text_add(text, size, at, "never came to %s",
                           tess_fingerprint_format(&waiter.wait_op, waiter.wait_team, what, sizeof(what)));
    } else {
        at = tess_text_add(text, size, at, "kept others waiting");
    }
    at = tess_text_add(text, size, at, ": it is %s%s%s", phase, phase[0] != '\0' ? ", " : "", blamed.why);
    if (blamed.situation == TESS_RANK_IN_OTHER_COLLECTIVE && tess_ending_report_progress(job, stuck, progress))
        at = tess_text_add(text, size, at, "; %s", progress);
    tess_text_add(text, size, at, rank == stuck ? "; it gave up first" : "; rank %d gave up", rank);
    tess_call_sites_name(job, stuck, text, size);
    return text;
}

const char *tess_ending_report(const tess_job *job, int rank, int stuck, char *text, size_t size)
{
    char end[640], host[96] = "";
    const tess_job_row *row = &job->rows[rank];
    bool own = atomic_load(&row->blames) == rank + 1; /* the rank failed alone */
    bool shared = row->error[0] != '\0' && atomic_load(&row->signal) == 0 && !own;
    if (stuck >= 0)
        return report_stuck(job, rank, stuck, text, size);
    on_host(job, rank, host, sizeof(host));
    if (atomic_load(&row->situation) == TESS_RANK_OOM_KILLED) { /* the situation says more than the signal */
        tess_board_copy copy;
        tess_board_export(row, &copy);
        tess_board_describe_last(&copy, end, sizeof(end));
        snprintf(text, size, "rank %d%s was %s; it was %s", rank, host, copy.why, end);
    } else if (shared) { /* if several ranks found the error, it is not the fault of the one that ended first */
        snprintf(text, size, "%.*s; rank %d%s was the first to end, with code %d", JOB_ERROR_BYTES, row->error, rank,
                 host, atomic_load(&row->exit_code));
    } else {
        snprintf(text, size, "%s%s%.*s", tess_board_describe_end(job, rank, end, sizeof(end)),
                 row->error[0] != '\0' ? ": " : "", JOB_ERROR_BYTES, row->error);
    }
    tess_call_sites_name(job, rank, text, size);
    return text;
}

int64_t tess_ending_steps_done(const tess_job *job)
{
    /* Between a recovery and the next step, rows show no step, but resumed_step has the one at which ranks continue. */
    int64_t most_steps = atomic_load(&job->header->resumed_step);
    for (int r = 0; r < (int)job->header->world; r++) {
        int64_t steps = (int64_t)atomic_load_explicit(&job->rows[r].n_steps, memory_order_relaxed);
        most_steps = steps > most_steps ? steps : most_steps;
    }
    return most_steps;
}

void tess_ending_facts(const tess_job *job, int cause, int rank, int exit_code, const char *report, tess_failure *out)
{
    const tess_job_header *header = job->header;
    const tess_job_row *row = &job->rows[rank];
    int signal = atomic_load(&row->signal), code = atomic_load(&row->exit_code);
    uint32_t situation = atomic_load(&row->situation);
    char phase[TESS_TRACE_PHASE_BYTES];
    bool with_host = atomic_load(&row->state) == JOB_RANK_LOST && signal == 0 && code == 0;
    tess_board_phase_of(row, phase);
    *out = (tess_failure){.rank = rank,
                          .signal = signal,
                          .exit_code = exit_code,
                          .status = (tess_status)atomic_load(&job->rows[cause].status),
                          .stopping = atomic_load(&header->stop) == JOB_STOP_NOW,
                          .oom_killed = !with_host && situation == TESS_RANK_OOM_KILLED,
                          .stuck = rank != cause,
                          .host_lost = with_host || situation == TESS_RANK_HOST_LOST,
                          .evaluating = strcmp(phase, "validation") == 0,
                          .step = atomic_load(&row->step),
                          .steps_done = tess_ending_steps_done(job)};
    if (header->n_hosts > 1)
        snprintf(out->host, sizeof(out->host), "%s", header->hosts[row->host].name);
    snprintf(out->text, sizeof(out->text), "%s", report);
}
