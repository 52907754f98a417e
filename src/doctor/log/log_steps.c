/* Recognizes lines that show that a program goes on: steps of training, progress bars, answers of a server. A log in
 * which such lines follow an error is the log of a run that survived it. */
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "base/core/rng.h"
#include "doctor/log/log_impl.h"

/* most bytes of a line that are searched, and most characters between a word and its number */
enum { MOST_SEARCHED = 400, MOST_MARKS = 16 };

/* A part of a line. */
typedef struct line_part {
    const char *text;
    size_t size;
} line_part;

static bool is_letter(char c)
{
    return isalpha((unsigned char)c) != 0;
}

/* Whether the name of an option ends before `at`: "max_steps=100" sets a limit, "global_step=100" reports. */
static bool is_option(line_part line, size_t at)
{
    return at > 0 && (line.text[at - 1] == '_' || line.text[at - 1] == '-') &&
           !tess_text_has(line.text, at - 1, TESS_WORD_ENDS + TESS_WORD_CASELESS,
                          "global|train|training|current|cur|optimizer|micro");
}

/* Finds the number after the word at `at` of `n` bytes: "step=20", "iteration 100/ 1000", "Epoch [3/10]". The plural
 * gives a limit or a count. Returns an empty line_part if there is none. */
static line_part number_after(line_part line, size_t at, size_t n)
{
    size_t end = at + n, marks = 0;
    while (end < line.size && marks < MOST_MARKS && strchr(" \t:=[]()'\"#|,", line.text[end]) != NULL) {
        end++;
        marks++;
    }
    size_t begin = end;
    while (end < line.size && (isdigit((unsigned char)line.text[end]) || line.text[end] == '.'))
        end++;
    bool is_number = end > begin && marks > 0 && isdigit((unsigned char)line.text[begin]) &&
                     !(end < line.size && is_letter(line.text[end]) && line.text[end] != 'e');
    return is_number ? (line_part){line.text + begin, end - begin} : (line_part){NULL, 0};
}

/* Whether the line is a bar of something that comes before training, such as the files of a checkpoint. */
static bool is_preparation(line_part line)
{
    size_t begin = log_text_begin(line.text, line.size);
    return begin < line.size &&
           tess_text_has(line.text + begin, line.size - begin, TESS_WORD_BEGINS + TESS_WORD_CASELESS,
                         "loading|fetching|download|map:|map (|filter|resolving|generating tr|tokeniz|preproces|"
                         "running t|convert");
}

/* Finds the count in "10/100", "100 / 500" or "[  10/1042]". A date or a path does not count. */
static line_part count_of(line_part line)
{
    for (size_t at = 1; at + 1 < line.size; at++) {
        size_t end = at, next = at + 1;
        if (line.text[at] != '/')
            continue;
        while (end > 0 && line.text[end - 1] == ' ')
            end--;
        while (next < line.size && line.text[next] == ' ')
            next++;
        size_t begin = end;
        while (begin > 0 && isdigit((unsigned char)line.text[begin - 1]))
            begin--;
        size_t after = next;
        while (after < line.size && isdigit((unsigned char)line.text[after]))
            after++;
        bool is_part = (begin > 0 && strchr("/.-", line.text[begin - 1]) != NULL) ||
                       (after < line.size && strchr("/.-", line.text[after]) != NULL);
        if (begin < end && next < after && !is_part)
            return (line_part){line.text + begin, end - begin};
    }
    return (line_part){NULL, 0};
}

/* Whether the line is a progress bar, "| 10/100 [00:01<00:09, 9.87it/s]". */
static bool is_bar(line_part line)
{
    return tess_text_has(line.text, line.size, TESS_WORD_IN, "it/s|s/it") ||
           (memmem(line.text, line.size, "/s]", 3) != NULL && memmem(line.text, line.size, "%|", 2) != NULL);
}

bool log_is_slow_bar(const char *text, size_t size)
{
    static const int timeouts_min[] = {10, 30, 60};
    enum { LONG_S = 540 };
    line_part line = {text, size < MOST_SEARCHED ? size : MOST_SEARCHED};
    const char *end = line.text + line.size, *percent = memmem(line.text, line.size, "%|", 2);
    const char *time = percent != NULL ? memmem(percent, (size_t)(end - percent), " [", 2) : NULL;
    const char *less = time != NULL ? memchr(time, '<', (size_t)(end - time)) : NULL;
    int part = 0, seconds = 0;
    if (less == NULL || !is_bar(line) || (percent - line.text >= 3 && memcmp(percent - 3, "100", 3) == 0))
        return false;
    for (time += 2; time < less && (isdigit((unsigned char)*time) || *time == ':'); time++) {
        seconds += *time == ':' ? part : 0;
        seconds = *time == ':' ? seconds * 60 : seconds;
        part = *time == ':' ? 0 : part < 1000 ? part * 10 + (*time - '0') : part;
    }
    seconds += part;
    bool is_like_a_timeout = false;
    for (size_t i = 0; i < sizeof(timeouts_min) / sizeof(timeouts_min[0]); i++)
        is_like_a_timeout |= seconds > timeouts_min[i] * 57 && seconds < timeouts_min[i] * 64;
    return time == less && seconds >= LONG_S && (is_preparation(line) || is_like_a_timeout);
}

