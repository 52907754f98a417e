/* Notes facts about ranks from lines that any program prints: where they run, how far they came, in which collective
 * they wait and how many there are. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "doctor/log/log_impl.h"

tess_status log_see_rank(tess_survey *s, int rank)
{
    log_rank *seen;
    if (rank < 0)
        return TESS_OK;
    TESS_TRY(log_rank_at(s, rank, &seen));
    seen->seen = true;
    return TESS_OK;
}

void log_place_rank(tess_survey *s, int rank, const log_who *origin)
{
    log_rank *placed = &s->ranks[rank];
    if (placed->host[0] == '\0')
        snprintf(placed->host, sizeof(placed->host), "%s", origin->host);
    if (placed->pid == 0 && strcmp(placed->host, origin->host) == 0)
        placed->pid = origin->pid;
}

tess_status log_note_mark(tess_survey *s, int entry, const char *line, size_t size, int speaker)
{
    int64_t numbers[LOG_MOST_LISTED];
    const char *words = tess_knowledge_at(s->knowledge, entry)->reached;
    log_match *match = &s->matches[entry];
    int n = words != NULL ? log_parse_mark(words, line, size, numbers, &speaker) : -1;
    bool is_list = n >= 0 && log_mark_is_list(words);
    if (n < 0 || (is_list ? n == 0 : speaker < 0))
        return TESS_OK;
    int last = is_list ? n - 1 : speaker;
    log_rank *rank;
    TESS_TRY(log_rank_at(s, last, &rank));
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

/* Notes a report of a timeout that is cut off. Its rank waits, but the collective may be unknown; and the reports of
 * other ranks may be lost with the rest of it. */
tess_status log_note_cut_report(tess_survey *s, const char *line, size_t size, int speaker)
{
    log_rank *rank;
    int named = speaker >= 0 ? speaker : log_rank_text(line, size);
    s->is_cut_off = true;
    if (named < 0)
        return TESS_OK;
    TESS_TRY(log_rank_at(s, named, &rank));
    rank->seen = rank->is_cut = true;
    return TESS_OK;
}

static tess_status note_work(survey_reading *r, const char *line, size_t size, int64_t number, int speaker)
{
    log_work work;
    log_rank *rank;
    if (!log_parse_work(line, size, &work))
        return TESS_OK;
    if (work.rank < 0)
        work.rank = speaker;
    if (work.rank < 0 && r->survey->unranked.op[0] == '\0')
        r->survey->unranked = work;
    if (work.rank < 0 || (work.sequence < 0 && log_is_cut_report(line, size, false)))
        return TESS_OK;
    TESS_TRY(log_rank_at(r->survey, work.rank, &rank));
    rank->seen = true;
    if (rank->waits && rank->work.op[0] != '\0') /* a repetition of the report, in an exception or for another group */
        return TESS_OK;
    rank->waits = true;
    rank->work = work;
    rank->at = (log_place){r->file, number};
    rank->n_all = r->all.n;
    rank->time_s = log_time_near(r, line, size);
    return TESS_OK;
}

/* Notes a rank's progress. The progress of the group that timed out replaces that of other groups. */
static tess_status note_progress(survey_reading *r, const char *line, size_t size, int speaker)
{
    log_progress progress;
    log_rank *rank;
    if (speaker < 0 || !log_parse_progress(line, size, &progress))
        return TESS_OK;
    TESS_TRY(log_rank_at(r->survey, speaker, &rank));
    bool failed = rank->waits && progress.failed == rank->work.sequence;
    if (rank->has_progress && !failed)
        return TESS_OK;
    rank->has_progress = true;
    rank->progress = progress;
    if (failed && rank->work.group[0] == '\0')
        snprintf(rank->work.group, sizeof(rank->work.group), "%s", progress.group);
    return TESS_OK;
}

/* Whether a size is that of a part of the job: "local_world_size=8", "tensor parallel world size: 2". */
static bool is_of_part(const char *text, const char *at)
{
    static const char *const whole[] = {"dist_", "global_", "total_"};
    size_t n = (size_t)(at - text);
    for (size_t i = 0; i < sizeof(whole) / sizeof(whole[0]); i++)
        if (n >= strlen(whole[i]) && strncasecmp(at - strlen(whole[i]), whole[i], strlen(whole[i])) == 0)
            return false;
    return n > 0 && (isalnum((unsigned char)at[-1]) || at[-1] == '_' || at[-1] == '-' ||
                     (n >= 9 && strncasecmp(at - 9, "parallel ", 9) == 0));
}

