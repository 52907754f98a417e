#include "control/launch/output/output_plan.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static bool is_given(const char *text)
{
    return text != NULL && text[0] != '\0';
}

/* Reads a number of at most six digits. Returns the text after it; NULL: there is none. */
static const char *read_number(const char *text, int *number)
{
    int n = 0;
    *number = 0;
    while (isdigit((unsigned char)text[n]) && n < 6)
        *number = 10 * *number + (text[n++] - '0');
    return n > 0 && !isdigit((unsigned char)text[n]) ? text + n : NULL;
}

/* Reads "3" or "0:1,1:3". Returns false if the text has another form. *streams: the value for `local`. */
static bool read_streams(const char *text, int local, int *streams)
{
    int number, value;
    *streams = OUTPUT_NONE;
    if (!is_given(text))
        return true;
    const char *at = read_number(text, &number);
    if (at != NULL && *at == '\0') {
        *streams = number;
        return number <= OUTPUT_ALL;
    }
    for (at = text;; at++) {
        at = read_number(at, &number);
        if (at == NULL || *at != ':')
            return false;
        at = read_number(at + 1, &value);
        if (at == NULL || value > OUTPUT_ALL || (*at != ',' && *at != '\0'))
            return false;
        if (number == local)
            *streams = value;
        if (*at == '\0')
            return true;
    }
}

/* Reads "0,3". *named: `local` is one of them, or the text is empty. */
static bool read_filter(const char *text, int local, bool *named)
{
    int number;
    *named = !is_given(text);
    if (*named)
        return true;
    for (const char *at = text;; at++) {
        at = read_number(at, &number);
        if (at == NULL || (*at != ',' && *at != '\0'))
            return false;
        *named |= number == local;
        if (*at == '\0')
            return true;
    }
}

static tess_status check_streams(const char *text, const char *name)
{
    int streams;
    TESS_CHECK(read_streams(text, 0, &streams), TESS_E_INVALID,
               "%s: '%.100s': write 0 (none), 1 (standard output), 2 (standard error) or 3 (both) for all ranks, or "
               "for some like 0:1,1:3",
               name, text);
    return TESS_OK;
}

tess_status tess_output_plan_check(const tess_output_plan *plan)
{
    bool named;
    TESS_TRY(check_streams(plan->redirects, "-r (job.log_redirects)"));
    TESS_TRY(check_streams(plan->tee, "-t (job.log_tee)"));
    TESS_CHECK(read_filter(plan->filter, 0, &named), TESS_E_INVALID,
               "--local-ranks-filter (job.log_ranks): '%.100s': write numbers of local ranks like 0,3", plan->filter);
    TESS_CHECK(!is_given(plan->folder) || strlen(plan->folder) < OUTPUT_TEXT_BYTES * 4, TESS_E_INVALID,
               "--log-dir (job.log_dir): the path is too long");
    return TESS_OK;
}

tess_output_choice tess_output_choose(const tess_output_plan *plan, int local, int rank)
{
    int redirects, tee;
    bool named;
    if (!is_given(plan->folder))
        return (tess_output_choice){OUTPUT_NONE, OUTPUT_NONE};
    if (plan->is_default)
        return rank > 0 ? (tess_output_choice){OUTPUT_ALL, OUTPUT_ALL} : (tess_output_choice){OUTPUT_NONE, OUTPUT_NONE};
    (void)read_streams(plan->redirects, local, &redirects);
    (void)read_streams(plan->tee, local, &tee);
    (void)read_filter(plan->filter, local, &named);
    if (!is_given(plan->redirects) && !is_given(plan->tee))
        tee = OUTPUT_ALL; /* a folder alone says that all is kept */
    return (tess_output_choice){redirects | tee, named ? tee : OUTPUT_NONE};
}
