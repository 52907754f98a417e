/* `tessera ckpt diff`: compares two checkpoints tensor by tensor, whatever their formats, cuts and dtypes. */
#include <inttypes.h>
#include <stdio.h>

#include "base/text/json.h"
#include "base/text/text.h"
#include "ckpt/tools/diff.h"
#include "cli/cli.h"

enum { DIFFERENT = TESS_EXIT_FAILED, NAME_WIDTH = 66 };

typedef struct comparison {
    tess_mem *mem;
    double tolerance;
    const char *model_only, *all, *json;
    cli_progress progress;
    int n_shown;
    json_t *tensors; /* the report for --json */
} comparison;

static void report_progress(void *self, uint64_t done, uint64_t all)
{
    cli_progress_report(&((comparison *)self)->progress, done, all);
}

static const char *describe_side(const tess_export_tensor *t, char *text, size_t size)
{
    char dims[160];
    snprintf(text, size, "%s %s", t->dtype, tess_dims_format(t->n_dims, t->dim, dims, sizeof(dims)));
    return text;
}

/* ---- Text */
static void print_tensor(comparison *c, const tess_diff_tensor *t)
{
    char a[192], b[192];
    cli_status_clear();
    if (c->n_shown++ == 0)
        printf("%-*s %-10s%12s    %-12s%10s %10s %12s %12s %12s\n", NAME_WIDTH, "tensor", "", "different", "of",
               "max abs", "max rel", "norm of A", "norm of B", "of A - B");
    printf("%-*s %-10s", NAME_WIDTH, t->name, tess_diff_text(t->kind));
    if (t->measured)
        printf("%12" PRId64 " of %-12" PRId64 "%10.3g %10.3g %12.6g %12.6g %12.3g", t->n_different, t->n, t->max_abs,
               t->max_rel, t->norm_a, t->norm_b, t->norm_difference);
    else if (t->a != NULL && t->b != NULL && t->kind != TESS_DIFF_SAME)
        printf("  %s, %s", describe_side(t->a, a, sizeof(a)), describe_side(t->b, b, sizeof(b)));
    else
        printf("  %s", describe_side(t->a != NULL ? t->a : t->b, a, sizeof(a)));
    if (t->measured && t->first >= 0)
        printf("  first at %" PRId64, t->first);
    putchar('\n');
}

static void print_summary(const tess_diff_summary *s)
{
    const char *separator = "";
    for (int kind = 0; kind < TESS_DIFF_KINDS; kind++) {
        if (s->n_tensors[kind] == 0)
            continue;
        printf("%s%d %s", separator, s->n_tensors[kind], tess_diff_text((tess_diff_kind)kind));
        separator = ", ";
    }
    if (s->max_abs > 0)
        printf("; at most %.3g apart, %.3g of the value", s->max_abs, s->max_rel);
    putchar('\n');
}

/* ---- JSON */
static json_t *describe(const tess_diff_tensor *t)
{
    char a[192], b[192];
    json_t *object = json_pack("{s:o, s:s}", "name", tess_json_text(t->name), "result", tess_diff_text(t->kind));
    json_object_set_new(object, "a", t->a != NULL ? json_string(describe_side(t->a, a, sizeof(a))) : json_null());
    json_object_set_new(object, "b", t->b != NULL ? json_string(describe_side(t->b, b, sizeof(b))) : json_null());
    if (t->measured)
        json_object_update_new(object,
                               json_pack("{s:I, s:I, s:o*, s:o, s:o, s:o, s:o, s:o}", "elements", (json_int_t)t->n,
                                         "different", (json_int_t)t->n_different, "first",
                                         t->first >= 0 ? json_integer((json_int_t)t->first) : NULL, "max_abs",
                                         tess_json_number(t->max_abs), "max_rel", tess_json_number(t->max_rel),
                                         "norm_a", tess_json_number(t->norm_a), "norm_b", tess_json_number(t->norm_b),
                                         "norm_difference", tess_json_number(t->norm_difference)));
    return object;
}

static tess_status print_json(comparison *c, const tess_diff_summary *s)
{
    json_t *counts = json_object();
    for (int kind = 0; kind < TESS_DIFF_KINDS; kind++)
        json_object_set_new(counts, tess_diff_text((tess_diff_kind)kind), json_integer(s->n_tensors[kind]));
    return tess_json_put(json_pack("{s:i, s:b, s:o, s:o, s:o, s:O}", "version", 1, "alike", tess_diff_alike(s),
                                   "counts", counts, "max_abs", tess_json_number(s->max_abs), "max_rel",
                                   tess_json_number(s->max_rel), "tensors", c->tensors),
                         JSON_INDENT(1), stdout);
}

/* ---- The command */
static void show_tensor(void *self, const tess_diff_tensor *t)
{
    comparison *c = self;
    if (c->json != NULL)
        json_array_append_new(c->tensors, describe(t));
    else if (c->all != NULL || t->kind != TESS_DIFF_SAME)
        print_tensor(c, t);
}

static tess_status compare(comparison *c, const char *path_a, const char *path_b, tess_diff_summary *summary)
{
    tess_diff_options options = {.tolerance = c->tolerance,
                                 .model_only = c->model_only != NULL,
                                 .self = c,
                                 .tensor = show_tensor,
                                 .progress = report_progress};
    tess_catalog *a = NULL, *b = NULL;
    tess_status status = tess_catalog_open(c->mem, path_a, &a);
    if (status == TESS_OK)
        status = tess_catalog_open(c->mem, path_b, &b);
    if (status == TESS_OK)
        status = tess_ckpt_diff(a, b, &options, summary);
    tess_catalog_destroy(&a);
    tess_catalog_destroy(&b);
    return status;
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
        {"--json", NULL, "print a JSON object (\"version\": 1), with every tensor", .text = &c.json},
    };
    int n = cli_parse(argc, argv, &cli_ckpt_diff, flags, 4);
    if (n != 2)
        return cli_misuse(&cli_ckpt_diff, "name two checkpoints");
    c.tensors = json_array();
    tess_status status = compare(&c, argv[1], argv[2], &summary);
    cli_status_clear();
    if (status == TESS_OK && c.json == NULL)
        print_summary(&summary);
    else if (status == TESS_OK)
        status = print_json(&c, &summary);
    json_decref(c.tensors);
    if (status != TESS_OK)
        return cli_end(status);
    return tess_diff_alike(&summary) ? TESS_EXIT_OK : DIFFERENT;
}

const cli_command cli_ckpt_diff = {
    "ckpt diff", "A B [--tolerance T] [--model-only] [--all] [--json]",
    "compare two checkpoints of any formats, cuts and dtypes, tensor by tensor\n\n"
    "Names are brought to Tessera's first, so that a model folder compares with a training checkpoint. \"close\": the\n"
    "same values in another dtype, or within the tolerance. Exit codes: 0 alike; 1 they differ; 2 bad input.\n",
    .run = run};
