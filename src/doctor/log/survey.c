/* Reads logs. Each line is compared with the knowledge base, and the findings are collected for the diagnosis. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/core/rng.h"
#include "doctor/log/log_impl.h"
#include "doctor/table/clean.h"

tess_status tess_survey_begin(tess_mem *mem, tess_knowledge *knowledge, tess_survey *survey)
{
    *survey = (tess_survey){.mem = mem, .knowledge = knowledge, .stacks.mem = mem};
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
    tess_mem_free(survey->mem, survey->failures);
    log_stacks_free(&survey->stacks);
    memset(survey, 0, sizeof(*survey));
}

/* Notes that the logs contain a line of the rank; -1: the rank is not known. */
static tess_status see_rank(tess_survey *s, int rank)
{
    log_rank *seen;
    if (rank < 0)
        return TESS_OK;
    TESS_TRY(log_rank_at(s, rank, &seen));
    seen->seen = true;
    return TESS_OK;
}

/* Notes where a rank runs. The first line that says so counts. */
static void place_rank(tess_survey *s, int rank, const log_who *origin)
{
    log_rank *placed = &s->ranks[rank];
    if (placed->host[0] == '\0')
        snprintf(placed->host, sizeof(placed->host), "%s", origin->host);
    if (placed->pid == 0 && strcmp(placed->host, origin->host) == 0)
        placed->pid = origin->pid;
}

/* Returns the time of a line, or of the last earlier line with a time. */
static double time_of(const survey_reading *r, const char *line, size_t size)
{
    double time_s = log_time_of_line(line, size);
    return time_s >= 0 ? time_s : log_time_of_line(r->stamped, r->stamped_size);
}

/* Whether a line replaces the first line of an entry. A line that names a process comes before a line that names
 * none; otherwise, the earlier one comes first. In torchrun's table, the process of the "Root Cause" comes first. */
static bool comes_first(const log_match *match, int file, double time_s, const log_who *who, const log_failure *failure)
{
    if (match->n_lines == 0 || match->is_over)
        return true;
    if (who->is_named != match->who.is_named)
        return who->is_named;
    bool earlier = match->time_s < 0 ? match->first.file != file : time_s < match->time_s;
    return (time_s >= 0 && earlier) || (failure->is_root && time_s == match->time_s);
}

static tess_status note_rank(tess_survey *s, log_match *match, int rank)
{
    if (match->ranks == NULL)
        TESS_TRY(tess_mem_alloc(s->mem, TESS_POOL_MISC, LOG_MOST_RANKS / 8, "ranks", (void **)&match->ranks));
    match->ranks[rank / 8] |= (uint8_t)(1 << rank % 8);
    return TESS_OK;
}

/* Returns a hash that is equal for the same message of several ranks: it ignores numbers, and prefixes of long
 * lines. */
static uint64_t hash_text(const char *line, size_t size)
{
    enum { LETTERS = 60 };
    char letters[LETTERS];
    size_t n = 0;
    while (size > 0 && n < LETTERS)
        if (isalpha((unsigned char)line[--size]))
            letters[n++] = line[size];
    return tess_hash_bytes(letters, n, 0);
}

static bool is_same_time(const log_match *match, double time_s)
{
    static const double at_once_s = 2;
    return (time_s < 0) == (match->time_s < 0) && (time_s < 0 || fabs(time_s - match->time_s) < at_once_s);
}

/* Whether the line reports the same cause or wrapper as the entry's first line, at about the same time, for another
 * host. Without times, a launcher that names several hosts one after another has itself ended the later ones, so
 * these do not count. */
static bool is_other_host(const survey_reading *r, int entry, const log_match *match, double time_s, uint64_t text_hash,
                          const log_who *who)
{
    tess_log_role role = tess_knowledge_at(r->survey->knowledge, entry)->role;
    bool is_same = role == TESS_LOG_CAUSE ||
                   (role == TESS_LOG_WRAPPER && text_hash == match->text_hash && (!who->is_named || time_s >= 0));
    return match->n_lines > 0 && is_same && is_same_time(match, time_s) && log_who_differs_in_host(&match->who, who);
}

/* Notes the processes that print a line at about the time of the first one. */
static void note_reporter(log_match *match, double time_s, const log_who *reporter)
{
    if (match->n_lines > 0 && is_same_time(match, time_s)) {
        log_who_join_reporter(&match->reporter, reporter);
    } else if (match->n_lines == 0 || (time_s >= 0 && time_s < match->time_s)) {
        match->reporter = *reporter;
    }
}

