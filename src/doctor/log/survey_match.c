/* Adds a line to the match of an entry: which line is the first, and which processes it is about. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/core/rng.h"
#include "doctor/log/log_impl.h"
#include "doctor/table/clean.h"

double log_time_near(const survey_reading *r, const char *line, size_t size)
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

/* Returns a hash that is equal for the same message of several ranks: it ignores numbers, also hexadecimal ones, and
 * prefixes of long lines. */
static uint64_t hash_text(const char *line, size_t size)
{
    enum { LETTERS = 60 };
    char letters[LETTERS];
    size_t n = 0;
    while (size > 0 && n < LETTERS) {
        size_t end = size;
        while (size > 0 && isxdigit((unsigned char)line[size - 1]))
            size--;
        if (size > 1 && line[size - 1] == 'x' && line[size - 2] == '0' && end > size) {
            size -= 2;
            continue;
        }
        size = end - 1;
        if (isalpha((unsigned char)line[size]))
            letters[n++] = line[size];
    }
    return tess_hash_bytes(letters, n, 0);
}

static bool is_same_time(const log_match *match, double time_s)
{
    static const double at_once_s = 2;
    return (time_s < 0) == (match->time_s < 0) && (time_s < 0 || fabs(time_s - match->time_s) < at_once_s);
}

/* Whether the line reports the same cause or wrapper as the entry's first line for another host. Without times, a
 * launcher that names several hosts one after another has itself ended the later ones, so these do not count. */
