/* Reads Python tracebacks: frames, the line of the exception, and chains of exceptions. Several processes may print
 * tracebacks at the same time, and the beginning or end of a traceback may be missing. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/rng.h"
#include "doctor/log/log_impl.h"
#include "doctor/table/clean.h"

/* most lines of other processes within a traceback, and most lines of a message */
enum { MOST_BETWEEN = 48, MOST_MESSAGE = 24 };

/* ---- Lines ---- */
/* Removes the borders that rich draws: "│ /data/train.py:12 in main    │". */
static void strip_border(const char **text, size_t *size)
{
    static const char bar[] = "\u2502"; /* three bytes */
    if (!log_begins_with(*text, *size, bar))
        return;
    *text += 3;
    *size -= 3;
    const char *end = memmem(*text, *size, bar, 3);
    *size = end != NULL ? (size_t)(end - *text) : *size;
    while (*size > 0 && (*text)[*size - 1] == ' ')
        (*size)--;
}

static void set_path(log_frame *frame, const char *path, size_t size)
{
    size_t cut = size < sizeof(frame->path) ? 0 : size - sizeof(frame->path) + 1; /* the end of a long path says more */
    snprintf(frame->path, sizeof(frame->path), "%.*s", (int)(size - cut), path + cut);
}

static void set_function(log_frame *frame, const char *name, size_t size)
{
    size_t n = 0;
    while (n < size && name[n] != ' ' && name[n] != '(' && name[n] != '\t')
        n++;
    snprintf(frame->function, sizeof(frame->function), "%.*s", (int)(n < 60 ? n : 60), name);
}

/* Whether the text begins with an absolute path: from the root, the home folder, or a Windows drive. */
static bool is_full_path(const char *text, size_t size)
{
    return size > 4 && (*text == '/' || *text == '~' ||
                        (isalpha((unsigned char)*text) && text[1] == ':' && (text[2] == '\\' || text[2] == '/')));
}

bool log_parse_frame(const char *text, size_t size, log_frame *frame)
{
    *frame = (log_frame){.line = 0};
    while (size > 0 && (*text == ' ' || *text == '\t')) {
        text++;
        size--;
    }
    strip_border(&text, &size);
    while (size > 0 && *text == ' ') {
        text++;
        size--;
    }
    const char *end = text + size, *at, *quote;
    if (log_begins_with(text, size, "File \"") && (quote = memchr(text + 6, '"', size - 6)) != NULL &&
        log_begins_with(quote, (size_t)(end - quote), "\", line ")) { /* File "train.py", line 12, in main */
        set_path(frame, text + 6, (size_t)(quote - text) - 6);
        at = quote + 8;
    } else if (log_begins_with(text, size, "File \u201c") &&
               (quote = memmem(text, size, "\u201d, line ", 10)) != NULL) {
        set_path(frame, text + 8, (size_t)(quote - text) - 8); /* the quotes of a word processor, of three bytes each */
        at = quote + 10;
    } else if (is_full_path(text, size) && (at = memmem(text, size, ".py:", 4)) != NULL) {
        set_path(frame, text, (size_t)(at - text) + 3); /* /data/train.py:12 in main, as rich writes it */
        at += 4;
    } else if (log_begins_with(text, size, "File ") && (at = memmem(text, size, ".py:", 4)) != NULL) {
        set_path(frame, text + 5, (size_t)(at - text) - 2); /* File /data/train.py:12, in main(arguments), of IPython */
        at += 4;
    } else {
        return false;
    }
    if (at >= end || !isdigit((unsigned char)*at))
        return false;
    for (int digits = 0; at < end && isdigit((unsigned char)*at); at++, digits++)
        frame->line = digits < 8 ? frame->line * 10 + (*at - '0') : frame->line;
    const char *in = memmem(at, (size_t)(end - at), "in ", 3);
    if (in != NULL && in - at <= 3)
        set_function(frame, in + 3, (size_t)(end - in) - 3);
    return true;
}

/* Whether a word ends like the name of an exception, of Python or of a module. */
static bool is_exception_name(const char *name, size_t size)
{
    const char *dot = memrchr(name, '.', size);
    if (dot != NULL &&
        tess_text_has(dot, (size_t)(name + size - dot), TESS_WORD_IS, ".error|.timeout|.gaierror|.herror"))
        return true;
    if (dot != NULL) { /* a class of a module, which may be private: "grpc._channel._InactiveRpcError" */
        const char *class = dot + 1 + (dot + 1 < name + size && dot[1] == '_');
        return class < name + size && isupper((unsigned char)*class);
    }
    return isupper((unsigned char)name[0]) &&
           tess_text_has(name, size, TESS_WORD_ENDS, "Error|Exception|Warning|Exit|Interrupt|Iteration|Group");
}