/* Whether the line reports for another rank what the entry's first line reports, at about the same time. None of the
 * two is then known to have caused the other. */
static bool is_at_once(const survey_reading *r, int entry, const log_match *match, double time_s, uint64_t text_hash,
                       const log_who *who, const log_failure *failure)
{
    bool same_text =
        tess_knowledge_at(r->survey->knowledge, entry)->role == TESS_LOG_CAUSE || text_hash == match->text_hash;
    return match->n_lines > 0 && is_same_time(match, time_s) && same_text && failure->rank < 0 && !who->is_named &&
           !match->who.is_named && who->n_ranks > 0 && match->who.n_ranks > 0 && !who->is_local && !match->who.is_local;
}

/* Whether the line reports the same cause or wrapper as the entry's first line, at about the same time, for another
 * process. */
static bool is_other_process(const survey_reading *r, int entry, const log_match *match, double time_s,
                             uint64_t text_hash, const log_who *who)
{
    return match->n_lines > 0 && tess_knowledge_at(r->survey->knowledge, entry)->role <= TESS_LOG_WRAPPER &&
           is_same_time(match, time_s) && text_hash == match->text_hash && log_who_differs_in_pid(&match->who, who);
}

/* Whether two lines of a cause are about the same group of ranks: each names several ranks, and at least one rank is
 * in both. */
static bool is_same_group(const survey_reading *r, int entry, const log_match *match, double time_s, const log_who *who)
{
    bool common = false;
    for (int i = 0; i < who->n_ranks; i++)
        common |= log_who_has(&match->who, who->ranks[i]);
    return common && who->n_ranks > 1 && match->who.n_ranks > 1 && is_same_time(match, time_s) && who->is_named &&
           tess_knowledge_at(r->survey->knowledge, entry)->role == TESS_LOG_CAUSE &&
           strcmp(who->host, match->who.host) == 0 && strcmp(who->gpu, match->who.gpu) == 0;
}

/* Whether the next line reports the same effect as the first one for another process, as a shell does for its jobs. */
static bool is_next_process(const survey_reading *r, const log_match *match, int64_t number, const log_who *who)
{
    return match->n_lines > 0 && match->first.file == r->file && number == match->first.line + match->n_lines &&
           log_who_differs_in_pid(&match->who, who);
}

/* Adds a process or host that has the same error at the same time as the entry's first line. */
typedef void (*join_fn)(log_who *who, const log_who *other);

/* Returns how to add `who` to the match, or NULL if the line is not about another process at the same time. */
static join_fn find_join(const survey_reading *r, int entry, const log_match *match, int64_t number, double time_s,
                         uint64_t text_hash, const log_who *who, const log_failure *failure)
{
    if (is_same_group(r, entry, match, time_s, who))
        return log_who_join;
    if (failure->rank < 0 && is_next_process(r, match, number, who))
        return log_who_add_pids;
    if (is_at_once(r, entry, match, time_s, text_hash, who, failure))
        return log_who_join;
    if (is_other_host(r, entry, match, time_s, text_hash, who))
        return log_who_add_hosts;
    return is_other_process(r, entry, match, time_s, text_hash, who) && failure->rank < 0 ? log_who_add_pids : NULL;
}

/* Whether a later list of missing ranks is shorter than the first list, because some of those ranks have come
 * meanwhile. */
static bool is_narrower(const survey_reading *r, int entry, const log_match *match, const log_who *who)
{
    const tess_log_entry *known = tess_knowledge_at(r->survey->knowledge, entry);
    if (known->role != TESS_LOG_EFFECT || !known->by_reporter || !who->is_named || who->n_ranks == 0 ||
        who->n_ranks >= match->n_listed)
        return false;
    for (int i = 0; i < who->n_ranks; i++)
        if (!log_who_has(&match->who, who->ranks[i]))
            return false;
    return true;
}

/* limit of the lines of steps that are counted after an exception, over all processes */
enum { MOST_STEPS = 4096 };

