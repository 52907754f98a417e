/* Sections of curves over steps: training, reinforcement learning, and all other numbers. */
#include <stdio.h>
#include <string.h>

#include "page/page_impl.h"
#include "page/page_plot.h"

enum { MOST_KEYS = 6 };

/* A plot: the keys that it shows. On a page of several runs, each key has a plot of its own. */
typedef struct curve_row {
    const char *title, *keys[MOST_KEYS];
    bool may_be_log;
} curve_row;

static const curve_row training[] = {
    {"loss", {"loss", "validation_loss"}, true},
    {"learning rate", {"lr"}, false},
    {"norm of the gradient", {"grad_norm"}, true},
    {"tokens per second", {"tps"}, false},
    {"share of the peak speed (MFU)", {"mfu"}, false},
    {"perplexity of the evaluation", {"validation_perplexity"}, true},
    {"bits per byte of the evaluation", {"validation_bits_per_byte"}, false},
    {"factor of the loss (loss scaling)", {"loss_scale"}, true},
    {"loss that balances experts", {"aux_loss"}, true},
    {"load of the experts: largest over mean", {"expert_load"}, false},
    {"experts without a token", {"idle_experts"}, false},
};

static const curve_row learning[] = {
    {"reward", {"rollout/raw_reward", "eval/held_out"}, false},
    {"divergence from the reference and from the old policy (KL)",
     {"train/kl", "train/ppo_kl", "train/approx_kl", "train/kl_pull", "train/ref_drift"},
     true},
    {"length of answers",
     {"rollout/response_len/mean", "rollout/response_len/median", "rollout/response_len/max",
      "rollout/response_len/min"},
     false},
    {"entropy", {"train/entropy"}, false},
    {"clipped tokens", {"train/pg_clipfrac"}, false},
    {"answers that were cut off, that have no reward, prompts with equal rewards",
     {"rollout/truncated_ratio", "rollout/no_reward_ratio", "rollout/zero_std_ratio"},
     false},
    {"accuracy and margin of pairs", {"rewards/accuracies", "rewards/margins"}, false},
    {"rewards of pairs", {"rewards/chosen", "rewards/rejected"}, false},
    {"seconds of a rollout", {"perf/rollout_time", "perf/reward_time", "perf/log_probs_time"}, false},
};

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

/* Keys that other sections show. */
static const char *const shown_elsewhere[] = {"time_s.", "peak_bytes.", "memory.", "leaves."};
static const char *const not_curves[] = {
    "n_tokens", "ranks", "zloss", "zgrad", "tflops", "skipped", "validation_tokens", "validation_tokens_all"};

static bool is_in(const curve_row *rows, size_t n, const char *key)
{
    for (size_t i = 0; i < n; i++)
        for (int k = 0; k < MOST_KEYS && rows[i].keys[k] != NULL; k++)
            if (strcmp(rows[i].keys[k], key) == 0)
                return true;
    return false;
}

static bool is_other(const char *key)
{
    for (size_t i = 0; i < COUNT(shown_elsewhere); i++)
        if (strncmp(key, shown_elsewhere[i], strlen(shown_elsewhere[i])) == 0)
            return false;
    for (size_t i = 0; i < COUNT(not_curves); i++)
        if (strcmp(key, not_curves[i]) == 0)
            return false;
    return !is_in(training, COUNT(training), key) && !is_in(learning, COUNT(learning), key);
}

/* Evaluations are few and far between, so each gets a mark. */
static bool has_marks(const char *key)
{
    return strncmp(key, "validation", 10) == 0 || strncmp(key, "eval/", 5) == 0;
}

/* Adds the lines of a key, one for each run that has it. The lines of a plot differ in colour and dash: by run if there
 * are several, else by key. */
static void add_lines(const tess_run_page *page, const char *key, int number, page_plot *plot)
{
    for (int r = 0; r < page->n && plot->n < PAGE_LINES; r++) {
        const page_series *s = page_curves_find(&page->runs[r].curves, key);
        if (s == NULL)
            continue;
        const int at = page->n > 1 ? r : number;
        plot->lines[plot->n++] = (page_line){.series = s,
                                             .label = page->n > 1 ? page->runs[r].name : key,
                                             .colour = at,
                                             .dash = page_dash(at),
                                             .marks = has_marks(key)};
    }
}

static void put_row(const tess_run_page *page, page_out *out, const curve_row *row)
{
    page_plot plot = {.title = row->title, .may_be_log = row->may_be_log};
    char title[160];
    for (int k = 0; k < MOST_KEYS && row->keys[k] != NULL; k++) {
        add_lines(page, row->keys[k], k, &plot);
        if (page->n == 1 || plot.n == 0)
            continue;
        snprintf(title, sizeof(title), "%s%s%s", row->title, k > 0 ? ": " : "", k > 0 ? row->keys[k] : "");
        plot.title = title;
        page_put_plot(out, &plot);
        plot.n = 0;
    }
    if (plot.n > 0)
        page_put_plot(out, &plot);
}

static void put_rows(const tess_run_page *page, page_out *out, const curve_row *rows, size_t n)
{
    page_put(out, "<div class=\"plots\">\n");
    for (size_t i = 0; i < n; i++)
        put_row(page, out, &rows[i]);
    page_put(out, "</div>\n");
}

static bool has_rows(const tess_run_page *page, const curve_row *rows, size_t n)
{
    for (int r = 0; r < page->n; r++)
        for (size_t i = 0; i < page->runs[r].curves.n; i++)
            if (is_in(rows, n, page->runs[r].curves.series[i].key))
                return true;
    return false;
}

bool page_has_curves(const tess_run_page *page)
{
    return has_rows(page, training, COUNT(training));
}

void page_put_curves(const tess_run_page *page, page_out *out)
{
    put_rows(page, out, training, COUNT(training));
}

bool page_has_learning(const tess_run_page *page)
{
    return has_rows(page, learning, COUNT(learning));
}

void page_put_learning(const tess_run_page *page, page_out *out)
{
    put_rows(page, out, learning, COUNT(learning));
}

/* ---- Other numbers ---- */
bool page_has_others(const tess_run_page *page)
{
    for (int r = 0; r < page->n; r++)
        for (size_t i = 0; i < page->runs[r].curves.n; i++)
            if (is_other(page->runs[r].curves.series[i].key))
                return true;
    return false;
}

/* Whether an earlier run of the page has the key, whose plot then has all runs. */
static bool is_put(const tess_run_page *page, int run, const char *key)
{
    for (int r = 0; r < run; r++)
        if (page_curves_find(&page->runs[r].curves, key) != NULL)
            return true;
    return false;
}

void page_put_others(const tess_run_page *page, page_out *out)
{
    int64_t n_left_out = 0;
    page_put(out, "<details><summary>all further numbers of metrics.jsonl</summary><div class=\"plots\">\n");
    for (int r = 0; r < page->n; r++) {
        const page_curves *curves = &page->runs[r].curves;
        n_left_out += curves->n_left_out;
        for (size_t i = 0; i < curves->n; i++) {
            const char *key = curves->series[i].key;
            page_plot plot = {.title = key, .may_be_log = true};
            if (!is_other(key) || is_put(page, r, key))
                continue;
            add_lines(page, key, 0, &plot);
            page_put_plot(out, &plot);
        }
    }
    page_put(out, "</div></details>\n");
    if (n_left_out > 0)
        page_put(out, "<p class=\"note\">only the first %d keys are shown; %lld values of others are left out</p>\n",
                 PAGE_SERIES, (long long)n_left_out);
}
