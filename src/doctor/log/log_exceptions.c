/* Handles the exceptions of a log: which entries match them, which ones a process survived, and which ones another
 * exception replaced. */
#include <ctype.h>
#include <string.h>

#include "doctor/log/log_impl.h"
#include "doctor/table/clean.h"

/* Updates the exception that this one came from. It is over if it was only part of a look-up. If its own frames do
 * not show the phase, it takes the phase of this one. */
void log_note_chained(survey_reading *r)
{
    const log_trace *trace = r->part == LOG_TRACE_ERROR ? r->traces.current : NULL;
    for (int i = 0; trace != NULL && trace->before > 0 && i < tess_knowledge_n(r->survey->knowledge); i++) {
        log_match *match = &r->survey->matches[i];
        if (match->n_lines == 0 || match->first.file != r->file || match->first.line != trace->before)
            continue;
        if (match->phase == NULL)
            match->phase = trace->phase;
        if (trace->replaces && !match->is_over)
            log_set_over(r->survey, i, false);
    }
}

bool log_says_more(const survey_reading *r, const tess_found *found)
{
    for (int i = 0; i < found->n_entries; i++) {
        const tess_log_entry *entry = tess_knowledge_at(r->survey->knowledge, found->entries[i].entry);
        if (found->entries[i].follows || entry->role <= TESS_LOG_EFFECT || entry->is_fallback)
            return true;
    }
    return false;
}

/* Adds the entry for all exceptions, if no other entry says more about the exception. */
static void add_exception(const survey_reading *r, const char *line, size_t size, tess_found *found)
{
    int entry = tess_knowledge_exception(r->survey->knowledge);
    if (r->part != LOG_TRACE_ERROR || entry < 0 || found->n_entries == TESS_KNOWLEDGE_MOST_FOUND ||
        log_says_more(r, found))
        return;
    size_t begin = log_text_begin(line, size), most = 220;
    if (size - begin == log_exception_name(line + begin, size - begin) + 2 || line[size - 1] == ':')
        return; /* the text of the exception begins on the next line */
    tess_found_entry *one = &found->entries[found->n_entries++];
    *one = (tess_found_entry){.entry = entry};
    one->names[TESS_NAME_WHAT].text = line + begin;
    one->names[TESS_NAME_WHAT].size = size - begin < most ? size - begin : most;
}

/* Appends the first line of an exception's text to the type that the headline quotes, if the text began on the next
 * line. */
static void add_message(survey_reading *r, const char *line, size_t size, int64_t number)
{
    enum { MOST_LINES = 4 };
    const log_trace *trace = r->traces.current;
    size_t begin = log_text_begin(line, size);
    char text[sizeof(((log_who *)NULL)->what)];
    if (number - trace->error > MOST_LINES)
        return;
    tess_clean(line + begin, size - begin < 400 ? size - begin : 400, text, sizeof(text));
    for (int i = 0; i < tess_knowledge_n(r->survey->knowledge); i++) {
        log_match *match = &r->survey->matches[i];
        size_t n = strlen(match->who.what);
        while (n > 0 && match->who.what[n - 1] == ' ')
            n--;
        if (match->is_exception && match->first.file == r->file && match->first.line == trace->error && n > 0 &&
            match->who.what[n - 1] == ':')
            tess_text_add(match->who.what, sizeof(match->who.what), n, " %s", text);
    }
}

/* Finds the process that printed a line: from the line, from `writer`, and from the file's name. */
log_who log_find_origin(const survey_reading *r, const char *line, size_t size, const log_who *writer)
{
    log_who origin = log_origin_of_line(line, size);
    log_who_complete(&origin, writer);
    log_who_complete(&origin, &r->path_who);
    return origin;
}

enum {
    HOOKS_OF_TRACES =
        TESS_HOOK_BIT(TESS_HOOK_TRACEBACK) | TESS_HOOK_BIT(TESS_HOOK_FRAME) | TESS_HOOK_BIT(TESS_HOOK_BOX),
    HOOKS_OF_ERRORS = TESS_HOOK_BIT(TESS_HOOK_ERROR) | TESS_HOOK_BIT(TESS_HOOK_FATAL) |
                      TESS_HOOK_BIT(TESS_HOOK_FAILED) | TESS_HOOK_BIT(TESS_HOOK_CRITICAL) |
                      TESS_HOOK_BIT(TESS_HOOK_WARN)
};

