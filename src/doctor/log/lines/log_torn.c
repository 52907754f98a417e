/* Joins the watchdog's reports of PyTorch where a terminal, a launcher or a log collector broke them into several
 * lines. Their words are known, so this needs no width: one report in a log is enough. */
#include <ctype.h>
#include <string.h>

#include "doctor/log/log_impl.h"

enum { MOST_REPORT = 1200, LONGEST_WORD = 24 };

/* The words of the reports, without their numbers and names. */
static const char *const words[] = {
    "Watchdog",  "caught",  "collective", "operation", "timeout", "ran",  "for",    "milliseconds",
    "before",    "timing",  "out",        "Exception", "either",  "an",   "error",  "or",
    "detected",  "by",      "watchdog",   "at",        "work",    "last", "NCCL",   "enqueued",
    "completed", "Timeout", "failure",    "sequence",  "id",      "PG",   "status", "Rank",
};

static bool is_word(const char *text, size_t size)
{
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strlen(words[i]) == size && memcmp(words[i], text, size) == 0)
            return true;
    return false;
}

static bool is_alpha(char c)
{
    return isalpha((unsigned char)c) != 0;
}

static bool is_digit(char c)
{
    return isdigit((unsigned char)c) != 0;
}

/* Whether the progress at the end of a report is complete: "last completed NCCL work: 2069.". */
static bool has_progress(const char *line, size_t size)
{
    const char *end = line + size, *at = memmem(line, size, "last completed ", 15);
    at = at != NULL ? memmem(at, (size_t)(end - at), "work: ", 6) : NULL;
    if (at == NULL)
        return false;
    for (at += 6; at < end && (is_digit(*at) || *at == '-');)
        at++;
    return at < end;
}

bool log_report_is_open(const char *line, size_t size)
{
    if (size < LONGEST_WORD || size > MOST_REPORT)
        return false;
    if (memmem(line, size, "ProcessGroup", 12) == NULL && memmem(line, size, "atchdog ", 8) == NULL)
        return false;
    if (log_is_cut_report(line, size, true))
        return true;
    return tess_text_has(line, size, TESS_WORD_IN, "(either an error|detected by watchdog| work: ") &&
           line[size - 1] != '.' && !has_progress(line, size);
}

/* Whether a blank stood where the line was broken. */
static bool needs_blank(const char *line, size_t size, const char *next, size_t next_size)
{
    const char last = line[size - 1], first = next[0];
    size_t before = 0, after = 0;
    if (last == ' ' || first == ' ' || strchr("=(),.:]", first) != NULL || strchr("=([_", last) != NULL ||
        (is_digit(last) && is_digit(first)))
        return false;
    if (!is_alpha(last) || !is_alpha(first))
        return true;
    while (before < size && before < LONGEST_WORD && is_alpha(line[size - 1 - before]))
        before++;
    while (after < next_size && after < LONGEST_WORD && is_alpha(next[after]))
        after++;
    return is_word(line + size - before, before) && is_word(next, after);
}

/* Whether the last letters of `line` and those of `next` are together the end of a report, "before tim" and "ing out.".
 */
static bool ends_report(const char *line, size_t size, const char *next, size_t next_size)
{
    static const char end[] = "beforetimingout";
    char letters[2 * LONGEST_WORD];
    size_t n = 0, from = size > LONGEST_WORD ? size - LONGEST_WORD : 0;
    for (size_t i = from; i < size + next_size && n < sizeof(letters); i++) {
        char c = i < size ? line[i] : next[i - size];
        if (is_alpha(c))
            letters[n++] = c;
    }
    return next_size <= LONGEST_WORD && memmem(letters, n, end, sizeof(end) - 1) != NULL;
}

static bool both_have(const char *line, size_t size, const char *next, size_t next_size, const char *heads)
{
    return tess_text_has(line, size, TESS_WORD_IN, heads) && tess_text_has(next, next_size, TESS_WORD_IN, heads);
}

/* Whether the line begins a message of its own: an exception, or a line with a time or a level. No part of a report has
 * a time but its head. */
static bool is_own_message(const char *next, size_t size)
{
    size_t name = log_exception_name(next, size);
    return (name > 0 && tess_text_has(next, name, TESS_WORD_IN, "Error|Exception|Interrupt|Exit")) ||
           log_has_time(next, size) || log_is_mild(next, size) || tess_text_has(next, size, TESS_WORD_IN, "[Errno ") ||
           tess_text_has(next, size, TESS_WORD_BEGINS, "ERROR|FATAL|CRITICAL|[ERROR|[FATAL|raise |File \"");
}

bool log_report_goes_on(const char *line, size_t size, const char *next, size_t next_size, size_t *skip, bool *space)
{
    size_t blanks = 0;
    while (blanks < next_size && next[blanks] == ' ')
        blanks++;
    *skip = blanks > 1 ? blanks : 0; /* one blank belongs to the text */
    next += *skip;
    next_size -= *skip;
    bool is_new = tess_text_has(next, next_size, TESS_WORD_IN, "[rank|[default|Traceback (") ||
                  both_have(line, size, next, next_size, ".cpp:") ||
                  both_have(line, size, next, next_size, "[PG |[Rank ");
    if (next_size == 0 || next_size > MOST_REPORT || is_new || !log_report_is_open(line, size) ||
        is_own_message(next, next_size))
        return false;
    *space = needs_blank(line, size, next, next_size);
    size_t digits = 0;
    while (digits < next_size && (is_digit(next[digits]) || next[digits] == '.'))
        digits++;
    bool is_number =
        digits == next_size && (is_digit(line[size - 1]) || line[size - 1] == ':' || line[size - 1] == ' ');
    return is_number || ends_report(line, size, next, next_size) ||
           tess_text_has(next, next_size, TESS_WORD_IN,
                         "(either an error|Watchdog caught|Rank |SeqNum=|OpType=|NumelIn=|NumelOut=|Out=|TensorShape=|"
                         "Timeout(ms)=|ran for |milliseconds|"
                         "before timing|timing out|last enqueued |last completed |work: |by watchdog|"
                         "collective operation|operation timeout");
}
