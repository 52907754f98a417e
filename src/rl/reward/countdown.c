/* Tasks about reaching a number: countdown (any expression) and signs (numbers in order, a sign between each). The
 * grammar of expressions has only the four operations, parentheses and plain integers. It is strict: no signs before
 * numbers, no exponents, only ASCII digits, and limited nesting. */
#include "rl/reward/reward_impl.h"

#include <string.h>

#include "base/text/json.h"

enum { MOST_BYTES = 4096, MOST_DEPTH = 64, MOST_DIGITS = 18 };
static const double USED_RIGHTLY = 0.1; /* reward for the right numbers with a wrong value */

typedef struct rational {
    int64_t over, under; /* a reduced fraction; under > 0 */
} rational;

typedef struct expression {
    reward_text text;
    size_t at;
    int depth;
    const reward_numbers *task;
    bool used[REWARD_MOST_NUMBERS];
} expression;

/* Reduces a fraction. False: it does not fit, or `under` is 0. */
static bool reduce(__int128 over, __int128 under, rational *result)
{
    if (under == 0)
        return false;
    __int128 a = over < 0 ? -over : over, b = under < 0 ? -under : under;
    while (b != 0) {
        __int128 rest = a % b;
        a = b;
        b = rest;
    }
    if (under < 0)
        a = -a;
    over /= a;
    under /= a;
    if (over > INT64_MAX || over < -INT64_MAX || under > INT64_MAX)
        return false;
    *result = (rational){(int64_t)over, (int64_t)under};
    return true;
}

/* Sets a to a `operator` b. The terms of a sum are below 2^126 each, so they cannot overflow. */
static bool apply(char operator, rational * a, rational b)
{
    __int128 p = a->over, q = a->under;
    switch (operator) {
    case '+':
        return reduce(p * b.under + q * b.over, q * b.under, a);
    case '-':
        return reduce(p * b.under - q * b.over, q * b.under, a);
    case '*':
        return reduce(p * b.over, q * b.under, a);
    default:
        return reduce(p * b.under, q * b.over, a);
    }
}

static char peek(expression *e)
{
    while (e->at < e->text.size && reward_is_space(e->text.at[e->at]))
        e->at++;
    return e->at < e->text.size ? e->text.at[e->at] : '\0';
}

static bool read_integer(reward_text text, size_t *at, int64_t *value)
{
    size_t begin = *at;
    *value = 0;
    for (; *at < text.size && reward_is_digit(text.at[*at]); ++*at) {
        if (*at - begin == MOST_DIGITS)
            return false;
        *value = *value * 10 + (text.at[*at] - '0');
    }
    size_t n = *at - begin;
    return n == 1 || (n > 1 && text.at[begin] != '0');
}

static bool use(expression *e, int64_t number)
{
    for (int i = 0; i < e->task->n; i++) {
        if (e->task->number[i] == number && !e->used[i]) {
            e->used[i] = true;
            return true;
        }
    }
    return false;
}

static bool read_sum(expression *e, rational *value);

static bool read_factor(expression *e, rational *value)
{
    if (peek(e) == '(') {
        e->at++;
        if (++e->depth > MOST_DEPTH || !read_sum(e, value) || peek(e) != ')')
            return false;
        e->depth--;
        e->at++;
        return true;
    }
    int64_t number;
    if (!read_integer(e->text, &e->at, &number) || !use(e, number))
        return false;
    *value = (rational){number, 1};
    return true;
}

static bool read_product(expression *e, rational *value)
{
    if (!read_factor(e, value))
        return false;
    for (char operator; (operator= peek(e)) == '*' || operator== '/';) {
        rational right;
        e->at++;
        if (!read_factor(e, &right) || !apply(operator, value, right))
            return false;
    }
    return true;
}

static bool read_sum(expression *e, rational *value)
{
    if (!read_product(e, value))
        return false;
    for (char operator; (operator= peek(e)) == '+' || operator== '-';) {
        rational right;
        e->at++;
        if (!read_product(e, &right) || !apply(operator, value, right))
            return false;
    }
    return true;
}