/* Finds the entries that match a line, which may belong to a traceback. */
void log_find_line(survey_reading *r, const char *line, size_t size, int64_t number, const log_who *writer,
                   tess_found *found)
{
    tess_knowledge *known = r->survey->knowledge;
    bool near = log_traces_are_near(&r->traces, number);
    log_who origin;
    r->part = LOG_TRACE_NONE;
    r->traces.current = NULL;
    if (near) {
        origin = log_find_origin(r, line, size, writer);
        r->part = log_traces_take(&r->traces, line, size, number, &origin);
        if (r->part == LOG_TRACE_ERROR) {
            log_trace *trace = r->traces.current;
            trace->phase = log_phase_of(r->survey, trace->frames, trace->n_frames);
            r->traces.frames_size = log_trace_frames(trace, r->frames, sizeof(r->frames));
        }
        if (r->part == LOG_TRACE_ERROR || r->part == LOG_TRACE_REST)
            tess_knowledge_set_frames(known, r->frames, r->traces.frames_size);
    }
    tess_knowledge_find(known, line, size, found);
    tess_knowledge_set_frames(known, NULL, 0);
    if (!near && found->hooks & HOOKS_OF_TRACES) {
        origin = log_find_origin(r, line, size, writer);
        r->part = log_traces_take(&r->traces, line, size, number, &origin);
    }
    if (r->part == LOG_TRACE_CONTEXT)
        *found = (tess_found){.n_entries = 0};
    if (r->part == LOG_TRACE_HEAD)
        log_drop_loose(r, number, &origin);
    if (r->part == LOG_TRACE_REST && found->n_entries == 0)
        add_message(r, line, size, number);
    add_exception(r, line, size, found);
    found->hooks &= ~TESS_HOOK_BIT(TESS_HOOK_EXCEPTION);
    bool is_glog = size > 1 && (line[0] == 'E' || line[0] == 'F') && isdigit((unsigned char)line[1]);
    if (!(found->hooks & HOOKS_OF_ERRORS) && !is_glog)
        return;
    bool is_loose = r->part == LOG_TRACE_NONE && r->traces.current == NULL && !log_says_more(r, found) &&
                    log_is_error_line(line, size);
    found->hooks &= ~HOOKS_OF_ERRORS;
    for (int i = 0; i < found->n_entries; i++) /* a warning of the knowledge base is no unknown error */
        is_loose &= tess_knowledge_at(known, found->entries[i].entry)->role != TESS_LOG_WARNING;
    if (is_loose)
        found->hooks |= TESS_HOOK_BIT(TESS_HOOK_ERROR);
}

/* Whether two different processes, both known, printed the line and the traceback. */
static bool is_by_another(const log_match *match, const log_trace *trace)
{
    const log_who *printer = log_who_is_known(&match->reporter) ? &match->reporter : &match->who;
    return printer->pid != 0 && trace->speaker.pid != 0 && printer->pid != trace->speaker.pid;
}

/* If the line right above a traceback matches a wrapper, gives the phase of the traceback to that match. Returns
 * false if there is no such line. */
bool log_note_announced(const survey_reading *r, const log_trace *trace)
{
    enum { MOST_ABOVE = 2 };
    bool any = false;
    for (int i = 0; i < tess_knowledge_n(r->survey->knowledge); i++) {
        log_match *match = &r->survey->matches[i];
        int64_t distance = trace->head - match->first.line;
        if (match->n_lines == 0 || match->first.file != r->file || distance < 0 || distance > MOST_ABOVE ||
            tess_knowledge_at(r->survey->knowledge, i)->role != TESS_LOG_WRAPPER || is_by_another(match, trace))
            continue;
        match->phase = trace->phase;
        match->is_cut = true;
        log_trace_place(trace, match->frame, sizeof(match->frame));
        any = true;
    }
    return any;
}
