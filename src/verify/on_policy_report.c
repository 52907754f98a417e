/* Reports the check of a policy, for people and for programs. */
#include <string.h>

#include "base/report/form.h"
#include "base/text/json.h"
#include "verify/on_policy.h"

static const char *verdict_of(const tess_on_policy_case *c)
{
    if (c->skipped[0] != '\0')
        return "not run";
    if (c->n_different == 0)
        return "same";
    return c->must_equal ? "DIFFERS" : "differs";
}

static const tess_form_part form[] = {
    {.text =
         "policy: kernels {kernels}, {dtype}, T = {temperature:.9g}; {texts} text{texts:s}, {tokens} token{tokens:s} "
         "predicted, against training's forward pass\n"},
    {.list = "cases",
     .text = "  {title:-13} {setting:-46} {verdict:-8}[{skipped}|{different} of {tokens}[{different:!}, at most by "
             "{max_abs:.2e}]][, {turned_out} turned out of the cache][, {shared} tokens read for two]\n"
             "[{layer:!}                  first in {layer}\n]"},
    {.text =
         "[what changes bits, as it should: {sources}\n]"
         "[{same:!}exactly on-policy: {n_same} of {n_equal} settings give the bits of training's log-probabilities\n"
         "|not on-policy: {n_others} of {n_equal} settings give other bits, the first is\n"
         "  {case.group}: {case.setting}: {case.different} of {case.tokens} tokens differ, at most by "
         "{case.max_abs:.3g}\n    the first, token {case.first.position} of text {case.first.text}"
         "[{drawn:!}: {case.first.token_here} was drawn here, {case.first.token} there\n"
         "| (id {case.first.token}): {case.first.here:.9g} here, {case.first.there:.9g} there\n]"
         "[{case.layer:!}    the first layer that differs: {case.layer}\n]]"},
    {NULL, NULL}};

static json_t *case_json(const tess_on_policy_case *c, bool as_json)
{
    json_t *json = json_pack("{s:s, s:s, s:s, s:b, s:I, s:I, s:o, s:I, s:I}", "group", c->group, "setting", c->setting,
                             "verdict", verdict_of(c), "must_equal", c->must_equal, "tokens", (json_int_t)c->n_tokens,
                             "different", (json_int_t)c->n_different, "max_abs", tess_form_number(c->max_abs, as_json),
                             "turned_out", (json_int_t)c->turned_out, "shared", (json_int_t)c->shared);
    if (c->skipped[0] != '\0')
        json_object_set_new(json, "skipped", tess_json_text(c->skipped));
    if (c->n_different == 0)
        return json;
    json_object_set_new(json, "first",
                        json_pack("{s:i, s:I, s:i, s:i, s:o, s:o}", "text", c->sequence, "position",
                                  (json_int_t)c->position, "token", c->token, "token_here", c->other_token, "here",
                                  tess_form_number((double)c->here, as_json), "there",
                                  tess_form_number((double)c->there, as_json)));
    if (c->layer[0] != '\0')
        json_object_set_new(json, "layer", tess_json_text(c->layer));
    return json;
}

static json_t *describe(const tess_on_policy_result *r, bool as_json)
{
    json_t *cases = json_array();
    for (int i = 0; i < r->n; i++)
        json_array_append_new(cases, case_json(&r->cases[i], as_json));
    return json_pack("{s:s, s:i, s:b, s:s, s:s, s:f, s:i, s:I, s:o}", "format", "tessera-on-policy", "version", 1,
                     "same", tess_on_policy_first(r) == NULL, "kernels", r->kernels, "dtype", tess_dtype_name(r->dtype),
                     "temperature", r->temperature, "texts", r->n_prompts, "tokens", (json_int_t)r->n_tokens, "cases",
                     cases);
}

/* Adds what only people are told: counts, the first difference, and the sources of differences that are no errors. */
static void add_summary(const tess_on_policy_result *r, json_t *report)
{
    char sources[512] = "";
    const char *last = "";
    size_t at = 0;
    int n = 0, n_same = 0;
    const tess_on_policy_case *first = tess_on_policy_first(r);
    json_t *cases = json_object_get(report, "cases");
    for (int i = 0; i < r->n; i++) {
        const tess_on_policy_case *c = &r->cases[i];
        bool is_new = i == 0 || strcmp(r->cases[i - 1].group, c->group) != 0;
        json_object_set_new(json_array_get(cases, (size_t)i), "title", json_string(is_new ? c->group : ""));
        n += c->must_equal;
        n_same += c->must_equal && c->n_different == 0;
        if (c->must_equal || c->n_different == 0 || strcmp(last, c->group) == 0)
            continue;
        at = tess_text_add(sources, sizeof(sources), at, "%s%s", at > 0 ? ", " : "", c->group);
        last = c->group;
    }
    json_object_update_new(report, json_pack("{s:i, s:i, s:i, s:s}", "n_same", n_same, "n_equal", n, "n_others",
                                             n - n_same, "sources", sources));
    if (first != NULL)
        json_object_update_new(report,
                               json_pack("{s:O, s:b}", "case", json_array_get(cases, (size_t)(first - r->cases)),
                                         "drawn", first->token != first->other_token));
}

tess_status tess_on_policy_print(const tess_on_policy_result *r, tess_form_style style, tess_buffer *out)
{
    json_t *report = describe(r, style != TESS_FORM_TEXT);
    if (style == TESS_FORM_TEXT)
        add_summary(r, report);
    return tess_form_put(report, form, style, JSON_INDENT(2), out);
}
