/* Reports the outcomes of all layouts, for people and for programs. */
#include <stdio.h>

#include "base/report/form.h"
#include "base/text/json.h"
#include "parallel/pipeline/pipeline.h"
#include "tessera/fsdp.h"
#include "verify/verify_layouts.h"

enum { JSON_VERSION = 1 };

static const char *schedule_of(const tess_verify_layout *l)
{
    return l->schedule >= 0 ? tess_pipeline_kind_name((tess_pipeline_kind)l->schedule) : NULL;
}

/* Formats "pp 2 (1f1b) x dp_shard 2, zero2". */
static const char *name_layout(const tess_verify_layout *l, char *text, size_t size)
{
    size_t at = 0;
    text[0] = '\0';
    for (int axis = 0; axis < TESS_AXES; axis++) {
        if (l->degree[axis] == 1)
            continue;
        at = tess_text_add(text, size, at, "%s%s %d", at > 0 ? " x " : "", tess_axis_name(axis), l->degree[axis]);
        if (axis == TESS_AXIS_PP && schedule_of(l) != NULL)
            at = tess_text_add(text, size, at, " (%s)", schedule_of(l));
        if (axis == TESS_AXIS_CP && l->method >= 0)
            at = tess_text_add(text, size, at, " (%s)", tess_context_method_name(l->method));
    }
    if (l->degree[TESS_VERIFY_EP] > 1)
        at = tess_text_add(text, size, at, " (ep %d)", l->degree[TESS_VERIFY_EP]);
    tess_text_add(text, size, at, "%s%s", at > 0 ? ", " : "one rank, ", tess_strategy_name((tess_strategy)l->strategy));
    return text;
}

static json_t *describe_layout(const tess_verify_layout *l)
{
    json_t *layout = json_pack("{s:s, s:s, s:s?, s:s?, s:o}", "outcome", tess_verify_outcome_name(l->outcome),
                               "strategy", tess_strategy_name((tess_strategy)l->strategy), "schedule", schedule_of(l),
                               "text", l->text[0] != '\0' ? l->text : NULL, "seconds", tess_json_number(l->seconds));
    if (l->method >= 0)
        json_object_set_new(layout, "method", json_string(tess_context_method_name(l->method)));
    for (int d = 0; d < TESS_VERIFY_DEGREES; d++)
        json_object_set_new(layout, tess_verify_degree_name(d), json_integer(l->degree[d]));
    return layout;
}

tess_status tess_verify_print_layout(const tess_verify_layout *l, tess_buffer *out)
{
    static const tess_form_part line[] = {
        {.text = "{outcome:-8} {name:-44}[{ran:!} {seconds:5.1f} s[  {text}]| {text}]\n"}, {NULL, NULL}};
    char name[128];
    json_t *layout = describe_layout(l);
    json_object_update_new(layout, json_pack("{s:s, s:b}", "name", name_layout(l, name, sizeof(name)), "ran",
                                             l->outcome != TESS_VERIFY_REFUSED));
    return tess_form_put(layout, line, TESS_FORM_TEXT, 0, out);
}

/* ---- One line per axis ---- */
/* Numbers of the lines: the degrees come first, then strategy, schedule and method. */
enum { STRATEGY = TESS_VERIFY_DEGREES, SCHEDULE, METHOD, N_LINES };

static int value_of(const tess_verify_layout *l, int line)
{
    return line == STRATEGY   ? l->strategy
           : line == SCHEDULE ? l->schedule
           : line == METHOD   ? l->method
                              : l->degree[line];
}

static const char *name_value(int line, int value, char text[16])
{
    if (line == STRATEGY)
        return tess_strategy_name((tess_strategy)value);
    if (line == METHOD)
        return tess_context_method_name(value);
    if (line == SCHEDULE)
        return tess_pipeline_kind_name((tess_pipeline_kind)value);
    snprintf(text, 16, "%d", value);
    return text;
}

