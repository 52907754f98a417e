/* Reads the time of a line. */
#include "doctor/log/origin/origin_impl.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static double seconds(int month, int day, int hour, int minute, double second)
{
    static const int before[] = {0, 31, 60, 91, 121, 152, 182, 213, 244, 274, 305, 335};
    if (month < 1 || month > 12 || day < 1 || day > 31 || hour < 0 || hour > 24 || minute < 0 || minute > 60)
        return -1;
    return ((before[month - 1] + day - 1) * 24.0 + hour) * 3600 + minute * 60 + second;
}

/* Reads a time of glog in PyTorch's form, "E717 13:20:49.4": severity, then month and day without leading zero. */
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
