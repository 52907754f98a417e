/* Answers that are compared with the label. */
#include "rl/reward/reward_impl.h"

double reward_exact(reward_text response, reward_text label)
{
    return reward_same(reward_trim(response), reward_trim(label));
}

/* ---- Numbers ---- */
static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (unsigned char)c >= 128;
}

static size_t digits_at(reward_text text, size_t at)
{
    size_t end = at;
    while (end < text.size && reward_is_digit(text.at[end]))
        end++;
    return end - at;
}

/* Digits, or groups of three after commas. */
static size_t whole_at(reward_text text, size_t at)
{
    size_t n = digits_at(text, at);
    if (n == 0 || n > 3)
        return n;
    while (at + n < text.size && text.at[at + n] == ',' && digits_at(text, at + n + 1) == 3)
        n += 4;
    return n;
}

/* What makes the number before it another thing than it seems: an exponent, a second point, a wrong group of digits, or
 * digits of another script. */
static bool goes_on(reward_text text, size_t at)
{
    if (at >= text.size)
        return false;
    char next = at + 1 < text.size ? text.at[at + 1] : ' ';
    if (text.at[at] == 'e' || text.at[at] == 'E')
        return reward_is_digit(next) || next == '+' || next == '-';
    bool joins = text.at[at] == '.' || text.at[at] == ',';
    return reward_is_digit(text.at[at]) || (joins && reward_is_digit(next)) || text.at[at] == '_' ||
           (unsigned char)text.at[at] >= 128;
}

bool reward_decimal_read(reward_text text, reward_decimal *number, size_t *used)
{
    size_t at = text.size > 0 && (text.at[0] == '-' || text.at[0] == '+');
    number->negative = at == 1 && text.at[0] == '-';
    number->whole = (reward_text){text.at + at, whole_at(text, at)};
    number->fraction = (reward_text){text.at + at, 0};
    at += number->whole.size;
    if (at < text.size && text.at[at] == '.' && digits_at(text, at + 1) > 0) {
        number->fraction = (reward_text){text.at + at + 1, digits_at(text, at + 1)};
        at += 1 + number->fraction.size;
    }
    *used = at;
    return number->whole.size + number->fraction.size > 0 && !goes_on(text, at);
}

/* The next digit of the whole part, without commas; '\0': none is left. */
static char next_digit(reward_text *whole)
{
    while (whole->size > 0) {
        char c = *whole->at;
        whole->at++;
        whole->size--;
        if (c != ',')
            return c;
    }
    return '\0';
}

static char first_digit(reward_text *whole)
{
    char c;
    do
        c = next_digit(whole);
    while (c == '0');
    return c;
}

static size_t size_without_zeros(reward_text fraction)
{
    while (fraction.size > 0 && fraction.at[fraction.size - 1] == '0')
        fraction.size--;
    return fraction.size;
}

bool reward_decimal_same(const reward_decimal *a, const reward_decimal *b)
{
    reward_text x = a->whole, y = b->whole;
    char c = first_digit(&x), d = first_digit(&y);
    bool zero = c == '\0';
    while (c == d && c != '\0') {
        c = next_digit(&x);
        d = next_digit(&y);
    }
    reward_text u = {a->fraction.at, size_without_zeros(a->fraction)};
    reward_text v = {b->fraction.at, size_without_zeros(b->fraction)};
    zero = zero && u.size == 0;
    return c == d && reward_same(u, v) && (zero || a->negative == b->negative);
}

/* The number after the last "####", where a dollar sign may come first. */
static bool marked_number(reward_text text, reward_decimal *number)
{
    size_t at = reward_find_last(text, "####", SIZE_MAX), used;
    if (at == SIZE_MAX)
        return false;
    reward_text rest = reward_trim((reward_text){text.at + at + 4, text.size - at - 4});
    if (rest.size > 0 && rest.at[0] == '$')
        rest = reward_trim((reward_text){rest.at + 1, rest.size - 1});
    return reward_decimal_read(rest, number, &used);
}

