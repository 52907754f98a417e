#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "doctor/log/log_impl.h"
#include "doctor/table/clean.h"

/* Lines of torchrun's table of failures: from "Root Cause" to its exit code, and from a rank to its exit code. */
enum { ROOT_LINES = 10, FAILURE_LINES = 3 };

/* A process that torchrun saw end. */
typedef struct log_failure {
    int rank, pid; /* rank -1: no such process; pid 0: not said */
    bool is_local; /* only its local rank is said, and taken for its rank until the table says more */
    bool is_root;  /* "Root Cause" is said of it */
} log_failure;

/* The file that is being read. */
typedef struct survey_reading {
    tess_survey *survey;
    int file, path_rank;
    int64_t root_line, failed_line; /* of the last "Root Cause", and the last rank in torchrun's table */
    int failed_rank;
    log_failure agent;      /* that torchrun's agent named last */
    char stamped[LOG_HEAD]; /* beginning of the last line with a time */
    size_t stamped_size;
} survey_reading;

tess_status tess_survey_begin(tess_mem *mem, tess_knowledge *knowledge, tess_survey *survey)
{
    *survey = (tess_survey){.mem = mem, .knowledge = knowledge};
    return tess_mem_alloc_array(mem, TESS_POOL_MISC, (size_t)tess_knowledge_n(knowledge), sizeof(log_match),
                                "what was found", (void **)&survey->matches);
}

void tess_survey_free(tess_survey *survey)
{
    for (int i = 0; survey->matches != NULL && i < tess_knowledge_n(survey->knowledge); i++) {
        tess_mem_free(survey->mem, survey->matches[i].ranks);
        tess_mem_free(survey->mem, survey->matches[i].came);
    }
    tess_mem_free(survey->mem, survey->matches);
    tess_mem_free(survey->mem, survey->ranks);
    tess_mem_free(survey->mem, survey->files);
    memset(survey, 0, sizeof(*survey));
}

static tess_status rank_of(tess_survey *s, int rank, tess_timed_rank **out)
{
    if (rank >= s->capacity) {
        int capacity = rank < 32 ? 64 : 2 * rank;
        TESS_TRY(tess_mem_grow(s->mem, TESS_POOL_MISC, (size_t)capacity * sizeof(tess_timed_rank), "ranks of a log",
                               (void **)&s->ranks));
        s->capacity = capacity;
    }
    if (rank >= s->n_ranks)
        s->n_ranks = rank + 1;
    *out = &s->ranks[rank];
    return TESS_OK;
}

/* The logs have a line of the rank; -1: of no known rank. */
static tess_status see_rank(tess_survey *s, int rank)
{
    tess_timed_rank *seen;
    if (rank < 0)
        return TESS_OK;
    TESS_TRY(rank_of(s, rank, &seen));
    seen->seen = true;
    return TESS_OK;
}

/* The time of a line, or of the last line before it with a time. */
static double time_of(const survey_reading *r, const char *line, size_t size)
{
    double time_s = log_time_of_line(line, size);
    return time_s >= 0 ? time_s : log_time_of_line(r->stamped, r->stamped_size);
}

/* A line that `rank` printed, or that reports its failure. */
static tess_status note_match(survey_reading *r, int entry, const char *line, size_t size, int64_t number, int rank,
                              const log_failure *failure)
{
    log_match *match = &r->survey->matches[entry];
    double time_s = time_of(r, line, size);
    if (match->n_lines > 0 && match->first.file == r->file && match->first.line == number)
        return TESS_OK; /* another piece of the same line */
    if (match->n_lines == 0 || (time_s >= 0 && (match->time_s < 0 || time_s < match->time_s)) ||
        (failure->is_root && time_s == match->time_s)) {
        match->first = (tess_text_place){r->file, number};
        match->time_s = time_s;
        match->rank = rank;
        match->local_pid = failure->is_local ? failure->pid : 0;
        tess_clean(line, size < 4096 ? size : 4096, match->excerpt, sizeof(match->excerpt));
    } else if (match->local_pid != 0 && match->local_pid == failure->pid && !failure->is_local) {
        match->rank = rank;
        match->local_pid = 0;
    }
    match->n_lines++;
    if (rank < 0 || failure->is_local)
        return TESS_OK;
    if (match->ranks == NULL)
        TESS_TRY(tess_mem_alloc(r->survey->mem, TESS_POOL_MISC, LOG_MOST_RANKS / 8, "ranks", (void **)&match->ranks));
    match->ranks[rank / 8] |= (uint8_t)(1 << rank % 8);
    return TESS_OK;
}

