#include "diagnosis/sentence.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/report/form.h"
#include "base/text/json.h"

tess_sentence tess_sentence_begin(char *text, size_t size)
{
    text[0] = '\0';
    return (tess_sentence){.text = text, .size = size};
}

static void add(tess_sentence *words, const char *format, va_list arguments)
{
    size_t room = words->size - words->at;
    int written = vsnprintf(words->text + words->at, room, format, arguments);
    if (written > 0)
        words->at += (size_t)written < room ? (size_t)written : room - 1;
}

void tess_sentence_add(tess_sentence *words, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    add(words, format, arguments);
    va_end(arguments);
}

void tess_sentence_ranks(tess_sentence *words, const int *ranks, int n)
{
    enum { MOST_RUNS = 8 };
    int n_runs = 0;
    tess_sentence_add(words, n == 1 ? "rank" : "ranks");
    for (int i = 0; i < n; n_runs++) {
        int end = i + 1;
        while (end < n && ranks[end] == ranks[end - 1] + 1)
            end++;
        if (n_runs == MOST_RUNS) {
            tess_sentence_add(words, " and %d more", n - i);
            return;
        }
        if (end - i > 2) {
            tess_sentence_add(words, " %d-%d", ranks[i], ranks[end - 1]);
        } else {
            end = i + 1;
            tess_sentence_add(words, " %d", ranks[i]);
        }
        i = end;
    }
}

void tess_sentence_continue(tess_sentence *words, int pid, const char *host, const char **last)
{
    if (pid <= 0)
        return;
    if (*last == NULL || strcmp(*last, host) != 0)
        tess_sentence_add(words, "%s%s%s%skill -CONT", *last != NULL ? ", " : "", host[0] != '\0' ? "on host " : "",
                          host, host[0] != '\0' ? " " : "");
    *last = host;
    tess_sentence_add(words, " %d", pid);
}

/* ---- Sentences ---- */
tess_sentence tess_fields_add(tess_fields *fields, const char *name, int n)
{
    int at = fields->n < TESS_FIELDS ? fields->n++ : TESS_FIELDS - 1;
    fields->list[at].name = name;
    fields->list[at].n = n;
    return tess_sentence_begin(fields->list[at].text, sizeof(fields->list[at].text));
}

void tess_fields_put(tess_fields *fields, const char *name, int n, const char *format, ...)
{
    tess_sentence words = tess_fields_add(fields, name, n);
    va_list arguments;
    va_start(arguments, format);
    add(&words, format, arguments);
    va_end(arguments);
}

/* The field that was put first counts if two have one name. Without memory, the sentence lacks its fields. */
void tess_sentence_fill(tess_sentence *words, const char *sentence, const tess_fields *fields)
{
    char count[64];
    json_t *members = json_object();
    for (int i = fields->n - 1; i >= 0; i--) {
        snprintf(count, sizeof(count), "n_%s", fields->list[i].name);
        json_object_set_new(members, fields->list[i].name, tess_json_text(fields->list[i].text));
        json_object_set_new(members, count, json_integer(fields->list[i].n));
    }
    tess_buffer out = {.data = words->text, .size = words->at, .capacity = words->size};
    if (tess_form_fill(&out, sentence, members) != TESS_OK)
        tess_error_clear();
    words->at = out.size;
    json_decref(members);
}
