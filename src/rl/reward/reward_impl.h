/* Private header of the graders: texts, numbers, answers, and the state of a call. */
#ifndef TESS_RL_REWARD_REWARD_IMPL_H
#define TESS_RL_REWARD_REWARD_IMPL_H

#include "base/text/regex.h"
#include "base/text/text.h"
#include "rl/reward/reward.h"

/* Bytes of a prompt, a response or a label. */
typedef struct reward_text {
    const char *at;
    size_t size;
} reward_text;

reward_text reward_trim(reward_text text); /* removes ASCII white space at both ends */
bool reward_is_space(char c);
bool reward_is_digit(char c); /* whether it is an ASCII digit; digits of other scripts do not count */
bool reward_same(reward_text a, reward_text b);
/* Start of the last `needle` that begins before `end`, or SIZE_MAX. */
size_t reward_find_last(reward_text text, const char *needle, size_t end);

/* Copies at most `most` characters of the text for a message, with '?' for bytes that are not printable ASCII and
 * "..." if it is truncated. `out` has `most` + 4 bytes and is returned. */
const char *reward_snippet(const char *text, size_t size, int most, char *out);

/* Makes a JSON string of any bytes; bytes that are not UTF-8 become U+FFFD. Returns a new reference; NULL: no
 * memory. */
json_t *reward_json_text(tess_mem *mem, const char *text, size_t size);

/* ---- An external grader's answer ---- */
typedef struct reward_answer {
    bool is_null;
    double value; /* sum of the parts */
    int n_parts;
    tess_reward_part part[TESS_REWARD_PARTS];
} reward_answer;

/* Parses a line {"id": integer, "reward": R}. R is a number, {name: number} or null; a number is one part called
 * `name`. Other members are ignored. TESS_E_FORMAT quotes the line. */
tess_status reward_answer_parse(const char *line, size_t size, const char *name, uint64_t *id, reward_answer *answer);
/* Parses a body: R, or {"reward": R}. */
tess_status reward_body_parse(const char *body, size_t size, const char *name, reward_answer *answer);

/* ---- A call of tess_rewarder_score ---- */
typedef struct reward_call {
    const tess_reward_item *items;
    int64_t n;
    tess_reward_result *out;
    int64_t n_all;           /* number of items on all ranks */
    int64_t failed, allowed; /* items that have failed on this rank; that may fail on all */
    double max_failures;
    tess_reward_failures *failures;
} reward_call;

/* Gives item i one grader's parts, or marks it as without a reward. */
tess_status reward_call_answered(reward_call *call, int64_t i, const char *grader, double weight,
                                 const reward_answer *answer);
/* Marks item i as failed, for the reason in the newest error message. Returns TESS_OK as long as the limit of
 * failures is not exceeded; the message is then cleared. */
tess_status reward_call_failed(reward_call *call, int64_t i, const char *grader);
/* Fails a call in which too many items have failed: TESS_E_INVALID. */
tess_status reward_too_many(int64_t failed, int64_t n_all, double max_failures, const char *newest);

/* ---- Built-in graders ---- */
typedef struct reward_regex {
    tess_regex *regex;
    tess_regex_scratch *scratch;
} reward_regex;

/* `what` is the option's name; `whole`: the pattern must match the whole response. Free *regex on failure, too.
 * TESS_E_INVALID: the pattern does not compile. */
tess_status reward_regex_create(tess_mem *mem, const char *pattern, bool whole, const char *what, reward_regex *regex);
void reward_regex_free(reward_regex *regex);
/* TESS_E_INVALID: matching took too many steps or too much memory. */
tess_status reward_regex_grade(const reward_regex *regex, reward_text response, reward_text label, double *value);
tess_status reward_format_grade(const reward_regex *regex, reward_text response, double *value);

/* A decimal number as text: [sign] digits [. digits], without commas or superfluous zeros. */
typedef struct reward_decimal {
    bool negative;
    reward_text whole, fraction; /* digits; `whole` may hold commas */
} reward_decimal;

/* Reads the number that starts at text.at[0]; *used: its bytes. False: there is no number, or its continuation makes
 * it something else ("1e1", "1.2.3", "1,23", "1/2"). A unit may follow ("5kg"). U+2212 is a minus sign, too. */
bool reward_decimal_read(reward_text text, reward_decimal *number, size_t *used);
bool reward_decimal_same(const reward_decimal *a, const reward_decimal *b);

double reward_exact(reward_text response, reward_text label);
/* Reads the only number of a label. If the label has "####", reads the number right after the last one, as in a
 * response. TESS_E_INVALID: no number, or several. */
tess_status reward_number_label(reward_text label, reward_decimal *number);
/* TESS_E_INVALID: as above. */
tess_status reward_number(reward_text response, reward_text label, bool fallback, double *value);
/* Finds the content of the last \boxed{}. False: there is none, or its brace is never closed. */
bool reward_boxed_content(reward_text text, reward_text *content);
double reward_boxed(reward_text response, reward_text label);
tess_status reward_f1(tess_mem *mem, reward_text response, reward_text label, double *value);

/* The numbers of a task. */
enum { REWARD_MOST_NUMBERS = 64 };
typedef struct reward_numbers {
    int64_t target;
    int n;
    int64_t number[REWARD_MOST_NUMBERS];
} reward_numbers;

/* TESS_E_INVALID: metadata without "target" and "numbers". */
tess_status reward_countdown_task(const json_t *metadata, reward_numbers *task);
double reward_countdown(reward_text response, const reward_numbers *task);
/* TESS_E_INVALID: the prompt is not of this task. */
tess_status reward_signs_task(reward_text prompt, reward_numbers *task);
double reward_signs(reward_text response, const reward_numbers *task);

#endif
