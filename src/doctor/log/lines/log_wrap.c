/* Finds the width at which a log's lines were cut, and joins them. */
#include "doctor/log/log_impl.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* NARROW: below it, three lines must show that the log was cut: short lines are often whole */
enum { LEAST_WIDTH = 48, NARROW = 56, MOST_WIDTH = 250, HEAD = 48 };

static size_t first_word(const char *line, size_t size)
{
    size_t n = 0;
    while (n < size && line[n] != ' ')
        n++;
    return n;
}

/* Whether the line begins with host, process and thread of NCCL: "node-a:123:456 [0] NCCL WARN". */
static bool is_nccl(const char *line, size_t size)
{
    char head[HEAD + 1];
    int process, thread;
    snprintf(head, sizeof(head), "%.*s", (int)(size < HEAD ? size : HEAD), line);
    return sscanf(head, "%*[^: ]:%d:%d", &process, &thread) == 2;
}

/* Whether the line begins with a label of srun -l: "12: ", "  3: ". */
static bool is_labelled(const char *line, size_t size)
{
    size_t at = 0, digits;
    while (at < size && line[at] == ' ')
        at++;
    for (digits = at; at < size && isdigit((unsigned char)line[at]);)
        at++;
    return at > digits && at + 1 < size && line[at] == ':' && line[at + 1] == ' ';
}

/* Whether the line is certainly a new one: it begins like a line of a logger, launcher or traceback, or is indented. */
static bool begins(const char *line, size_t size)
{
    size_t head = size < HEAD ? size : HEAD, word = first_word(line, size);
    if (size == 0 || line[0] == '\t' || line[0] == '{' || (line[0] == ' ' && (size == 1 || line[1] == ' ')))
        return true;
    if ((line[0] == '[' && log_rank_of_line(line, head) >= 0) || is_labelled(line, size) || log_has_time(line, head) ||
        is_nccl(line, size))
        return true;
    if (line[0] == '(' && memmem(line, head, " pid=", 5) != NULL)
        return true;
    if (word > 1 && line[word - 1] == ':' && memchr(line, '@', word) != NULL) /* "pdsh@master:" */
        return true;
    return tess_text_has(line, word, TESS_WORD_BEGINS, "Traceback|File|INFO|WARNING|ERROR|DEBUG|CRITICAL|FATAL") ||
           tess_text_has(line, word, TESS_WORD_ENDS, "Error:|Exception:|srun:|slurmstepd:|kernel:");
}

/* Whether the line is a row of a table with four or more columns (kubectl, sinfo): several blanks stand between
 * words three times. A line of Megatron is no such row: it pads its numbers, but prints '|' between them. */
static bool has_columns(const char *line, size_t size)
{
    enum { LEAST_BLANKS = 3, LEAST_GAPS = 3 };
    int n_gaps = 0, n_blanks = 0;
    for (size_t i = 0; i < size; i++) {
        if (line[i] != ' ')
            n_gaps += n_blanks >= LEAST_BLANKS && (size_t)n_blanks < i;
        n_blanks = line[i] == ' ' ? n_blanks + 1 : 0;
    }
    return n_gaps >= LEAST_GAPS && memchr(line, '|', size) == NULL;
}

/* Whether the line is a row or a rule of a table: other lines may have the same width by chance. */
static bool is_drawn(const char *line, size_t size)
{
    const char first = size > 1 ? line[0] : ' ', last = size > 1 ? line[size - 1] : ' ';
    /* box-drawing characters, U+2500 to U+257F */
    const bool is_boxed = size > 2 && first == '\xe2' && (line[1] == '\x94' || line[1] == '\x95');
    const bool is_row = (first == '|' || first == '+') && (last == '|' || last == '+');
    /* stars end lines of Slurm, too: "*** JOB 6 ON n1 CANCELLED AT 10:00:00 ***", whose rest may stand on a line */
    const bool is_rule =
        size > 1 && strchr("-=*#_ ", last) != NULL && line[size - 2] == last && (last != '*' || first == '*');
    return is_row || is_boxed || has_columns(line, size) || is_rule;
}

/* Whether both lines begin in the same way, except for numbers. */
static bool are_alike(const char *line, size_t size, const char *next, size_t next_size)
{
    enum { ALIKE = 12 };
    size_t n = 0;
    while (n < ALIKE && n < size && n < next_size &&
           (line[n] == next[n] || (isdigit((unsigned char)line[n]) && isdigit((unsigned char)next[n]))))
        n++;
    return n == ALIKE;
}

