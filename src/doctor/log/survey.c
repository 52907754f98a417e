/* Reads logs. Each line is compared with the knowledge base, and the findings are collected for the diagnosis. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/mem/scoped.h"
#include "doctor/log/log_impl.h"
#include "doctor/table/clean.h"

tess_status tess_survey_begin(tess_mem *mem, tess_knowledge *knowledge, tess_survey *survey)
{
    *survey = (tess_survey){.mem = mem, .knowledge = knowledge, .stacks.mem = mem};
    TESS_TRY(log_phases_read(mem, &survey->phases, &survey->n_phases));
    TESS_TRY(TESS_NEW(mem, tess_knowledge_n(knowledge), "what was found", &survey->matches));
    return TESS_NEW(mem, tess_knowledge_n(knowledge), "what ended a file", &survey->open);
}

void tess_survey_free(tess_survey *survey)
{
    for (int i = 0; survey->matches != NULL && i < tess_knowledge_n(survey->knowledge); i++) {
        tess_mem_free(survey->mem, survey->matches[i].ranks);
        tess_mem_free(survey->mem, survey->matches[i].came);
    }
    tess_mem_free(survey->mem, survey->matches);
    tess_mem_free(survey->mem, survey->open);
    tess_mem_free(survey->mem, survey->ranks);
    tess_mem_free(survey->mem, survey->phases);
    tess_mem_free(survey->mem, survey->files);
    tess_mem_free(survey->mem, survey->failures);
    tess_mem_free(survey->mem, survey->stopped);
    log_stacks_free(&survey->stacks);
    memset(survey, 0, sizeof(*survey));
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
    char pod[sizeof(r->pod)];
    bool is_told = entry->by_pod && who.actor[0] == '\0' && log_pod_of_line(line, size, pod);
    if (entry->by_pod && who.actor[0] == '\0' && (is_told || r->pod[0] != '\0')) {
        snprintf(who.actor, sizeof(who.actor), "%s", is_told ? pod : r->pod);
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
    if (known->by_endpoint && !log_who_is_known(&reporter))
        snprintf(reporter.host, sizeof(reporter.host), "%s", r->shell[0] != '\0' ? r->shell : r->node);
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
    r->quoted.what[0] = '\0'; /* the type of the exception that the quotation tells */
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
static void note_said_below(survey_reading *r, const tess_found *found, const char *line, size_t size,
                            const log_failure *failure)
{
    int exception = tess_knowledge_exception(r->survey->knowledge);
    log_match *match = exception >= 0 && r->part == LOG_TRACE_REST ? &r->survey->matches[exception] : NULL;
    if (match == NULL || match->first.file != r->file || match->first.line != r->traces.current->error ||
        log_is_mild(line, size) || failure->rank >= 0) /* a logger or torchrun, right below the message */
        return;
    for (int i = 0; i < found->n_entries; i++) {
        const tess_log_entry *entry = tess_knowledge_at(r->survey->knowledge, found->entries[i].entry);
        bool is_launcher = entry->role == TESS_LOG_EFFECT && found->entries[i].names[TESS_NAME_TASK].text != NULL;
        match->is_told |= !found->entries[i].follows && !is_launcher && entry->role <= TESS_LOG_EFFECT &&
                          !entry->is_fallback && !entry->is_quoting;
    }
}

