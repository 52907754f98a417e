/* Reports the check of a policy, for people and for programs. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text/json.h"
#include "verify/on_policy.h"

#define PUT(...) TESS_TRY(tess_buffer_printf(out, __VA_ARGS__))

static const char *plural(int64_t n)
{
    return n == 1 ? "" : "s";
}

static const char *verdict_of(const tess_on_policy_case *c)
{
    if (c->skipped[0] != '\0')
        return "not run";
    if (c->n_different == 0)
        return "same";
    return c->must_equal ? "DIFFERS" : "differs";
}

static tess_status print_case(const tess_on_policy_case *c, const char *before, tess_buffer *out)
{
    PUT("  %-13s %-46s %-8s", strcmp(before, c->group) != 0 ? c->group : "", c->setting, verdict_of(c));
    if (c->skipped[0] != '\0')
        PUT("%s", c->skipped);
    else if (c->n_different == 0)
        PUT("0 of %" PRId64, c->n_tokens);
    else
        PUT("%" PRId64 " of %" PRId64 ", at most by %.2e", c->n_different, c->n_tokens, c->max_abs);
    if (c->turned_out > 0)
        PUT(", %" PRId64 " turned out of the cache", c->turned_out);
    if (c->shared > 0)
        PUT(", %" PRId64 " tokens read for two", c->shared);
    PUT("\n");
    if (c->layer[0] != '\0')
        PUT("  %-13s   first in %s\n", "", c->layer);
    return TESS_OK;
}

static tess_status print_first(const tess_on_policy_case *c, tess_buffer *out)
{
    PUT("  %s: %s: %" PRId64 " of %" PRId64 " tokens differ, at most by %.3g\n", c->group, c->setting, c->n_different,
        c->n_tokens, c->max_abs);
    if (c->token == c->other_token)
        PUT("    the first, token %" PRId64 " of text %d (id %d): %.9g here, %.9g there\n", c->position, c->sequence,
            c->token, (double)c->here, (double)c->there);
    else
        PUT("    the first, token %" PRId64 " of text %d: %d was drawn here, %d there\n", c->position, c->sequence,
            c->other_token, c->token);
    if (c->layer[0] != '\0')
        PUT("    the first layer that differs: %s\n", c->layer);
    return TESS_OK;
}

/* Returns how many cases must be equal. *same: how many are. */
static int count(const tess_on_policy_result *r, int *same)
{
    int n = 0;
    *same = 0;
    for (int i = 0; i < r->n; i++) {
        n += r->cases[i].must_equal;
        *same += r->cases[i].must_equal && r->cases[i].n_different == 0;
    }
    return n;
}

/* Prints a line such as "what changes bits here: temperature, precision". */
static tess_status print_sources(const tess_on_policy_result *r, tess_buffer *out)
{
    const char *named = "";
    for (int i = 0; i < r->n; i++) {
        const tess_on_policy_case *c = &r->cases[i];
        if (c->must_equal || c->n_different == 0 || strcmp(named, c->group) == 0)
            continue;
        PUT("%s%s", named[0] == '\0' ? "what changes bits, as it should: " : ", ", c->group);
        named = c->group;
    }
    PUT("%s", named[0] != '\0' ? "\n" : "");
    return TESS_OK;
}

tess_status tess_on_policy_print(const tess_on_policy_result *r, tess_buffer *out)
{
    int same, n = count(r, &same);
    const tess_on_policy_case *first = tess_on_policy_first(r);
    PUT("policy: kernels %s, %s, T = %.9g; %d text%s, %" PRId64 " token%s predicted, against training's forward pass\n",
        r->kernels, tess_dtype_name(r->dtype), r->temperature, r->n_prompts, plural(r->n_prompts), r->n_tokens,
        plural(r->n_tokens));
    for (int i = 0; i < r->n; i++)
        TESS_TRY(print_case(&r->cases[i], i > 0 ? r->cases[i - 1].group : "", out));
    TESS_TRY(print_sources(r, out));
    if (first == NULL) {
        PUT("exactly on-policy: %d of %d settings give the bits of training's log-probabilities\n", same, n);
        return TESS_OK;
    }
    PUT("not on-policy: %d of %d settings give other bits, the first is\n", n - same, n);
    return print_first(first, out);
}

static json_t *case_json(const tess_on_policy_case *c)
{
    json_t *json = json_pack("{s:s, s:s, s:s, s:b, s:I, s:I, s:o, s:I, s:I}", "group", c->group, "setting", c->setting,
                             "verdict", verdict_of(c), "must_equal", c->must_equal, "tokens", (json_int_t)c->n_tokens,
                             "different", (json_int_t)c->n_different, "max_abs", tess_json_number(c->max_abs),
                             "turned_out", (json_int_t)c->turned_out, "shared", (json_int_t)c->shared);
    if (c->skipped[0] != '\0')
        json_object_set_new(json, "skipped", tess_json_text(c->skipped));
    if (c->n_different == 0)
        return json;
    json_object_set_new(json, "first",
                        json_pack("{s:i, s:I, s:i, s:i, s:o, s:o}", "text", c->sequence, "position",
                                  (json_int_t)c->position, "token", c->token, "token_here", c->other_token, "here",
                                  tess_json_number((double)c->here), "there", tess_json_number((double)c->there)));
    if (c->layer[0] != '\0')
        json_object_set_new(json, "layer", tess_json_text(c->layer));
    return json;
}

tess_status tess_on_policy_print_json(const tess_on_policy_result *r, tess_buffer *out)
{
    json_t *cases = json_array();
    for (int i = 0; i < r->n; i++)
        json_array_append_new(cases, case_json(&r->cases[i]));
    json_t *json = json_pack("{s:s, s:i, s:b, s:s, s:s, s:f, s:i, s:I, s:o}", "format", "tessera-on-policy", "version",
                             1, "same", tess_on_policy_first(r) == NULL, "kernels", r->kernels, "dtype",
                             tess_dtype_name(r->dtype), "temperature", r->temperature, "texts", r->n_prompts, "tokens",
                             (json_int_t)r->n_tokens, "cases", cases);
    return tess_json_print(json, JSON_INDENT(2), out);
}
