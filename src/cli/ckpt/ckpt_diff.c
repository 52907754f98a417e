/* `tessera ckpt diff`: compares two checkpoints tensor by tensor, whatever their formats, cuts and dtypes. */
#include "base/text/json.h"
#include "base/text/text.h"
#include "ckpt/tools/diff.h"
#include "cli/cli.h"

enum { DIFFERENT = TESS_EXIT_FAILED };

typedef struct comparison {
    tess_mem *mem;
    double tolerance;
    const char *model_only, *all;
    tess_form_style style;
    cli_progress progress;
    json_t *tensors; /* those that are shown */
} comparison;

static void report_progress(void *self, uint64_t done, uint64_t all)
{
    cli_progress_report(&((comparison *)self)->progress, done, all);
}

static const tess_form_part form[] = {
    {.text =
         "[{tensors:!}tensor                                                                          different    of"
         "             max abs    max rel    norm of A    norm of B     of A - B\n]"
         "{*tensors}{name:-66} {result:-10}[{measured:!}{different:12} of {elements:-12}{max_abs:10.3g} "
         "{max_rel:10.3g} "
         "{norm_a:12.6g} {norm_b:12.6g} {norm_difference:12.3g}[{has_first:!}  first at {first}]|  {sides}]\n{/}"
         "{*kinds:, }{n} {kind}{/}[{apart:!}; at most {max_abs:.3g} apart, {max_rel:.3g} of the value]\n"},
    {NULL, NULL}};

static json_t *describe_side(const tess_export_tensor *t)
{
    char dims[160];
    return t != NULL ? json_sprintf("%s %s", t->dtype, tess_dims_format(t->n_dims, t->dim, dims, sizeof(dims)))
                     : json_null();
}

static json_t *describe_tensor(const tess_diff_tensor *t, bool for_people)
{
    json_t *object = json_pack("{s:o, s:s, s:o, s:o}", "name", tess_json_text(t->name), "result",
                               tess_diff_text(t->kind), "a", describe_side(t->a), "b", describe_side(t->b));
    if (t->measured)
        json_object_update_new(object, json_pack("{s:I, s:I, s:o*, s:o, s:o, s:o, s:o, s:o}", "elements",
                                                 (json_int_t)t->n, "different", (json_int_t)t->n_different, "first",
                                                 t->first >= 0 ? json_integer((json_int_t)t->first) : NULL, "max_abs",
                                                 tess_form_number(t->max_abs, !for_people), "max_rel",
                                                 tess_form_number(t->max_rel, !for_people), "norm_a",
                                                 tess_form_number(t->norm_a, !for_people), "norm_b",
                                                 tess_form_number(t->norm_b, !for_people), "norm_difference",
                                                 tess_form_number(t->norm_difference, !for_people)));
    if (for_people) {
        const char *a = json_string_value(json_object_get(object, "a")),
                   *b = json_string_value(json_object_get(object, "b"));
        const bool both = a != NULL && b != NULL && t->kind != TESS_DIFF_SAME;
        json_object_update_new(
            object, json_pack("{s:b, s:b, s:o}", "measured", (int)t->measured, "has_first", t->first >= 0, "sides",
                              json_sprintf("%s%s%s", a != NULL ? a : b, both ? ", " : "", both ? b : "")));
    }
    return object;
}

static json_t *describe(const comparison *c, const tess_diff_summary *s)
{
    const bool for_people = c->style == TESS_FORM_TEXT;
    json_t *counts = json_object(), *kinds = json_array();
    for (int kind = 0; kind < TESS_DIFF_KINDS; kind++) {
        const char *name = tess_diff_text((tess_diff_kind)kind);
        json_object_set_new(counts, name, json_integer(s->n_tensors[kind]));
        if (s->n_tensors[kind] > 0)
            json_array_append_new(kinds, json_pack("{s:i, s:s}", "n", s->n_tensors[kind], "kind", name));
    }
    json_t *report = json_pack("{s:i, s:b, s:o, s:o, s:o, s:O}", "version", 1, "alike", (int)tess_diff_alike(s),
                               "counts", counts, "max_abs", tess_form_number(s->max_abs, !for_people), "max_rel",
                               tess_form_number(s->max_rel, !for_people), "tensors", c->tensors);
    if (for_people)
        json_object_update_new(report, json_pack("{s:O, s:b}", "kinds", kinds, "apart", s->max_abs > 0));
    json_decref(kinds);
    return report;
}

/* ---- The command */
static void show_tensor(void *self, const tess_diff_tensor *t)
{
    comparison *c = self;
    const bool for_people = c->style == TESS_FORM_TEXT;
    if (!for_people || c->all != NULL || t->kind != TESS_DIFF_SAME)
        json_array_append_new(c->tensors, describe_tensor(t, for_people));
}

static tess_status compare(comparison *c, const char *path_a, const char *path_b, tess_diff_summary *summary)
{
    tess_diff_options options = {.tolerance = c->tolerance,
                                 .model_only = c->model_only != NULL,
                                 .self = c,
                                 .tensor = show_tensor,
                                 .progress = report_progress};
    TESS_AUTO(tess_catalog_destroy) tess_catalog *a = NULL, *b = NULL;
    TESS_TRY(tess_catalog_open(c->mem, path_a, &a));
    TESS_TRY(tess_catalog_open(c->mem, path_b, &b));
    return tess_ckpt_diff(a, b, &options, summary);
}

static int run(tess_mem *mem, int argc, char **argv)
{
    comparison c = {.mem = mem, .progress = {.doing = "compare"}};
    tess_diff_summary summary;
    const cli_flag flags[] = {
        {"--tolerance", "T", "values with |a - b| <= T * max(1, |a|, |b|) do not differ (0)", .number = &c.tolerance,
         .most = 1e30},
        {"--model-only", NULL, "compare the models, without the optimizer's state", .text = &c.model_only},
        {"--all", NULL, "show tensors that are the same as well", .text = &c.all},
        CLI_STYLES(&c.style),
    };
    int n = cli_parse(argc, argv, &cli_ckpt_diff, flags, sizeof(flags) / sizeof(flags[0]));
    if (n != 2)
        return cli_misuse(&cli_ckpt_diff, "name two checkpoints");
    c.tensors = json_array();
    tess_status status = compare(&c, argv[1], argv[2], &summary);
    cli_status_clear();
    if (status == TESS_OK)
        status = cli_report(mem, describe(&c, &summary), form, c.style, JSON_INDENT(1));
    json_decref(c.tensors);
    if (status != TESS_OK)
        return cli_end(status);
    return tess_diff_alike(&summary) ? TESS_EXIT_OK : DIFFERENT;
}

const cli_command cli_ckpt_diff = {
    "ckpt diff",
    "A B [--tolerance T] [--model-only] [--all] [--json | --html | --prometheus]",
    "compare two checkpoints of any formats, cuts and dtypes, tensor by tensor\n\n"
    "Names are brought to Tessera's first, so that a model folder compares with a training checkpoint. \"close\": the\n"
    "same values in another dtype, or within the tolerance.",
    .exit_codes = "0 alike; 1 they differ; 2 bad input",
    .examples = "tessera ckpt diff out/a/checkpoint out/b/checkpoint\n"
                "tessera ckpt diff models/llama out/kjv/model --tolerance 1e-3\n"
                "tessera ckpt diff a.safetensors b.safetensors --all",
    .run = run};