static tess_status note_entries(survey_reading *r, const tess_found *found, const char *line, size_t size,
                                int64_t number, const log_who *origin, const log_failure *failure)
{
    const log_who writer = *find_writer(r, origin, number);
    note_quoted_error(r, found, origin, number);
    note_said_below(r, found, line, size, failure);
    bool ends_nothing = r->part == LOG_TRACE_NONE && found->n_entries > 0 &&
                        (log_is_advice(line, size) || log_is_fallback_used(line, size));
    for (int i = 0; i < found->n_entries; i++) {
        const tess_found_entry *one = &found->entries[i];
        const tess_log_entry *entry = tess_knowledge_at(r->survey->knowledge, one->entry);
        if (ends_nothing && entry->role <= TESS_LOG_EFFECT && !one->follows)
            continue;
        if (entry->role == TESS_LOG_END) {
            if (found->n_entries == 1)
                log_note_end(r, entry->scope, line, size, number, origin);
            continue;
        }
        if (entry->is_restart && !one->follows)
            log_note_restart(r, number);
        if (one->follows) {
            log_note_rest(r, one, number, origin);
            log_note_also(r, one, number);
            TESS_TRY(log_note_lack(r, one, line, size, number, origin, failure));
            continue;
        }
        log_who who = find_subject(r, one, line, size, &writer, failure);
        if (who.noun != NULL && strcmp(who.noun, "pod") == 0)
            log_note_pod(r, who.actor);
        log_who reporter = find_reporter(r, one->entry, &writer, &who, failure);
        log_who_add_reporter(&reporter, one);
        if (is_inner(r, one->entry, origin, number) && who.is_named)
            r->survey->matches[one->entry].who.is_named = false; /* this makes the current line replace the first one */
        TESS_TRY(log_note_match(r, one->entry, line, size, number, &who, &reporter, origin, failure));
        log_note_quote(r, one, line, size, number);
        log_note_names(r, one, number);
        log_note_also(r, one, number);
        if (r->survey->largest.pid == 0 && r->largest.pid != 0 && number - r->largest.at.line <= LOG_AFTER_TABLE)
            r->survey->largest = r->largest;
        if (entry->is_quoting)
            begin_quotation(r, origin, &who, one->entry, number);
        TESS_TRY(log_note_mark(r->survey, one->entry, line, size, who.n_ranks > 0 ? who.ranks[0] : -1));
    }
    return TESS_OK;
}

/* Notes how long a monitor alone has printed lines. */
static void note_beat(survey_reading *r, const tess_found *found, const char *line, size_t size)
{
    bool is_beat = false;
    for (int i = 0; i < found->n_entries; i++)
        is_beat |= tess_knowledge_at(r->survey->knowledge, found->entries[i].entry)->is_beat;
    if (!is_beat && size > 0)
        r->beat_from_s = r->beat_to_s = -1;
    bool is_running = is_beat && memmem(line, size, "is running", 10) != NULL; /* and does not wait for its start */
    double time_s = is_running ? log_time_of_line(line, size) : -1;
    if (time_s < 0)
        return;
    r->beat_from_s = r->beat_from_s < 0 ? time_s : r->beat_from_s;
    r->beat_to_s = time_s;
}

/* A line of the log, or of a message in a JSON object of the log. */
typedef struct text_line {
    survey_reading *reading;
    int64_t number;
} text_line;

/* Whether the line may report a step: it has the words of one, and is not part of an error. Lines right below an
 * exception may belong to its message or not. */
static bool may_be_a_step(const survey_reading *r, const tess_found *found)
{
    if ((found->hooks & TESS_HOOKS_OF_STEPS) == 0 || (found->hooks & TESS_HOOK_BIT(TESS_HOOK_ERROR)) != 0 ||
        (r->part != LOG_TRACE_NONE && r->part != LOG_TRACE_REST))
        return false;
    for (int i = 0; i < found->n_entries; i++)
        if (tess_knowledge_at(r->survey->knowledge, found->entries[i].entry)->role <= TESS_LOG_EFFECT)
            return false;
    return true;
}

static bool names_an_error(const tess_survey *s, const tess_found *found)
{
    for (int i = 0; i < found->n_entries; i++)
        if (tess_knowledge_at(s->knowledge, found->entries[i].entry)->role != TESS_LOG_END)
            return true;
    return false;
}