/* Whether the text begins with its host, as whole lines do: "node-a: ", "node-a:7:8 [0] NCCL". */
static bool begins_with_host(const char *text, size_t size)
{
    log_who who = log_origin_of_line(text, size);
    size_t n = strlen(who.host);
    return n > 0 && n < size && memcmp(text, who.host, n) == 0;
}

/* Whether the end of a line of n bytes and the begin of the next one are a date or a time together. */
static bool is_torn_time(const char *end, size_t n, const char *next, size_t next_size)
{
    static const char *const forms[] = {"dddd-dd-dd", "dd:dd:dd"};
    bool any = false;
    for (int f = 0; f < 2; f++) {
        size_t at = 0;
        while (forms[f][at] != '\0' && at < n + next_size) {
            const unsigned char c = (unsigned char)(at < n ? end[at] : next[at - n]);
            if (forms[f][at] == 'd' ? !isdigit(c) : c != (unsigned char)forms[f][at])
                break;
            at++;
        }
        any |= forms[f][at] == '\0';
    }
    return any;
}

/* Whether the line ends before or within a time that belongs to its sentence, and that `next` ends: "CANCELLED AT",
 * "since 2026-01". An address is no time: "connecting to 10.0.0.1:29500". */
static bool awaits_time(const char *line, size_t size, const char *next, size_t next_size)
{
    const size_t whole = size;
    while (size > 1 && (isdigit((unsigned char)line[size - 1]) || strchr("-:.T", line[size - 1]) != NULL) &&
           (line[size - 1] != 'T' || isdigit((unsigned char)line[size - 2])))
        size--;
    if (size < whole && !is_torn_time(line + size, whole - size, next, next_size))
        return false;
    while (size > 0 && line[size - 1] == ' ')
        size--;
    return tess_text_has(line, size, TESS_WORD_ENDS,
                         " at| AT| on| since| SINCE| until| UNTIL| before| after| from| to");
}

/* Whether `next` may be the rest of `line`: it begins neither like a new line nor like `line`. Blanks at its end do
 * not count, because a terminal pads lines. */
static bool may_continue(const char *line, size_t size, const char *next, size_t next_size)
{
    while (next_size > 0 && next[next_size - 1] == ' ')
        next_size--;
    if (are_alike(line, size, next, next_size) || is_drawn(line, size) || is_drawn(next, next_size))
        return false;
    if (log_has_time(next, next_size < HEAD ? next_size : HEAD) && awaits_time(line, size, next, next_size))
        return true;
    return !begins(next, next_size) && !begins_with_host(next, next_size);
}

/* Whether a line is full. If lines are cut between words, it is full if the next word did not fit. */
static bool is_full(log_wrap wrap, const char *line, size_t size, const char *next, size_t next_size)
{
    size_t n = (size_t)tess_utf8_count(line, size);
    size_t word = wrap.at_words ? 1 + (size_t)tess_utf8_count(next, first_word(next, next_size)) : 0;
    return n <= wrap.width && (wrap.at_words ? n + word > wrap.width : n == wrap.width);
}

bool log_wrap_joins(log_wrap wrap, const char *line, size_t size, const char *next, size_t next_size)
{
    return wrap.width > 0 && is_full(wrap, line, size, next, next_size) && may_continue(line, size, next, next_size);
}

static bool is_driver_line(const char *line, size_t size)
{
    return memmem(line, size < HEAD ? size : HEAD, "NVRM: ", 6) != NULL;
}

/* Recognizes messages in several lines: launchers print lines of about 76 columns, and NVIDIA's driver prints some
 * messages in three lines. */
bool log_message_is_open(const char *line, size_t size)
{
    enum { LEAST = 30, MOST = 160 };
    if (size < LEAST || size > MOST)
        return false;
    if (tess_text_has(line, size, TESS_WORD_ENDS, " on| of| with| the| by| has| was| is| to| from| a"))
        return true;
    return line[size - 1] != '.' && is_driver_line(line, size);
}

bool log_message_goes_on(const char *line, size_t size, const char *next, size_t next_size, size_t *skip)
{
    size_t blanks = 0;
    *skip = 0;
    if (is_driver_line(line, size)) {
        while (blanks < next_size && next[blanks] == ' ')
            blanks++;
        *skip = blanks + 6;
        return blanks > 1 && next_size > *skip && memcmp(next + blanks, "NVRM: ", 6) == 0;
    }
    return next_size > 0 && islower((unsigned char)next[0]) && !begins(next, next_size);
}

/* Reads the line at text[*at..size), without its line end, and moves *at after it. Returns false at the end of the
 * text. */
