/* Reads the rank, host or container that printed a line from the prefixes of launchers: torchrun, mpirun, srun, pdsh,
 * kubectl, compose, xla_dist. */
#include "doctor/log/origin/origin_impl.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/core/rng.h"

/* Whether argparse printed the text after a program's name: "fairseq-train: error: unrecognized arguments: ". */
static bool is_of_arguments(const char *text, size_t size)
{
    return tess_text_has(text, size, TESS_WORD_BEGINS,
                         "error: unrecognized arguments:|error: argument |error: ambiguous option:|"
                         "error: the following arguments are required:");
}

int origin_rank_in_label(const char *line, size_t size)
{
    if (size < 7 || strncasecmp(line, "rank", 4) != 0)
        return -1;
    size_t at = 4 + (strchr("_-", line[4]) != NULL && line[4] != '\0'), end;
    int rank = origin_number_at(line, size, at, &end);
    bool colon = end + 1 < size && line[end] == ':' && line[end + 1] == ' ';
    bool bar = end + 2 < size && line[end] == ' ' && line[end + 1] == '|' && line[end + 2] == ' ';
    return colon || bar ? rank : -1;
}

bool origin_is_container(const char *text, size_t size)
{
    size_t n = size;
    if (size > 2 && strspn(text, "abcdefghijklmnopqrstuvwxyz_-") == size && strncmp(text + size, "  ", 2) == 0)
        return true;
    while (n > 0 && isdigit((unsigned char)text[n - 1]))
        n--;
    if (size > 63 || n == size || n < 3 || (text[n - 1] != '_' && text[n - 1] != '-') || log_is_file(text, size))
        return false;
    return isalpha((unsigned char)text[0]) && origin_rank_in_label(text, size) < 0;
}

void log_note_label(tess_survey *s, const char *line, size_t size)
{
    size_t n = 0, blanks = 0;
    while (n < size && (islower((unsigned char)line[n]) || line[n] == '_' || line[n] == '-'))
        n++;
    while (n > 2 && n + blanks < size && line[n + blanks] == ' ')
        blanks++;
    if (blanks < 2 || n + blanks == size || line[n + blanks] != '|')
        return;
    uint64_t name = tess_hash_bytes(line, n, 0);
    log_label *label = &s->labels[name % LOG_LABELS];
    if (label->name != name)
        *label = (log_label){.name = name};
    label->n++;
}

void log_drop_label(const tess_survey *s, log_who *who)
{
    enum { FEWEST = 3 };
    size_t n = strlen(who->actor);
    uint64_t name = tess_hash_bytes(who->actor, n, 0);
    const log_label *label = &s->labels[name % LOG_LABELS];
    bool is_padded =
        who->noun != NULL && strcmp(who->noun, "container") == 0 && n > 0 && !isdigit((unsigned char)who->actor[n - 1]);
    if (is_padded && (label->name != name || label->n < FEWEST)) {
        who->actor[0] = '\0';
        who->noun = NULL;
    }
}

size_t origin_stream_at(const char *text, size_t size)
{
    static const char *const names[] = {" [stderr] ", " [stdout] "};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (tess_text_has(text, size, TESS_WORD_BEGINS, names[i]))
            return strlen(names[i]);
    return 0;
}

void origin_read_host(const char *line, size_t size, log_who *who)
{
    const char *at = size > 5 && memcmp(line, "[pod/", 5) == 0 ? line + 5 : line;
    size_t n = 0, left = size - (size_t)(at - line);
    while (n < left && log_is_host_char(at[n]))
        n++;
    size_t end = n;
    while (at == line && end < left && at[end] == ' ')
        end++;
    bool prefix = at > line ? end < left && at[end] == '/'
                            : origin_stream_at(at + n, left - n) > 0 ||
                                  (end + 1 < left && ((end == n && at[end] == ':' && at[end + 1] == ' ') ||
                                                      (end > n && at[end] == '|' && at[end + 1] == ' ')));
    bool is_test = at == line && end == n && left > end + 2 &&
                   tess_text_has(at + end + 2, left - end - 2, TESS_WORD_BEGINS, "Test NCCL failure|Test CUDA failure");
    bool is_compose = at == line && line[end] == '|' && strcspn(line, "0123456789") >= n; /* its hosts have numbers */
    if (prefix && !is_compose && (log_is_host(at, n, LOG_HOST_ANYWHERE) || is_test) &&
        !(at == line && is_of_arguments(at + end + 2, left - end - 2)))
        origin_copy(who->host, sizeof(who->host), at, n);
    else if (prefix && at == line && line[end] == '|' && (is_compose || origin_is_container(at, n)) &&
             who->actor[0] == '\0') {
        origin_copy(who->actor, sizeof(who->actor), at, n);
        who->noun = "container";
    }
}

