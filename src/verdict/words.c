#include "verdict/words.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

tess_words tess_words_begin(char *text, size_t size)
{
    text[0] = '\0';
    return (tess_words){.text = text, .size = size};
}

static void add(tess_words *words, const char *format, va_list arguments)
{
    size_t room = words->size - words->at;
    int written = vsnprintf(words->text + words->at, room, format, arguments);
    if (written > 0)
        words->at += (size_t)written < room ? (size_t)written : room - 1;
}

void tess_words_add(tess_words *words, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    add(words, format, arguments);
    va_end(arguments);
}

void tess_words_ranks(tess_words *words, const int *ranks, int n)
{
    enum { MOST_RUNS = 8 };
    int n_runs = 0;
    tess_words_add(words, n == 1 ? "rank" : "ranks");
    for (int i = 0; i < n; n_runs++) {
        int end = i + 1;
        while (end < n && ranks[end] == ranks[end - 1] + 1)
            end++;
        if (n_runs == MOST_RUNS) {
            tess_words_add(words, " and %d more", n - i);
            return;
        }
        if (end - i > 2) {
            tess_words_add(words, " %d-%d", ranks[i], ranks[end - 1]);
        } else {
            end = i + 1;
            tess_words_add(words, " %d", ranks[i]);
        }
        i = end;
    }
}

/* ---- Sentences ----------------------------------------------------------------------------------------------------
 */
tess_words tess_fields_add(tess_fields *fields, const char *name, int n)
{
    int at = fields->n++;
    fields->list[at].name = name;
    fields->list[at].n = n;
    return tess_words_begin(fields->list[at].text, sizeof(fields->list[at].text));
}

void tess_fields_put(tess_fields *fields, const char *name, int n, const char *format, ...)
{
    tess_words words = tess_fields_add(fields, name, n);
    va_list arguments;
    va_start(arguments, format);
    add(&words, format, arguments);
    va_end(arguments);
}

/* Adds the field in braces that begins at `sentence`; false: it is empty. */
static bool fill_field(tess_words *words, const char *sentence, const tess_fields *fields)
{
    size_t n_name = strcspn(++sentence, ":}"), n_one = 0;
    const char *one = sentence + n_name + 1;
    int i = 0;
    while (i < fields->n && (strncmp(fields->list[i].name, sentence, n_name) != 0 || fields->list[i].name[n_name] != 0))
        i++;
    if (i == fields->n)
        return false;
    if (sentence[n_name] == '}') {
        tess_words_add(words, "%s", fields->list[i].text);
        return fields->list[i].text[0] != '\0';
    }
    n_one = strcspn(one, "|");
    const char *word = fields->list[i].n == 1 ? one : one + n_one + 1;
    tess_words_add(words, "%.*s", (int)strcspn(word, "|}"), word);
    return true;
}

/* Up to `end`; returns where that is. *whole: no field was empty. */
static const char *fill_to(tess_words *words, const char *at, char end, const tess_fields *fields, bool *whole)
{
    *whole = true;
    while (*at != end) {
        size_t begin = words->at, n = strcspn(at, "{[]");
        bool part = true;
        tess_words_add(words, "%.*s", (int)n, at);
        at += n;
        if (*at == '{') {
            *whole &= fill_field(words, at, fields);
            at = strchr(at, '}') + 1;
        } else if (*at == '[') {
            begin = words->at;
            at = fill_to(words, at + 1, ']', fields, &part) + 1;
        }
        if (!part)
            words->text[words->at = begin] = '\0';
    }
    return at;
}

void tess_words_fill(tess_words *words, const char *sentence, const tess_fields *fields)
{
    bool whole;
    fill_to(words, sentence, '\0', fields, &whole);
}