/* Notes what stands above the first line of an entry: a traceback, or unknown error lines. */
static void note_surroundings(survey_reading *r, int entry, const char *line, size_t size, int64_t number,
                              const log_who *origin)
{
    log_match *match = &r->survey->matches[entry];
    bool is_probe = tess_knowledge_at(r->survey->knowledge, entry)->is_probe;
    const log_trace *trace = r->part == LOG_TRACE_ERROR || r->part == LOG_TRACE_REST ? r->traces.current : NULL;
    const log_loose *before = trace == NULL ? log_loose_before(r, number, origin) : NULL;
    match->phase = trace != NULL ? trace->phase : NULL;
    if (match->phase == NULL)
        match->phase = log_component_of(line, size < 1024 ? size : 1024);
    match->frame[0] = '\0';
    if (trace != NULL)
        log_trace_place(trace, match->frame, sizeof(match->frame));
    match->is_exception = trace != NULL;
    match->is_cut = false;
    if (trace != NULL && match->who.what[0] != '\0' &&
        log_exception_name(match->who.what, strlen(match->who.what)) == strlen(match->who.what) &&
        strncmp(trace->code, "assert", 6) == 0) /* an AssertionError without a text */
        tess_text_add(match->who.what, sizeof(match->who.what), strlen(match->who.what), " (%s)", trace->code);
    match->n_steps = 0;
    match->before = before != NULL ? *before : (log_loose){.excerpt = ""};
    if (trace != NULL || is_probe)
        r->steps_left = MOST_STEPS;
}

/* Adds a line to an entry. The line is about `who`, and `reporter` only printed it. `origin` is the process whose
 * prefix the line has. */
static tess_status note_match(survey_reading *r, int entry, const char *line, size_t size, int64_t number,
                              const log_who *who, const log_who *reporter, const log_who *origin,
                              const log_failure *failure)
{
    log_match *match = &r->survey->matches[entry];
    double time_s = time_of(r, line, size);
    size_t begin = log_text_begin(line, size);
    uint64_t text_hash = hash_text(line + begin, size - begin);
    if (match->n_lines > 0 && match->first.file == r->file && match->first.line == number) {
        if (r->part == LOG_TRACE_ERROR && (!match->is_exception || match->phase == NULL))
            note_surroundings(r, entry, line, size, number, origin);
        return TESS_OK; /* another piece of the same line */
    }
    join_fn join = find_join(r, entry, match, number, time_s, text_hash, who, failure);
    note_reporter(match, time_s, reporter);
    if (comes_first(match, r->file, time_s, who, failure)) {
        log_who all = *who;
        if (join != NULL)
            join(&all, &match->who);
        match->first = (log_place){r->file, number};
        match->time_s = time_s;
        match->text_hash = text_hash;
        match->rank = who->n_ranks > 0 ? who->ranks[0] : reporter->n_ranks > 0 ? reporter->ranks[0] : -1;
        match->who = all;
        match->n_listed = who->n_ranks;
        match->is_failure = failure->rank >= 0;
        match->is_told = match->is_over = false;
        note_surroundings(r, entry, line, size, number, origin);
        tess_clean(line, size < 4096 ? size : 4096, match->excerpt, sizeof(match->excerpt));
    } else if (match->who.is_local && !failure->is_local && failure->pid != 0 && match->who.pid == failure->pid) {
        match->rank = failure->rank; /* the global rank has become known */
        match->who = *who;
    } else if (join != NULL) {
        join(&match->who, who);
    }
    if (is_narrower(r, entry, match, who)) {
        match->who = *who;
        match->n_listed = who->n_ranks;
    }
    match->names_differ |=
        who->is_named && match->who.is_named && who->n_ranks > 0 && !log_who_has(&match->who, who->ranks[0]);
    match->n_lines++;
    const log_who *printed = who->n_ranks > 0 ? who : reporter;
    for (int i = 0; i < printed->n_ranks && !printed->is_local; i++)
        TESS_TRY(note_rank(r->survey, match, printed->ranks[i]));
    return TESS_OK;
}

