/* Answers that are compared with the label. */
#include <string.h>

#include "data/tokenizer/unicode.h"
#include "rl/reward/reward_impl.h"

double reward_exact(reward_text response, reward_text label)
{
    return reward_same(reward_trim(response), reward_trim(label));
}

/* ---- Numbers ---- */
static const char minus_sign[] = "\xe2\x88\x92"; /* U+2212 */
enum { MINUS_SIGN = sizeof(minus_sign) - 1, LONGEST_CHARACTER = 4 };

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_minus(reward_text text, size_t at)
{
    return text.size - at >= MINUS_SIGN && memcmp(text.at + at, minus_sign, MINUS_SIGN) == 0;
}

/* The character at text.at[at]; 0: its bytes are not UTF-8, or there is none. *size: its bytes, at least 1. */
static uint32_t character_at(reward_text text, size_t at, size_t *size)
{
    uint32_t c = 0;
    const int n = at < text.size ? tess_utf8_decode((const uint8_t *)text.at + at, text.size - at, &c) : 0;
    *size = n > 0 ? (size_t)n : 1;
    return n > 0 ? c : 0;
}

/* The character that ends where text.at[at] begins; likewise. */
static uint32_t character_before(reward_text text, size_t at)
{
    for (size_t n = 1; n <= LONGEST_CHARACTER && n <= at; n++) {
        size_t size;
        const uint32_t c = character_at(text, at - n, &size);
        if (c != 0 && size == n)
            return c;
    }
    return 0;
}

static bool is_number_at(reward_text text, size_t at)
{
    size_t size;
    return tess_is_number(character_at(text, at, &size));
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

/* Whether the text at `at` makes the number before it another thing than it seems: an exponent, a second point, a wrong
 * group of digits, digits of another script, or a sign that joins it with another number, as in 1/2, 10:30 or 3^4. A
 * unit does not. */
static bool goes_on(reward_text text, size_t at)
{
    if (at >= text.size || is_minus(text, at))
        return false;
    const char c = text.at[at], next = at + 1 < text.size ? text.at[at + 1] : ' ';
    if (c == 'e' || c == 'E')
        return reward_is_digit(next) || next == '+' || next == '-';
    if ((unsigned char)c < 128)
        return reward_is_digit(c) || c == '_' || (strchr(".,/:^", c) != NULL && reward_is_digit(next));
    size_t size;
    const uint32_t wide = character_at(text, at, &size);
    return wide == 0 || tess_is_number(wide) || is_number_at(text, at + size);
}

bool reward_decimal_read(reward_text text, reward_decimal *number, size_t *used)
{
    size_t at = is_minus(text, 0) ? MINUS_SIGN : text.size > 0 && (text.at[0] == '-' || text.at[0] == '+');
    number->negative = at > 0 && text.at[0] != '+';
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

/* Finds the text after the last "####"; false: there is none. */
static bool marked_part(reward_text text, reward_text *part)
{
    size_t at = reward_find_last(text, "####", SIZE_MAX);
    if (at != SIZE_MAX)
        *part = reward_trim((reward_text){text.at + at + 4, text.size - at - 4});
    return at != SIZE_MAX;
}

static bool is_currency(uint32_t c)
{
    return c == '$' || (c >= 0xa2 && c <= 0xa5) || (c >= 0x20a0 && c <= 0x20cf);
}

/* The number that a text begins with, where a sign of a currency may come first. */
static bool first_number(reward_text text, reward_decimal *number)
{
    size_t size, used;
    if (is_currency(character_at(text, 0, &size)))
        text = reward_trim((reward_text){text.at + size, text.size - size});
    return reward_decimal_read(text, number, &used);
}

/* Whether a number may start here: not in a word or in another number; a sign belongs to it where no operand is before.
 */
static bool starts_number(reward_text text, size_t at)
{
    const char c = is_minus(text, at) ? '-' : text.at[at], earlier = at > 1 ? text.at[at - 2] : ' ';
    uint32_t before = at > 0 ? character_before(text, at) : ' ';
    before = before == 0x2212 ? '-' : before;
    if (before == 0 || before == '_' || tess_is_word(before) || tess_is_number(before))
        return false;
    if ((before == '/' || before == ':' || before == '^') && reward_is_digit(earlier))
        return false;
    if (c == '-')
        return before != ')' && before != '-' && before != '+';
    return reward_is_digit(c) ? before != '.' : c == '.';
}

/* Counts the numbers of a text; *number: the last one. *strange: a digit belongs to none of them, as in 1e5 or x2. */
static int count_numbers(reward_text text, reward_decimal *number, bool *strange)
{
    int n = 0;
    *strange = false;
    for (size_t i = 0; i < text.size;) {
        reward_decimal candidate;
        size_t used = 0;
        const bool is_number =
            starts_number(text, i) && reward_decimal_read((reward_text){text.at + i, text.size - i}, &candidate, &used);
        if (is_number) {
            *number = candidate;
            n++;
        }
        const bool has_digits = used > 0 ? candidate.whole.size + candidate.fraction.size > 0 : is_number_at(text, i);
        *strange |= !is_number && has_digits;
        i += used > 0 ? used : 1;
        for (; used > 0 && i < text.size && (reward_is_digit(text.at[i]) || is_letter(text.at[i])); i++)
            *strange |= reward_is_digit(text.at[i]); /* the rest of something like 1e5 or 5kg */
    }
    return n;
}

static bool response_number(reward_text text, bool fallback, reward_decimal *number)
{
    bool strange;
    reward_text part;
    if (marked_part(text, &part))
        return first_number(part, number);
    return fallback && count_numbers(text, number, &strange) > 0;
}

tess_status reward_number_label(reward_text label, reward_decimal *number)
{
    bool strange;
    char text[44];
    reward_text part = label;
    const bool marked = marked_part(label, &part);
    const int n = count_numbers(part, number, &strange);
    TESS_CHECK(n == 1 && !strange && (!marked || first_number(part, number)), TESS_E_INVALID,
               "its label '%s' is not one number", reward_snippet(part.at, part.size, 40, text));
    return TESS_OK;
}

tess_status reward_number(reward_text response, reward_text label, bool fallback, double *value)
{
    reward_decimal wanted, got;
    TESS_TRY(reward_number_label(label, &wanted));
    *value = response_number(response, fallback, &got) && reward_decimal_same(&wanted, &got);
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

/* Strips white space and dollar signs around a text. */
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
