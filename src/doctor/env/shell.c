/* Reads the assignments in a shell script or in lines NAME=VALUE. The text is only data: nothing is executed. A
 * value that only a shell could compute, such as $(hostname), is passed on unexpanded and marked. */
#include <ctype.h>
#include <string.h>

#include "doctor/env/env_impl.h"

enum {
    MOST_OPEN = 32,    /* quotes and braces nested in each other; deeper nesting ends the line */
    MOST_KNOWN = 1024, /* assignments that are kept for later uses of $NAME */
    WINDOW = 16,       /* number of consecutive slots that may hold a given name */
};

/* A range of the text. */
typedef struct slice {
    const char *at, *end;
} slice;

typedef struct reader {
    const char *text;
    char *copy; /* copy of the text, in which a 0 byte is written after each name and value */
    env_found found;
    void *context;
    struct known {
        const char *name;  /* NULL: the slot is free */
        const char *value; /* NULL: only a shell could compute it */
    } known[MOST_KNOWN];
} reader;

static size_t name_length(slice text)
{
    size_t n = 0, size = (size_t)(text.end - text.at);
    if (size > 0 && isdigit((unsigned char)*text.at))
        return 0;
    while (n < size && (isalnum((unsigned char)text.at[n]) || text.at[n] == '_'))
        n++;
    return n;
}

/* Whether a word ends before the character `c`; `c` may be 0. */
static bool is_separator(char c)
{
    return isspace((unsigned char)c) || strchr(";&|()<>", c) != NULL;
}

/* Returns the end of the construct that is open at text.at: of a word if `close` is 0, otherwise of the group that
 * `close` ends. Returns the end of the text if the construct is not closed. */
static const char *find_end(slice text, char close)
{
    char open[MOST_OPEN] = {close};
    size_t n = close != 0;
    for (const char *at = text.at; at < text.end; at++) {
        char top = n > 0 ? open[n - 1] : 0, next = at + 1 < text.end ? at[1] : 0, opens = 0;
        if (top != '\'' && *at == '\\') {
            at++;
            continue;
        }
        if (n > 0 && *at == top) {
            if (--n == 0 && close != 0)
                return at;
            continue;
        }
        if (top == '\'')
            continue;
        if (n == 0 && is_separator(*at))
            return at;
        if (*at == '"' || *at == '`' || (*at == '\'' && top != '"'))
            opens = *at;
        else if (*at == '$' && (next == '{' || next == '('))
            opens = next == '{' ? '}' : ')';
        else if (*at == '(' && top == ')')
            opens = ')';
        if (opens == 0)
            continue;
        if (n == MOST_OPEN)
            return text.end;
        open[n++] = opens;
        at += *at == '$';
    }
    return text.end;
}

/* Returns the address in the copy that belongs to a range of the text. */
static char *copy_of(const reader *r, const char *at)
{
    return r->copy + (at - r->text);
}

/* Copies a literal without its quotes and backslashes. Returns the copy. */
static char *unquote(const reader *r, slice text)
{
    char quote = 0, *copy = copy_of(r, text.at), *to = copy;
    for (const char *at = text.at; at < text.end; at++) {
        if (quote != '\'' && *at == '\\' && at + 1 < text.end)
            *to++ = *++at;
        else if (quote == 0 && (*at == '"' || *at == '\''))
            quote = *at;
        else if (quote != 0 && *at == quote)
            quote = 0;
        else
            *to++ = *at;
    }
    *to = '\0';
    return copy;
}

/* The state of a walk over the parts of a text that a shell would replace. */
typedef struct expansion_walk {
    const char *at, *end;
    bool single, twice; /* inside single quotes; inside double quotes */
} expansion_walk;

/* Returns the next '$' or '`' that has a meaning: it is neither in single quotes nor after a backslash. Returns NULL
 * if there are no more. */
static const char *next_expansion(expansion_walk *walk)
{
    while (walk->at < walk->end) {
        const char *at = walk->at++;
        if (*at == '\'' && !walk->twice)
            walk->single = !walk->single;
        else if (!walk->single && *at == '"')
            walk->twice = !walk->twice;
        else if (!walk->single && *at == '\\')
            walk->at++;
        else if (!walk->single && (*at == '$' || *at == '`'))
            return at;
    }
    return NULL;
}

