/* Reads the host that printed a line from the prefixes of syslog, journals, loggers and test harnesses. */
#include "doctor/log/origin/origin_impl.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* Sets the host if the word, which stands in a host's place, can be one. */
static void set_host(log_who *who, const char *text, size_t size)
{
    if (log_is_host(text, size, LOG_HOST_EXPECTED))
        origin_copy(who->host, sizeof(who->host), text, size);
}

void origin_read_syslog(const char *line, size_t size, log_who *who)
{
    int host = 0, end_of_host = 0, end = 0;
    (void)sscanf(line, "%*3[A-Za-z] %*2d %*2d:%*2d:%*2d %n%*63[A-Za-z0-9._-]%n %*63[A-Za-z0-9._@-][%*d]:%n", &host,
                 &end_of_host, &end);
    if (end > 0) {
        set_host(who, line + host, (size_t)(end_of_host - host));
        return;
    }
    /* months in other languages: "11月 15 14:15:47 n1 systemd[1]: ", "jan. 29 20:50:17 n1 kernel: " */
    enum { MOST_DATE = 16 };
    for (size_t at = 4; at < MOST_DATE && at + 10 < size; at++) {
        if (line[at] != ':' || line[at + 3] != ':' || !isdigit((unsigned char)line[at - 1]) || line[at - 3] != ' ' ||
            line[at + 6] != ' ')
            continue;
        (void)sscanf(line + at + 3, ":%*2d %n%*63[A-Za-z0-9._-]%n %*63[A-Za-z0-9._@-]%n", &host, &end_of_host, &end);
        const char *after = line + at + 3 + end;
        if (end > 0 && (after[0] == '[' || after[0] == ':') && log_is_host_char(line[at + 3 + host])) {
            set_host(who, line + at + 3 + host, (size_t)(end_of_host - host));
            return;
        }
        break;
    }
    const char *at = memmem(line, size, " kernel: ", 9), *begin = at;
    while (begin != NULL && begin > line && log_is_host_char(begin[-1]))
        begin--;
    bool is_after_a_time = begin != NULL && begin - line > 1 && begin[-1] == ' ' &&
                           (isdigit((unsigned char)begin[-2]) || begin[-2] == 'Z');
    if (is_after_a_time && isalpha((unsigned char)*begin))
        set_host(who, begin, (size_t)(at - begin));
}

void origin_read_journal(const char *text, log_who *who)
{
    int host = 0, end = 0;
    (void)sscanf(text, "%*63[A-Za-z0-9._-]%n %*63[A-Za-z0-9._@-][%*d]:%n", &host, &end);
    if (end > 0)
        set_host(who, text, (size_t)host);
}

void origin_read_field(const char *line, log_who *who)
{
    static const char *const words[] = {" host=", " hostname=", " node="};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]) && who->host[0] == '\0'; i++) {
        const char *at = strstr(line, words[i]);
        size_t n = 0;
        for (at = at != NULL ? at + strlen(words[i]) : ""; log_is_host_char(at[n]);)
            n++;
        if (log_is_host(at, n, LOG_HOST_ANYWHERE))
            set_host(who, at, n);
    }
}

void origin_read_harness(const char *line, log_who *who)
{
    const char *at = strstr(line, ".node[");
    size_t n = at != NULL ? strspn(at + 6, "0123456789") : 0;
    if (n > 0 && at[6 + n] == ']' && at[7 + n] == '.')
        set_host(who, at + 1, n + 6);
}