/* Returns the rank in a prefix: "[1,6]<stderr>:", "[job@1,6]<stdout>:" (Open MPI), "[6] " (mpiexec -prepend-rank),
 * "[trainer6]:" (roles of torchrun). */
static int rank_in_bracket(const char *line, size_t size)
{
    size_t end, at = 1;
    const char *std = memmem(line, size, "]<std", 5);
    const char *comma = std != NULL ? memrchr(line, ',', (size_t)(std - line)) : NULL;
    int mpirank = comma != NULL ? origin_number_after(line, (size_t)(comma - line) + 1, ",mpirank:", ',') : -1;
    if (comma != NULL)
        return mpirank >= 0 ? mpirank : origin_number_at(line, size, (size_t)(comma - line) + 1, &end);
    /* NCCL's brackets hold a device, not a rank: "host:pid:tid [device] file NCCL WARN" */
    const char *nccl = memmem(line, size, " NCCL ", 6);
    const char *after = memmem(line, size, "] ", 2);
    bool is_nccl = nccl != NULL && after != NULL && nccl > after;
    if (is_nccl && (nccl == after + 1 || memchr(after + 2, ' ', (size_t)(nccl - after) - 2) == NULL))
        return -1;
    while (at < size && (isalpha((unsigned char)line[at]) || line[at] == '_'))
        at++;
    int rank = origin_number_at(line, size, at, &end);
    return rank >= 0 && end + 1 < size && line[end] == ']' &&
                   (line[end + 1] == (at > 1 ? ':' : ' ') || (end + 3 < size && strncmp(line + end + 1, ":  ", 3) == 0))
               ? rank
               : -1;
}

int log_rank_of_line(const char *line, size_t size)
{
    static const char *const brackets[] = {"[rank", "[rank ", " rank ", "[rank:", "[rank=", "[rank: ", "[default"};
    enum { MOST_BLANKS = 5 };
    size_t end, at = 0;
    if (size > LOG_HEAD)
        size = LOG_HEAD;
    for (size_t i = 0; i < sizeof(brackets) / sizeof(brackets[0]); i++) {
        int rank = origin_number_after(line, size, brackets[i], ']');
        if (rank >= 0)
            return rank;
    }
    while (at < size && at < MOST_BLANKS && line[at] == ' ')
        at++;
    int label = origin_rank_in_label(line + at, size - at);
    if (label >= 0)
        return label;
    int task = origin_number_at(line, size, at, &end); /* "6: ", "  6: " of srun -l */
    bool labelled = task >= 0 && end + 1 < size && line[end] == ':' && line[end + 1] == ' ';
    at = labelled ? end + 2 : 0;
    int rank = at + 2 < size && line[at] == '[' ? rank_in_bracket(line + at, size - at) : -1;
    return rank < 0 && labelled ? task : rank;
}

bool origin_names_only_local_rank(const char *line, size_t size)
{
    return size > 8 && memcmp(line, "[default", 8) == 0 && memmem(line, size, "ank ", 4) == NULL &&
           memmem(line, size, "[rank", 5) == NULL;
}

void origin_read_tpu_worker(const char *text, size_t is_after_time, log_who *who)
{
    int host = 0, worker = 0, end = 0;
    (void)sscanf(text, "%*63[0-9.]%n [%9d] %n", &host, &worker, &end);
    if (is_after_time == 0 || end == 0 || host < 7 || worker < 0)
        return;
    origin_copy(who->host, sizeof(who->host), text, (size_t)host);
    who->ranks[0] = worker;
    who->is_task = true;
    who->n_ranks = worker < LOG_MOST_RANKS;
}

void origin_read_tag(const char *line, log_who *who)
{
    int host = 0, end = 0;
    (void)sscanf(line, "[%*[0-9a-z@],mpirank:%*9d,%n%*63[0-9a-zA-Z.-]]%n", &host, &end);
    if (end > host + 1 && log_is_host(line + host, (size_t)(end - host) - 1, LOG_HOST_EXPECTED))
        origin_copy(who->host, sizeof(who->host), line + host, (size_t)(end - host) - 1);
}

void origin_read_bracketed_host(const char *text, size_t size, log_who *who)
{
    size_t n = 1;
    while (n < size && log_is_host_char(text[n]))
        n++;
    bool is_bracket = size > 4 && text[0] == '[' && n + 1 < size && text[n] == ']' && strchr(" :", text[n + 1]) != NULL;
    if (is_bracket && log_is_numbered_host(text + 1, n - 1) && log_is_host(text + 1, n - 1, LOG_HOST_ANYWHERE))
        origin_copy(who->host, sizeof(who->host), text + 1, n - 1);
}
