/* Reports the batch invariance of a table's rows, for people and for programs. */
#include <inttypes.h>

#include "base/report/form.h"
#include "base/text/json.h"
#include "verify/invariance.h"

static const char *verdict_of(const tess_invariance_row *r)
{
    return r->different > 0 ? "CHANGES" : r->spills ? "SPILLS" : r->max_abs > 0 ? "within" : "same";
}

static const tess_form_part form[] = {
    {.list = "tables",
     .text =
         "{table}\n  row                  of                               cases  bits\n"
         "{*rows}  {row:-20} {of:-30} {cases:7}  {verdict}[{apart:!}: {different} cases, at most by {max_abs:.2e}, in "
         "the mean {mean_abs:.2e}]\n"
         "[{first:!}    row {first.row} changes with its neighbours: {first.output}{at} is "
         "{first.alone:.9g} alone, {first.together:.9g} as number {number} of {first.batch} (beside it: "
         "{first.neighbours}; {first.threads} thread{first.threads:s})\n]"
         "[{spills:!}    it writes outside of its output, or into its input\n]{/}"
         "[{same:!}batch-invariant[{tolerance:!} within {tolerance:g}: {cases} cases|: {cases} cases have the bits "
         "that the item has alone]\n"
         "|not batch-invariant: what it computes of an item depends on what is computed beside it\n]"},
    {NULL, NULL}};

static json_t *row_json(const tess_invariance_row *r, bool as_json)
{
    const tess_invariance_change *c = &r->first;
    json_t *json = json_pack("{s:s, s:s, s:s, s:I, s:I, s:o, s:o, s:b}", "row", r->name, "of", r->shape, "verdict",
                             verdict_of(r), "cases", (json_int_t)r->cases, "different", (json_int_t)r->different,
                             "max_abs", tess_form_number(r->max_abs, as_json), "mean_abs",
                             tess_form_number(r->mean_abs, as_json), "spills", r->spills);
    if (!as_json)
        json_object_update_new(json, json_pack("{s:b, s:i, s:o}", "apart", r->max_abs > 0, "number", c->place + 1, "at",
                                               json_sprintf("[%" PRId64 "]", c->element)));
    if (r->different > 0)
        json_object_set_new(json, "first",
                            json_pack("{s:i, s:i, s:i, s:s, s:i, s:s, s:I, s:o, s:o}", "row", c->item, "batch",
                                      c->batch, "place", c->place, "neighbours", c->neighbours, "threads", c->threads,
                                      "output", c->output, "element", (json_int_t)c->element, "alone",
                                      tess_form_number(c->alone, as_json), "together",
                                      tess_form_number(c->together, as_json)));
    return json;
}

static json_t *table_json(const tess_invariance_result *result, bool as_json)
{
    json_t *rows = json_array();
    for (int r = 0; r < result->n; r++)
        json_array_append_new(rows, row_json(&result->rows[r], as_json));
    json_t *table = json_pack("{s:s, s:o, s:o}", "table", result->table, "tolerance",
                              tess_json_number(result->tolerance), "rows", rows);
    if (!as_json)
        json_object_update_new(
            table, json_pack("{s:b, s:I}", "same", tess_invariance_holds(result), "cases", (json_int_t)result->cases));
    return table;
}

tess_status tess_invariance_print(const tess_invariance_result *results, int n, tess_form_style style, tess_buffer *out)
{
    json_t *tables = json_array();
    bool holds = true;
    for (int i = 0; i < n; i++) {
        json_array_append_new(tables, table_json(&results[i], style != TESS_FORM_TEXT));
        holds = holds && tess_invariance_holds(&results[i]);
    }
    return tess_form_put(json_pack("{s:s, s:i, s:b, s:o}", "format", "tessera-invariance", "version", 1, "same", holds,
                                   "tables", tables),
                         form, style, JSON_INDENT(2), out);
}