/* Words before the number of ranks, and the word `after` the number. */
static const struct world_words {
    tess_log_hook hook;
    const char *word, *after;
} world_words[] = {{TESS_HOOK_NRANKS, "nranks ", ""},
                   {TESS_HOOK_WORLD, "world_size", ""},
                   {TESS_HOOK_WORLD_WORDS, "world size", ""},
                   {TESS_HOOK_MEMBER, "member: ", ""},                 /* Lightning: "MEMBER: 1/8" */
                   {TESS_HOOK_STARTING, "starting with ", " process"}, /* Lightning */
                   {TESS_HOOK_PROCESSES, "num processes", ""}};        /* accelerate */

static void note_world(tess_survey *s, const char *line, size_t size, const struct world_words *words)
{
    char text[512];
    snprintf(text, sizeof(text), "%.*s", (int)(size < 500 ? size : 500), line);
    for (const char *at = text; (at = strcasestr(at, words->word)) != NULL; at++) {
        const char *number = at + strlen(words->word);
        number += strspn(number, " =:'\"");
        if (words->hook == TESS_HOOK_MEMBER) {
            number += strspn(number, "0123456789");
            number += *number == '/';
        }
        char *end = NULL;
        long world = isdigit((unsigned char)*number) ? strtol(number, &end, 10) : 0;
        if (world > s->stated_world && world <= LOG_MOST_RANKS && !is_of_part(text, at) &&
            strncasecmp(end, words->after, strlen(words->after)) == 0)
            s->stated_world = (int)world;
    }
}

/* Reads a communicator: "node-a:100:200 [3] NCCL INFO ncclCommInitRank comm 0x1 rank 3 nranks 8 cudaDev 3". The
 * ranks of the largest communicator are taken as the ranks of the job. */
tess_status log_note_communicator(survey_reading *r, const char *line, size_t size, const log_who *origin)
{
    tess_survey *s = r->survey;
    char text[512];
    int rank, n_ranks;
    snprintf(text, sizeof(text), "%.*s", (int)(size < 500 ? size : 500), line);
    const char *at = strstr(text, " rank ");
    if (at == NULL || origin->host[0] == '\0' || sscanf(at, " rank %6d nranks %6d", &rank, &n_ranks) != 2 || rank < 0 ||
        rank >= n_ranks || n_ranks > LOG_MOST_RANKS || n_ranks < s->largest_communicator)
        return TESS_OK;
    for (int i = 0; i < s->n_ranks && s->largest_communicator > 0 && n_ranks > s->largest_communicator; i++) {
        s->ranks[i].host[0] = '\0'; /* the earlier ranks were those of a smaller communicator */
        s->ranks[i].pid = 0;
    }
    s->largest_communicator = n_ranks;
    log_rank *placed;
    TESS_TRY(log_rank_at(s, rank, &placed));
    log_place_rank(s, rank, origin);
    return TESS_OK;
}

/* Reads the rank of a process of NCCL, "node-a:100:200 [3] proxy.cc:1519 NCCL WARN [Proxy Service 11] ...". The number
 * is that in a communicator, so it counts only where no line gives the size of one. */
tess_status log_note_proxy(tess_survey *s, const char *line, size_t size, const log_who *origin)
{
    static const char words[] = "[Proxy Service ";
    const char *at = memmem(line, size, words, sizeof(words) - 1), *end = line + size;
    log_rank *placed;
    if (at == NULL || origin->host[0] == '\0' || s->largest_communicator > 0)
        return TESS_OK;
    int rank = 0;
    for (at += sizeof(words) - 1; at < end && isdigit((unsigned char)*at) && rank < LOG_MOST_RANKS; at++)
        rank = rank * 10 + (*at - '0');
    if (at == end || *at != ']' || rank >= LOG_MOST_RANKS)
        return TESS_OK;
    TESS_TRY(log_rank_at(s, rank, &placed));
    log_place_rank(s, rank, origin);
    return TESS_OK;
}

/* Notes the collective that a rank called, unless its own lines say more. */
static tess_status note_call(survey_reading *r, int rank, const log_work *work, int64_t number, bool by_itself)
{
    log_rank *called;
    TESS_TRY(log_rank_at(r->survey, rank, &called));
    called->seen |= by_itself;
    if (called->waits && !(by_itself && called->work.timeout_ms < 0))
        return TESS_OK;
    called->waits = true;
    called->work = *work;
    called->work.rank = rank;
    called->at = (log_place){r->file, number};
    called->n_all = r->all.n;
    called->time_s = -1;
    return TESS_OK;
}

/* Reads "Rank 1 is running collective: ..., but Rank 7 is running collective: ...". A rank compares itself with the
 * others in ascending order and reports the first that differs. So all ranks before that one called the same
 * collective as the reporter. */
