/* The section of final figures: one column for each run. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "page/page_impl.h"
#include "page/page_plot.h"

/* How a run stands, from the record of its launcher. */
static const char *state_of(const page_run *run, char *text, size_t size)
{
    const bool ended = page_member(run->job, "end_ns") > 0;
    const json_t *exit_code = json_object_get(run->job, "exit_code");
    const int64_t code = json_integer_value(exit_code);
    const char *failure = page_string(run->failure, "class");
    if (failure[0] != '\0')
        snprintf(text, size, "failed: %s", failure);
    else if (run->job == NULL)
        return "";
    else if (!ended || !json_is_integer(exit_code))
        snprintf(text, size, "runs, or was killed with its launcher");
    else if (code == 0)
        snprintf(text, size, "ended");
    else if (code == 130 || code == 143)
        snprintf(text, size, "stopped by a signal");
    else
        snprintf(text, size, "failed with exit code %lld", (long long)code);
    return text;
}

static const char *from_job(const page_run *run, const char *key, char *text, size_t size)
{
    const json_t *value = json_object_get(run->job, key);
    return json_is_integer(value) ? page_time(json_integer_value(value), text, size) : "";
}

static const char *begin_of(const page_run *run, char *text, size_t size)
{
    return from_job(run, "begin_ns", text, size);
}

static const char *last_of(const page_run *run, const char *key, char *text, size_t size)
{
    const page_series *s = page_curves_find(&run->curves, key);
    return s != NULL && isfinite(s->last) ? page_number(s->last, text, size) : "";
}

static const char *steps_of(const page_run *run, char *text, size_t size)
{
    const page_series *s = page_curves_find(&run->curves, "loss");
    if (s == NULL || s->n == 0)
        return "";
    snprintf(text, size, "%lld to %lld", (long long)s->buckets[0].first, (long long)s->newest);
    return text;
}

static const char *loss_of(const page_run *run, char *text, size_t size)
{
    return last_of(run, "loss", text, size);
}

static const char *best_of(const page_run *run, const char *key, char *text, size_t size)
{
    double low, high;
    int64_t first, last;
    char number[40];
    const page_series *s = page_curves_find(&run->curves, key);
    if (s == NULL || !page_series_range(s, &low, &high, &first, &last))
        return "";
    int64_t at = 0;
    for (size_t i = 0; i < s->n; i++)
        if (s->buckets[i].n > 0 && s->buckets[i].low == low)
            at = s->buckets[i].low_at;
    snprintf(text, size, "%s at step %lld", page_number(low, number, sizeof(number)), (long long)at);
    return text;
}

/* The loss of reinforcement learning is no measure of success. */
static const char *lowest_of(const page_run *run, char *text, size_t size)
{
    return page_curves_find(&run->curves, "rollout/raw_reward") != NULL ? "" : best_of(run, "loss", text, size);
}

static const char *validation_of(const page_run *run, char *text, size_t size)
{
    return last_of(run, "validation_loss", text, size);
}

static const char *best_validation_of(const page_run *run, char *text, size_t size)
{
    return best_of(run, "validation_loss", text, size);
}

static const char *reward_of(const page_run *run, char *text, size_t size)
{
    return last_of(run, "rollout/raw_reward", text, size);
}

static const char *tokens_of(const page_run *run, char *text, size_t size)
{
    return last_of(run, "n_tokens", text, size);
}

/* Mean over the whole run. */
static double mean_of(const page_run *run, const char *key)
{
    const page_series *s = page_curves_find(&run->curves, key);
    return s != NULL ? page_series_mean(s, INT64_MIN, INT64_MAX) : NAN;
}

static const char *speed_of(const page_run *run, char *text, size_t size)
{
    const double mean = mean_of(run, "tps");
    return isfinite(mean) ? page_number(mean, text, size) : "";
}

static const char *mfu_of(const page_run *run, char *text, size_t size)
{
    const double mean = mean_of(run, "mfu");
    if (!(mean > 0))
        return "";
    snprintf(text, size, "%.2g%%", 100 * mean);
    return text;
}

/* Sum of the times of all steps. */
static const char *time_of(const page_run *run, char *text, size_t size)
{
    double sum = 0;
    const page_series *s = page_curves_find(&run->curves, "time_s.total");
    for (size_t i = 0; s != NULL && i < s->n; i++)
        sum += s->buckets[i].sum;
    return sum > 0 ? page_duration(sum, text, size) : "";
}