size_t log_exception_name(const char *text, size_t size)
{
    size_t n = 0;
    while (n < size && (isalnum((unsigned char)text[n]) || text[n] == '_' || text[n] == '.'))
        n++;
    if (n < 4 || n > 120 || isdigit((unsigned char)text[0]) || text[0] == '.' || !is_exception_name(text, n))
        return 0;
    size_t end = n;
    if (end < size && text[end] == '(') { /* RayTaskError(ValueError) */
        const char *close = memchr(text + end, ')', size - end < 80 ? size - end : 80);
        end = close != NULL ? (size_t)(close - text) + 1 : end;
    }
    static const char above[] = " (see above for traceback)"; /* TensorFlow */
    if (log_begins_with(text + end, size - end, above))
        end += strlen(above);
    while (end < size && text[end] == ' ')
        end++;
    return end == size || (text[end] == ':' && (end + 1 == size || text[end + 1] == ' ')) ? n : 0;
}

/* ---- Traces ---- */
static log_trace *find_trace(log_traces *t, const log_who *speaker, int64_t number)
{
    for (int i = 0; i < LOG_TRACES; i++) {
        log_trace *trace = &t->traces[i];
        if (trace->state != LOG_TRACE_CLOSED && number - trace->last <= MOST_BETWEEN &&
            log_who_is_same(&trace->speaker, speaker))
            return trace;
    }
    return NULL;
}

/* Returns the slot for a new traceback: one that is closed or belongs to the same process, or else the oldest. */
static log_trace *open_trace(log_traces *t, const log_who *speaker, int64_t number, int indent)
{
    log_trace *trace = &t->traces[0];
    for (int i = 0; i < LOG_TRACES; i++) {
        log_trace *other = &t->traces[i];
        bool is_free = other->state == LOG_TRACE_CLOSED || log_who_is_same(&other->speaker, speaker);
        if (is_free || other->last < trace->last)
            trace = other;
        if (is_free)
            break;
    }
    bool is_chained = trace->chain != LOG_CHAIN_NONE && log_who_is_same(&trace->speaker, speaker);
    int64_t before = is_chained ? trace->error : 0;
    bool replaces = is_chained && trace->chain == LOG_CHAIN_HANDLING && trace->is_look_up;
    *trace = (log_trace){.state = LOG_TRACE_FRAMES,
                         .speaker = *speaker,
                         .head = number,
                         .last = number,
                         .indent = indent,
                         .before = before,
                         .replaces = replaces,
                         .type_before = is_chained && trace->chain == LOG_CHAIN_DIRECT ? trace->type : 0};
    return trace;
}

static void add_frame(log_trace *trace, const log_frame *frame)
{
    if (trace->n_frames == LOG_TRACE_MOST_FRAMES) { /* the outermost frame and the innermost ones say most */
        memmove(&trace->frames[1], &trace->frames[2], (LOG_TRACE_MOST_FRAMES - 2) * sizeof(*frame));
        trace->n_frames--;
    }
    trace->frames[trace->n_frames++] = *frame;
}

static bool is_blank(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (text[i] != ' ' && text[i] != '\t')
            return false;
    return true;
}

/* Whether the text begins with a name in the form of a class, and a colon: "odd.Unavailable: x". */
static bool begins_with_class(const char *text, size_t size)
{
    size_t n = 0, class = 0, small = 0;
    for (; n < size && n < 120 && (isalnum((unsigned char)text[n]) || text[n] == '_' || text[n] == '.'); n++)
        class = text[n] == '.' ? n + 1 : class;
    for (size_t i = class; i < n; i++)
        small += islower((unsigned char)text[i]) != 0;
    return !tess_text_has(text, n, TESS_WORD_IS, "INFO|DEBUG|WARNING|WARN|ERROR|NOTE|Epoch|Step|File") && n >= 4 &&
           small > 0 && isupper((unsigned char)text[class]) && n + 1 < size && text[n] == ':' && text[n + 1] == ' ';
}

/* Whether the line is that of the exception. It is not indented more than the first line of its traceback. A class of
 * any name counts right below the code of the innermost frame, where the whole traceback is there. */
static bool is_error_line(const log_trace *trace, int indent, const char *text, size_t size, int64_t number)
{
    enum { MOST_CODE = 3 };
    bool is_next = trace->has_head && trace->indent >= 0 && trace->n_frames > 0 && trace->code[0] != '\0' &&
                   number - trace->last <= MOST_CODE && indent == trace->indent;
    return (trace->indent < 0 || indent <= trace->indent) &&
           (log_exception_name(text, size) > 0 || (is_next && begins_with_class(text, size)));
}

