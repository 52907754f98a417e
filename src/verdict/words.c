#include "verdict/words.h"

#include <stdarg.h>
#include <stdio.h>

tess_words tess_words_begin(char *text, size_t size)
{
    text[0] = '\0';
    return (tess_words){.text = text, .size = size};
}

void tess_words_add(tess_words *words, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int written = vsnprintf(words->text + words->at, words->size - words->at, format, arguments);
    va_end(arguments);
    size_t room = words->size - words->at;
    if (written > 0)
        words->at += (size_t)written < room ? (size_t)written : room - 1;
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
