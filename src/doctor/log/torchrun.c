/* Reads what torchrun reports about processes that ended: lines of the agent on their host, and the table that it
 * prints at the end. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "doctor/log/log_impl.h"

/* Limits of lines in the table: from "Root Cause" to its exit code, and from a rank to its exit code. Other
 * processes may print between these lines. */
enum { ROOT_LINES = 40, FAILURE_LINES = 16 };

static tess_status add_failure(tess_survey *s, const log_failure *failure)
{
    for (int i = 0; i < s->n_failures; i++) { /* the table repeats processes that an agent has reported */
        log_failure *old = &s->failures[i];
        if (old->pid != 0 && old->pid == failure->pid && (old->is_local || old->rank == failure->rank)) {
            bool is_root = old->is_root || failure->is_root;
            if (!failure->is_local)
                *old = *failure;
            old->is_root = is_root;
            return TESS_OK;
        }
    }
    if (s->n_failures == LOG_MOST_RANKS)
        return TESS_OK;
    if ((s->n_failures & (s->n_failures - 1)) == 0) /* capacities are powers of two */
        TESS_TRY(tess_mem_grow(s->mem, TESS_POOL_MISC,
                               (s->n_failures == 0 ? 1 : 2 * (size_t)s->n_failures) * sizeof(*s->failures), "failures",
                               (void **)&s->failures));
    s->failures[s->n_failures++] = *failure;
    return TESS_OK;
}

/* Reads a line of an agent: "failed (exitcode: -9) local_rank: 3 (pid: 7) of binary: python". */
static bool read_agent(const char *text, log_failure *failure)
{
    const char *at = strstr(text, "failed (exitcode");
    *failure = (log_failure){.is_local = true, .time_s = -1};
    return at != NULL && sscanf(at, "failed (exitcode: %6d) local_rank: %6d (pid: %9d", &failure->code, &failure->rank,
                                &failure->pid) == 3;
}

/* Reads a line of the table: "time      : 2024-05-14_10:33:48", "host      : node-a", "rank      : 11 (local_rank:
 * 3)", "exitcode  : -9 (pid: 7)". Returns true at the last of these. */
static bool read_table(survey_reading *r, const char *text, int64_t number)
{
    const char *exit = strstr(text, "exitcode"), *rank = strstr(text, "rank");
    const char *time = strstr(text, "time      : "), *host = strstr(text, "host      : ");
    if (time != NULL) {
        time += strlen("time      : ");
        r->failure = (log_failure){.rank = -1, .time_s = log_time_of_line(time, strlen(time))};
    } else if (host != NULL) {
        sscanf(host, "host : %63s", r->failure.host);
    } else if (exit != NULL && r->failed_line > 0 && number - r->failed_line < FAILURE_LINES &&
               sscanf(exit, "exitcode : %6d (pid: %9d", &r->failure.code, &r->failure.pid) >= 1) {
        r->failure.is_root = r->root_line > 0 && number - r->root_line < ROOT_LINES;
        r->root_line = r->failed_line = 0;
        return true;
    } else if (rank != NULL && sscanf(rank, "rank : %6d (local_rank", &r->failure.rank) == 1) {
        r->failed_line = number;
    }
    return false;
}

tess_status log_note_failure(survey_reading *r, uint64_t hooks, const char *line, size_t size, int64_t number,
                             log_failure *failure)
{
    char text[512];
    snprintf(text, sizeof(text), "%.*s", (int)(size < 500 ? size : 500), line);
    if (hooks & TESS_HOOK_BIT(TESS_HOOK_ROOT))
        r->root_line = number;
    if (!read_agent(text, failure)) {
        *failure = (log_failure){.rank = -1};
        if (read_table(r, text, number))
            *failure = r->failure;
    }
    if (failure->rank < 0 || failure->rank >= LOG_MOST_RANKS) {
        failure->rank = -1;
        return TESS_OK;
    }
    log_rank *rank;
    failure->file = r->file;
    failure->line = number;
    failure->n_all = r->all.n;
    TESS_TRY(log_rank_at(r->survey, failure->rank, &rank));
    if (!failure->is_local && rank->host[0] == '\0')
        memcpy(rank->host, failure->host, sizeof(rank->host));
    return add_failure(r->survey, failure);
}

void log_note_cut_root(survey_reading *r)
{
    tess_survey *s = r->survey;
    if (r->root_line == 0 || r->failed_line <= r->root_line || r->failure.rank < 0 || r->failure.rank >= LOG_MOST_RANKS)
        return;
    s->has_cut_root = true;
    s->cut_root = r->failure;
}