/* Adds a line that continues the first line of an entry. */
static void note_rest(const survey_reading *r, const tess_found_entry *found, int64_t number, const log_who *origin)
{
    log_match *match = &r->survey->matches[found->entry];
    bool other_speaker =
        origin->n_ranks > 0 && match->rank >= 0 && !match->who.is_named && origin->ranks[0] != match->rank;
    if (match->first.file == r->file && number - match->first.line <= TESS_KNOWLEDGE_LINES_AFTER && !other_speaker) {
        log_who more = {.n_ranks = 0};
        log_who_add(&more, found);
        const log_who before = match->who;
        if (more.is_named && !match->who.is_named &&
            !tess_knowledge_at(r->survey->knowledge, found->entry)->by_reporter)
            match->who = (log_who){.n_ranks = 0}; /* the process that printed the first line is only a reporter */
        log_who_add(&match->who, found);
        if (log_who_names_only_gpu(&before) && match->who.gpu[0] == '\0')
            snprintf(match->who.gpu, sizeof(match->who.gpu), "%s", before.gpu);
    }
}

/* Whether a list such as "a, b" contains the first name of `other`. */
static bool has_first(const char *list, const char *other)
{
    size_t n = strcspn(other, ","), size;
    for (; *list != '\0'; list += size + strspn(list + size, ", ")) {
        size = strcspn(list, ",");
        if (size == n && memcmp(list, other, n) == 0)
            return true;
    }
    return false;
}

/* Compares lists of what ranks lack, one line per rank. If each of two ranks lacks what the other has, neither is
 * late, and the lines belong to the entry `different`. */
static tess_status note_lack(survey_reading *r, const tess_found_entry *found, const char *line, size_t size,
                             int64_t number, const log_who *origin, const log_failure *failure)
{
    const tess_log_entry *entry = tess_knowledge_at(r->survey->knowledge, found->entry);
    log_who lacking = {.n_ranks = 0}, nobody = {.n_ranks = 0};
    char lacks[sizeof(r->lacks)];
    if (entry->different < 0 || found->names[TESS_NAME_LACKS].text == NULL)
        return TESS_OK;
    log_who_add(&lacking, found);
    tess_clean(found->names[TESS_NAME_LACKS].text, found->names[TESS_NAME_LACKS].size, lacks, sizeof(lacks));
    bool same_text = r->lacks_line > 0 && r->lacks_entry == found->entry &&
                     number - r->lacks_line <= TESS_KNOWLEDGE_LINES_AFTER && lacking.n_ranks > 0;
    if (same_text && lacking.ranks[0] != r->lacks_rank && !has_first(r->lacks, lacks) && !has_first(lacks, r->lacks)) {
        snprintf(nobody.what, sizeof(nobody.what), "rank %d lacks %.*s, rank %d %.*s", r->lacks_rank,
                 (int)strcspn(r->lacks, ","), r->lacks, lacking.ranks[0], (int)strcspn(lacks, ","), lacks);
        TESS_TRY(note_match(r, entry->different, line, size, number, &nobody, origin, origin, failure));
    }
    memcpy(r->lacks, lacks, sizeof(lacks));
    r->lacks_rank = lacking.n_ranks > 0 ? lacking.ranks[0] : -1;
    r->lacks_entry = found->entry;
    r->lacks_line = number;
    return TESS_OK;
}

/* Adds the process or device that a later line of an entry names, if its first line names none. */
static void note_names(const survey_reading *r, const tess_found_entry *found, int64_t number)
{
    log_match *match = &r->survey->matches[found->entry];
    if (match->first.file == r->file && number - match->first.line <= LOG_MOST_QUOTED && !log_who_is_known(&match->who))
        log_who_add(&match->who, found);
}

/* Notes how far the speaker came, or all ranks of a list. */
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

static tess_status note_work(survey_reading *r, const char *line, size_t size, int64_t number, int speaker)
{
    log_work work;
    log_rank *rank;
    if (!log_parse_work(line, size, &work))
        return TESS_OK;
    if (work.rank < 0)
        work.rank = speaker;
    if (work.rank < 0)
        return TESS_OK;
    TESS_TRY(log_rank_at(r->survey, work.rank, &rank));
    rank->seen = true;
    if (rank->waits && rank->work.op[0] != '\0') /* a repetition of the report, in an exception or for another group */
        return TESS_OK;
    rank->waits = true;
    rank->work = work;
    rank->at = (log_place){r->file, number};
    rank->time_s = time_of(r, line, size);
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
static tess_status note_communicator(survey_reading *r, const char *line, size_t size, const log_who *origin)
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
    place_rank(s, rank, origin);
    return TESS_OK;
}

/* Reads the rank of a process of NCCL, "node-a:100:200 [3] proxy.cc:1519 NCCL WARN [Proxy Service 11] ...". The number
 * is that in a communicator, so it counts only where no line gives the size of one. */
