/* Graders by patterns. They are interpreted: the limits then count the same steps on every machine, which machine code
 * does not. */
#include <string.h>

#include "rl/reward/reward_impl.h"

enum { MOST_MATCHES = 4096 /* matches in one response */ };

tess_status reward_regex_create(tess_mem *mem, const char *pattern, bool whole, const char *what, reward_regex *regex)
{
    static const tess_regex_limits limits = {.groups = 1, .steps = 1 << 20, .depth = 1 << 14, .heap_kib = 8 << 10};
    const unsigned flags = TESS_REGEX_BROKEN_UTF8 | TESS_REGEX_DOTALL | (whole ? TESS_REGEX_WHOLE : 0);
    tess_status status = tess_regex_create(mem, pattern, strlen(pattern), flags, what, &regex->regex);
    if (status == TESS_OK)
        status = tess_regex_scratch_create(mem, &limits, &regex->scratch);
    return status == TESS_E_FORMAT ? TESS_E_INVALID : status; /* the pattern is an option, not a file */
}

void reward_regex_free(reward_regex *regex)
{
    tess_regex_destroy(&regex->regex);
    tess_regex_scratch_destroy(&regex->scratch);
}

/* Returns the place where the search continues: after the match, and one character further if the match was empty. */
static size_t next_from(reward_text text, size_t from, size_t end)
{
    if (end > from)
        return end;
    for (end = from + 1; end < text.size && ((unsigned char)text.at[end] & 0xc0) == 0x80;)
        end++;
    return end;
}

tess_status reward_regex_grade(const reward_regex *regex, reward_text response, reward_text label, double *value)
{
    const bool has_group = tess_regex_n_groups(regex->regex) > 0;
    bool found = true;
    size_t from = 0;
    *value = 0;
    for (int n = 0; found && from <= response.size; n++) {
        size_t begin, end;
        TESS_CHECK(n < MOST_MATCHES, TESS_E_INVALID, "the regex matches more than %d times", MOST_MATCHES);
        TESS_TRY(tess_regex_find(regex->regex, regex->scratch, response.size > 0 ? response.at : "", response.size,
                                 from, &found, &begin, &end));
        if (found && !has_group) {
            *value = 1;
            return TESS_OK;
        }
        if (found) {
            size_t next = next_from(response, from, end);
            reward_text group = {response.at, 0};
            if (tess_regex_group(regex->scratch, 1, &begin, &end))
                group = (reward_text){response.at + begin, end - begin};
            *value = reward_exact(group, label);
            from = next;
        }
    }
    return TESS_OK;
}

tess_status reward_format_grade(const reward_regex *regex, reward_text response, double *value)
{
    bool found;
    size_t begin, end;
    TESS_TRY(tess_regex_find(regex->regex, regex->scratch, response.size > 0 ? response.at : "", response.size, 0,
                             &found, &begin, &end));
    *value = found;
    return TESS_OK;
}