static bool take(const char *text, size_t size, size_t *at, const char **line, size_t *n)
{
    if (*at >= size)
        return false;
    const char *end = memchr(text + *at, '\n', size - *at);
    *line = text + *at;
    *n = end != NULL ? (size_t)(end - *line) : size - *at;
    *at += *n + 1;
    *n -= *n > 0 && (*line)[*n - 1] == '\r';
    return true;
}

/* Whether `next` continues a word or a list, or, if lines are cut between words, a sentence. */
static bool is_torn(log_wrap wrap, const char *line, size_t size, const char *next)
{
    const unsigned char last = (unsigned char)line[size - 1], first = (unsigned char)next[0];
    const char *inner = wrap.at_words ? "_-=(/" : "_-=.(/"; /* between words, a point ends a sentence */
    const bool open = isalpha(last) || (last == ' ' && !wrap.at_words) || strchr(inner, last) != NULL;
    const bool inside =
        islower(first) || isdigit(first) || first == '=' || (!wrap.at_words && (isupper(first) || first == '/'));
    const bool number = isdigit(first) || (!wrap.at_words && (first == ':' || first == '.' || first == '-'));
    const bool sentence = last == '.' && isupper(first); /* more likely two whole lines */
    return last == ',' || (open && inside && !sentence) || (isdigit(last) && number);
}

/* Whether terminals or programs that cut lines often use this width. */
static bool is_usual(size_t width)
{
    return width % 20 == 0 || width == 72 || width == 132;
}

/* Counts of lines that are followed by a possible continuation. */
typedef struct wrap_count {
    size_t all, full, torn; /* all lines; full lines; full lines that end in the middle of something */
} wrap_count;

static wrap_count count(log_wrap wrap, const char *text, size_t size, bool only_full)
{
    wrap_count found = {0};
    const char *line, *next;
    size_t n, next_n, at = 0;
    for (bool any = take(text, size, &at, &line, &n); any && take(text, size, &at, &next, &next_n);
         line = next, n = next_n) {
        bool full = n > 0 && is_full(wrap, line, n, next, next_n);
        if (n == 0 || (only_full && !full) || !may_continue(line, n, next, next_n))
            continue;
        found.all++;
        found.full += full;
        found.torn += full && is_torn(wrap, line, n, next);
    }
    return found;
}

/* Whether the log was cut at this width. If it was, nearly all possible continuations follow a full line; in a log
 * of whole lines, few do. If there are few full lines, each must end in the middle of something. If lines are then
 * not cut between words, the width must be that of a terminal: the longest of a few lines is always full.
 * *found: counts of full lines, and in `all` of the other lines with a possible continuation. */
static bool fits(log_wrap wrap, const char *text, size_t size, wrap_count *found)
{
    const bool narrow = wrap.width < NARROW;
    const size_t many = wrap.at_words && !narrow ? 2 : 3;
    *found = count(wrap, text, size, true);
    const bool usual = !wrap.at_words && is_usual(wrap.width), torn = found->torn == found->full;
    if (found->full == 0 || (found->full < many && (narrow || !(torn && (usual || wrap.at_words)))))
        return false;
    found->all = count(wrap, text, size, false).all - found->full;
    return found->all <= (usual && torn ? found->full : found->full / 9 + (found->full > 1));
}

/* Returns the width in characters of the longest line; 0: no log is cut at that width. */
static size_t longest(const char *text, size_t size)
{
    size_t most = 0, n;
    const char *line;
    for (size_t at = 0; take(text, size, &at, &line, &n);) {
        if (n > most)
            n = (size_t)tess_utf8_count(line, n);
        most = n > most ? n : most;
        if (most > MOST_WIDTH)
            return 0;
    }
    return most < LEAST_WIDTH ? 0 : most;
}

/* If both ways fit, lines were cut between words if that explains more continuations, and lines that are
 * shorter than the longest show it. */
log_wrap log_wrap_find(const char *text, size_t size)
{
    const log_wrap inside = {.width = longest(text, size)}, between = {.width = inside.width, .at_words = true};
    wrap_count hard = {0}, soft = {0};
    if (inside.width == 0)
        return inside;
    const bool is_hard = fits(inside, text, size, &hard);
    if (is_hard && hard.all == 0)
        return inside;
    const bool is_soft = fits(between, text, size, &soft);
    const bool shows = soft.torn > hard.torn || soft.full >= hard.full + 3;
    if (is_hard && !(is_soft && shows && soft.all < hard.all && soft.full >= 2 * hard.full))
        return inside;
    return is_soft ? between : (log_wrap){0};
}