static tess_status note_proxy(tess_survey *s, const char *line, size_t size, const log_who *origin)
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
    place_rank(s, rank, origin);
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

static tess_status note_hooks(survey_reading *r, uint64_t hooks, const char *line, size_t size, int64_t number,
                              int speaker, log_failure *failure)
{
    if (hooks &
        (TESS_HOOK_BIT(TESS_HOOK_ROOT) | TESS_HOOK_BIT(TESS_HOOK_EXITCODE) | TESS_HOOK_BIT(TESS_HOOK_LOCAL_RANK) |
         TESS_HOOK_BIT(TESS_HOOK_FAILURE_TIME) | TESS_HOOK_BIT(TESS_HOOK_FAILURE_HOST)))
        TESS_TRY(log_note_failure(r, hooks, line, size, number, failure));
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
    if (hooks & TESS_HOOK_BIT(TESS_HOOK_PROMPT))
        log_note_prompt(r, line, size);
    if (hooks & TESS_HOOK_BIT(TESS_HOOK_CHECKPOINT))
        log_note_checkpoint(r, line, size);
    for (size_t i = 0; i < sizeof(world_words) / sizeof(world_words[0]); i++)
        if (hooks & TESS_HOOK_BIT(world_words[i].hook))
            note_world(r->survey, line, size, &world_words[i]);
    return TESS_OK;
}

/* Returns the process that a line of an entry is about: the one that the line names, else the rank that it mentions,
 * else the process that printed it. The process that printed an effect is never at fault for it. */
static log_who find_subject(const survey_reading *r, const tess_found_entry *found, const char *line, size_t size,
                            const log_who *origin, const log_failure *failure)
{
    log_who who = {.n_ranks = 0};
    if (failure->rank >= 0) {
        who = (log_who){.ranks = {failure->rank}, .n_ranks = 1, .is_local = failure->is_local, .pid = failure->pid};
        snprintf(who.host, sizeof(who.host), "%s", failure->is_local ? origin->host : failure->host);
        return who;
    }
    log_who_add(&who, found);
    if (who.is_local && who.host[0] == '\0') /* a launcher means ranks of its own host */
        snprintf(who.host, sizeof(who.host), "%s", origin->host);
    const tess_log_entry *entry = tess_knowledge_at(r->survey->knowledge, found->entry);
    if (entry->by_pod && who.actor[0] == '\0' && r->pod[0] != '\0') {
        snprintf(who.actor, sizeof(who.actor), "%s", r->pod);
        who.noun = "pod";
        who.is_named = true;
        if (who.host[0] == '\0')
            snprintf(who.host, sizeof(who.host), "%s", r->node);
    }
    if (entry->by_file && who.what[0] == '\0')
        snprintf(who.what, sizeof(who.what), "%s", r->checkpoint);
    if (entry->by_host && who.host[0] == '\0' && origin->host[0] == '\0')
        snprintf(who.host, sizeof(who.host), "%s", r->node);
    if (who.is_named || entry->by_reporter || entry->role == TESS_LOG_EFFECT)
        return who;
    if (entry->by_host) {
        if (origin->host[0] != '\0')
            snprintf(who.host, sizeof(who.host), "%s", origin->host);
        return who;
    }
    log_who_complete(&who, origin);
    int rank = who.n_ranks == 0 ? log_rank_text(line, size < 2048 ? size : 2048) : -1;
    if (rank >= 0) {
        who.ranks[0] = rank;
        who.n_ranks = 1;
    }
    return who;
}

/* Returns the process that only printed a line, with the network device that it used. Returns nothing if the line is
 * about the process that printed it. */
static log_who find_reporter(const survey_reading *r, int entry, const log_who *writer, const log_who *subject,
                             const log_failure *failure)
{
    const tess_log_entry *known = tess_knowledge_at(r->survey->knowledge, entry);
    bool reports = known->by_reporter || known->by_host || known->role == TESS_LOG_EFFECT;
    log_who reporter = reports && failure->rank < 0 ? *writer : (log_who){.n_ranks = 0};
    if (known->by_reporter && log_who_is_known(&reporter))
        snprintf(reporter.device, sizeof(reporter.device), "%s", subject->device);
    return reporter;
}