static const char *ranks_of(const page_run *run, char *text, size_t size)
{
    return last_of(run, "ranks", text, size);
}

static const char *memory_of(const page_run *run, char *text, size_t size)
{
    double sum = 0;
    const char *pool;
    json_t *bytes;
    json_object_foreach (json_object_get(run->pools, "peak"), pool, bytes)
        sum += json_number_value(bytes);
    return sum > 0 ? tess_format_bytes(sum, text, size) : "";
}

static const char *tessera_of(const page_run *run, char *text, size_t size)
{
    (void)text;
    (void)size;
    return page_string(run->facts, "tessera");
}

/* The rows of the table. A row without a value in any run is left out. */
static const struct {
    const char *name;
    const char *(*value)(const page_run *run, char *text, size_t size);
} figures[] = {{"state", state_of},
               {"began", begin_of},
               {"steps", steps_of},
               {"loss", loss_of},
               {"lowest loss", lowest_of},
               {"loss of the evaluation", validation_of},
               {"lowest loss of an evaluation", best_validation_of},
               {"reward", reward_of},
               {"tokens", tokens_of},
               {"time in steps", time_of},
               {"tokens per second", speed_of},
               {"MFU", mfu_of},
               {"ranks", ranks_of},
               {"memory of all ranks at the peak", memory_of},
               {"Tessera", tessera_of}};

enum { FIGURES = sizeof(figures) / sizeof(figures[0]) };

static bool has_figure(const tess_run_page *page, int row)
{
    char text[256];
    for (int r = 0; r < page->n; r++)
        if (figures[row].value(&page->runs[r], text, sizeof(text))[0] != '\0')
            return true;
    return false;
}

bool page_has_figures(const tess_run_page *page)
{
    for (int row = 0; row < FIGURES; row++)
        if (has_figure(page, row))
            return true;
    return false;
}

static void put_head(const tess_run_page *page, page_out *out)
{
    page_put(out, "<thead><tr><td></td>");
    for (int r = 0; r < page->n; r++) {
        page_put(out,
                 "<th scope=\"col\"><svg class=\"key c%d d%d\" viewBox=\"0 0 26 10\" aria-hidden=\"true\"><path "
                 "d=\"M1 5H25\"/></svg> ",
                 r % PAGE_COLOURS, page_dash(r));
        page_put_some(out, page->runs[r].name, 120);
        page_put(out, "</th>");
    }
    page_put(out, "</tr></thead>\n");
}

static void put_notes(const page_run *run, page_out *out)
{
    const int64_t n_bad = run->metrics.n_bad + run->memory.n_bad + run->alerts.n_bad;
    const char *why = page_string(run->job, "verdict");
    if (why[0] != '\0') {
        page_put(out, "<p class=\"warn\">");
        page_put_some(out, run->name, 120);
        page_put(out, ": ");
        page_put_some(out, why, 1000);
        page_put(out, "</p>\n");
    }
    if (n_bad > 0) {
        page_put(out, "<p class=\"note\">");
        page_put_some(out, run->name, 120);
        page_put(out, ": %lld line%s of its files cannot be read and %s left out</p>\n", (long long)n_bad,
                 n_bad == 1 ? "" : "s", n_bad == 1 ? "is" : "are");
    }
}

void page_put_figures(const tess_run_page *page, page_out *out)
{
    char text[256];
    page_put(out, "<div class=\"scroll\" tabindex=\"0\"><table>");
    if (page->n > 1)
        put_head(page, out);
    page_put(out, "<tbody>\n");
    for (int row = 0; row < FIGURES; row++) {
        if (!has_figure(page, row))
            continue;
        page_put(out, "<tr><th scope=\"row\">%s</th>", figures[row].name);
        for (int r = 0; r < page->n; r++) {
            page_put(out, "<td>");
            page_put_some(out, figures[row].value(&page->runs[r], text, sizeof(text)), 120);
            page_put(out, "</td>");
        }
        page_put(out, "</tr>\n");
    }
    page_put(out, "</tbody></table></div>\n");
    for (int r = 0; r < page->n; r++)
        put_notes(&page->runs[r], out);
}