/* Whether a shell would replace something in a range of the text. */
static bool has_expansion(slice text)
{
    return next_expansion(&(expansion_walk){.at = text.at, .end = text.end}) != NULL;
}

/* ${NAME}, ${NAME:-WORD}, ${NAME-WORD}, ${NAME:=WORD}, ${NAME=WORD}, $NAME */
typedef struct expansion {
    slice name, word;
    bool has_word;
    bool assigns;    /* whether the operator is := or = */
    const char *end; /* word after the operator; NULL: the text has another form */
} expansion;

static expansion read_expansion(slice text)
{
    expansion e = {.end = NULL};
    bool braces = text.end - text.at > 1 && text.at[1] == '{';
    slice inner = {text.at + 1 + braces, text.end};
    size_t n = name_length(inner);
    e.name = (slice){inner.at, inner.at + n};
    if (n == 0 || !braces) {
        e.end = n > 0 ? e.name.end : NULL;
        return e;
    }
    inner.end = find_end(inner, '}');
    const char *at = e.name.end;
    if (inner.end == text.end)
        return e;
    if (at + 1 < inner.end && *at == ':' && (at[1] == '-' || at[1] == '='))
        at++;
    if (at < inner.end && *at != '-' && *at != '=')
        return e;
    e.has_word = at < inner.end;
    e.assigns = e.has_word && *at == '=';
    e.word = (slice){e.has_word ? at + 1 : at, inner.end};
    e.end = inner.end + 1;
    return e;
}

/* Returns the text inside a pair of quotes that encloses all of it, or the text itself if there is no such pair. */
static slice inside_quotes(slice text)
{
    if (text.end - text.at < 2 || *text.at != '"')
        return text;
    slice inner = {text.at + 1, text.end};
    inner.end = find_end(inner, '"');
    return inner.end + 1 == text.end ? inner : text;
}

/* Returns the slot of a name: the slot that holds it, else a free one, else the slot of an older name, which is then
 * forgotten. */
static struct known *place_of(reader *r, slice name)
{
    size_t n = (size_t)(name.end - name.at), first = 5381;
    for (size_t i = 0; i < n; i++)
        first = first * 33 + (unsigned char)name.at[i];
    for (size_t i = 0; i < WINDOW; i++) {
        struct known *place = &r->known[(first + i) % MOST_KNOWN];
        if (place->name == NULL || (strncmp(place->name, name.at, n) == 0 && place->name[n] == '\0'))
            return place;
    }
    struct known *oldest = &r->known[first % MOST_KNOWN];
    *oldest = (struct known){.name = NULL};
    return oldest;
}

/* Returns the value of a word, or NULL if only a shell could compute it. If the word has a default for an unset
 * variable, the default is used for variables that the text does not set or sets to nothing. */
static const char *resolve(reader *r, slice text)
{
    for (int depth = 0; depth < MOST_OPEN; depth++) {
        if (!has_expansion(text))
            return unquote(r, text);
        text = inside_quotes(text);
        expansion e = *text.at == '$' ? read_expansion(text) : (expansion){.end = NULL};
        if (e.end != text.end)
            return NULL;
        const struct known *known = place_of(r, e.name);
        if (known->name != NULL ? known->value == NULL : !e.has_word)
            return NULL;
        if (known->name != NULL && (*known->value != '\0' || !e.has_word))
            return known->value;
        text = e.word;
    }
    return NULL;
}

/* Passes on one assignment. `value` is the resolved value; if it is NULL, `word` is passed on unexpanded. */
static tess_status pass_on(reader *r, slice name, slice word, const char *value)
{
    *copy_of(r, name.end) = '\0';
    if (value == NULL)
        *copy_of(r, word.end) = '\0';
    *place_of(r, name) = (struct known){.name = copy_of(r, name.at), .value = value};
    return r->found(r->context, copy_of(r, name.at), value != NULL ? value : copy_of(r, word.at), value == NULL);
}