/* Finds the loss, "loss: 2.31", "'loss': 2.31". */
static line_part loss_of(line_part line)
{
    for (size_t at = 0; at + 4 < line.size; at++) {
        size_t n = at + 3;
        if ((line.text[at] | 0x20) != 'o' || memcmp(line.text + at + 1, "ss", 2) != 0)
            continue;
        while (n < line.size && n < at + 8 && strchr("'\": =", line.text[n]) != NULL)
            n++;
        size_t end = n;
        while (end < line.size && (isdigit((unsigned char)line.text[end]) || line.text[end] == '.'))
            end++;
        if (n > at + 3 && end > n && line.text[n] != '.')
            return (line_part){line.text + n, end - n};
    }
    return (line_part){NULL, 0};
}

/* Finds a rate of a trainer or a server, or an answer of a server: the line itself is then the mark of a step. */
static bool is_rate(line_part line)
{
    const char *speed = memmem(line.text, line.size, " samples/sec", 12);
    if (speed != NULL && speed > line.text && isdigit((unsigned char)speed[-1]))
        return true;
    return tess_text_has(line.text, line.size, TESS_WORD_IN, "generation throughput: |throughput (token/s): ") ||
           (memmem(line.text, line.size, "\"POST /", 7) != NULL && memmem(line.text, line.size, "\" 200", 5) != NULL);
}

bool log_step_of_line(const char *text, size_t size, log_step *step)
{
    static const char *const words[] = {"step", "iteration", "iter", "epoch"};
    const line_part line = {text, size < MOST_SEARCHED ? size : MOST_SEARCHED};
    *step = (log_step){.id = 0};
    line_part count = count_of(line);
    bool has_bar = count.size > 0 && is_bar(line);
    if (has_bar && is_preparation(line))
        return false;
    uint64_t id = has_bar ? tess_hash_bytes(count.text, count.size, 1) : 0;
    for (size_t at = 0; at + 4 <= line.size; at++)
        for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
            size_t n = strlen(words[i]);
            if ((line.text[at] | 0x20) != words[i][0] || at + n > line.size ||
                strncasecmp(line.text + at, words[i], n) != 0 || is_option(line, at))
                continue;
            line_part number = number_after(line, at, n);
            if (number.size > 0)
                id = id * 31 + tess_hash_bytes(number.text, number.size, 2 + i);
        }
    if (id != 0 && !has_bar && count.size > 0)
        id = id * 31 + tess_hash_bytes(count.text, count.size, 1);
    line_part loss = id == 0 ? loss_of(line) : (line_part){NULL, 0};
    if (loss.size > 0)
        id = tess_hash_bytes(loss.text, loss.size, 9);
    else if (id == 0 && is_rate(line))
        id = tess_hash_bytes(text, size < 1024 ? size : 1024, 10);
    step->id = id;
    step->is_live = has_bar || log_has_time(text, size);
    return id != 0;
}

bool log_says_it_goes_on(const char *line, size_t size)
{
    return tess_text_has(line, size < 2048 ? size : 2048, TESS_WORD_IN + TESS_WORD_CASELESS,
                         "retry|retrie|attempting to recover|recovering|recovered|trying again|fall back|falling back|"
                         "fallback|skipping|skipped|ignoring|ignored|continuing|proceeding|non-fatal|nonfatal|"
                         "reducing batch");
}

bool log_passes_over(const char *line, size_t size)
{
    return log_says_it_goes_on(line, size) ||
           tess_text_has(line, size < 2048 ? size : 2048, TESS_WORD_IN + TESS_WORD_CASELESS,
                         "will try |will be disabled");
}

bool log_announces_a_retry(const char *line, size_t size)
{
    size_t begin = log_text_begin(line, size);
    return size > begin && line[size - 1] == ':' && log_is_mild(line, size) &&
           log_says_it_goes_on(line + begin, size - begin);
}

bool log_is_advice(const char *line, size_t size)
{
    enum { HEAD = 200 };
    return tess_text_has(line, size < HEAD ? size : HEAD, TESS_WORD_IN, "INFO|DEBUG") &&
           !tess_text_has(line, size, TESS_WORD_IN, "Error|Tried to allocate") &&
           tess_text_has(line, size < MOST_SEARCHED ? size : MOST_SEARCHED, TESS_WORD_IN + TESS_WORD_CASELESS,
                         "if you |in case ") &&
           log_is_mild(line, size);
}

bool log_is_fallback_used(const char *line, size_t size)
{
    return tess_text_has(line, size < MOST_SEARCHED ? size : MOST_SEARCHED, TESS_WORD_IN + TESS_WORD_CASELESS,
                         "using the latest cached version|using cached |using the cached |using a cached |"
                         "using the local copy|loading it from the cache") &&
           (log_is_mild(line, size) || log_is_python_warning(line, size));
}

bool log_is_python_warning(const char *line, size_t size)
{
    size_t begin = log_text_begin(line, size), most = size - begin < MOST_SEARCHED ? size - begin : MOST_SEARCHED;
    const char *text = line + begin, *at = memmem(text, most, "Warning: ", 9);
    if (log_begins_with(text, size - begin, "warnings.warn("))
        return true;
    if (at == NULL)
        return false;
    const char *name = at;
    while (name > text && is_letter(name[-1]))
        name--;
    if (name == text)
        return at > name; /* "UserWarning: x" */
    /* "/opt/x.py:12: UserWarning: x" */
    return at > name && name - text >= 3 && name[-1] == ' ' && name[-2] == ':' && isdigit((unsigned char)name[-3]);
}
