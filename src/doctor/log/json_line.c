/* Reads lines that are one JSON object each: the texts of the object's messages, and who wrote them. Loggers use
 * different field names, so fields are recognized by the common names, at any depth. */
#include <stdio.h>
#include <string.h>

#include "base/text/json.h"
#include "doctor/log/log_impl.h"

enum { MOST_DEPTH = 4, MOST_TEXTS = 8 };

typedef enum field_kind { FIELD_NONE, FIELD_TEXT, FIELD_RANK, FIELD_LOCAL_RANK, FIELD_HOST, FIELD_PID } field_kind;

typedef struct json_line {
    const char *texts[MOST_TEXTS]; /* point into the JSON document */
    int n_texts;
    int local_rank; /* -1: none */
    log_who who;
} json_line;

static field_kind kind_of(const char *key)
{
    static const char *const names[] = {
        [FIELD_TEXT] = "message|msg|log|text|event|body|textpayload|exc_info|exception|traceback|py_callstack|"
                       "stack_trace|stack|error",
        [FIELD_RANK] = "rank|global_rank",
        [FIELD_LOCAL_RANK] = "local_rank",
        [FIELD_HOST] = "host|hostname|node|node_name|pod|pod_name|host_name",
        [FIELD_PID] = "pid|process_id",
    };
    int kind = FIELD_PID;
    while (kind > FIELD_NONE && !tess_text_has(key, strlen(key), TESS_WORD_IS + TESS_WORD_CASELESS, names[kind]))
        kind--;
    return (field_kind)kind;
}

/* Returns a number that is given as a number or as text; -1: it is neither. */
static int number_of(const json_t *value)
{
    if (json_is_integer(value))
        return json_integer_value(value) >= 0 && json_integer_value(value) <= INT32_MAX ? (int)json_integer_value(value)
                                                                                        : -1;
    const char *text = json_string_value(value);
    size_t n = text != NULL ? strspn(text, "0123456789") : 0;
    int number = -1;
    return n > 0 && n < 9 && text[n] == '\0' && sscanf(text, "%d", &number) == 1 ? number : -1;
}

static void take_field(json_line *out, field_kind kind, const json_t *value)
{
    const char *text = json_string_value(value);
    int number = kind >= FIELD_RANK ? number_of(value) : -1;
    if (kind == FIELD_TEXT && text != NULL && out->n_texts < MOST_TEXTS)
        out->texts[out->n_texts++] = text;
    else if (kind == FIELD_HOST && text != NULL && out->who.host[0] == '\0' &&
             log_is_host(text, strlen(text), LOG_HOST_EXPECTED))
        snprintf(out->who.host, sizeof(out->who.host), "%s", text);
    else if (kind == FIELD_RANK && number >= 0 && number < LOG_MOST_RANKS) {
        out->who.ranks[0] = number;
        out->who.n_ranks = 1;
    } else if (kind == FIELD_LOCAL_RANK && number >= 0 && number < LOG_MOST_RANKS)
        out->local_rank = number;
    else if (kind == FIELD_PID && number > 0)
        out->who.pid = number;
}

static void take_object(json_line *out, json_t *object, int depth)
{
    const char *key;
    json_t *value;
    json_object_foreach (object, key, value) {
        if (json_is_object(value) && depth < MOST_DEPTH)
            take_object(out, value, depth + 1);
        else
            take_field(out, kind_of(key), value);
    }
}

/* Parses the object of a line, also after a prefix such as kubectl's. Returns NULL if there is none. */
static json_t *parse(const char *line, size_t size)
{
    const char *begin = memchr(line, '{', size < LOG_HEAD ? size : LOG_HEAD);
    json_t *object = NULL;
    while (size > 0 && strchr(" \t\r", line[size - 1]) != NULL && line[size - 1] != '\0')
        size--;
    if (begin == NULL || size == 0 || line[size - 1] != '}' ||
        tess_json_parse(begin, (size_t)(line + size - begin), "a line", false, &object) != TESS_OK)
        return NULL;
    return object;
}

tess_status log_read_json(const char *line, size_t size, log_text_fn take, void *context, bool *is_json)
{
    json_line found = {.local_rank = -1};
    json_t *object = parse(line, size);
    if (object != NULL)
        take_object(&found, object, 0);
    *is_json = found.n_texts > 0;
    if (found.who.n_ranks == 0 && found.local_rank >= 0) {
        found.who.ranks[0] = found.local_rank;
        found.who.n_ranks = 1;
        found.who.is_local = true;
    }
    tess_status status = TESS_OK;
    for (int i = 0; i < found.n_texts; i++)
        for (const char *at = found.texts[i]; *at != '\0' && status == TESS_OK;) {
            size_t n = strcspn(at, "\n");
            status = take(context, at, n, &found.who);
            at += n + (at[n] == '\n');
        }
    json_decref(object);
    return status;
}