/* Returns the content of the last <answer></answer>, or the whole text if there is none. */
static reward_text answer_in(reward_text response)
{
    static const char open[] = "<answer>", close[] = "</answer>";
    size_t end = reward_find_last(response, close, SIZE_MAX);
    size_t begin = end == SIZE_MAX ? SIZE_MAX : reward_find_last(response, open, end);
    if (begin == SIZE_MAX)
        return response;
    begin += sizeof(open) - 1;
    return (reward_text){response.at + begin, end - begin};
}

double reward_countdown(reward_text response, const reward_numbers *task)
{
    expression e = {.text = reward_trim(answer_in(response)), .task = task};
    rational value;
    if (e.text.size > MOST_BYTES || !read_sum(&e, &value) || e.at != e.text.size)
        return 0;
    return value.under == 1 && value.over == task->target ? 1 : USED_RIGHTLY;
}

tess_status reward_countdown_task(const json_t *metadata, reward_numbers *task)
{
    const json_t *numbers = json_object_get(metadata, "numbers"), *target = json_object_get(metadata, "target");
    TESS_CHECK(json_is_integer(target) && json_is_array(numbers), TESS_E_INVALID,
               "countdown needs metadata {\"target\": integer, \"numbers\": [integers]}");
    TESS_CHECK(json_array_size(numbers) <= REWARD_MOST_NUMBERS, TESS_E_INVALID, "%zu numbers for countdown, at most %d",
               json_array_size(numbers), REWARD_MOST_NUMBERS);
    task->target = json_integer_value(target);
    task->n = (int)json_array_size(numbers);
    for (int i = 0; i < task->n; i++) {
        const json_t *number = json_array_get(numbers, (size_t)i);
        TESS_CHECK(json_is_integer(number) && json_integer_value(number) >= 0, TESS_E_INVALID,
                   "metadata: numbers[%d] is no integer from 0 up", i);
        task->number[i] = json_integer_value(number);
    }
    return TESS_OK;
}

/* ---- Signs ---- */
static bool read_task(reward_text prompt, reward_numbers *task)
{
    enum { FEW_DIGITS = 9 }; /* limit of a number: no sum of such numbers overflows */
    size_t at = 0, begin = 0;
    task->n = 0;
    do {
        begin = at;
        if (task->n == REWARD_MOST_NUMBERS || !read_integer(prompt, &at, &task->number[task->n++]) ||
            at - begin > FEW_DIGITS || at == prompt.size)
            return false;
    } while (prompt.at[at++] == ' ');
    bool negative = at < prompt.size && prompt.at[at] == '-';
    at += negative;
    if (prompt.at[at - 1 - negative] != '=' || task->n < 2 || !read_integer(prompt, &at, &task->target))
        return false;
    task->target = negative ? -task->target : task->target;
    return at + 1 == prompt.size && prompt.at[at] == ':';
}

tess_status reward_signs_task(reward_text prompt, reward_numbers *task)
{
    char text[44];
    TESS_CHECK(read_task(prompt, task), TESS_E_INVALID,
               "signs needs a prompt like \"7 2 5=4:\" (numbers, the target, a colon); this is '%s'",
               reward_snippet(prompt.at, prompt.size, 40, text));
    return TESS_OK;
}

double reward_signs(reward_text response, const reward_numbers *task)
{
    int64_t sum = 0, number;
    size_t at = 0;
    for (int i = 0; i < task->n; i++) {
        char sign = '+';
        if (i > 0)
            sign = at < response.size ? response.at[at++] : '\0';
        if ((sign != '+' && sign != '-') || !read_integer(response, &at, &number) || number != task->number[i])
            return 0;
        sum += sign == '+' ? number : -number;
    }
    if (at != response.size)
        return 0;
    return sum == task->target ? 1 : USED_RIGHTLY;
}