/* Notes that the line quotes `quoted`. If `quoted` is empty, the line ends a quotation. */
static void begin_quotation(survey_reading *r, const log_who *origin, const log_who *quoted, int entry, int64_t number)
{
    r->trace_entry = entry;
    r->trace_line = number;
    r->trace_end = 0;
    r->quoting = *origin;
    if (origin->pid == 0) /* SGLang names a scheduler only before the first line of a message */
        r->quoting.actor[0] = '\0';
    r->quoted = *quoted;
    r->quoted.is_named = false;
    r->quote_line = quoted->is_named ? number : 0;
}

/* Returns the process that wrote a line that `origin` printed: the quoted one, during a quotation. */
static const log_who *find_writer(const survey_reading *r, const log_who *origin, int64_t number)
{
    bool is_quoted =
        r->quote_line > 0 && number - r->quote_line <= LOG_MOST_QUOTED && log_who_is_same(origin, &r->quoting);
    return is_quoted ? &r->quoted : origin;
}

/* Finds the end of a quoted traceback. Its lines are indented, or name an exception of Ray, which is followed by the
 * traceback of another process. A prefix before such lines ends with one blank. */
static void watch_trace(survey_reading *r, const char *line, size_t size, int64_t number)
{
    if (r->trace_entry < 0 || r->trace_end > 0 || number - r->trace_line > LOG_MOST_QUOTED)
        return;
    size_t n = log_text_begin(line, size);
    bool is_indented = n > 1 && isspace((unsigned char)line[n - 1]) && isspace((unsigned char)line[n - 2]);
    bool goes_on =
        is_indented || log_begins_with(line + n, size - n, "ray") || log_begins_with(line + n, size - n, "traceback: ");
    r->trace_end = n < size && !goes_on ? number : 0;
}

/* Whether the line continues the traceback that begins at the entry's first line. It is then nearer to the error
 * than that line. */
static bool is_inner(const survey_reading *r, int entry, const log_who *origin, int64_t number)
{
    const log_match *match = &r->survey->matches[entry];
    return r->trace_entry == entry && r->trace_end == 0 && number - r->trace_line <= LOG_MOST_QUOTED &&
           match->first.file == r->file && match->first.line == r->trace_line && log_who_is_same(origin, &r->quoting);
}

/* Marks a line that quotes a traceback as an effect if the error of the traceback is known, or if any exception ends
 * it. */
static void note_quoted_error(survey_reading *r, const tess_found *found, const log_who *origin, int64_t number)
{
    log_match *match = r->trace_entry >= 0 ? &r->survey->matches[r->trace_entry] : NULL;
    if (match == NULL || match->first.file != r->file || match->first.line != r->trace_line ||
        number == r->trace_line || number - r->trace_line > LOG_MOST_QUOTED || !log_who_is_same(origin, &r->quoting))
        return;
    for (int i = 0; i < found->n_entries; i++) {
        const tess_log_entry *entry = tess_knowledge_at(r->survey->knowledge, found->entries[i].entry);
        bool ends_it =
            r->part == LOG_TRACE_ERROR ||
            (found->entries[i].entry == tess_knowledge_exception(r->survey->knowledge) && number == r->trace_end);
        match->is_told |= entry->role <= TESS_LOG_EFFECT && !entry->is_quoting && (!entry->is_fallback || ends_it);
    }
}

/* If an entry matches a further line of an exception's message, the entry says more than the exception itself. */
static void note_said_below(survey_reading *r, const tess_found *found)
{
    int exception = tess_knowledge_exception(r->survey->knowledge);
    log_match *match = exception >= 0 && r->part == LOG_TRACE_REST ? &r->survey->matches[exception] : NULL;
    if (match == NULL || match->first.file != r->file || match->first.line != r->traces.current->error)
        return;
    for (int i = 0; i < found->n_entries; i++) {
        const tess_log_entry *entry = tess_knowledge_at(r->survey->knowledge, found->entries[i].entry);
        match->is_told |= !found->entries[i].follows && entry->role <= TESS_LOG_EFFECT && !entry->is_fallback;
    }
}