static bool is_other_host(tess_log_role role, const log_match *match, bool same_text, const log_who *who)
{
    bool is_same =
        role == TESS_LOG_CAUSE || (role == TESS_LOG_WRAPPER && same_text && (!who->is_named || match->time_s >= 0));
    return is_same && log_who_differs_in_host(&match->who, who);
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

/* Whether the line reports for another rank what the entry's first line reports. None of the two is then known to have
 * caused the other. */
static bool is_at_once(tess_log_role role, const log_match *match, bool same_text, const log_who *who)
{
    return (same_text || role == TESS_LOG_CAUSE) && !who->is_named && !match->who.is_named && who->n_ranks > 0 &&
           match->who.n_ranks > 0 && !who->is_local && !match->who.is_local;
}

/* Whether two lines of a cause are about the same group of ranks: each names several ranks, and at least one rank is
 * in both. */
static bool is_same_group(tess_log_role role, const log_match *match, const log_who *who)
{
    bool common = false;
    for (int i = 0; i < who->n_ranks; i++)
        common |= log_who_has(&match->who, who->ranks[i]);
    return common && who->n_ranks > 1 && match->who.n_ranks > 1 && who->is_named && role == TESS_LOG_CAUSE &&
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

/* Returns how to add `who` to the match, or NULL if the line is not about another process at about the same time. */
static join_fn find_join(const survey_reading *r, int entry, const log_match *match, int64_t number, double time_s,
                         bool same_text, const log_who *who, const log_failure *failure)
{
    const tess_log_entry *known = tess_knowledge_at(r->survey->knowledge, entry);
    bool is_free = failure->rank < 0;
    bool at_once = match->n_lines > 0 && is_same_time(match, time_s);
    bool is_named = known->role == TESS_LOG_CAUSE && known->by_host; /* the process is then that of the text */
    if (at_once && is_same_group(known->role, match, who))
        return log_who_join;
    if (is_free && is_next_process(r, match, number, who))
        return log_who_add_pids;
    if (at_once && is_free && is_at_once(known->role, match, same_text, who))
        return log_who_join;
    if (at_once && is_other_host(known->role, match, same_text, who))
        return log_who_add_hosts;
    if (!at_once || !is_free || !(same_text || is_named) || known->role > TESS_LOG_WRAPPER)
        return NULL;
    if (same_text && log_who_differs_in_gpu(&match->who, who))
        return log_who_add_gpus;
    return log_who_differs_in_pid(&match->who, who) ? log_who_add_pids : NULL;
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

/* Whether a line may be about the same error as the entry's first line: it is near, or its time is. In another file,
 * lines without a time also may. */
static bool is_near(const survey_reading *r, const log_match *match, int64_t number, double time_s)
{
    bool one_file = match->first.file == r->file;
    return (one_file && number - match->first.line <= LOG_MOST_QUOTED) ||
           ((!one_file || time_s >= 0) && is_same_time(match, time_s));
}

/* Completes the process of an entry whose first line names none, by a later line that has the same text or is near. A
 * process without a rank may be one of several, so it only reports. */
static void complete_by_later_line(const survey_reading *r, int entry, int64_t number, double time_s, bool same_text,
                                   const log_who *who)
{
    log_match *match = &r->survey->matches[entry];
    tess_log_role role = tess_knowledge_at(r->survey->knowledge, entry)->role;
    bool is_later = match->rank < 0 && match->who.n_ranks > 0 && !match->who.is_named; /* an earlier line named them */
    bool is_same = same_text || is_near(r, match, number, time_s);
    if (role == TESS_LOG_CAUSE && is_later && is_same && who->n_ranks > 0 && !who->is_named &&
        who->is_local == match->who.is_local)
        log_who_join(&match->who, who);
    if (role > TESS_LOG_WRAPPER || match->first.file != r->file || log_who_is_known(&match->who) ||
        log_who_is_known(&match->reporter))
        return;
    if (same_text || (role == TESS_LOG_CAUSE && is_same && who->n_ranks > 0))
        log_who_complete(&match->who, who);
    else if (number - match->first.line <= LOG_MOST_QUOTED)
        match->reporter = *who;
}

static void note_last_time(log_match *match, double time_s)
{
    bool is_first = match->n_lines == 0 || match->is_over;
    if (is_first || time_s < 0 || (match->last_time_s >= 0 && time_s > match->last_time_s))
        match->last_time_s = time_s;
}

/* Notes what is needed to tell whether the run goes on after the line. */
static void note_last(survey_reading *r, int entry, const char *line, size_t size, int64_t number,
                      const log_who *origin)
{
    enum { MOST_LOOKED_AT = 1000 }; /* lines of an entry whose words are read */
    log_match *match = &r->survey->matches[entry];
    match->speaker = log_speaker_of(origin);
    match->last_is_exception = (r->part == LOG_TRACE_ERROR || r->part == LOG_TRACE_REST) && r->traces.current != NULL;
    match->is_of_actor = origin->actor[0] != '\0' && origin->pid != 0;
    match->last = (log_place){r->file, number};
    match->steps = log_steps_now(r, match->speaker);
    bool is_read = match->n_lines < MOST_LOOKED_AT, is_mild = is_read && log_is_mild(line, size);
    match->is_tried = is_mild || (is_read && log_says_it_goes_on(line, size));
    match->last_goes_on = is_mild || (is_read && log_passes_over(line, size));
    match->is_announced =
        match->last_is_exception && r->stamped_line < number && log_announces_a_retry(r->stamped, r->stamped_size);
    r->steps_left = LOG_MOST_STEPS;
    r->hints_end = number + LOG_HINT_LINES;
    if (tess_knowledge_at(r->survey->knowledge, entry)->role <= TESS_LOG_EFFECT)
        r->error_line = number;
}

/* Notes what stands above the first line of an entry: a traceback, or unknown error lines. */
static void note_surroundings(survey_reading *r, int entry, const char *line, size_t size, int64_t number,
                              const log_who *origin)
{
    log_match *match = &r->survey->matches[entry];
    const log_trace *trace = r->part == LOG_TRACE_ERROR || r->part == LOG_TRACE_REST ? r->traces.current : NULL;
    const log_loose *before = trace == NULL ? log_loose_before(r, number, origin) : NULL;
    before = before != NULL && log_has_progress_since(r, before->at.line) ? NULL : before;
    match->phase = trace != NULL ? trace->phase : NULL;
    if (match->phase == NULL)
        match->phase = log_component_of(r->survey, line, size < 1024 ? size : 1024);
    match->frame[0] = '\0';
    if (trace != NULL)
        log_trace_place(trace, match->frame, sizeof(match->frame));
    match->is_exception = trace != NULL;
    match->is_cut = false;
    if (trace != NULL && match->who.what[0] != '\0' &&
        log_exception_name(match->who.what, strlen(match->who.what)) == strlen(match->who.what) &&
        strncmp(trace->code, "assert", 6) == 0) /* an AssertionError without a text */
        tess_text_add(match->who.what, sizeof(match->who.what), strlen(match->who.what), " (%s)", trace->code);
    match->before = before != NULL ? *before : (log_loose){.excerpt = ""};
    const tess_log_entry *known = tess_knowledge_at(r->survey->knowledge, entry);
    if (known->is_wait)
        log_note_slow_bar(r);
    if (before == NULL && trace == NULL && !known->is_enough &&
        (known->role == TESS_LOG_EFFECT || known->role == TESS_LOG_WRAPPER))
        log_find_words_before(r, number, &match->before);
}

/* Returns the time between the last line before this one and this line; negative: not known. */
static double silence_before(const survey_reading *r, const char *line, size_t size)
{
    double time_s = log_time_of_line(line, size),
           before_s = log_time_of_line(r->stamped_before, r->stamped_before_size);
    return time_s >= 0 && before_s >= 0 ? time_s - before_s : -1;
}

tess_status log_note_match(survey_reading *r, int entry, const char *line, size_t size, int64_t number,
                           const log_who *who, const log_who *reporter, const log_who *origin,
                           const log_failure *failure)
{
    log_match *match = &r->survey->matches[entry];
    double time_s = log_time_near(r, line, size);
    size_t begin = log_text_begin(line, size);
    uint64_t text_hash = hash_text(line + begin, size - begin);
    if (match->n_lines > 0 && match->first.file == r->file && match->first.line == number) {
        if (r->part == LOG_TRACE_ERROR && (!match->is_exception || match->phase == NULL))
            note_surroundings(r, entry, line, size, number, origin);
        return TESS_OK; /* another piece of the same line */
    }
    bool is_warned =
        tess_knowledge_at(r->survey->knowledge, entry)->role <= TESS_LOG_EFFECT && log_is_python_warning(line, size);
    if (!match->is_over && log_went_on(r, entry))
        log_set_over(r->survey, entry, true);
    if (is_warned && match->n_lines > 0) {
        match->n_lines++;
        return TESS_OK;
    }
    note_last_time(match, time_s);
    join_fn join =
        match->is_over ? NULL : find_join(r, entry, match, number, time_s, text_hash == match->text_hash, who, failure);
    note_reporter(match, time_s, reporter);
    bool same_second = log_time_of_line(line, size) == floor(match->time_s); /* the line's time has no fraction */
    if (comes_first(match, r->file, same_second ? match->time_s : time_s, who, failure)) {
        log_who all = *who;
        if (join != NULL)
            join(&all, &match->who);
        bool names_more = match->n_lines > 0 && !match->is_over && all.is_named && !match->who.is_named;
        if (names_more && all.what[0] == '\0' &&
            is_near(r, match, number, time_s)) /* an earlier line gave the reason */
            memcpy(all.what, match->who.what, sizeof(all.what));
        match->first = (log_place){r->file, number};
        match->time_s = time_s;
        match->silence_s = silence_before(r, line, size);
        match->text_hash = text_hash;
        match->rank = who->n_ranks > 0 ? who->ranks[0] : reporter->n_ranks > 0 ? reporter->ranks[0] : -1;
        match->who = all;
        match->n_listed = who->n_ranks;
        match->is_failure = failure->rank >= 0;
        match->is_told = false;
        match->is_guess = tess_text_has(line, size < 4096 ? size : 4096, TESS_WORD_IN + TESS_WORD_CASELESS,
                                        " may | might |maybe|perhaps|possibl|probabl| likely");
        match->goes_on = log_passes_over(line, size);
        match->first_speaker = log_speaker_of(origin);
        match->is_over = match->went_on = is_warned;
        note_surroundings(r, entry, line, size, number, origin);
        tess_clean(line, size < 4096 ? size : 4096, match->excerpt, sizeof(match->excerpt));
        size_t n_what = strlen(match->who.what);
        if (n_what > 0 && match->who.what[n_what - 1] == ':' && !match->is_exception && line[size - 1] == ':') {
            r->open_entry = entry;
            r->open_line = number + 1;
            r->open_from = number;
        }
    } else if (match->who.is_local && !failure->is_local && failure->pid != 0 && match->who.pid == failure->pid) {
        match->rank = failure->rank; /* the global rank has become known */
        match->who = *who;
    } else if (join != NULL) {
        join(&match->who, who);
    } else if (!match->is_over) {
        complete_by_later_line(r, entry, number, time_s, text_hash == match->text_hash, who);
    }
    if (is_same_time(match, time_s))
        log_who_add_peer(&match->who, who);
    if (is_narrower(r, entry, match, who)) {
        match->who = *who;
        match->n_listed = who->n_ranks;
    }
    match->names_differ |=
        who->is_named && match->who.is_named && who->n_ranks > 0 && !log_who_has(&match->who, who->ranks[0]);
    note_last(r, entry, line, size, number, origin);
    match->n_lines++;
    const log_who *printed = who->n_ranks > 0 ? who : reporter;
    for (int i = 0; i < printed->n_ranks && !printed->is_local; i++)
        TESS_TRY(note_rank(r->survey, match, printed->ranks[i]));
    return TESS_OK;
}

void log_note_rest(const survey_reading *r, const tess_found_entry *found, int64_t number, const log_who *origin)
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
        log_who_add_reporter(&match->reporter, found);
        if (log_who_names_only_gpu(&before) && match->who.gpu[0] == '\0')
            snprintf(match->who.gpu, sizeof(match->who.gpu), "%s", before.gpu);
    }
}

void log_note_quote(const survey_reading *r, const tess_found_entry *found, const char *line, size_t size,
                    int64_t number)
{
    enum { MOST = 160, LEAD = 24 };
    static const char nccl[] = " NCCL WARN ";
    log_match *match = &r->survey->matches[found->entry];
    size_t begin = log_text_begin(line, size), text;
    if (match->first.file != r->file || match->first.line != number)
        return;
    match->quote[0] = '\0';
    if (begin >= size || !log_says_something(line + begin, size - begin))
        return;
    const char *warn = memmem(line + begin, size - begin, nccl, sizeof(nccl) - 1);
    if (warn != NULL && (size_t)(warn - line) <= found->begin) /* the process before it is in the headline */
        begin = (size_t)(warn - line) + sizeof(nccl) - 1;
    while (begin < size && strchr(" =*#-|>`:\"'", line[begin]) != NULL)
        begin++;
    text = begin;
    if (found->end > begin + MOST && found->begin > begin + LEAD) {
        begin = found->begin - LEAD;
        while (begin < found->begin && line[begin - 1] != ' ')
            begin++;
    }
    size_t n = size - begin < MOST ? size - begin : MOST;
    while (n > 0 && n < size - begin && ((unsigned char)line[begin + n] & 0xc0) == 0x80)
        n--; /* not within a character */
    char part[MOST + 8];
    tess_clean(line + begin, n, part, sizeof(part));
    snprintf(match->quote, sizeof(match->quote), "%s%s%s", begin > text ? "..." : "", part,
             n < size - begin ? "..." : "");
}

void log_note_last_error(survey_reading *r, const char *line, size_t size, int64_t number)
{
    static const char words[] = "Last error:";
    enum { MOST_ABOVE = 4 };
    size_t n = strlen(words);
    while (size > 0 && line[size - 1] == ' ')
        size--;
    if (size < n || line[size - 2] != 'r' || memcmp(line + size - n, words, n) != 0)
        return;
    for (int i = 0; i < tess_knowledge_n(r->survey->knowledge); i++) {
        log_match *match = &r->survey->matches[i];
        if (match->n_lines > 0 && match->first.file == r->file && number - match->first.line <= MOST_ABOVE &&
            match->who.what[0] == '\0' && tess_knowledge_at(r->survey->knowledge, i)->role <= TESS_LOG_WRAPPER) {
            r->open_entry = i;
            r->open_line = number + 1;
            r->open_from = match->first.line;
            return;
        }
    }
}

void log_note_message(survey_reading *r, const char *line, size_t size)
{
    log_match *match = &r->survey->matches[r->open_entry];
    size_t n = strlen(match->who.what), begin = log_text_begin(line, size);
    char text[sizeof(match->who.what)];
    r->open_line = 0;
    if (match->first.file != r->file || match->first.line != r->open_from || begin >= size)
        return;
    tess_clean(line + begin, size - begin < 400 ? size - begin : 400, text, sizeof(text));
    tess_text_add(match->who.what, sizeof(match->who.what), n, "%s%s", n > 0 ? " " : "", text);
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

tess_status log_note_lack(survey_reading *r, const tess_found_entry *found, const char *line, size_t size,
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
        TESS_TRY(log_note_match(r, entry->different, line, size, number, &nobody, origin, origin, failure));
    }
    memcpy(r->lacks, lacks, sizeof(lacks));
    r->lacks_rank = lacking.n_ranks > 0 ? lacking.ranks[0] : -1;
    r->lacks_entry = found->entry;
    r->lacks_line = number;
    return TESS_OK;
}

/* Whether every word of `text` is in `said`, so that it says nothing new. */
static bool is_said(const char *said, const char *text)
{
    text += strspn(text, " ");
    for (size_t n; *text != '\0'; text += n + strspn(text + n, " ")) {
        n = strcspn(text, " ");
        const char *at = memmem(said, strlen(said), text, n);
        while (at != NULL && (isalnum((unsigned char)at[n]) || (at > said && isalnum((unsigned char)at[-1]))))
            at = memmem(at + 1, strlen(at + 1), text, n);
        if (at == NULL)
            return false;
    }
    return true;
}

void log_note_also(const survey_reading *r, const tess_found_entry *found, int64_t number)
{
    log_match *match = &r->survey->matches[found->entry];
    char text[sizeof(match->who.what)], *what = match->who.what;
    if (found->names[TESS_NAME_ALSO].text == NULL || match->n_lines == 0 || match->first.file != r->file ||
        number - match->first.line > TESS_KNOWLEDGE_LINES_AFTER)
        return;
    tess_clean(found->names[TESS_NAME_ALSO].text, found->names[TESS_NAME_ALSO].size, text, sizeof(text));
    size_t at = strlen(what);
    if (is_said(what, text) || at + strlen(text) + 2 >= sizeof(match->who.what))
        return;
    tess_text_add(what, sizeof(match->who.what), at, "%s%s", at > 0 ? "; " : "", text);
    if (number != match->first.line && found->names[TESS_NAME_RANK].text != NULL) {
        log_who more = {.n_ranks = 0};
        log_who_add(&more, found);
        log_who_add(&match->who, found); /* adds its ranks */
        if (strcmp(more.gpu, match->who.gpu) != 0)
            match->who.gpu[0] = '\0';
    }
}

void log_note_names(const survey_reading *r, const tess_found_entry *found, int64_t number)
{
    log_match *match = &r->survey->matches[found->entry];
    if (match->first.file == r->file && number - match->first.line <= LOG_MOST_QUOTED && !log_who_is_known(&match->who))
        log_who_add(&match->who, found);
}
