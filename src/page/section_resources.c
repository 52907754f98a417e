/* Sections of time by phase, and of memory by pool and rank. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "page/page_impl.h"
#include "page/page_plot.h"
#include "tessera/clock.h"
#include "tessera/memory.h"

enum { COLUMNS = 48 };

/* Cuts the steps of a series into columns. Returns the number of columns; 0: there are no steps. */
static int cut_steps(const page_series *s, page_stack *stack)
{
    double low, high;
    int64_t first, last;
    if (s == NULL || !page_series_range(s, &low, &high, &first, &last))
        return 0;
    const int64_t n_steps = last - first + 1, n_buckets = (int64_t)s->n;
    int64_t n = n_steps < n_buckets ? n_steps : n_buckets;
    n = n < COLUMNS ? n : COLUMNS;
    for (int c = 0; c < n; c++) {
        stack->first[c] = (double)(first + n_steps * c / n);
        stack->last[c] = (double)(first + n_steps * (c + 1) / n - 1);
        stack->reference[c] = NAN;
    }
    return (int)n;
}

/* Fills a part of each column with the mean of the series over its steps. */
static void fill_part(const page_series *s, int part, page_stack *stack)
{
    for (int c = 0; c < stack->n_columns; c++)
        stack->value[c][part] =
            s != NULL ? page_series_mean(s, (int64_t)stack->first[c], (int64_t)stack->last[c] + 1) : NAN;
}

/* ---- Time ---- */
static bool has_times(const page_run *run)
{
    return page_curves_find(&run->curves, "time_s.total") != NULL;
}

bool page_has_times(const tess_run_page *page)
{
    for (int r = 0; r < page->n; r++)
        if (has_times(&page->runs[r]))
            return true;
    return false;
}

static void put_times(const page_run *run, page_out *out)
{
    page_stack stack = {.title = "seconds of a step by phase, on rank 0", .unit = "s", .x_name = "step"};
    stack.n_columns = cut_steps(page_curves_find(&run->curves, "time_s.total"), &stack);
    for (int phase = 0; phase < TESS_PHASE_COUNT && stack.n_parts < PAGE_PARTS; phase++) {
        char key[PAGE_KEY];
        snprintf(key, sizeof(key), "time_s.%s", tess_phase_name((tess_phase)phase));
        const page_series *s = page_curves_find(&run->curves, key);
        if (s == NULL)
            continue;
        stack.parts[stack.n_parts] = tess_phase_name((tess_phase)phase);
        fill_part(s, stack.n_parts++, &stack);
    }
    if (stack.n_columns > 0 && stack.n_parts > 0)
        page_put_stack(out, &stack);
}

/* Puts a table of the phases: seconds over all steps, and their shares. */
static void put_shares(const page_run *run, page_out *out)
{
    char text[40];
    double sum[TESS_PHASE_COUNT] = {0}, all = 0;
    for (int phase = 0; phase < TESS_PHASE_COUNT; phase++) {
        char key[PAGE_KEY];
        snprintf(key, sizeof(key), "time_s.%s", tess_phase_name((tess_phase)phase));
        const page_series *s = page_curves_find(&run->curves, key);
        for (size_t i = 0; s != NULL && i < s->n; i++)
            sum[phase] += s->buckets[i].sum;
        all += sum[phase];
    }
    if (!(all > 0))
        return;
    page_put(out, "<figure><figcaption>time of all steps</figcaption><table><thead><tr><th scope=\"col\">phase</th><th "
                  "scope=\"col\">time</th><th scope=\"col\">share</th></tr></thead><tbody>\n");
    for (int phase = 0; phase < TESS_PHASE_COUNT; phase++)
        if (sum[phase] > 0)
            page_put(out, "<tr><th scope=\"row\">%s</th><td class=\"n\">%s</td><td class=\"n\">%.1f%%</td></tr>\n",
                     tess_phase_name((tess_phase)phase), page_duration(sum[phase], text, sizeof(text)),
                     100 * sum[phase] / all);
    page_put(out, "</tbody></table></figure>\n");
}

void page_put_times(const tess_run_page *page, page_out *out)
{
    for (int r = 0; r < page->n; r++) {
        const page_run *run = &page->runs[r];
        if (!has_times(run))
            continue;
        page_put_run_name(page, run, out);
        page_put(out, "<div class=\"plots\">\n");
        put_times(run, out);
        put_shares(run, out);
        page_put(out, "</div>\n");
    }
}