int log_cut_root(const tess_survey *s, log_who *who)
{
    static const double second_s = 1;
    const log_failure *root = &s->cut_root;
    if (!s->has_cut_root)
        return 0;
    for (int i = 0; i < s->n_failures; i++) {
        const log_failure *f = &s->failures[i];
        if (!f->is_local && f->time_s >= 0 && f->time_s < root->time_s)
            return 0; /* a whole table of another agent is earlier */
    }
    *who = (log_who){.ranks = {root->rank}, .n_ranks = 1};
    snprintf(who->host, sizeof(who->host), "%s", root->host);
    for (int i = 0; i < s->n_failures; i++) {
        const log_failure *f = &s->failures[i];
        log_who one = {.ranks = {f->rank}, .n_ranks = 1};
        snprintf(one.host, sizeof(one.host), "%s", f->host);
        if (!f->is_local && f->time_s >= 0 && root->time_s >= 0 && f->time_s < root->time_s + second_s &&
            root->time_s < f->time_s + second_s)
            log_who_join(who, &one);
    }
    return who->n_ranks;
}

const log_failure *log_failure_of(const tess_survey *s, int rank)
{
    for (int i = 0; i < s->n_failures; i++)
        if (s->failures[i].rank == rank)
            return &s->failures[i];
    return NULL;
}

/* SIGTERM counts as asked for, because torchrun ends the other processes with it. */
tess_end log_end_of(const log_failure *f)
{
    int signal = f->code < 0 ? -f->code : 0;
    return (tess_end){.how = tess_end_how(signal, f->code),
                      .signal = signal,
                      .blames = -1,
                      .may_be_asked = signal == SIGTERM,
                      .at_ns = f->time_s >= 0 ? (uint64_t)((1 + f->time_s) * 1e9) : 0};
}

/* Knowledge about the process that ended first, in ascending order: nothing, a time in a table without its "Root
 * Cause", the first process of a host (from an agent), the first process of the job. */
enum { TOLD_NOTHING, TOLD_TIME, TOLD_BY_AGENT, TOLD_ROOT };

static int told_by(const log_failure *f)
{
    return f->is_root ? TOLD_ROOT : f->is_local ? TOLD_BY_AGENT : f->time_s >= 0 ? TOLD_TIME : TOLD_NOTHING;
}

/* Returns the first of the processes on which torchrun says most, or NULL if it named none. */
static const log_failure *find_told(const tess_survey *s)
{
    const log_failure *told = NULL;
    for (int i = 0; i < s->n_failures; i++)
        if (told_by(&s->failures[i]) > (told != NULL ? told_by(told) : TOLD_NOTHING))
            told = &s->failures[i];
    return told;
}

bool log_first_is_cut_off(const tess_survey *s)
{
    const log_failure *told = find_told(s);
    return told != NULL && told_by(told) == TOLD_TIME;
}

/* Whether two failures can be compared. Lines of agents have no time, so they are not compared with a table. */
static bool is_comparable(const log_failure *f, const log_failure *told)
{
    return told_by(f) != TOLD_NOTHING && f->is_local == told->is_local;
}

int log_first_failures(const tess_survey *s, log_who *who, int *code)
{
    static const uint64_t second_ns = 1000000000;
    const log_failure *told = find_told(s), *first = told;
    int n = 0;
    *who = (log_who){.n_ranks = 0};
    bool was_stopped = told != NULL && log_was_stopped(s, told); /* somebody ended all of them */
    for (int i = 0; told != NULL && i < s->n_failures; i++) {
        if (!was_stopped && log_was_stopped(s, &s->failures[i]))
            continue;
        tess_end end = log_end_of(&s->failures[i]), best = log_end_of(first);
        if (is_comparable(&s->failures[i], told) && tess_end_comes_before(&end, &best))
            first = &s->failures[i];
    }
    for (int i = 0; first != NULL && i < s->n_failures; i++) {
        const log_failure *f = &s->failures[i];
        tess_end end = log_end_of(f), best = log_end_of(first);
        if (f != first && (!(is_comparable(f, told) && tess_ends_are_together(&end, &best, second_ns)) ||
                           (!was_stopped && log_was_stopped(s, f))))
            continue;
        log_who one = {.ranks = {f->rank}, .n_ranks = 1, .is_local = f->is_local, .pid = f->pid};
        snprintf(one.host, sizeof(one.host), "%s", f->host);
        if (n++ > 0) {
            log_who_join(who, &one);
            continue;
        }
        *who = one;
        *code = f->code;
    }
    return n;
}