/* How far the speaker came, or all ranks of a list. */
static tess_status note_mark(tess_survey *s, int entry, const char *line, size_t size, int speaker)
{
    int64_t numbers[LOG_MOST_LISTED];
    const char *words = tess_knowledge_at(s->knowledge, entry)->reached;
    log_match *match = &s->matches[entry];
    int n = words != NULL ? log_parse_mark(words, line, size, numbers, &speaker) : -1;
    bool is_list = n >= 0 && log_mark_is_list(words);
    if (n < 0 || (is_list ? n == 0 : speaker < 0))
        return TESS_OK;
    int last = is_list ? n - 1 : speaker;
    tess_timed_rank *rank;
    TESS_TRY(rank_of(s, last, &rank));
    if (last >= match->n_came) {
        TESS_TRY(tess_mem_grow(s->mem, TESS_POOL_MISC, (size_t)s->capacity * sizeof(*match->came), "how far ranks came",
                               (void **)&match->came));
        match->n_came = s->capacity;
    }
    for (int r = is_list ? 0 : last; r <= last; r++) {
        int64_t came = n == 0 ? match->came[r] + 1 : 1 + numbers[is_list ? r : 0];
        match->came[r] = came > match->came[r] ? came : match->came[r];
    }
    match->n_counted += n == 0;
    return TESS_OK;
}

static tess_status note_work(survey_reading *r, const char *line, size_t size, int64_t number, int speaker)
{
    tess_timed_work work;
    tess_timed_rank *rank;
    if (!log_parse_work(line, size, &work))
        return TESS_OK;
    if (work.rank < 0)
        work.rank = speaker;
    if (work.rank < 0)
        return TESS_OK;
    TESS_TRY(rank_of(r->survey, work.rank, &rank));
    rank->seen = true;
    if (rank->waits) /* a repetition, from an exception or for another group */
        return TESS_OK;
    rank->waits = true;
    rank->work = work;
    rank->at = (tess_text_place){r->file, number};
    rank->time_s = time_of(r, line, size);
    return TESS_OK;
}

/* The progress of the group that timed out replaces that of others. */
static tess_status note_progress(survey_reading *r, const char *line, size_t size, int speaker)
{
    tess_timed_progress progress;
    tess_timed_rank *rank;
    if (speaker < 0 || !log_parse_progress(line, size, &progress))
        return TESS_OK;
    TESS_TRY(rank_of(r->survey, speaker, &rank));
    bool failed = rank->waits && progress.failed == rank->work.sequence;
    if (rank->has_progress && !failed)
        return TESS_OK;
    rank->has_progress = true;
    rank->progress = progress;
    if (failed && rank->work.group[0] == '\0')
        snprintf(rank->work.group, sizeof(rank->work.group), "%s", progress.group);
    return TESS_OK;
}

/* "nranks 8", "world_size=8", "world size: 8". */
static void note_world(tess_survey *s, const char *line, size_t size, const char *word)
{
    char text[512];
    snprintf(text, sizeof(text), "%.*s", (int)(size < 500 ? size : 500), line);
    for (const char *at = text; (at = strcasestr(at, word)) != NULL; at++) {
        const char *number = at + strlen(word);
        number += strspn(number, " =:'\"");
        long world = isdigit((unsigned char)*number) ? strtol(number, NULL, 10) : 0;
        if (world > s->stated_world && world <= LOG_MOST_RANKS)
            s->stated_world = (int)world;
    }
}

/* torchrun's table: "Root Cause (first observed failure):", "rank      : 11 (local_rank: 3)", "exitcode  : -9
 * (pid: 7)". Before it, the agent of a host says: "failed (exitcode: -9) local_rank: 3 (pid: 7) of binary: python". */
static tess_status note_failure(survey_reading *r, uint32_t hooks, const char *line, size_t size, int64_t number,
                                log_failure *failure)
{
    char text[512];
    int rank = -1, code = 0, pid = 0;
    tess_timed_rank *failed;
    if (hooks & 1u << TESS_HOOK_ROOT)
        r->root_line = number;
    snprintf(text, sizeof(text), "%.*s", (int)(size < 500 ? size : 500), line);
    const char *agent = strstr(text, "failed (exitcode"), *exit = strstr(text, "exitcode"), *at = strstr(text, "rank");
    if (agent != NULL && sscanf(agent, "failed (exitcode: %6d) local_rank: %6d (pid: %9d", &code, &rank, &pid) == 3) {
        *failure = (log_failure){.rank = rank, .pid = pid, .is_local = true};
    } else if (exit != NULL && r->failed_line > 0 && number - r->failed_line < FAILURE_LINES &&
               sscanf(exit, "exitcode : %6d (pid: %9d", &code, &pid) >= 1) {
        rank = r->failed_rank;
        *failure =
            (log_failure){.rank = rank, .pid = pid, .is_root = r->root_line > 0 && number - r->root_line < ROOT_LINES};
    } else if (at != NULL && sscanf(at, "rank : %6d (local_rank", &rank) == 1) {
        r->failed_line = number;
        r->failed_rank = rank;
    }
    if (rank < 0 || rank >= LOG_MOST_RANKS)
        *failure = (log_failure){.rank = -1};
    if (!failure->is_root && !failure->is_local)
        return TESS_OK;
    if (failure->is_root && pid != 0 && r->agent.pid == pid) /* its rank has become known */
        r->survey->ranks[r->agent.rank].has_exit = false;
    if (failure->is_local)
        r->agent = *failure;
    TESS_TRY(rank_of(r->survey, rank, &failed));
    failed->has_exit = true;
    failed->exit_code = code;
    return TESS_OK;
}

