#include "doctor/log/log_impl.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* The number at text[at..size); -1: none, or no rank. */
static int number_at(const char *text, size_t size, size_t at, size_t *end)
{
    int number = -1;
    size_t i = at;
    for (; i < size && i < at + 6 && isdigit((unsigned char)text[i]); i++)
        number = (number < 0 ? 0 : number) * 10 + (text[i] - '0');
    *end = i;
    return number < LOG_MOST_RANKS ? number : -1;
}

/* The number behind the first `word` (letters of either case) that `behind` follows ('\0': anything). */
static int number_behind(const char *text, size_t size, const char *word, char behind)
{
    size_t n = strlen(word), end;
    for (size_t at = 0; at + n < size; at++) {
        if (strncasecmp(text + at, word, n) != 0)
            continue;
        int rank = number_at(text, size, at + n, &end);
        if (rank >= 0 && (behind == '\0' || (end < size && text[end] == behind)))
            return rank;
    }
    return -1;
}

int log_rank_of_line(const char *line, size_t size)
{
    static const char *const brackets[] = {"[rank", "[rank ", " rank ", "[default"};
    size_t end;
    if (size > LOG_HEAD)
        size = LOG_HEAD;
    for (int i = 0; i < 4; i++) {
        int rank = number_behind(line, size, brackets[i], ']');
        if (rank >= 0)
            return rank;
    }
    if (size > 2 && line[0] == '[') { /* "[1,6]<stderr>:" and "[6] " */
        const char *comma = memchr(line, ',', size < 12 ? size : 12);
        int rank = number_at(line, size, comma != NULL ? (size_t)(comma - line) + 1 : 1, &end);
        if (rank >= 0 && end + 1 < size && line[end] == ']' && line[end + 1] == (comma != NULL ? '<' : ' '))
            return rank;
    }
    int rank = number_at(line, size, 0, &end);
    return rank >= 0 && end + 1 < size && line[end] == ':' && line[end + 1] == ' ' ? rank : -1;
}

int log_rank_text(const char *line, size_t size)
{
    int rank = number_behind(line, size, "rank ", '\0');
    return rank >= 0 ? rank : number_behind(line, size, "rank=", '\0');
}

int log_rank_of_path(const char *path)
{
    size_t n = strlen(path), end;
    const char *last = NULL;
    for (const char *at = path; (at = strcasestr(at, "rank")) != NULL; at += 4)
        if (isdigit((unsigned char)at[4 + strspn(at + 4, "-_.")]))
            last = at + 4 + strspn(at + 4, "-_.");
    if (last != NULL)
        return number_at(path, n, (size_t)(last - path), &end);
    const char *name = strrchr(path, '/'), *folder = name;
    if (name == NULL || (strcmp(name, "/stderr.log") != 0 && strcmp(name, "/stdout.log") != 0))
        return -1;
    while (folder > path && folder[-1] != '/')
        folder--;
    int rank = number_at(path, n, (size_t)(folder - path), &end);
    return path + end == name ? rank : -1;
}

static double seconds(int month, int day, int hour, int minute, double second)
{
    static const int before[] = {0, 31, 60, 91, 121, 152, 182, 213, 244, 274, 305, 335};
    if (month < 1 || month > 12 || day < 1 || day > 31 || hour < 0 || hour > 24 || minute < 0 || minute > 60)
        return -1;
    return ((before[month - 1] + day - 1) * 24.0 + hour) * 3600 + minute * 60 + second;
}

/* "E717 13:20:49.4": the severity, month and day without a zero in front, of glog as PyTorch writes it. */
static double glog_time(const char *at)
{
    int date, hour, minute, n = 0;
    double second;
    if (strchr("IWEF", at[0]) == NULL || sscanf(at + 1, "%4d %2d:%2d:%lf%n", &date, &hour, &minute, &second, &n) != 4)
        return -1;
    return seconds(date / 100, date % 100, hour, minute, second);
}

static double iso_time(const char *at)
{
    int year, month, day, hour, minute;
    double second;
    if (sscanf(at, "%4d-%2d-%2d%*1[T_ ]%2d:%2d:%lf", &year, &month, &day, &hour, &minute, &second) == 6)
        return seconds(month, day, hour, minute, second);
    if (sscanf(at, "%2d/%2d/%4d %2d:%2d:%lf", &month, &day, &year, &hour, &minute, &second) == 6)
        return seconds(month, day, hour, minute, second);
    return -1;
}

static double syslog_time(const char *at)
{
    static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    char name[4];
    int day, hour, minute;
    double second;
    if (sscanf(at, "%3[A-Za-z] %2d %2d:%2d:%lf", name, &day, &hour, &minute, &second) != 5)
        return -1;
    const char *found = strstr(months, name);
    return found != NULL && (found - months) % 3 == 0
               ? seconds((int)(found - months) / 3 + 1, day, hour, minute, second)
               : -1;
}

bool log_has_time(const char *line, size_t size)
{
    size_t n = size < LOG_HEAD ? size : LOG_HEAD;
    for (size_t i = 2; i + 4 < n; i++)
        if (line[i] == ':' && line[i + 3] == ':' && isdigit((unsigned char)line[i - 1]) &&
            isdigit((unsigned char)line[i + 1]) && isdigit((unsigned char)line[i + 4]))
            return true;
    return false;
}

double log_time_of_line(const char *line, size_t size)
{
    char head[LOG_HEAD + 1];
    size_t n = size < LOG_HEAD ? size : LOG_HEAD;
    memcpy(head, line, n);
    head[n] = '\0';
    for (size_t i = 0; i < n; i++) {
        char before = i > 0 ? head[i - 1] : ' ';
        if (isalnum((unsigned char)before))
            continue;
        double time = isdigit((unsigned char)head[i]) ? iso_time(head + i) : -1;
        if (time < 0 && isupper((unsigned char)head[i]))
            time = isdigit((unsigned char)head[i + 1]) ? glog_time(head + i) : syslog_time(head + i);
        if (time >= 0)
            return time;
    }
    return -1;
}
