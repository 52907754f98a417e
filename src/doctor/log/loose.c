/* Collects unknown error lines: their logger marks them as errors, but no entry matches them. The first line of a
 * row is the nearest to the cause. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "doctor/log/log_impl.h"
#include "doctor/table/clean.h"

/* most lines between two lines of a row, or between a row and the known line after it */
enum { MOST_BETWEEN = 16, HEAD_OF_LINE = 200 };

static bool is_word_char(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* Whether the level `word` stands in the line, alone in capital letters or in brackets. */
static bool has_level(const char *head, size_t size, const char *word)
{
    size_t n = strlen(word);
    for (size_t at = 0; at + n < size; at++) {
        if (strncasecmp(head + at, word, n) != 0)
            continue;
        char before = at > 0 ? head[at - 1] : ' ', after = head[at + n];
        bool capital = memcmp(head + at, word, n) == 0, bracket = before == '[' && after == ']';
        bool alone = !is_word_char(after) && after != '=' && strchr(" [|:*<>\t", before) != NULL;
        bool field = before == '=' && at >= 6 && strncasecmp(head + at - 6, "level=", 6) == 0;
        if ((capital && alone) || bracket || field)
            return true;
    }
    return false;
}

/* Whether the line begins like an error of glog, "E0717 13:20:49", "F20240717 13:20:49.4", or of abseil, "E0000
 * 00:00:1725383433". */
static bool is_glog_error(const char *text, size_t size)
{
    size_t n = 1;
    if (size < 14 || (text[0] != 'E' && text[0] != 'F'))
        return false;
    while (n < 9 && isdigit((unsigned char)text[n]))
        n++;
    return (n == 5 || n == 9) && text[n] == ' ' && isdigit((unsigned char)text[n + 1]) &&
           isdigit((unsigned char)text[n + 2]) && text[n + 3] == ':';
}

/* Whether the line itself has a lower level, "12:34:56.7: I tensorflow/..." or "ERROR tracker: 12:34:56 INFO step 7".
 * Some log collectors mark all of standard error as errors. */
static bool has_lower_level(const char *head, size_t size)
{
    if (has_level(head, size, "INFO") || has_level(head, size, "DEBUG"))
        return true;
    for (size_t at = 1; at + 4 < size; at++)
        if (head[at] == ':' && isdigit((unsigned char)head[at - 1]) && head[at + 1] == ' ' && head[at + 3] == ' ' &&
            (head[at + 2] == 'I' || head[at + 2] == 'W'))
            return true;
    return false;
}

/* Whether the text is code that a logger printed as part of a traceback, "raise e from None", or says that git knows no
 * version of the program. */
static bool is_code(const char *text, size_t size)
{
    return tess_text_has(text, size, TESS_WORD_BEGINS,
                         "raise |return |await |yield |with |self.|fatal: not a git |fatal: No names found|"
                         "fatal: detected dubious ");
}

bool log_says_something(const char *text, size_t size)
{
    int n_blanks = 0, n_letters = 0;
    for (size_t i = 0; i < size && i < HEAD_OF_LINE; i++) {
        n_blanks += text[i] == ' ';
        n_letters += isalpha((unsigned char)text[i]) != 0;
    }
    return n_blanks >= 2 && n_letters >= 8;
}

/* Whether the line reports a failure with its error code: "hipInit failed, retCode=0x7020010", "ibv_open_device
 * failed with error 12". */
static bool has_failed(const char *text, size_t size)
{
    enum { MOST_AFTER = 51, FAILED = 7 };
    const char *failed = memmem(text, size, " failed", FAILED);
    size_t n = failed != NULL ? (size_t)(text + size - failed) - FAILED : 0;
    return n > 0 && tess_text_has(failed + FAILED, n < MOST_AFTER ? n : MOST_AFTER, TESS_WORD_IN + TESS_WORD_CASELESS,
                                  "retcode|ret code|rc=|errno|error code|with error|with code");
}

bool log_is_error_line(const char *line, size_t size)
{
    static const char *const levels[] = {"ERROR", "FATAL", "CRITICAL"};
    size_t n = size < HEAD_OF_LINE ? size : HEAD_OF_LINE, begin = log_text_begin(line, size);
    const char *text = line + (begin < size ? begin : size);
    size_t rest = size - (size_t)(text - line);
    if (!log_says_something(text, rest) || is_code(text, rest) || has_lower_level(line, n))
        return false;
    if (memmem(line, n, "[NeMo E ", 8) != NULL || is_glog_error(line, size) ||
        memmem(line, n, " NCCL WARN ", 11) != NULL)
        return true;
    for (size_t i = 0; i < sizeof(levels) / sizeof(levels[0]); i++)
        if (has_level(line, n, levels[i]))
            return true;
    return (!log_is_mild(line, size) && has_failed(text, rest < HEAD_OF_LINE ? rest : HEAD_OF_LINE)) ||
           (rest > 7 && (strncasecmp(text, "error: ", 7) == 0 || strncasecmp(text, "fatal: ", 7) == 0));
}

bool log_is_mild(const char *line, size_t size)
{
    static const char *const levels[] = {"WARNING", "WARN", "INFO", "DEBUG", "NOTICE"};
    size_t n = size < HEAD_OF_LINE ? size : HEAD_OF_LINE;
    bool is_nccl = memmem(line, n, " NCCL ", 6) != NULL; /* NCCL prints its errors as warnings */
    for (size_t i = 0; i < sizeof(levels) / sizeof(levels[0]) && !is_nccl; i++)
        if (has_level(line, n, levels[i]))
            return true;
    return false;
}

void log_note_loose(survey_reading *r, const char *line, size_t size, int64_t number, const log_who *speaker)
{
    loose_run *run = NULL;
    for (int i = 0; i < LOG_LOOSE; i++)
        if (r->loose[i].last > 0 && number - r->loose[i].last <= MOST_BETWEEN &&
            log_who_is_same(&r->loose[i].speaker, speaker))
            run = &r->loose[i];
    if (run == NULL) {
        run = &r->loose[r->n_loose++ % LOG_LOOSE];
        *run = (loose_run){.speaker = *speaker, .first.at = {r->file, number}};
        size_t begin = log_text_begin(line, size), rest = begin < size ? size - begin : 0;
        tess_clean(line + size - rest, rest < 4096 ? rest : 4096, run->first.excerpt, sizeof(run->first.excerpt));
        if (r->survey->first_loose.at.line == 0) {
            r->survey->first_loose = run->first;
            r->survey->loose_who = *speaker;
        }
    }
    run->last = number;
    run->time_s = log_time_of_line(r->stamped, r->stamped_size);
}

void log_drop_loose(survey_reading *r, int64_t number, const log_who *speaker)
{
    for (int i = 0; i < LOG_LOOSE; i++)
        if (number - r->loose[i].last <= MOST_BETWEEN && log_who_is_same(&r->loose[i].speaker, speaker))
            r->loose[i].last = 0;
}

/* Whether the times show that a row of error lines is much older than the current line. */
static bool is_long_ago(const survey_reading *r, const loose_run *run)
{
    static const double long_s = 600;
    double time_s = log_time_of_line(r->stamped, r->stamped_size);
    return run->time_s >= 0 && time_s >= 0 && time_s - run->time_s > long_s;
}

const log_loose *log_loose_before(const survey_reading *r, int64_t number, const log_who *speaker)
{
    for (int i = 0; i < LOG_LOOSE; i++) {
        const loose_run *run = &r->loose[i];
        if (run->last > 0 && run->last < number && number - run->last <= MOST_BETWEEN &&
            log_who_is_same(&run->speaker, speaker) && !is_long_ago(r, run))
            return &run->first;
    }
    return NULL;
}
