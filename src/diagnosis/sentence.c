#include "diagnosis/sentence.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

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

/* Appends the text of "{name}" or "{name:one|more}"; `name` begins after the brace. Returns false if the field is
 * empty. */
static bool fill_field(tess_sentence *words, const char *name, const tess_fields *fields)
{
    size_t size = strcspn(name, ":}");
    int i = 0;
    while (i < fields->n && (strlen(fields->list[i].name) != size || strncmp(fields->list[i].name, name, size) != 0))
        i++;
    if (i == fields->n)
        return false;
    if (name[size] == '}') {
        tess_sentence_add(words, "%s", fields->list[i].text);
        return fields->list[i].text[0] != '\0';
    }
    const char *word = name + size + 1;
    if (fields->list[i].n != 1)
        word += strcspn(word, "|") + 1;
    tess_sentence_add(words, "%.*s", (int)strcspn(word, "|}"), word);
    return true;
}

/* Fills in the sentence up to the character `end`, and returns its position. *whole: no field in it was empty. */
static const char *fill_to(tess_sentence *words, const char *at, char end, const tess_fields *fields, bool *whole)
{
    *whole = true;
    while (*at != end) {
        size_t n = strcspn(at, "{[]");
        tess_sentence_add(words, "%.*s", (int)n, at);
        at += n;
        if (*at == '{') {
            *whole = fill_field(words, at + 1, fields) && *whole;
            at = strchr(at, '}') + 1;
        } else if (*at == '[') {
            size_t begin = words->at;
            bool part_is_whole;
            at = fill_to(words, at + 1, ']', fields, &part_is_whole) + 1;
            words->at = part_is_whole ? words->at : begin;
            words->text[words->at] = '\0';
        }
    }
    return at;
}

void tess_sentence_fill(tess_sentence *words, const char *sentence, const tess_fields *fields)
{
    bool whole;
    fill_to(words, sentence, '\0', fields, &whole);
}
