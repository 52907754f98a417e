/* Reads ranks from texts and paths: "rank 6", "rank-00006.log", torchrun's folders. */
#include "doctor/log/origin/origin_impl.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

/* Whether the word at `at` is part of a longer name: "local_rank=1", "--node-rank=1", "local rank 1". */
static bool is_of_name(const char *line, size_t at)
{
    char before = at > 0 ? line[at - 1] : ' ';
    if (before == '-')
        return at > 1 && isalnum((unsigned char)line[at - 2]);
    return before == '_' || isalnum((unsigned char)before) || (at >= 6 && strncasecmp(line + at - 6, "local ", 6) == 0);
}

int log_rank_text(const char *line, size_t size)
{
    static const char *const words[] = {"rank ", "rank="};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        for (size_t at = 0, n = strlen(words[i]), end; at + n < size; at++) {
            int rank = strncasecmp(line + at, words[i], n) == 0 && !is_of_name(line, at)
                           ? origin_number_at(line, size, at + n, &end)
                           : -1;
            if (rank >= 0)
                return rank;
        }
    return -1;
}

int log_rank_of_path(const char *path)
{
    size_t n = strlen(path), end;
    const char *last = NULL;
    for (const char *at = path; (at = strcasestr(at, "rank")) != NULL; at += 4)
        if (isdigit((unsigned char)at[4 + strspn(at + 4, "-_.")]))
            last = at + 4 + strspn(at + 4, "-_.");
    if (last != NULL)
        return origin_number_at(path, n, (size_t)(last - path), &end);
    const char *name = strrchr(path, '/'), *folder = name;
    if (name == NULL || (strcmp(name, "/stderr.log") != 0 && strcmp(name, "/stdout.log") != 0))
        return -1;
    while (folder > path && folder[-1] != '/')
        folder--;
    int rank = origin_number_at(path, n, (size_t)(folder - path), &end);
    return path + end == name ? rank : -1;
}