static tess_status take_found(survey_reading *r, const tess_found *found, const char *line, size_t size, int64_t number,
                              const log_who *writer)
{
    log_failure failure = {.rank = -1};
    log_step step;
    bool may_be_step = may_be_a_step(r, found);
    log_note_hint(r, line, size, number);
    if (may_be_step)
        log_keep_step(r, line, size, number);
    bool is_step = may_be_step && r->steps_left > 0 && log_step_of_line(line, size, &step);
    if (found->n_entries == 0 && (found->hooks & ~TESS_HOOKS_OF_STEPS) == 0 && !is_step)
        return TESS_OK;
    log_who origin = log_find_origin(r, line, size, writer);
    int speaker = origin.n_ranks > 0 && !origin.is_local ? origin.ranks[0] : -1;
    TESS_TRY(log_see_rank(r->survey, speaker));
    if (speaker >= 0 && origin.host[0] != '\0')
        log_place_rank(r->survey, speaker, &origin);
    if (is_step)
        log_note_step(r, &origin, &step);
    if (found->hooks & TESS_HOOK_BIT(TESS_HOOK_ERROR))
        log_note_loose(r, line, size, number, &origin);
    if (found->hooks & TESS_HOOK_BIT(TESS_HOOK_NRANKS))
        TESS_TRY(log_note_communicator(r, line, size, &origin));
    if (found->hooks & TESS_HOOK_BIT(TESS_HOOK_PROXY))
        TESS_TRY(log_note_proxy(r->survey, line, size, &origin));
    TESS_TRY(log_note_hooks(r, found->hooks, line, size, number, speaker, &failure));
    r->survey->n_known_lines += names_an_error(r->survey, found);
    log_note_chained(r);
    TESS_TRY(note_entries(r, found, line, size, number, &origin, &failure));
    if (names_an_error(r->survey, found))
        r->known_line = number;
    return TESS_OK;
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
    log_note_label(r->survey, line, size);
    log_keep_tail(r, line, size, number);
    if (r->open_line == number)
        log_note_message(r, line, size);
    log_note_last_error(r, line, size, number);
    if (log_has_time(line, size)) {
        memcpy(r->stamped_before, r->stamped, r->stamped_size);
        r->stamped_before_size = r->stamped_size;
        r->stamped_size = size < LOG_HEAD ? size : LOG_HEAD;
        memcpy(r->stamped, line, r->stamped_size);
        r->stamped_line = number;
    }
    watch_trace(r, line, size, number);
    TESS_TRY(log_stacks_take(&r->survey->stacks, line, size, r->path_who.n_ranks > 0 ? r->path_who.ranks[0] : -1));
    log_find_line(r, line, size, number, &nobody, &found);
    const uint64_t objects =
        TESS_HOOK_BIT(TESS_HOOK_KIND) | TESS_HOOK_BIT(TESS_HOOK_KIND_JSON) | TESS_HOOK_BIT(TESS_HOOK_NAME);
    if (r->object_line > 0 || r->described_line > 0 || found.hooks & objects)
        log_note_object(r, line, size, number);
    log_note_prompt(r, line, size);
    note_beat(r, &found, line, size);
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
    *r = (survey_reading){.survey = s,
                          .file = s->n_files++,
                          .failure = {.rank = -1, .time_s = -1},
                          .trace_entry = -1,
                          .beat_from_s = -1,
                          .beat_to_s = -1};
    int rank = log_rank_of_path(path);
    r->path_who.ranks[0] = rank;
    r->path_who.n_ranks = rank >= 0;
    log_host_of_path(path, r->path_who.host, sizeof(r->path_who.host));
    tess_knowledge_begin_text(s->knowledge);
    return log_see_rank(s, rank);
}

/* Reads the last line of a traceback whose end is missing. It may show which exception was raised: "raise EOFError".
 * The frames may show that the exception, whatever its type, ended nothing. */
static tess_status note_raised(survey_reading *r, const log_trace *trace, bool *is_known)
{
    const log_failure failure = {.rank = -1};
    bool is_raised = strncmp(trace->code, "raise ", strlen("raise ")) == 0;
    const char *name = is_raised ? trace->code + strlen("raise ") : "Exception";
    char told[sizeof(trace->code) + 2];
    tess_found found;
    size_t size = strcspn(name, "( ");
    if (log_exception_name(name, size) != size)
        return TESS_OK;
    if (log_raised_text(trace, told, sizeof(told))) {
        name = told;
        size = strlen(told);
    }
    r->traces.frames_size = log_trace_frames(trace, r->frames, sizeof(r->frames));
    tess_knowledge_set_frames(r->survey->knowledge, r->frames, r->traces.frames_size);
    tess_knowledge_find(r->survey->knowledge, name, size, &found);
    tess_knowledge_set_frames(r->survey->knowledge, NULL, 0);
    *is_known = log_says_more(r, &found);
    return *is_known ? note_entries(r, &found, name, size, trace->last, &trace->speaker, &failure) : TESS_OK;
}