/* Finds the assignments ${NAME:=WORD} inside a word. */
static tess_status read_defaults(reader *r, slice word)
{
    expansion_walk walk = {.at = word.at, .end = word.end};
    for (const char *at; (at = next_expansion(&walk)) != NULL;) {
        expansion e = *at == '$' ? read_expansion((slice){at, word.end}) : (expansion){.end = NULL};
        if (e.end != NULL && e.assigns)
            TESS_TRY(pass_on(r, e.name, e.word, resolve(r, e.word)));
    }
    return TESS_OK;
}

static tess_status read_script_line(reader *r, slice line)
{
    while (line.at < line.end) {
        if (is_separator(*line.at)) {
            line.at++;
            continue;
        }
        if (*line.at == '#')
            return TESS_OK;
        slice word = {line.at, find_end(line, 0)};
        size_t n = name_length(word);
        line.at = word.end;
        TESS_TRY(read_defaults(r, word));
        if (n > 0 && word.at + n < word.end && word.at[n] == '=') {
            slice value = {word.at + n + 1, word.end};
            TESS_TRY(pass_on(r, (slice){word.at, word.at + n}, value, resolve(r, value)));
        }
    }
    return TESS_OK;
}

/* Finds the comment after a value. Returns NULL if there is none. */
static const char *find_comment(slice value)
{
    for (const char *at = value.at; at + 1 < value.end; at++)
        if (at[0] == ' ' && at[1] == '#')
            return at;
    return NULL;
}

/* Reads a line NAME=VALUE, as `env` prints it or a file of variables holds it; the value may contain blanks. */
static tess_status read_plain_line(reader *r, slice line)
{
    while (line.at < line.end && isspace((unsigned char)*line.at))
        line.at++;
    size_t n = name_length(line);
    if (n == 0 || line.at + n == line.end || line.at[n] != '=')
        return TESS_OK;
    slice name = {line.at, line.at + n}, value = {line.at + n + 1, line.end};
    char first = value.at < value.end ? *value.at : 0;
    const char *close = NULL;
    if (first == '"' || first == '\'')
        close = memchr(value.at + 1, first, (size_t)(value.end - value.at - 1));
    const char *comment = close == NULL ? find_comment(value) : NULL;
    if (close != NULL)
        value.end = close + 1;
    else if (comment != NULL)
        value.end = comment;
    while (value.end > value.at && isspace((unsigned char)value.end[-1]))
        value.end--;
    if (close != NULL || first == '$')
        return pass_on(r, name, value, resolve(r, value));
    *copy_of(r, value.end) = '\0';
    return pass_on(r, name, value, copy_of(r, value.at));
}

/* Whether a line begins with a word that occurs only in scripts. */
static bool is_of_script(slice line)
{
    static const char *const words[] = {"#!",      ":",      "export", "declare", "typeset", "readonly", "source",
                                        "env",     "ENV",    "mpirun", "mpiexec", "srun",    "torchrun", "python",
                                        "python3", "docker", "exec",   "nohup",   "if",      "set",      "cd"};
    while (line.at < line.end && isspace((unsigned char)*line.at))
        line.at++;
    size_t size = (size_t)(line.end - line.at);
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        size_t n = strlen(words[i]);
        if (size > n && strncmp(line.at, words[i], n) == 0 && (line.at[n] == ' ' || words[i][0] == '#'))
            return true;
    }
    return false;
}

static slice line_at(const char *at, const char *end)
{
    const char *next = memchr(at, '\n', (size_t)(end - at));
    return (slice){at, next != NULL ? next : end};
}

static const char *line_after(slice line, const char *end)
{
    return line.end < end ? line.end + 1 : end;
}

tess_status env_read_lines(const char *text, size_t size, char *copy, env_found found, void *context)
{
    reader r = {.text = text, .copy = copy, .found = found, .context = context};
    const char *end = text + size;
    bool script = false;
    for (const char *at = text; at < end && !script; at = line_after(line_at(at, end), end))
        script = is_of_script(line_at(at, end));
    for (const char *at = text; at < end; at = line_after(line_at(at, end), end)) {
        slice line = line_at(at, end);
        if (line.end > line.at && line.end[-1] == '\r')
            line.end--;
        TESS_TRY(script ? read_script_line(&r, line) : read_plain_line(&r, line));
    }
    return TESS_OK;
}
