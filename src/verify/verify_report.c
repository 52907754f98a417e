/* Reports the result of a comparison, for people and for programs. Keys about a pipeline are present only if there is
 * one. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/report/form.h"
#include "base/text/json.h"
#include "verify/verify.h"

enum { JSON_VERSION = 1, SHOWN_TENSORS = 12, SHOWN_STEPS = 3 };

#define DELTA_TEXT(of)                                                                                            \
    "[{" of ":!}    " of ": {" of ".n_different} of {elements} elements differ, at most by {" of ".max_abs:.3g} " \
    "(relative {" of ".max_rel:.2g})\n      the first, row {" of ".row} column {" of ".column} on rank {" of      \
    ".rank}: "                                                                                                    \
    "{" of ".here:.9g} here, {" of ".one_rank:.9g} on one rank ({" of ".ulp} ulp)\n]"

#define TENSORS_TEXT(of)                                                                              \
    "[{" of ".n} of {n_tensors} tensors differ, the first after step {" of ".first}|all {n_tensors} " \
    "tensors, after each of {steps} step{steps:s}: the same bits]\n"

static const tess_form_part form[] = {
    {.text = "{ranks} rank{ranks:s}, {strategy}[, {sharing} share layers (tp)][, {dividing} divide tokens (cp)]"
             "[, {n_experts} divide experts (ep)][, {pipeline.stages} stages in {pipeline.schedule}], kernels "
             "{kernels} ({seconds:.1f} s), against one rank, kernels {kernels_of_one} "
             "({seconds_of_one:.1f} s)\n"},
    {.text =
         "  loss         {loss_text}\n  grad norm    {norm_text}\n"
         "  gradients    " TENSORS_TEXT("gradients") "  parameters   " TENSORS_TEXT(
             "parameters") "  shards       [{n_misplaced} of {n_tensors} tensors are not as planned|all {n_tensors} "
                           "tensors: every "
                           "element on the ranks that the plan says, copies alike]\n"
                           "  memory          one rank    largest of {ranks:-3}       all of them          planned\n"},
    {.list = "pools",
     .text = "    {name:-12}{one_rank:10B}      {largest:10B} [{one_rank:!}{largest_share:5%}|     ]{all:10B} "
             "[{one_rank:!}{all_share:5%}|     ]"
             "[{has_plan:!}{planned:10B} [{one_rank:!}{planned_share:5%}|     ][{is_off:!}  not as planned]]\n"},
    {.text = "[{first_step:!}what differs in step {first_step}:\n]"},
    {.list = "differing",
     .text = "  {name}[{stages:!} (stage {stage} of {stages})]\n[    {shards}\n]" DELTA_TEXT("gradient")
         DELTA_TEXT("parameter")},
    {.text = "[  and {n_more} more: --all lists them\n][  by how much is not known: {no_values}\n]"
             "[{other_kernels:!}kernel tables add in orders of their own: '{kernels}' and '{kernels_of_one}' agree to "
             "rounding, "
             "not to the bit\n]"
             "[made again, {irreproducible} gave other bits than before: it is not this layout that differs, but this "
             "machine "
             "(or a fault that was injected) from run to run\n]"
             "[{same:!}the same bits: this layout gives what one rank gives\n"
             "|[{first_step:!}not the same: from step {first_step} on this layout gives other bits than one rank\n"
             "|not as planned: what counts is what one rank gives, but parts, their copies or memory are not as they "
             "should "
             "be\n]]"},
    {NULL, NULL}};

static json_t *numbers(const double *values, int64_t n)
{
    json_t *array = json_array();
    for (int64_t i = 0; i < n; i++)
        json_array_append_new(array, tess_json_number(values[i]));
    return array;
}

/* Returns null if nothing differs, or if the values were not compared. */
static json_t *describe_delta(const tess_verify_tensor *t, const tess_verify_delta *d, bool as_json)
{
    if (d->n_different == 0)
        return json_null();
    return json_pack("{s:I, s:I, s:I, s:i, s:o, s:o, s:I, s:o, s:o}", "n_different", (json_int_t)d->n_different, "row",
                     (json_int_t)(d->first / t->row), "column", (json_int_t)(d->first % t->row), "rank", d->rank,
                     "here", tess_form_number(d->here, as_json), "one_rank", tess_form_number(d->there, as_json), "ulp",
                     (json_int_t)d->ulp, "max_abs", tess_form_number(d->max_abs, as_json), "max_rel",
                     tess_form_number(d->max_rel, as_json));
}