/* A warning of Python above a traceback may explain it, if the exception is missing: CUDA did not start, and then
 * something failed. Such a warning was not survived. A warning that says what the program does instead, such as
 * joblib's for a semaphore, counts only if multiprocessing raised the exception. */
static void restore_warnings(survey_reading *r, const log_trace *trace, int cut)
{
    bool is_made = false;
    for (int i = 0; i < trace->n_frames; i++)
        is_made |= strstr(trace->frames[i].path, "multiprocessing") != NULL;
    for (int i = 0; i < tess_knowledge_n(r->survey->knowledge); i++) {
        log_match *match = &r->survey->matches[i];
        if (match->n_lines > 0 && match->went_on && match->first.file == r->file && match->first.line < trace->head &&
            tess_knowledge_explains(r->survey->knowledge, i, cut) &&
            (is_made || strstr(match->excerpt, " will ") == NULL) &&
            log_is_python_warning(match->excerpt, strlen(match->excerpt)))
            match->is_over = match->went_on = false;
    }
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
        char place[180], told[sizeof(trace->code) + 2];
        bool ends_file = trace->has_head && trace->n_frames == 0 && trace->head == r->last_line;
        /* A text that was cut off may have a single frame. It counts only if nothing else is known. */
        bool is_at_edge = r->known_line == 0 && !log_has_progress_since(r, trace->last) &&
                          (trace->last <= LOG_AT_EDGE || r->last_line - trace->last <= LOG_AT_EDGE);
        if (trace->state != LOG_TRACE_FRAMES ||
            (trace->n_frames < (trace->has_head || is_at_edge ? 1 : 2) && !ends_file))
            continue;
        trace->phase = log_phase_of(s, trace->frames, trace->n_frames);
        bool is_told = log_raised_text(trace, told, sizeof(told));
        if (!is_told && log_note_announced(r, trace))
            continue;
        log_trace_place(trace, place, sizeof(place));
        if (ends_file)
            snprintf(place, sizeof(place), "Traceback (most recent call last):");
        r->part = LOG_TRACE_ERROR;
        r->traces.current = trace;
        restore_warnings(r, trace, entry);
        bool is_known = false;
        r->survey->n_known_lines++;
        TESS_TRY(note_raised(r, trace, &is_known));
        if (is_known || (is_told && log_note_announced(r, trace)))
            continue;
        TESS_TRY(log_note_match(r, entry, place, strlen(place), ends_file ? trace->head : trace->last, &nobody,
                                &trace->speaker, &trace->speaker, &failure));
    }
    return TESS_OK;
}

/* Notes that the file ends within a report of a timeout. */
static tess_status note_cut_end(survey_reading *r)
{
    const log_loose *last = r->n_tail > 0 ? &r->tail[(r->n_tail - 1) % LOG_TAIL] : NULL;
    size_t size = last != NULL ? strlen(last->excerpt) : 0;
    if (size == 0 || size >= LOG_TAIL_MOST || !log_is_cut_report(last->excerpt, size, true))
        return TESS_OK;
    return log_note_cut_report(r->survey, last->excerpt, size, log_rank_of_line(last->excerpt, size));
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
    r.last_line = lines.line;
    if (status == TESS_OK && r.beat_to_s - r.beat_from_s > s->beat_s)
        s->beat_s = r.beat_to_s - r.beat_from_s;
    if (status == TESS_OK)
        status = note_cut_end(&r);
    if (status == TESS_OK)
        status = note_cut_traces(&r);
    if (status == TESS_OK) {
        log_note_last_words(&r);
        log_note_repeated(&r);
        log_complete_pods(&r);
        log_note_cut_root(&r);
        log_settle(&r);
    }
    log_lines_close(&lines);
    return status;
}
