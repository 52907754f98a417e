/* Reads numbers and names at the beginning of a line, for the readers of prefixes. */
#include "doctor/log/origin/origin_impl.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

int origin_number_at(const char *text, size_t size, size_t at, size_t *end)
{
    int number = -1;
    size_t i = at;
    for (; i < size && i < at + 6 && isdigit((unsigned char)text[i]); i++)
        number = (number < 0 ? 0 : number) * 10 + (text[i] - '0');
    *end = i;
    return number < LOG_MOST_RANKS ? number : -1;
}

int origin_number_wide(const char *text, size_t size)
{
    int number = 0;
    for (size_t i = 0; i < size && i < 9 && isdigit((unsigned char)text[i]); i++)
        number = number * 10 + (text[i] - '0');
    return number;
}

int origin_number_after(const char *text, size_t size, const char *word, char after)
{
    size_t n = strlen(word), end;
    for (size_t at = 0; at + n < size; at++) {
        if (strncasecmp(text + at, word, n) != 0)
            continue;
        int rank = origin_number_at(text, size, at + n, &end);
        if (rank >= 0 && (after == '\0' || (end < size && text[end] == after)))
            return rank;
    }
    return -1;
}

void origin_copy(char *out, size_t out_size, const char *text, size_t size)
{
    snprintf(out, out_size, "%.*s", (int)(size < out_size ? size : out_size - 1), text);
}

size_t origin_copy_head(const char *line, size_t size, char *head, size_t head_size)
{
    size_t n = size < head_size - 1 ? size : head_size - 1;
    for (size_t i = 0; i < n; i++)
        head[i] = line[i] != '\0' ? line[i] : '?';
    head[n] = '\0';
    return n;
}

bool log_is_host_char(char c)
{
    return isalnum((unsigned char)c) || c == '-' || c == '.' || c == '_';
}

void origin_set_rank(log_who *who, int rank)
{
    if (rank < 0 || who->n_ranks > 0)
        return;
    who->ranks[0] = rank;
    who->n_ranks = 1;
}