static tess_status note_entries(survey_reading *r, const tess_found *found, const char *line, size_t size,
                                int64_t number, const log_who *origin, const log_failure *failure)
{
    const log_who writer = *find_writer(r, origin, number);
    note_quoted_error(r, found, origin, number);
    note_said_below(r, found);
    for (int i = 0; i < found->n_entries; i++) {
        const tess_found_entry *one = &found->entries[i];
        if (one->follows) {
            note_rest(r, one, number, origin);
            TESS_TRY(note_lack(r, one, line, size, number, origin, failure));
            continue;
        }
        log_who who = find_subject(r, one, line, size, &writer, failure);
        if (one->names[TESS_NAME_POD].text != NULL)
            log_note_pod(r, who.actor);
        log_who reporter = find_reporter(r, one->entry, &writer, &who, failure);
        if (is_inner(r, one->entry, origin, number) && who.is_named)
            r->survey->matches[one->entry].who.is_named = false; /* this makes the current line replace the first one */
        TESS_TRY(note_match(r, one->entry, line, size, number, &who, &reporter, origin, failure));
        note_names(r, one, number);
        if (r->survey->largest.pid == 0 && r->largest.pid != 0 && number - r->largest.at.line <= LOG_AFTER_TABLE)
            r->survey->largest = r->largest;
        if (tess_knowledge_at(r->survey->knowledge, one->entry)->is_quoting)
            begin_quotation(r, origin, &who, one->entry, number);
        TESS_TRY(note_mark(r->survey, one->entry, line, size, who.n_ranks > 0 ? who.ranks[0] : -1));
    }
    return TESS_OK;
}

/* A line of the log, or of a message in a JSON object of the log. */
typedef struct text_line {
    survey_reading *reading;
    int64_t number;
} text_line;

static tess_status take_found(survey_reading *r, const tess_found *found, const char *line, size_t size, int64_t number,
                              const log_who *writer)
{
    static const uint64_t hooks_of_steps = TESS_HOOK_BIT(TESS_HOOK_LOSS) | TESS_HOOK_BIT(TESS_HOOK_SPEED);
    log_failure failure = {.rank = -1};
    bool is_step = r->steps_left > 0 && found->hooks & hooks_of_steps && log_is_step_line(line, size);
    if (found->n_entries == 0 && (found->hooks & ~hooks_of_steps) == 0 && !is_step)
        return TESS_OK;
    log_who origin = log_find_origin(r, line, size, writer);
    int speaker = origin.n_ranks > 0 && !origin.is_local ? origin.ranks[0] : -1;
    TESS_TRY(see_rank(r->survey, speaker));
    if (speaker >= 0 && origin.host[0] != '\0')
        place_rank(r->survey, speaker, &origin);
    if (is_step)
        log_note_step(r, &origin);
    if (found->hooks & TESS_HOOK_BIT(TESS_HOOK_ERROR))
        log_note_loose(r, line, size, number, &origin);
    if (found->hooks & TESS_HOOK_BIT(TESS_HOOK_NRANKS))
        TESS_TRY(note_communicator(r, line, size, &origin));
    if (found->hooks & TESS_HOOK_BIT(TESS_HOOK_PROXY))
        TESS_TRY(note_proxy(r->survey, line, size, &origin));
    TESS_TRY(note_hooks(r, found->hooks, line, size, number, speaker, &failure));
    r->survey->n_known_lines += found->n_entries > 0;
    log_note_chained(r);
    return note_entries(r, found, line, size, number, &origin, &failure);
}

static tess_status take_text(void *context, const char *text, size_t size, const log_who *writer)
{
    const text_line *line = context;
    tess_found found;
    log_find_line(line->reading, text, size, line->number, writer, &found);
    return take_found(line->reading, &found, text, size, line->number, writer);
}

/* Reads a line that holds a message with a traceback whose line ends are written as "\
 * ", as Python's repr() does. */
static tess_status take_escaped(survey_reading *r, const char *line, size_t size, int64_t number)
{
    const log_who nobody = {.n_ranks = 0}, writer = log_find_origin(r, line, size, &nobody);
    text_line text = {.reading = r, .number = number};
    for (size_t at = 0, n; at < size; at += n + 2) {
        const char *end = memmem(line + at, size - at, "\\n", 2);
        n = end != NULL ? (size_t)(end - line) - at : size - at;
        TESS_TRY(take_text(&text, line + at, n, &writer));
    }
    return TESS_OK;
}