static json_t *describe_tensor(const tess_verify_result *r, const tess_verify_tensor *t, bool as_json)
{
    json_t *stage = r->stages > 1 ? json_integer(t->stage) : NULL;
    return json_pack("{s:s, s:I, s:I, s:o*, s:I, s:I, s:o, s:o, s:s?}", "name", t->name, "rows", (json_int_t)t->rows,
                     "columns", (json_int_t)t->row, "stage", stage, "gradient_step", (json_int_t)t->grads_step,
                     "parameter_step", (json_int_t)t->weights_step, "gradient", describe_delta(t, &t->grads, as_json),
                     "parameter", describe_delta(t, &t->weights, as_json), "shards",
                     t->shards[0] != '\0' ? t->shards : NULL);
}

static json_t *describe_memory(const tess_verify_result *r)
{
    json_t *object = json_object();
    for (int pool = 0; pool < TESS_POOL_COUNT; pool++) {
        const tess_verify_memory *m = &r->memory[pool];
        json_t *planned = m->planned >= 0 ? json_integer(m->planned) : json_null();
        json_object_set_new(object, tess_pool_name((tess_pool)pool),
                            json_pack("{s:I, s:I, s:I, s:o}", "one_rank", (json_int_t)m->one, "largest",
                                      (json_int_t)m->largest, "all", (json_int_t)m->all, "planned", planned));
    }
    return object;
}

static json_t *describe(const tess_verify_result *r)
{
    json_t *tensors = json_array();
    for (int i = 0; i < r->n_tensors; i++)
        json_array_append_new(tensors, describe_tensor(r, &r->tensors[i], true));
    json_t *pipeline = r->stages > 1 ? json_pack("{s:i, s:s}", "stages", r->stages, "schedule", r->schedule) : NULL;
    return json_pack("{s:i, s:b, s:i, s:s, s:o*, s:s, s:s, s:I, s:I, s:b, s:o, s:o, s:o, s:o, s:o, s:o}", "version",
                     JSON_VERSION, "same", (int)tess_verify_same(r), "ranks", r->ranks, "strategy", r->strategy,
                     "pipeline", pipeline, "kernels", r->kernels[0], "kernels_of_one", r->kernels[1], "steps",
                     (json_int_t)r->steps, "first_step", (json_int_t)r->first_step, "reproducible",
                     (int)(r->irreproducible == 0), "loss", numbers(r->loss[0], r->steps), "loss_of_one",
                     numbers(r->loss[1], r->steps), "grad_norm", numbers(r->grad_norm[0], r->steps), "grad_norm_of_one",
                     numbers(r->grad_norm[1], r->steps), "tensors", tensors, "memory", describe_memory(r));
}

/* ---- Findings for people alone ---- */
/* Returns a text such as "3 steps: the same bits   5.7130 5.6812 5.6109". */
static json_t *compare_numbers(const double *here, const double *there, int64_t steps, int64_t first)
{
    char values[128] = "";
    size_t at = 0;
    if (first > 0)
        return json_sprintf("differs from step %" PRId64 " on: %.17g here, %.17g on one rank", first, here[first - 1],
                            there[first - 1]);
    for (int64_t i = 0; i < steps && i < SHOWN_STEPS; i++)
        at = tess_text_add(values, sizeof(values), at, " %.6g", here[i]);
    return json_sprintf("%" PRId64 " step%s: the same bits  %s%s", steps, steps == 1 ? "" : "s", values,
                        steps > SHOWN_STEPS ? " ..." : "");
}

/* Counts the tensors that differ, and finds the first step in which one does. */
static json_t *count_tensors(const tess_verify_result *r, bool weights)
{
    int n = 0;
    int64_t first = 0;
    for (int i = 0; i < r->n_tensors; i++) {
        int64_t step = weights ? r->tensors[i].weights_step : r->tensors[i].grads_step;
        n += step > 0;
        if (step > 0 && (first == 0 || step < first))
            first = step;
    }
    return json_pack("{s:i, s:I}", "n", n, "first", (json_int_t)first);
}

