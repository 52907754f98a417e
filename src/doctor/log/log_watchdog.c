/* Reads the lines of PyTorch's watchdog: the collective that timed out, and how far the rank had come. */
#include "doctor/log/log_impl.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { MOST = 2048 }; /* limit for a line; lines of a watchdog are far shorter */

static void copy_line(const char *line, size_t size, char text[MOST])
{
    size_t n = size < MOST - 1 ? size : MOST - 1;
    for (size_t i = 0; i < n; i++)
        text[i] = line[i] != '\0' ? line[i] : '?';
    text[n] = '\0';
}

/* Returns the number after `key`; -1: there is no key or no number. */
static int64_t number_behind(const char *text, const char *key)
{
    const char *at = strcasestr(text, key);
    if (at == NULL)
        return -1;
    at += strlen(key);
    char *end;
    long long number = strtoll(at, &end, 10);
    return end != at && number >= 0 ? number : -1;
}

/* Returns the number after `key`; -1: there is none, or the text ends within or right after it, where digits may be
 * missing. */
static int64_t whole_number_behind(const char *text, const char *key)
{
    const char *at = strcasestr(text, key);
    if (at == NULL || at[strlen(key) + strspn(at + strlen(key), "0123456789")] == '\0')
        return -1;
    return number_behind(text, key);
}

/* Reads the group: the text between "PG " and " Rank" in "[PG ID 1 PG GUID 1 Rank 6]" or "[PG 1 (default_pg) Rank
 * 6]". */
static void read_group(const char *text, char *group, size_t size)
{
    const char *at = strstr(text, "[PG "), *end = at != NULL ? strstr(at, " Rank ") : NULL;
    group[0] = '\0';
    if (end != NULL && end - at < 100 && memchr(at, ']', (size_t)(end - at)) == NULL)
        snprintf(group, size, "%.*s", (int)(end - at - 4), at + 4);
}

/* Reads the source place in "ProcessGroupNCCL.cpp:632]". */
static void read_place(const char *text, log_work *work)
{
    const char *end = strstr(text, ".cpp:");
    if (end == NULL)
        return;
    const char *begin = end;
    while (begin > text && (isalnum((unsigned char)begin[-1]) || begin[-1] == '_'))
        begin--;
    snprintf(work->file, sizeof(work->file), "%.*s", (int)(end + 4 - begin), begin);
    int64_t line = number_behind(end, ".cpp:");
    work->line = line > 0 && line < 1 << 30 ? (int)line : 0;
}

/* Returns the product of the sizes in "TensorShape=[4096, 11008]"; -1: there is no shape. */
static int64_t read_shape(const char *text)
{
    const char *at = strstr(text, "TensorShape=[");
    int64_t product = 1;
    if (at == NULL)
        return -1;
    at += strlen("TensorShape=[");
    while (*at != ']') {
        char *end;
        long long size = strtoll(at, &end, 10);
        if (end == at || size < 0 || __builtin_mul_overflow(product, (int64_t)size, &product))
            return -1;
        at = end + strspn(end, ", ");
    }
    return product;
}

/* Reads the name of an operation. A name that is cut off, by another line or by the end of the text, counts as
 * unknown. */