static tess_status note_hooks(survey_reading *r, uint32_t hooks, const char *line, size_t size, int64_t number,
                              int speaker, log_failure *failure)
{
    if (hooks & (1u << TESS_HOOK_ROOT | 1u << TESS_HOOK_EXITCODE | 1u << TESS_HOOK_LOCAL_RANK))
        TESS_TRY(note_failure(r, hooks, line, size, number, failure));
    if (hooks & 1u << TESS_HOOK_WORK)
        TESS_TRY(note_work(r, line, size, number, speaker));
    if (hooks & 1u << TESS_HOOK_PROGRESS)
        TESS_TRY(note_progress(r, line, size, speaker));
    if (hooks & 1u << TESS_HOOK_NOTIFIED && speaker >= 0) {
        tess_timed_rank *rank;
        TESS_TRY(rank_of(r->survey, speaker, &rank));
        rank->notified = true;
    }
    if (hooks & 1u << TESS_HOOK_NRANKS)
        note_world(r->survey, line, size, " nranks ");
    if (hooks & 1u << TESS_HOOK_WORLD)
        note_world(r->survey, line, size, "world_size");
    if (hooks & 1u << TESS_HOOK_WORLD_WORDS)
        note_world(r->survey, line, size, "world size");
    return TESS_OK;
}

static tess_status take_line(survey_reading *r, const char *line, size_t size, int64_t number)
{
    tess_survey *s = r->survey;
    tess_found found;
    log_failure failure = {.rank = -1};
    if (log_has_time(line, size)) {
        r->stamped_size = size < LOG_HEAD ? size : LOG_HEAD;
        memcpy(r->stamped, line, r->stamped_size);
    }
    tess_knowledge_find(s->knowledge, line, size, &found);
    if (found.n_entries == 0 && found.hooks == 0)
        return TESS_OK;
    int speaker = log_rank_of_line(line, size);
    if (speaker < 0)
        speaker = r->path_rank;
    TESS_TRY(see_rank(s, speaker));
    TESS_TRY(note_hooks(r, found.hooks, line, size, number, speaker, &failure));
    s->n_known_lines += found.n_entries > 0;
    if (failure.rank >= 0)
        speaker = failure.rank;
    else if (speaker < 0 && found.n_entries > 0)
        speaker = log_rank_text(line, size < 2048 ? size : 2048);
    for (int i = 0; i < found.n_entries; i++) {
        TESS_TRY(note_match(r, found.entries[i], line, size, number, speaker, &failure));
        TESS_TRY(note_mark(s, found.entries[i], line, size, speaker));
    }
    return TESS_OK;
}

static tess_status add_file(tess_survey *s, const char *path, survey_reading *r)
{
    TESS_TRY(tess_mem_grow(s->mem, TESS_POOL_MISC, (size_t)(s->n_files + 1) * sizeof(*s->files), "names of logs",
                           (void **)&s->files));
    snprintf(s->files[s->n_files], sizeof(*s->files), "%s", path);
    *r = (survey_reading){.survey = s, .file = s->n_files++, .path_rank = log_rank_of_path(path)};
    return see_rank(s, r->path_rank);
}

tess_status tess_survey_read(tess_survey *s, const char *path)
{
    log_lines lines;
    survey_reading r;
    tess_status status = log_lines_open(s->mem, path, &lines);
    if (status == TESS_OK)
        status = add_file(s, lines.path, &r);
    while (status == TESS_OK) {
        const char *line;
        size_t size;
        status = log_lines_next(&lines, &line, &size);
        if (status != TESS_OK || line == NULL)
            break;
        s->n_bytes += size;
        status = take_line(&r, line, size, lines.line);
    }
    s->n_lines += lines.line;
    log_lines_close(&lines);
    return status;
}