static tess_status take_line(survey_reading *r, const char *line, size_t size, int64_t number)
{
    static const log_who nobody;
    tess_found found;
    bool is_json = false;
    log_note_oom_row(r, line, size, number);
    if (log_has_time(line, size)) {
        r->stamped_size = size < LOG_HEAD ? size : LOG_HEAD;
        memcpy(r->stamped, line, r->stamped_size);
    }
    watch_trace(r, line, size, number);
    TESS_TRY(log_stacks_take(&r->survey->stacks, line, size, r->path_who.n_ranks > 0 ? r->path_who.ranks[0] : -1));
    log_find_line(r, line, size, number, &nobody, &found);
    if (found.has_a_word) { /* the words of an object may belong to its messages */
        text_line object = {.reading = r, .number = number};
        TESS_TRY(log_read_json(line, size, take_text, &object, &is_json));
    }
    if (!is_json && found.hooks & TESS_HOOK_BIT(TESS_HOOK_TRACEBACK) && memmem(line, size, "\\n", 2) != NULL)
        return take_escaped(r, line, size, number);
    return is_json ? TESS_OK : take_found(r, &found, line, size, number, &nobody);
}

static tess_status add_file(tess_survey *s, const char *path, survey_reading *r)
{
    TESS_TRY(tess_mem_grow(s->mem, TESS_POOL_MISC, (size_t)(s->n_files + 1) * sizeof(*s->files), "names of logs",
                           (void **)&s->files));
    snprintf(s->files[s->n_files], sizeof(*s->files), "%s", path);
    *r = (survey_reading){.survey = s, .file = s->n_files++, .failure = {.rank = -1, .time_s = -1}, .trace_entry = -1};
    int rank = log_rank_of_path(path);
    r->path_who.ranks[0] = rank;
    r->path_who.n_ranks = rank >= 0;
    log_host_of_path(path, r->path_who.host, sizeof(r->path_who.host));
    tess_knowledge_begin_text(s->knowledge);
    return see_rank(s, rank);
}

/* Reads the last line of a traceback whose end is missing. It may show which exception was raised: "raise EOFError".
 * The frames may show that the exception, whatever its type, ended nothing. */
static tess_status note_raised(survey_reading *r, const log_trace *trace, bool *is_known)
{
    const log_failure failure = {.rank = -1};
    bool is_raised = strncmp(trace->code, "raise ", strlen("raise ")) == 0;
    const char *name = is_raised ? trace->code + strlen("raise ") : "Exception";
    tess_found found;
    size_t size = strcspn(name, "( ");
    if (log_exception_name(name, size) != size)
        return TESS_OK;
    r->traces.frames_size = log_trace_frames(trace, r->frames, sizeof(r->frames));
    tess_knowledge_set_frames(r->survey->knowledge, r->frames, r->traces.frames_size);
    tess_knowledge_find(r->survey->knowledge, name, size, &found);
    tess_knowledge_set_frames(r->survey->knowledge, NULL, 0);
    *is_known = log_says_more(r, &found);
    return *is_known ? note_entries(r, &found, name, size, trace->last, &trace->speaker, &failure) : TESS_OK;
}

/* Notes the tracebacks whose exceptions are missing in the file: their processes also failed. */
static tess_status note_cut_traces(survey_reading *r)
{
    const tess_survey *s = r->survey;
    const log_failure failure = {.rank = -1};
    const log_who nobody = {.n_ranks = 0};
    int entry = tess_knowledge_cut_traceback(s->knowledge);
    for (int i = 0; i < LOG_TRACES && entry >= 0; i++) {
        log_trace *trace = &r->traces.traces[i];
        char place[180];
        if (trace->state != LOG_TRACE_FRAMES || trace->n_frames < (trace->has_head ? 1 : 2))
            continue;
        trace->phase = log_phase_of(trace->frames, trace->n_frames);
        if (log_note_announced(r, trace))
            continue;
        log_trace_place(trace, place, sizeof(place));
        r->part = LOG_TRACE_ERROR;
        r->traces.current = trace;
        bool is_known = false;
        r->survey->n_known_lines++;
        TESS_TRY(note_raised(r, trace, &is_known));
        if (is_known)
            continue;
        TESS_TRY(note_match(r, entry, place, strlen(place), trace->last, &nobody, &trace->speaker, &trace->speaker,
                            &failure));
    }
    return TESS_OK;
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
    if (status == TESS_OK)
        status = note_cut_traces(&r);
    log_lines_close(&lines);
    return status;
}