/* ---- Memory ---- */
static const page_series *pool_series(const page_run *run, int pool)
{
    char key[PAGE_KEY];
    snprintf(key, sizeof(key), "memory.%s", tess_pool_name((tess_pool)pool));
    return page_curves_find(&run->curves, key);
}

static bool has_memory(const page_run *run)
{
    return pool_series(run, 0) != NULL || json_is_object(json_object_get(run->pools, "peak"));
}

bool page_has_memory(const tess_run_page *page)
{
    for (int r = 0; r < page->n; r++)
        if (has_memory(&page->runs[r]))
            return true;
    return false;
}

static void put_in_use(const page_run *run, page_out *out)
{
    page_stack stack = {.title = "memory in use by all ranks, by pool", .unit = "B", .x_name = "step"};
    stack.n_columns = cut_steps(pool_series(run, 0), &stack);
    for (int pool = 0; pool < TESS_POOL_COUNT; pool++) {
        double low, high;
        int64_t first, last;
        const page_series *s = pool_series(run, pool);
        if (s == NULL || !page_series_range(s, &low, &high, &first, &last) || high <= 0)
            continue;
        stack.parts[stack.n_parts] = tess_pool_name((tess_pool)pool);
        fill_part(s, stack.n_parts++, &stack);
    }
    if (stack.n_columns > 0 && stack.n_parts > 0)
        page_put_stack(out, &stack);
}

/* Puts the peaks of each rank: by_rank has a list of bytes for each pool. */
static void put_by_rank(const page_run *run, page_out *out)
{
    size_t most = 0;
    const json_t *by_rank = json_object_get(run->pools, "by_rank");
    page_stack stack = {.title = "memory of each rank at the peak, by pool", .unit = "B", .x_name = "rank"};
    for (int pool = 0; pool < TESS_POOL_COUNT; pool++) {
        const json_t *bytes = json_object_get(by_rank, tess_pool_name((tess_pool)pool));
        const size_t n = json_array_size(bytes);
        double sum = 0;
        for (size_t rank = 0; rank < n && rank < PAGE_COLUMNS; rank++) {
            stack.value[rank][stack.n_parts] = json_number_value(json_array_get(bytes, rank));
            sum += stack.value[rank][stack.n_parts];
        }
        most = n > most ? n : most;
        if (sum > 0)
            stack.parts[stack.n_parts++] = tess_pool_name((tess_pool)pool);
    }
    stack.n_columns = most < PAGE_COLUMNS ? (int)most : PAGE_COLUMNS;
    for (int c = 0; c < stack.n_columns; c++)
        stack.first[c] = stack.last[c] = c;
    if (stack.n_columns == 0 || stack.n_parts == 0)
        return;
    page_put_stack(out, &stack);
    if (most > PAGE_COLUMNS)
        page_put(out, "<p class=\"note\">the first %d of %zu ranks</p>\n", PAGE_COLUMNS, most);
}

static double pool_bytes(const page_run *run, const char *what, int pool)
{
    return page_member(json_object_get(run->pools, what), tess_pool_name((tess_pool)pool));
}

/* Puts the peaks of all ranks next to what the plan predicted. */
static void put_peaks(const page_run *run, page_out *out)
{
    char peak[40], predicted[40];
    if (!json_is_object(json_object_get(run->pools, "peak")))
        return;
    page_put(out,
             "<figure><figcaption>peaks of all ranks and their prediction</figcaption><table><thead><tr><th "
             "scope=\"col\">pool</th><th scope=\"col\">peak</th><th scope=\"col\">predicted</th></tr></thead><tbody>"
             "\n");
    for (int pool = 0; pool < TESS_POOL_COUNT; pool++) {
        const double bytes = pool_bytes(run, "peak", pool), plan = pool_bytes(run, "predicted", pool);
        if (bytes > 0 || plan > 0)
            page_put(out, "<tr><th scope=\"row\">%s</th><td class=\"n\">%s</td><td class=\"n\">%s</td></tr>\n",
                     tess_pool_name((tess_pool)pool), page_measure(bytes, "B", peak, sizeof(peak)),
                     page_measure(plan, "B", predicted, sizeof(predicted)));
    }
    page_put(out, "</tbody></table></figure>\n");
}

void page_put_memory(const tess_run_page *page, page_out *out)
{
    for (int r = 0; r < page->n; r++) {
        const page_run *run = &page->runs[r];
        if (!has_memory(run))
            continue;
        page_put_run_name(page, run, out);
        page_put(out, "<div class=\"plots\">\n");
        put_in_use(run, out);
        put_by_rank(run, out);
        put_peaks(run, out);
        page_put(out, "</div>\n");
    }
}