static tess_status note_mismatch(survey_reading *r, const char *line, size_t size, int64_t number)
{
    log_work own, other;
    if (!log_parse_mismatch(line, size, &own, &other))
        return TESS_OK;
    TESS_TRY(note_call(r, own.rank, &own, number, true));
    for (int rank = 0; rank < other.rank && rank < LOG_MOST_LISTED; rank++)
        TESS_TRY(note_call(r, rank, &own, number, false));
    return note_call(r, other.rank, &other, number, false);
}

/* Notes that a rank writes its flight recorder because of a timeout of its own or of another rank. */
static tess_status note_dump(survey_reading *r, const char *line, size_t size, int64_t number, int speaker)
{
    log_rank *rank;
    TESS_TRY(log_rank_at(r->survey, speaker, &rank));
    const log_progress *progress = &rank->progress;
    if (memmem(line, size, "from this local rank", 20) == NULL) {
        rank->notified = true;
        return TESS_OK;
    }
    if (!rank->has_progress || progress->completed < 0 || progress->enqueued <= progress->completed)
        return TESS_OK;
    log_work work = {.rank = speaker,
                     .sequence = progress->completed + 1,
                     .is_oldest = true,
                     .numel_in = -1,
                     .numel_out = -1,
                     .timeout_ms = -1,
                     .elapsed_ms = -1};
    snprintf(work.group, sizeof(work.group), "%s", progress->group);
    return note_call(r, speaker, &work, number, true);
}

tess_status log_note_hooks(survey_reading *r, uint64_t hooks, const char *line, size_t size, int64_t number,
                           int speaker, log_failure *failure)
{
    if (hooks &
        (TESS_HOOK_BIT(TESS_HOOK_ROOT) | TESS_HOOK_BIT(TESS_HOOK_EXITCODE) | TESS_HOOK_BIT(TESS_HOOK_LOCAL_RANK) |
         TESS_HOOK_BIT(TESS_HOOK_FAILURE_TIME) | TESS_HOOK_BIT(TESS_HOOK_FAILURE_HOST)))
        TESS_TRY(log_note_failure(r, hooks, line, size, number, failure));
    if (hooks & (TESS_HOOK_BIT(TESS_HOOK_EXITCODE) | TESS_HOOK_BIT(TESS_HOOK_EXIT_CODE)))
        log_note_success_code(r->survey, line, size);
    if (hooks &
        (TESS_HOOK_BIT(TESS_HOOK_CLOSING) | TESS_HOOK_BIT(TESS_HOOK_KILLING) | TESS_HOOK_BIT(TESS_HOOK_STARTED_LAST)))
        TESS_TRY(log_note_stopped(r, line, size));
    if (hooks & TESS_HOOK_BIT(TESS_HOOK_WATCHDOG) && log_is_cut_report(line, size, false))
        TESS_TRY(log_note_cut_report(r->survey, line, size, speaker));
    if (hooks & TESS_HOOK_BIT(TESS_HOOK_WORK))
        TESS_TRY(note_work(r, line, size, number, speaker));
    if (hooks & TESS_HOOK_BIT(TESS_HOOK_PROGRESS))
        TESS_TRY(note_progress(r, line, size, speaker));
    if (hooks & TESS_HOOK_BIT(TESS_HOOK_NOTIFIED) && speaker >= 0)
        TESS_TRY(note_dump(r, line, size, number, speaker));
    r->survey->leaves_out |= (hooks & TESS_HOOK_BIT(TESS_HOOK_REPEATED)) != 0;
    if (hooks & TESS_HOOK_BIT(TESS_HOOK_MISMATCH))
        TESS_TRY(note_mismatch(r, line, size, number));
    if (hooks &
        (TESS_HOOK_BIT(TESS_HOOK_RDZV) | TESS_HOOK_BIT(TESS_HOOK_MASTER) | TESS_HOOK_BIT(TESS_HOOK_COORDINATOR)))
        log_note_endpoint(r->survey, line, size);
    if (hooks & (TESS_HOOK_BIT(TESS_HOOK_NODE) | TESS_HOOK_BIT(TESS_HOOK_NODE_NAME)))
        log_note_node(r, line, size);
    if (hooks & TESS_HOOK_BIT(TESS_HOOK_ASSIGNED))
        log_note_assigned(r, line, size);
    if (hooks & TESS_HOOK_BIT(TESS_HOOK_CHECKPOINT))
        log_note_checkpoint(r, line, size);
    for (size_t i = 0; i < sizeof(world_words) / sizeof(world_words[0]); i++)
        if (hooks & TESS_HOOK_BIT(world_words[i].hook))
            note_world(r->survey, line, size, &world_words[i]);
    return TESS_OK;
}