static const tess_form_part form[] = {
    {.text = "layouts of {ranks} rank{ranks:s} with the bits of one rank, after each of {steps} step{steps:s} of "
             "{global_batch_size} rows:\n"},
    {.list = "axes", .text = "{title:-13} [{counts}|none]\n"},
    {.text =
         "[{n_run:!}{all_same:?the same bits|not the same}: {same} of {n_run}[{refused:!} ({refused} more cannot run "
         "with this configuration)]\n"
         "|nothing is known: none of {n_layouts} layouts can run with this configuration\n]"},
    {NULL, NULL}};

/* Describes, for each value of an axis, how many of the layouts that ran gave the same bits: "1: 4 of 4, 2: 17 of
 * 18". */
static json_t *describe_axis(const tess_verify_walk *walk, int line)
{
    const char *title = line == STRATEGY   ? "strategy"
                        : line == SCHEDULE ? "schedule"
                        : line == METHOD   ? "method"
                                           : tess_verify_degree_name(line);
    char text[16], counts[1024] = "";
    size_t at = 0;
    int most = 0;
    for (int i = 0; i < walk->n; i++)
        most = value_of(&walk->layouts[i], line) > most ? value_of(&walk->layouts[i], line) : most;
    for (int value = 0; value <= most; value++) {
        int n = 0, n_same = 0;
        for (int i = 0; i < walk->n; i++) {
            const tess_verify_layout *l = &walk->layouts[i];
            n += value_of(l, line) == value && l->outcome != TESS_VERIFY_REFUSED;
            n_same += value_of(l, line) == value && l->outcome == TESS_VERIFY_SAME;
        }
        if (n > 0)
            at = tess_text_add(counts, sizeof(counts), at, "%s%s: %d of %d", at > 0 ? ", " : "",
                               name_value(line, value, text), n_same, n);
    }
    return json_pack("{s:s, s:s}", "title", title, "counts", counts);
}

/* Adds what only people are told. */
static void add_axes(const tess_verify_walk *walk, json_t *report)
{
    int n_same = tess_verify_walk_count(walk, TESS_VERIFY_SAME),
        n_run = walk->n - tess_verify_walk_count(walk, TESS_VERIFY_REFUSED);
    json_t *axes = json_array();
    for (int line = 0; line < N_LINES; line++)
        if ((line != TESS_VERIFY_EP || walk->n_experts > 0) &&
            ((line != TESS_AXIS_CP && line != METHOD) || walk->n_leaves > 1))
            json_array_append_new(axes, describe_axis(walk, line));
    json_object_update_new(report, json_pack("{s:o, s:i, s:i, s:b}", "axes", axes, "n_run", n_run, "n_layouts", walk->n,
                                             "all_same", n_same == n_run));
}

tess_status tess_verify_print_walk(const tess_verify_walk *walk, tess_form_style style, tess_buffer *out)
{
    json_t *layouts = json_array();
    for (int i = 0; i < walk->n; i++)
        json_array_append_new(layouts, describe_layout(&walk->layouts[i]));
    json_t *report = json_pack("{s:i, s:i, s:I, s:I, s:i, s:i, s:i, s:i, s:o}", "version", JSON_VERSION, "ranks",
                               walk->ranks, "steps", (json_int_t)walk->steps, "global_batch_size",
                               (json_int_t)walk->global_batch, "same", tess_verify_walk_count(walk, TESS_VERIFY_SAME),
                               "differs", tess_verify_walk_count(walk, TESS_VERIFY_DIFFERS), "failed",
                               tess_verify_walk_count(walk, TESS_VERIFY_FAILED), "refused",
                               tess_verify_walk_count(walk, TESS_VERIFY_REFUSED), "layouts", layouts);
    if (style == TESS_FORM_TEXT)
        add_axes(walk, report);
    return tess_form_put(report, form, style, JSON_INDENT(1), out);
}