/* Whether the exception only says that something does not exist. Programs try this, and continue in another way. */
static bool is_look_up(const char *text, size_t size)
{
    return tess_text_has(text, log_exception_name(text, size), TESS_WORD_IS,
                         "KeyError|AttributeError|StopIteration|IndexError|_queue.Empty|queue.Empty|ImportError|"
                         "ModuleNotFoundError|LookupError|TypeError");
}

static void end_frames(log_trace *trace, const char *text, size_t size, int64_t number)
{
    size_t n = log_exception_name(text, size);
    trace->is_look_up = is_look_up(text, size);
    trace->type = n > 0 ? tess_hash_bytes(text, n, 1) : 0;
    trace->replaces |= trace->type != 0 && trace->type == trace->type_before; /* it says the same in better words */
    trace->state = LOG_TRACE_MESSAGE;
    trace->error = number;
}

/* Reads the sentence between two tracebacks. Python says either that the second exception occurred while the first
 * was handled, or that the first directly caused the second. */
static bool take_chain(log_trace *trace, const char *text, size_t size)
{
    bool handling = tess_text_has(text, size, TESS_WORD_IN, "During handling of the above exception");
    if (!handling && !tess_text_has(text, size, TESS_WORD_IN, "The above exception was the direct cause"))
        return false;
    trace->chain = handling ? LOG_CHAIN_HANDLING : LOG_CHAIN_DIRECT;
    return true;
}

/* Whether the line shows code around a frame: "│ 207 │   raise ValueError(...)    │". "❱ 207" marks the frame's own
 * code; its statement may continue on the lines below. */
static bool is_context(log_trace *trace, const char *text, size_t size)
{
    static const char bar[] = "\u2502", mark[] = "\u2771"; /* three bytes each */
    bool is_boxed = log_begins_with(text, size, bar), goes_on = trace->statement_is_open;
    size_t at = is_boxed ? 3 : 0;
    while (at < size && text[at] == ' ')
        at++;
    while (size > at && (text[size - 1] == ' ' || (size >= at + 3 && memcmp(text + size - 3, bar, 3) == 0)))
        size -= text[size - 1] == ' ' ? 1 : 3;
    if (is_boxed && log_begins_with(text + at, size - at, mark))
        trace->statement_is_open = memmem(text + at, size - at, "raise ", 6) != NULL && text[size - 1] == '(';
    if (!is_boxed || at == size || !isdigit((unsigned char)text[at]))
        return false;
    trace->statement_is_open &= text[size - 1] != ')';
    return !goes_on;
}

/* Parses a frame in rich's box. A long frame continues on the next line. */
static bool parse_boxed(log_traces *t, const char *text, size_t size, log_frame *frame)
{
    const char *inside = text;
    size_t n = size, at = strlen(t->boxed);
    strip_border(&inside, &n);
    while (n > 0 && *inside == ' ') {
        inside++;
        n--;
    }
    bool is_inside = inside > text && n > 0, begins = is_inside && is_full_path(inside, n);
    if (!is_inside || (at == 0 && !begins)) {
        t->boxed[0] = '\0';
        return false;
    }
    at = begins ? 0 : at;
    bool space = at >= 3 && memcmp(t->boxed + at - 3, " in", 3) == 0;
    snprintf(t->boxed + at, sizeof(t->boxed) - at, "%s%.*s", space ? " " : "", (int)(n < 200 ? n : 200), inside);
    if (!log_parse_frame(t->boxed, strlen(t->boxed), frame) || frame->function[0] == '\0')
        return false;
    t->boxed[0] = '\0';
    return true;
}

static log_trace_part take_frame(log_traces *t, log_trace *trace, const log_who *speaker, const log_frame *frame,
                                 int64_t number, int indent)
{
    if (trace == NULL || trace->state != LOG_TRACE_FRAMES)
        trace = open_trace(t, speaker, number, indent >= 2 ? indent - 2 : -1); /* the head is missing */
    if (indent == 0)
        trace->indent = -1; /* the log has lost the blanks at the beginning of lines */
    add_frame(trace, frame);
    trace->code[0] = '\0';
    trace->last = t->last = number;
    t->current = trace;
    return LOG_TRACE_FRAME;
}