/* Whether a number may start here: not in a word or in another number; a sign belongs to it where no operand is before.
 */
static bool starts_number(reward_text text, size_t at)
{
    char c = text.at[at], before = at > 0 ? text.at[at - 1] : ' ';
    if (reward_is_digit(before) || is_letter(before) || before == '_')
        return false;
    if (c == '-')
        return before != ')' && before != '-' && before != '+';
    return reward_is_digit(c) ? before != '.' : c == '.';
}

static bool last_number(reward_text text, reward_decimal *number)
{
    bool found = false;
    for (size_t i = 0; i < text.size;) {
        reward_decimal candidate;
        size_t used = 0;
        if (starts_number(text, i) &&
            reward_decimal_read((reward_text){text.at + i, text.size - i}, &candidate, &used)) {
            *number = candidate;
            found = true;
        }
        i += used > 0 ? used : 1;
        while (used > 0 && i < text.size && (reward_is_digit(text.at[i]) || is_letter(text.at[i])))
            i++; /* the rest of something like 1e5 or 5kg */
    }
    return found;
}

static bool any_number(reward_text text, bool fallback, reward_decimal *number)
{
    if (reward_find_last(text, "####", SIZE_MAX) != SIZE_MAX)
        return marked_number(text, number);
    return fallback && last_number(text, number);
}

tess_status reward_number(reward_text response, reward_text label, bool fallback, double *value)
{
    reward_decimal wanted, got;
    char text[44];
    TESS_CHECK(any_number(label, true, &wanted), TESS_E_INVALID, "its label '%s' holds no number",
               reward_snippet(label.at, label.size, 40, text));
    *value = any_number(response, fallback, &got) && reward_decimal_same(&wanted, &got);
    return TESS_OK;
}

/* ---- \boxed{} ---- */
bool reward_boxed_content(reward_text text, reward_text *content)
{
    static const char open[] = "\\boxed{";
    size_t at = reward_find_last(text, open, SIZE_MAX), depth = 1;
    if (at == SIZE_MAX)
        return false;
    at += sizeof(open) - 1;
    for (size_t i = at; i < text.size; i++) {
        if (text.at[i] == '\\')
            i++; /* \{ and \} are characters of the answer */
        else if (text.at[i] == '{')
            depth++;
        else if (text.at[i] == '}' && --depth == 0) {
            *content = (reward_text){text.at + at, i - at};
            return true;
        }
    }
    return false;
}

/* Without what surrounds it and means nothing: white space, dollar signs. */
static reward_text bare(reward_text text)
{
    text = reward_trim(text);
    while (text.size >= 2 && text.at[0] == '$' && text.at[text.size - 1] == '$')
        text = reward_trim((reward_text){text.at + 1, text.size - 2});
    return text;
}

static bool same_without_spaces(reward_text a, reward_text b)
{
    size_t i = 0, j = 0;
    for (;; i++, j++) {
        while (i < a.size && reward_is_space(a.at[i]))
            i++;
        while (j < b.size && reward_is_space(b.at[j]))
            j++;
        if (i == a.size || j == b.size)
            return i == a.size && j == b.size;
        if (a.at[i] != b.at[j])
            return false;
    }
}

double reward_boxed(reward_text response, reward_text label)
{
    reward_text answer, wanted = label;
    if (!reward_boxed_content(response, &answer))
        return 0;
    reward_boxed_content(label, &wanted);
    answer = bare(answer);
    wanted = bare(wanted);
    reward_decimal a, b;
    size_t n, m;
    bool numbers = reward_decimal_read(answer, &a, &n) && n == answer.size && reward_decimal_read(wanted, &b, &m) &&
                   m == wanted.size;
    return numbers ? reward_decimal_same(&a, &b) : answer.size > 0 && same_without_spaces(answer, wanted);
}
