/* The page of a plan's pictures. Reads the report alone (plan_pictures.h). */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "page/page_bars.h"
#include "page/run_page.h"
#include "plan/plan_pictures.h"
#include "plan/step_spans.h"
#include "tessera/memory.h"

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL ? text : "";
}

static double number_of(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

/* ---- Bars ---- */
/* Returns the number of a part, which is added if it is new. */
static int part_of(page_bars *b, const char *name)
{
    int part = 0;
    while (part < b->n_parts && strcmp(b->parts[part], name) != 0)
        part++;
    if (part == PAGE_PARTS)
        return PAGE_PARTS - 1;
    if (part == b->n_parts)
        b->parts[b->n_parts++] = name;
    return part;
}

/* Puts bars of the layouts: of the array `list` of each, whose items have a name and a value `key`, times `unit`. */
static void put_layout_bars(page_out *out, const json_t *report, page_bars *b, const char *list, const char *key,
                            double unit)
{
    size_t i, k;
    const json_t *layout, *part;
    char names[TESS_PICTURE_LAYOUTS][24];
    json_array_foreach (json_object_get(report, "layouts"), i, layout) {
        const json_t *parts = json_object_get(layout, list);
        if (parts == NULL)
            continue;
        const int row = b->n_rows++;
        snprintf(names[row], sizeof(names[row]), "layout %d", (int)i + 1);
        b->name[row] = names[row];
        json_array_foreach (parts, k, part)
            b->value[row][part_of(b, text_of(part, "name"))] += unit * number_of(part, key);
    }
    page_put_bars(out, b);
}

static void put_layouts(page_out *out, const json_t *report)
{
    size_t i;
    const json_t *layout;
    char number[40];
    page_put(out, "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"layouts\"><table><thead><tr>"
                  "<th>layout<th>settings<th>memory<th>step<th>tokens/s<th>MFU<th>limited by</thead><tbody>\n");
    json_array_foreach (json_object_get(report, "layouts"), i, layout) {
        page_put(out, "<tr><th>%d<td>", (int)i + 1);
        page_put_text(out, text_of(layout, "name"));
        if (json_object_get(layout, "refused") != NULL) {
            page_put(out, "<td>");
            page_put_text(out, text_of(layout, "refused"));
            page_put(out, "<td><td><td><td>\n");
            continue;
        }
        page_put(out, "<td class=\"n\">%s", text_of(layout, "memory_text"));
        if (json_object_get(layout, "missing") != NULL)
            page_put(out, ", too large by %s%s",
                     page_measure(number_of(layout, "missing"), "B", number, sizeof(number)),
                     json_is_true(json_object_get(layout, "of_host")) ? " of the host's memory" : "");
        page_put(out, "<td class=\"n\">%s",
                 page_measure(number_of(layout, "step_ms") / 1e3, "s", number, sizeof(number)));
        page_put(out, "<td class=\"n\">%s", page_number(number_of(layout, "tokens_per_s"), number, sizeof(number)));
        page_put(out, "<td class=\"n\">%.1f%%<td>", 100 * number_of(layout, "mfu"));
        page_put_text(out, text_of(layout, "bound"));
        page_put(out, " ");
        page_put_text(out, text_of(layout, "bound_axis"));
        page_put(out, "\n");
    }
    page_put(out, "</tbody></table></div>\n");
}

static void put_comparison(page_out *out, const json_t *report)
{
    page_bars memory = {.title = "Memory of the rank that needs most",
                        .unit = "B",
                        .limit = number_of(report, "room"),
                        .limit_name = "a rank has"},
              time = {.title = "Time of a step", .unit = "s"};
    out->section = "layouts";
    page_put(out, "<section id=\"layouts\"><h2>Layouts</h2>\n<div class=\"plots\">\n");
    put_layout_bars(out, report, &memory, "memory", "bytes", 1);
    put_layout_bars(out, report, &time, "time", "ms", 1e-3);
    page_put(out, "</div>\n");
    put_layouts(out, report);
    page_put(out, "</section>\n");
}

/* ---- The time line ---- */
/* A row is a rank of each stage of a pipeline. */
static const char *name_row(int row, char text[32])
{
    snprintf(text, 32, "stage %d", row);
    return text;
}

static const char *name_only(TESS_UNUSED int row, char text[32])
{
    snprintf(text, 32, "a rank");
    return text;
}

/* Spans that are shorter than this share of the step would be invisible. */
static const double least_share = 1.0 / 4000;

static tess_status put_time_line(tess_mem *mem, page_out *out, const json_t *report)
{
    size_t i;
    const json_t *of = json_object_get(report, "timeline"), *spans = json_object_get(of, "spans"), *span;
    const double end_s = number_of(of, "end_ms") / 1e3;
    TESS_AUTO(tess_mem_drop) page_bar *bars = NULL;
    page_timeline t = {.title = "A step of layout 1", .n_rows = (int)json_array_size(json_object_get(of, "rows"))};
    t.row_name = t.n_rows > 1 ? name_row : name_only;
    TESS_TRY(TESS_NEW(mem, json_array_size(spans) + 1, "bars", &bars));
    t.bars = bars;
    for (t.n_kinds = 0; t.n_kinds < TESS_SPAN_KINDS; t.n_kinds++)
        t.kinds[t.n_kinds] = tess_span_name(t.n_kinds);
    json_array_foreach (spans, i, span) {
        const page_bar bar = {.row = (int)json_integer_value(json_array_get(span, 0)),
                              .kind = (int)json_integer_value(json_array_get(span, 1)),
                              .begin = json_number_value(json_array_get(span, 2)) / 1e3,
                              .end = json_number_value(json_array_get(span, 3)) / 1e3};
        if (bar.end - bar.begin >= least_share * end_s && bar.kind != TESS_SPAN_BUBBLE)
            bars[t.n_bars++] = bar;
    }
    out->section = "timeline";
    page_put(out, "<section id=\"timeline\"><h2>Time line of a step</h2>\n");
    if (json_is_true(json_object_get(of, "cut")))
        page_put(out, "<p class=\"note\">The first %d of %d micro-batches of a rank.</p>\n",
                 (int)number_of(of, "micros"), (int)number_of(of, "all_micros"));
    if (json_object_get(of, "waits_ms") != NULL)
        page_put(out, "<p class=\"note\">Without %.3g ms of waits for ranks with more attention.</p>\n",
                 number_of(of, "waits_ms"));
    page_put_timeline_picture(out, &t);
    page_put(out, "</section>\n");
    return TESS_OK;
}

/* ---- Scaling ---- */
static tess_status add_points(page_curves *curves, const json_t *points)
{
    size_t i;
    const json_t *point;
    static const char *const keys[] = {"strong", "weak", "strong_share", "weak_share"};
    double first = 0;
    json_array_foreach (points, i, point) {
        const int64_t n = (int64_t)number_of(point, "ranks");
        for (size_t k = 0; k < sizeof(keys) / sizeof(keys[0]); k++)
            if (json_object_get(point, keys[k]) != NULL)
                TESS_TRY(page_curves_add(curves, keys[k], n, (k > 1 ? 100 : 1) * number_of(point, keys[k])));
        if (first <= 0)
            first = number_of(point, "strong") / (double)n;
        TESS_TRY(page_curves_add(curves, "ideal", n, first * (double)n));
    }
    return TESS_OK;
}

static void add_line(page_plot *plot, const page_curves *curves, const char *key, const char *label)
{
    const page_series *series = page_curves_find(curves, key);
    if (series == NULL)
        return;
    plot->lines[plot->n] =
        (page_line){.series = series, .label = label, .colour = plot->n, .dash = page_dash(plot->n), .marks = true};
    plot->n++;
}

static tess_status put_scaling(tess_mem *mem, page_out *out, const json_t *report)
{
    page_curves curves = {.mem = mem};
    page_plot rates = {.title = "Tokens per second", .x_name = "ranks"},
              shares = {.title = "Percent of ideal", .x_name = "ranks"};
    const json_t *points = json_object_get(report, "scaling");
    if (points == NULL)
        return TESS_OK;
    const tess_status status = add_points(&curves, points);
    if (status == TESS_OK) {
        add_line(&rates, &curves, "strong", "the same batch");
        add_line(&rates, &curves, "weak", "a batch that grows");
        add_line(&rates, &curves, "ideal", "ideal");
        add_line(&shares, &curves, "strong_share", "the same batch");
        add_line(&shares, &curves, "weak_share", "a batch that grows");
        out->section = "scaling";
        page_put(out, "<section id=\"scaling\"><h2>Scaling of layout 1</h2>\n<div class=\"plots\">\n");
        page_put_plot(out, &rates);
        page_put_plot(out, &shares);
        page_put(out, "</div></section>\n");
    }
    page_curves_free(&curves);
    return status;
}

/* ---- The page ---- */
static tess_status put_head(page_out *out, const json_t *report)
{
    page_put(out, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<meta "
                  "http-equiv=\"Content-Security-Policy\" content=\"");
    TESS_TRY(out->status);
    TESS_TRY(tess_page_put_policy("", "'none'", out->to));
    page_put(out, "\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
                  "<title>Plan</title>\n");
    TESS_TRY(out->status);
    TESS_TRY(tess_page_put_style(out->to));
    page_put(out, "</head>\n<body><header><h1>Plan of %d ranks on ", (int)number_of(report, "ranks"));
    page_put_text(out, text_of(report, "machine"));
    page_put(out,
             "</h1><p class=\"note\">%d rows of %d tokens a step; planned by Tessera " TESS_VERSION
             ". Nothing was run.</p></header>\n<main>\n",
             (int)number_of(report, "rows"), (int)number_of(report, "seq_len"));
    return out->status;
}

tess_status tess_plan_page(tess_mem *mem, const json_t *report, tess_buffer *to)
{
    page_out out = {.to = to};
    TESS_TRY(put_head(&out, report));
    put_comparison(&out, report);
    TESS_TRY(put_time_line(mem, &out, report));
    TESS_TRY(put_scaling(mem, &out, report));
    page_put(&out, "</main>\n");
    TESS_TRY(out.status);
    TESS_TRY(tess_page_put_script("", to));
    return tess_buffer_printf(to, "</body></html>\n");
}