log_trace_part log_traces_take(log_traces *t, const char *line, size_t size, int64_t number, const log_who *speaker)
{
    size_t begin = log_text_begin(line, size), blanks = begin;
    begin = begin < size ? begin : size;
    while (blanks > 0 && (line[blanks - 1] == ' ' || line[blanks - 1] == '\t'))
        blanks--;
    int indent = (int)(begin - blanks);
    const char *text = line + begin;
    size_t n = size - begin;
    log_frame frame;
    log_trace *trace = find_trace(t, speaker, number);
    t->current = NULL;
    if (tess_text_has(text, n, TESS_WORD_IN, "Traceback (most recent call last)")) {
        t->current = open_trace(t, speaker, number, indent);
        t->current->has_head = true;
        t->last = number;
        return LOG_TRACE_HEAD;
    }
    bool is_boxed = parse_boxed(t, text, n, &frame);
    if (!is_boxed && t->boxed[0] != '\0')
        return LOG_TRACE_NONE;
    if (is_boxed || log_parse_frame(text, n, &frame))
        return take_frame(t, trace, speaker, &frame, number, indent);
    if (trace == NULL)
        return LOG_TRACE_NONE;
    t->current = trace;
    if (trace->state == LOG_TRACE_FRAMES) {
        if (is_context(trace, text, n))
            return LOG_TRACE_CONTEXT;
        if (!is_error_line(trace, indent, text, n, number)) {
            if (trace->n_frames > 0 && trace->code[0] == '\0')
                tess_clean(text, n < 400 ? n : 400, trace->code, sizeof(trace->code));
            return LOG_TRACE_NONE;
        }
        end_frames(trace, text, n, number);
        trace->last = t->last = number;
        return LOG_TRACE_ERROR;
    }
    if (take_chain(trace, text, n))
        return LOG_TRACE_CHAINED;
    if (number - trace->error > MOST_MESSAGE || (is_blank(text, n) && number > trace->error + 1) ||
        log_has_time(line, size) || trace->chain != LOG_CHAIN_NONE)
        return LOG_TRACE_NONE;
    return LOG_TRACE_REST;
}

bool log_traces_are_near(const log_traces *t, int64_t number)
{
    return t->boxed[0] != '\0' || (t->last > 0 && number - t->last <= MOST_BETWEEN);
}

/* ---- The meaning of a trace ---- */
static const char *after_last(const char *path, const char *words)
{
    const char *last = NULL;
    for (const char *at = path; (at = strstr(at, words)) != NULL; at += strlen(words))
        last = at + strlen(words);
    return last;
}

static bool is_of_library(const log_frame *frame)
{
    return tess_text_has(frame->path, strlen(frame->path), TESS_WORD_IN,
                         "site-packages/|dist-packages/|/lib/python|<frozen |<string>");
}

void log_trace_place(const log_trace *trace, char *text, size_t size)
{
    const log_frame *frame = NULL;
    text[0] = '\0';
    for (int i = trace->n_frames - 1; i >= 0 && frame == NULL; i--)
        if (!is_of_library(&trace->frames[i]))
            frame = &trace->frames[i];
    if (trace->n_frames == 0)
        return;
    frame = frame != NULL ? frame : &trace->frames[trace->n_frames - 1];
    const char *name = is_of_library(frame) ? after_last(frame->path, "-packages/") : NULL;
    char clean[160];
    if (name == NULL)
        name = after_last(frame->path, "/");
    name = name != NULL ? name : frame->path;
    tess_clean(name, strlen(name), clean, sizeof(clean));
    snprintf(text, size, "%.100s:%d%s%.60s", clean, frame->line, frame->function[0] != '\0' ? " in " : "",
             frame->function);
}

bool log_raised_text(const log_trace *trace, char *text, size_t size)
{
    static const char raise[] = "raise ";
    const char *name = trace->code + strlen(raise), *open = strchr(trace->code, '(');
    if (strncmp(trace->code, raise, strlen(raise)) != 0 || open == NULL || open <= name)
        return false;
    bool is_formatted = open[1] == 'f' || open[1] == 'F';
    const char *quote = open + 1 + is_formatted,
               *end = *quote == '"' || *quote == '\'' ? strchr(quote + 1, *quote) : NULL;
    if (end == NULL || end - quote < 6 || (is_formatted && memchr(quote, '{', (size_t)(end - quote)) != NULL))
        return false;
    snprintf(text, size, "%.*s: %.*s", (int)(open - name), name, (int)(end - quote - 1), quote + 1);
    return true;
}

size_t log_trace_frames(const log_trace *trace, char *text, size_t size)
{
    size_t at = tess_text_add(text, size, 0, "%s\n", trace->phase != NULL ? trace->phase : "");
    for (int i = trace->n_frames - 1; i >= 0; i--)
        at = tess_text_add(text, size, at, "%s %s\n", trace->frames[i].path, trace->frames[i].function);
    return at;
}
