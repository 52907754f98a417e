/* Sections of events (recoveries, restarts, warnings, alerts, the failure) and of samples. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "page/page_impl.h"

/* ---- Events ---- */
static size_t n_notices(const page_run *run)
{
    return json_array_size(json_object_get(run->job, "notices"));
}

static bool has_events(const page_run *run)
{
    return n_notices(run) > 0 || json_array_size(run->alert_list) > 0 || json_is_object(run->failure);
}

bool page_has_events(const tess_run_page *page)
{
    for (int r = 0; r < page->n; r++)
        if (has_events(&page->runs[r]))
            return true;
    return false;
}

static void put_number_cell(page_out *out, const json_t *value)
{
    if (json_is_integer(value) && json_integer_value(value) >= 0)
        page_put(out, "<td class=\"n\">%lld</td>", (long long)json_integer_value(value));
    else
        page_put(out, "<td></td>");
}

static void put_text_cell(page_out *out, const char *text)
{
    page_put(out, "<td>");
    page_put_some(out, text, 1000);
    page_put(out, "</td>");
}

static void put_notices(const page_run *run, page_out *out)
{
    size_t i;
    char time[40];
    json_t *notice;
    if (n_notices(run) == 0)
        return;
    page_put(out,
             "<h3>recoveries, restarts and warnings</h3><div class=\"scroll\" tabindex=\"0\"><table><thead><tr><th "
             "scope=\"col\">time</th><th scope=\"col\">kind</th><th scope=\"col\">rank</th><th scope=\"col\">step</th>"
             "<th scope=\"col\">what</th></tr></thead><tbody>\n");
    json_array_foreach (json_object_get(run->job, "notices"), i, notice) {
        page_put(out, "<tr><td class=\"t\">%s</td>",
                 page_time(json_integer_value(json_object_get(notice, "wall_ns")), time, sizeof(time)));
        put_text_cell(out, page_string(notice, "kind"));
        put_number_cell(out, json_object_get(notice, "rank"));
        put_number_cell(out, json_object_get(notice, "step"));
        put_text_cell(out, page_string(notice, "text"));
        page_put(out, "</tr>\n");
    }
    page_put(out, "</tbody></table></div>\n");
}

static void put_alerts(const page_run *run, page_out *out)
{
    size_t i;
    json_t *alert;
    if (json_array_size(run->alert_list) == 0)
        return;
    page_put(out,
             "<h3>alerts</h3><div class=\"scroll\" tabindex=\"0\"><table><thead><tr><th scope=\"col\">time</th><th "
             "scope=\"col\">host</th><th scope=\"col\">event</th><th scope=\"col\">state</th><th scope=\"col\">what"
             "</th></tr></thead><tbody>\n");
    json_array_foreach (run->alert_list, i, alert) {
        page_put(out, "<tr><td class=\"t\">");
        page_put_some(out, page_string(alert, "time"), 40);
        page_put(out, "</td>");
        for (int k = 1; k < 5; k++)
            put_text_cell(out, page_string(alert, (const char *[]){"time", "host", "event", "state", "text"}[k]));
        page_put(out, "</tr>\n");
    }
    page_put(out, "</tbody></table></div>\n");
}

/* Puts the members of the failure's record, whatever they are. */
static void put_failure(const page_run *run, page_out *out)
{
    char text[2048];
    const char *key;
    json_t *value;
    if (!json_is_object(run->failure))
        return;
    page_put(out, "<h3>the failure</h3><div class=\"scroll\" tabindex=\"0\"><table><tbody>\n");
    json_object_foreach (run->failure, key, value)
        page_put_row(out, key, page_value_text(value, text, sizeof(text)));
    page_put(out, "</tbody></table></div>\n");
}

void page_put_events(const tess_run_page *page, page_out *out)
{
    for (int r = 0; r < page->n; r++) {
        const page_run *run = &page->runs[r];
        if (!has_events(run))
            continue;
        page_put_run_name(page, run, out);
        put_failure(run, out);
        put_notices(run, out);
        put_alerts(run, out);
    }
}

/* ---- Samples ---- */
enum { SAMPLE_TEXT = 2000 };

bool page_has_samples(const tess_run_page *page)
{
    for (int r = 0; r < page->n; r++)
        if (json_array_size(page->runs[r].samples) > 0)
            return true;
    return false;
}

static void put_sample(page_out *out, const json_t *sample)
{
    char text[64];
    const double reward = page_member(sample, "reward");
    page_put(out, "<details class=\"sample\"><summary>rollout %lld, sample %lld, ",
             (long long)json_integer_value(json_object_get(sample, "rollout")),
             (long long)json_integer_value(json_object_get(sample, "number")));
    if (isfinite(reward))
        page_put(out, "reward %s, ", page_number(reward, text, sizeof(text)));
    page_put(out, "finish ");
    page_put_some(out, page_string(sample, "finish"), 20);
    page_put(out, ": <q>");
    page_put_some(out, page_string(sample, "answer"), 60);
    page_put(out, "</q></summary><h4>prompt</h4><pre>");
    page_put_some(out, page_string(sample, "prompt"), SAMPLE_TEXT);
    page_put(out, "</pre><h4>answer</h4><pre>");
    page_put_some(out, page_string(sample, "answer"), SAMPLE_TEXT);
    page_put(out, "</pre></details>\n");
}

void page_put_samples(const tess_run_page *page, page_out *out)
{
    for (int r = 0; r < page->n; r++) {
        size_t i;
        json_t *sample;
        if (json_array_size(page->runs[r].samples) == 0)
            continue;
        page_put_run_name(page, &page->runs[r], out);
        json_array_foreach (page->runs[r].samples, i, sample)
            put_sample(out, sample);
    }
}