static void read_op(const char *op, log_work *work)
{
    size_t n = strspn(op, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789");
    bool is_whole = op[n] == ',' || op[n] == ')' || op[n] == '.' || op[n] == ' ';
    snprintf(work->op, sizeof(work->op), "%.*s", is_whole ? (int)n : 0, op);
}

/* Finds the first "WorkNCCL(", or the name in a library with the same interface: "WorkHCCL(" (Ascend), "WorkMCCL("
 * (Moore Threads), "WorkCNCL(" (Cambricon), "WorkXCCL(" (Intel). Returns NULL if there is none. */
static const char *find_work(const char *text)
{
    for (const char *at = text; (at = strstr(at, "Work")) != NULL; at += strlen("Work"))
        if (strspn(at + 4, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == 4 && at[8] == '(')
            return at;
    return NULL;
}

/* the watchdog's report of a timeout: its first words, and its last ones */
static const char report[] = "Watchdog caught collective operation timeout", report_end[] = "before timing out";
/* the first words of what it prints after that */
static const char exception[] = "Exception (either an error or timeout) detected by watchdog at work";

bool log_parse_work(const char *line, size_t size, log_work *work)
{
    char text[MOST];
    copy_line(line, size, text);
    const char *at = find_work(text), *op = at != NULL ? strstr(at, "OpType=") : NULL;
    /* a report that is cut off may have lost its limit */
    bool is_timeout = at != NULL && (strstr(at, "Timeout(ms)=") != NULL || strstr(text, report) != NULL);
    if (op == NULL || !is_timeout || strstr(at, "async exception") != NULL)
        return false;
    *work = (log_work){.rank = log_rank_of_line(text, strlen(text))};
    if (work->rank < 0)
        work->rank = log_rank_text(text, (size_t)(at - text));
    read_place(text, work);
    read_group(text, work->group, sizeof(work->group));
    op += strlen("OpType=");
    read_op(op, work);
    work->sequence = whole_number_behind(at, "SeqNum=");
    work->numel_in = whole_number_behind(at, "NumelIn=");
    work->numel_out = whole_number_behind(at, "NumelOut=");
    if (work->numel_in < 0)
        work->numel_in = work->numel_out = read_shape(at);
    work->timeout_ms = whole_number_behind(at, "Timeout(ms)=");
    work->elapsed_ms = whole_number_behind(at, "ran for ");
    return true;
}

/* Whether a logger of PyTorch marked the text before `place` as an error: "[E909 09:55:29.3 ", "[E ". A line that was
 * broken before `place` has lost the mark. */
static bool is_marked_error(const char *text, const char *place)
{
    if (text + strspn(text, " ") == place)
        return true;
    for (const char *at = strstr(text, "[E"); at != NULL && at < place; at = strstr(at + 1, "[E"))
        if (isdigit((unsigned char)at[2]) || at[2] == ' ')
            return true;
    return false;
}

bool log_is_cut_report(const char *line, size_t size, bool ends_text)
{
    static const char source[] = ".cpp:";
    char text[MOST];
    copy_line(line, size, text);
    if (strstr(text, report) != NULL)
        return strstr(text, report_end) == NULL && strstr(text, " milliseconds.") == NULL;
    const char *place = strstr(text, "ProcessGroup"), *at = place != NULL ? strstr(place, source) : NULL;
    if (at == NULL) /* "[rank4]:[E424 01:11:21.16 Proce" */
        return (at = strstr(text, "]:[E")) != NULL && isdigit((unsigned char)at[4]) && strchr(at + 4, ']') == NULL;
    if (!is_marked_error(text, place))
        return false;
    at += strlen(source);
    at += strspn(at, "0123456789");
    for (size_t n; (n = strspn(at, " ]")) > 0 || *at == '[';) { /* "] [Rank 4] ", "] [PG 0 (default_pg) Rank 4] " */
        at += n;
        const char *close = *at == '[' ? strchr(at, ']') : NULL;
        if (*at == '[' && close == NULL)
            return true;
        at = close != NULL ? close : at;
    }
    /* the text ends within, or before, the first words */
    if (*at == '\0')
        return ends_text;
    return strncmp(at, report, strlen(at)) == 0 || strncmp(at, exception, strlen(at)) == 0;
}

/* Parses "CollectiveFingerPrint(SequenceNumber=101, OpType=ALLGATHER, TensorShape=[1], ...)" in the text before
 * `end`. The last parts and the commas may be missing. */
static bool read_fingerprint(const char *text, const char *end, log_work *work)
{
    char part[MOST];
    snprintf(part, sizeof(part), "%.*s", (int)(end - text), text);
    const char *op = strstr(part, "OpType=");
    if (op == NULL)
        return false;
    op += strlen("OpType=");
    read_op(op, work);
    work->sequence = number_behind(part, "SequenceNumber=");
    work->numel_in = work->numel_out = read_shape(part);
    return true;
}

bool log_parse_mismatch(const char *line, size_t size, log_work *own, log_work *other)
{
    static const char words[] = " is running collective: ";
    char text[MOST];
    copy_line(line, size, text);
    const char *first = strstr(text, words), *second = first != NULL ? strstr(first + 1, words) : NULL;
    const char *rank = strstr(text, "Rank "), *other_rank = first != NULL ? strstr(first, "but Rank ") : NULL;
    if (second == NULL || rank == NULL || rank > first || other_rank == NULL || other_rank > second)
        return false;
    *own = *other = (log_work){.group = "compared", .is_oldest = true, .timeout_ms = -1, .elapsed_ms = -1};
    int64_t a = number_behind(rank, "Rank "), b = number_behind(other_rank, "but Rank ");
    if (a < 0 || b < 0 || a >= LOG_MOST_RANKS || b >= LOG_MOST_RANKS || a == b)
        return false;
    own->rank = (int)a;
    other->rank = (int)b;
    return read_fingerprint(first, other_rank, own) && read_fingerprint(second, text + strlen(text), other);
}

/* Returns the number after "WORDS work: " or "WORDS NCCL work: ", where NCCL may be another library; -1: none. */
static int64_t number_of_work(const char *text, const char *words)
{
    const char *at = strcasestr(text, words);
    return at != NULL ? number_behind(at, "work: ") : -1;
}

bool log_parse_progress(const char *line, size_t size, log_progress *progress)
{
    char text[MOST];
    copy_line(line, size, text);
    const char *at = strcasestr(text, "last enqueued ");
    if (at == NULL)
        return false;
    progress->enqueued = number_of_work(at, "last enqueued ");
    progress->completed = number_of_work(at, "last completed ");
    progress->failed = number_behind(text, "work sequence id: ");
    if (progress->failed < 0)
        progress->failed = number_behind(text, "by watchdog at work: ");
    if (progress->failed < 0)
        progress->failed = number_behind(text, "Timeout at NCCL work: ");
    read_group(text, progress->group, sizeof(progress->group));
    return strcasestr(at, "work: ") != NULL;
}

int log_ranks_by_counts(const log_work *work)
{
    bool gathers = strcasestr(work->op, "ALLGATHER") != NULL, scatters = strcasestr(work->op, "REDUCE_SCATTER") != NULL;
    int64_t all = gathers ? work->numel_out : work->numel_in, one = gathers ? work->numel_in : work->numel_out;
    if (!(gathers || scatters) || one <= 0 || all <= one || all % one != 0 || all / one > LOG_MOST_RANKS)
        return 0;
    return (int)(all / one);
}

const char *log_describe_work(const log_work *work, char *text, size_t size)
{
    char count[64] = "";
    if (work->numel_in >= 0 && work->numel_out >= 0 && work->numel_in != work->numel_out)
        snprintf(count, sizeof(count), " of %" PRId64 " to %" PRId64 " elements", work->numel_in, work->numel_out);
    else if (work->numel_in >= 0)
        snprintf(count, sizeof(count), " of %" PRId64 " element%s", work->numel_in, work->numel_in == 1 ? "" : "s");
    if (work->sequence >= 0)
        snprintf(text, size, "%s #%" PRId64 "%s", work->op[0] != '\0' ? work->op : "collective", work->sequence, count);
    else
        snprintf(text, size, "%s%s", work->op, count);
    return text;
}