/* Lists the pools that hold memory, with their shares of one rank's. */
static json_t *list_pools(const tess_verify_result *r, const json_t *memory)
{
    json_t *pools = json_array();
    for (int pool = 0; pool < TESS_POOL_COUNT; pool++) {
        const tess_verify_memory *m = &r->memory[pool];
        const char *name = tess_pool_name((tess_pool)pool);
        double one = m->one > 0 ? (double)m->one : INFINITY;
        if (m->one == 0 && m->all == 0)
            continue;
        json_t *row = json_copy(json_object_get(memory, name));
        json_object_update_new(row, json_pack("{s:s, s:f, s:f, s:f, s:b, s:b}", "name", name, "largest_share",
                                              (double)m->largest / one, "all_share", (double)m->all / one,
                                              "planned_share", (double)m->planned / one, "has_plan", m->planned >= 0,
                                              "is_off", m->planned != m->largest));
        json_array_append_new(pools, row);
    }
    return pools;
}

/* Lists the tensors that differ in the first step with a difference; later differences follow from it. *n counts them,
 * also those that are not listed. */
static json_t *list_differing(const tess_verify_result *r, bool all, int *n)
{
    json_t *list = json_array();
    *n = 0;
    for (int i = 0; i < r->n_tensors && !tess_verify_same(r); i++) {
        const tess_verify_tensor *t = &r->tensors[i];
        bool differs = r->first_step > 0 && (t->grads_step == r->first_step || t->weights_step == r->first_step);
        if ((!differs && t->shards[0] == '\0') || ((*n)++ >= SHOWN_TENSORS && !all))
            continue;
        json_t *tensor = describe_tensor(r, t, false);
        json_object_update_new(tensor, json_pack("{s:I, s:i}", "elements", (json_int_t)(t->rows * t->row), "stages",
                                                 r->stages > 1 ? r->stages : 0));
        json_array_append_new(list, tensor);
    }
    return list;
}

static void add_findings(const tess_verify_result *r, bool all, json_t *report)
{
    int n, n_misplaced = 0;
    json_t *differing = list_differing(r, all, &n);
    for (int i = 0; i < r->n_tensors; i++)
        n_misplaced += r->tensors[i].shards[0] != '\0';
    json_object_update_new(report,
                           json_pack("{s:o, s:o, s:o, s:o, s:i, s:i}", "loss_text",
                                     compare_numbers(r->loss[0], r->loss[1], r->steps, r->loss_step), "norm_text",
                                     compare_numbers(r->grad_norm[0], r->grad_norm[1], r->steps, r->norm_step),
                                     "gradients", count_tensors(r, false), "parameters", count_tensors(r, true),
                                     "n_tensors", r->n_tensors, "n_misplaced", n_misplaced));
    json_object_update_new(
        report, json_pack("{s:i, s:i, s:i, s:f, s:f, s:o, s:o, s:i, s:b}", "sharing", r->sharing > 1 ? r->sharing : 0,
                          "dividing", r->dividing > 1 ? r->dividing : 0, "n_experts",
                          r->n_experts > 1 ? r->n_experts : 0, "seconds", r->seconds[0], "seconds_of_one",
                          r->seconds[1], "pools", list_pools(r, json_object_get(report, "memory")), "differing",
                          differing, "n_more", n > SHOWN_TENSORS && !all ? n - SHOWN_TENSORS : 0, "other_kernels",
                          r->first_step > 0 && strcmp(r->kernels[0], r->kernels[1]) != 0));
    if (!tess_verify_same(r))
        json_object_set_new(report, "no_values", tess_json_text(r->no_values));
    if (r->irreproducible != 0)
        json_object_set_new(report, "irreproducible",
                            json_string(r->irreproducible == 2 ? "the one rank" : "the layout"));
}

tess_status tess_verify_print(const tess_verify_result *r, bool all, tess_form_style style, tess_buffer *out)
{
    json_t *report = describe(r);
    if (style == TESS_FORM_TEXT)
        add_findings(r, all, report);
    return tess_form_put(report, form, style, JSON_INDENT(1), out);
}
