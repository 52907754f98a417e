/* Reports the batch invariance of a table's rows, for people and for programs. */
#include <inttypes.h>

#include "base/text/json.h"
#include "verify/invariance.h"

#define PUT(...) TESS_TRY(tess_buffer_printf(out, __VA_ARGS__))

static const char *verdict_of(const tess_invariance_row *r)
{
    return r->different > 0 ? "CHANGES" : r->spills ? "SPILLS" : r->max_abs > 0 ? "within" : "same";
}

static tess_status print_change(const tess_invariance_row *r, tess_buffer *out)
{
    const tess_invariance_change *c = &r->first;
    if (r->different > 0)
        PUT("    row %d changes with its neighbours: %s[%" PRId64
            "] is %.9g alone, %.9g as number %d of %d (beside it: %s; %d thread%s)\n",
            c->item, c->output, c->element, c->alone, c->together, c->place + 1, c->batch, c->neighbours, c->threads,
            c->threads == 1 ? "" : "s");
    if (r->spills)
        PUT("    it writes outside of its output, or into its input\n");
    return TESS_OK;
}

static tess_status print_row(const tess_invariance_row *r, tess_buffer *out)
{
    PUT("  %-20s %-30s %7" PRId64 "  %s", r->name, r->shape, r->cases, verdict_of(r));
    if (r->max_abs > 0)
        PUT(": %" PRId64 " cases, at most by %.2e, in the mean %.2e", r->different, r->max_abs, r->mean_abs);
    PUT("\n");
    return print_change(r, out);
}

static tess_status print_verdict(const tess_invariance_result *result, tess_buffer *out)
{
    if (tess_invariance_holds(result) && result->tolerance > 0)
        PUT("batch-invariant within %g: %" PRId64 " cases\n", result->tolerance, result->cases);
    else if (tess_invariance_holds(result))
        PUT("batch-invariant: %" PRId64 " cases have the bits that the item has alone\n", result->cases);
    else
        PUT("not batch-invariant: what it computes of an item depends on what is computed beside it\n");
    return TESS_OK;
}

tess_status tess_invariance_print(const tess_invariance_result *result, tess_buffer *out)
{
    PUT("%s\n  row                  of                               cases  bits\n", result->table);
    for (int i = 0; i < result->n; i++)
        TESS_TRY(print_row(&result->rows[i], out));
    return print_verdict(result, out);
}

static json_t *row_json(const tess_invariance_row *r)
{
    const tess_invariance_change *c = &r->first;
    json_t *json =
        json_pack("{s:s, s:s, s:s, s:I, s:I, s:o, s:o, s:b}", "row", r->name, "of", r->shape, "verdict", verdict_of(r),
                  "cases", (json_int_t)r->cases, "different", (json_int_t)r->different, "max_abs",
                  tess_json_number(r->max_abs), "mean_abs", tess_json_number(r->mean_abs), "spills", r->spills);
    if (r->different > 0)
        json_object_set_new(json, "first",
                            json_pack("{s:i, s:i, s:i, s:s, s:i, s:s, s:I, s:o, s:o}", "row", c->item, "batch",
                                      c->batch, "place", c->place, "neighbours", c->neighbours, "threads", c->threads,
                                      "output", c->output, "element", (json_int_t)c->element, "alone",
                                      tess_json_number(c->alone), "together", tess_json_number(c->together)));
    return json;
}

tess_status tess_invariance_print_json(const tess_invariance_result *results, int n, tess_buffer *out)
{
    json_t *tables = json_array();
    bool holds = true;
    for (int i = 0; i < n; i++) {
        json_t *rows = json_array();
        for (int r = 0; r < results[i].n; r++)
            json_array_append_new(rows, row_json(&results[i].rows[r]));
        json_array_append_new(tables, json_pack("{s:s, s:o, s:o}", "table", results[i].table, "tolerance",
                                                tess_json_number(results[i].tolerance), "rows", rows));
        holds = holds && tess_invariance_holds(&results[i]);
    }
    return tess_json_print(json_pack("{s:s, s:i, s:b, s:o}", "format", "tessera-invariance", "version", 1, "same",
                                     holds, "tables", tables),
                           JSON_INDENT(2), out);
}
