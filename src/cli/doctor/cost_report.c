/* `tessera report`: what a run has done, what that cost, and what the rest will take; or a page of one or more runs. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/os/os.h"
#include "base/text/json.h"
#include "cli/cli.h"
#include "doctor/run/run_numbers.h"
#include "page/run_page.h"
#include "rl/rl_page_samples.h"

typedef struct report_options {
    const char *folder, *cost, *config, *currency, *page;
    double price;              /* price of one rank for one hour; NaN: not given */
    int64_t n_tokens, n_steps; /* goals; 0: not given */
    tess_form_style style;
} report_options;

static const tess_form_part form[] = {
    {.text = "{folder}: steps {steps.first} to {steps.last}, {tokens:c} tokens, {ranks} rank{ranks:s}\n"
             "time in steps: {time.hours:.3f} h, {time.rank_hours:.3f} rank-hours; time of steps that were done again, "
             "and\n"
             "of evaluations and saves, is not in it\n"
             "where it went:[{*time.phases:,} {name} {share:.0%}{/}|]\n"
             "capacity: {capacity.tokens_per_second:c} tokens/s, {capacity.tokens_per_rank_hour:c} tokens a "
             "rank-hour[, mfu {capacity.mfu:.1%}]\n"
             "[cost: {cost.total:.4g} {cost.currency} at {cost.price} a rank-hour, {cost.per_billion_tokens:.4g} "
             "{cost.currency} for a billion tokens\n]"
             "[to {goal.what}: {goal.hours:.3g} h more on {ranks} rank{ranks:s}, {goal.rank_hours:.3g} rank-hours"
             "[, {goal.cost:.4g} {cost.currency} more]\n]"},
    {NULL, NULL}};

/* Takes the price of a configuration, unless --price gave one. */
static tess_status read_price(tess_mem *mem, report_options *o)
{
    TESS_AUTO(tess_config_free) tess_config config = {0};
    if (o->config != NULL) {
        TESS_TRY(tess_config_load(mem, o->config, NULL, 0, &config));
        if (isnan(o->price))
            o->price = config.metrics.price_per_rank_hour;
    }
    if (o->currency == NULL)
        o->currency = "units";
    TESS_CHECK(o->cost == NULL || o->price >= 0, TESS_E_INVALID,
               "--cost: what does a rank cost for an hour? Give --price P, or --config FILE with "
               "metrics.price_per_rank_hour");
    return TESS_OK;
}

static json_t *describe_time(const tess_run_numbers *r)
{
    json_t *phases = json_array();
    for (int phase = 0; phase < TESS_PHASE_COUNT; phase++)
        if (r->step_s > 0 && r->phase_s[phase] / r->step_s >= 0.005)
            json_array_append_new(phases, json_pack("{s:s, s:f}", "name", tess_phase_name((tess_phase)phase), "share",
                                                    r->phase_s[phase] / r->step_s));
    return json_pack("{s:f, s:f, s:o}", "hours", r->step_s / 3600, "rank_hours", r->rank_s / 3600, "phases", phases);
}

static double tokens_per_rank_hour(const tess_run_numbers *r)
{
    return r->n_ranks > 0 ? r->newest_tps * 3600 / r->n_ranks : r->newest_tps * 3600;
}

/* Describes what is left to a goal at the present speed. NULL: there is no goal. */
static json_t *describe_goal(const report_options *o, const tess_run_numbers *r)
{
    char what[64];
    double seconds = 0;
    int ranks = r->n_ranks > 0 ? r->n_ranks : 1;
    if (o->n_tokens == 0 && o->n_steps == 0)
        return NULL;
    if (o->n_tokens > 0) {
        char count[32];
        snprintf(what, sizeof(what), "%s tokens", tess_format_count((double)o->n_tokens, count, sizeof(count)));
        seconds = r->newest_tps > 0 ? fmax(0, (double)(o->n_tokens - r->n_tokens)) / r->newest_tps : NAN;
    } else {
        snprintf(what, sizeof(what), "step %lld", (long long)o->n_steps);
        seconds = fmax(0, (double)(o->n_steps - r->last_step)) * r->newest_step_s;
    }
    json_t *goal = json_pack("{s:s, s:o, s:o}", "what", what, "hours", tess_form_number(seconds / 3600, true),
                             "rank_hours", tess_form_number(seconds / 3600 * ranks, true));
    if (o->cost != NULL)
        json_object_set_new(goal, "cost", tess_form_number(seconds / 3600 * ranks * o->price, true));
    return goal;
}

static json_t *describe(const report_options *o, const tess_run_numbers *r)
{
    double total = r->rank_s / 3600 * o->price;
    json_t *cost = NULL;
    if (o->cost != NULL)
        cost = json_pack("{s:f, s:o, s:f, s:o}", "total", total, "currency", tess_json_text(o->currency), "price",
                         o->price, "per_billion_tokens",
                         tess_form_number(r->n_tokens > 0 ? total / (double)r->n_tokens * 1e9 : NAN, true));
    return json_pack("{s:i, s:o, s:{s:I, s:I, s:I}, s:I, s:i, s:o, s:{s:f, s:f, s:o}, s:o*, s:o*}", "version", 1,
                     "folder", tess_json_text(o->folder), "steps", "first", (json_int_t)r->first_step, "last",
                     (json_int_t)r->last_step, "count", (json_int_t)r->n_steps, "tokens", (json_int_t)r->n_tokens,
                     "ranks", r->n_ranks > 0 ? r->n_ranks : 1, "time", describe_time(r), "capacity",
                     "tokens_per_second", r->newest_tps, "tokens_per_rank_hour", tokens_per_rank_hour(r), "mfu",
                     tess_form_number(r->newest_mfu > 0 ? r->newest_mfu : NAN, true), "cost", cost, "goal",
                     describe_goal(o, r));
}

static tess_status report(tess_mem *mem, report_options *o)
{
    tess_run_numbers numbers;
    TESS_TRY(read_price(mem, o));
    TESS_TRY(tess_run_numbers_read(o->folder, &numbers));
    return cli_report(mem, describe(o, &numbers), form, o->style, JSON_INDENT(1));
}

/* Writes the page of the runs and says how large it is. */
static tess_status write_page(tess_mem *mem, char *const *folders, int n, const char *path)
{
    char bytes[32];
    uint64_t size;
    TESS_AUTO(tess_run_page_close) tess_run_page *page = NULL;
    TESS_TRY(tess_run_page_open(mem, (const char *const *)folders, n, &(tess_page_options){.samples = rl_page_samples},
                                &page));
    TESS_TRY(tess_run_page_write(page, path));
    TESS_TRY(tess_os_file_size(path, &size));
    printf("%s: %d run%s, %s\n", path, n, n == 1 ? "" : "s", tess_format_bytes((double)size, bytes, sizeof(bytes)));
    return TESS_OK;
}

static int run(tess_mem *mem, int argc, char **argv)
{
    report_options o = {.price = NAN};
    const cli_flag flags[] = {
        {"-o", "FILE", "write a page of HTML with curves, times, memory and events of the runs", .text = &o.page},
        CLI_STYLES(&o.style),
        {"--cost", NULL, "what the run has cost; needs a price", .text = &o.cost},
        {"--price", "P", "price of one rank for one hour", .number = &o.price, .least = 0, .most = 1e9},
        {"--currency", "NAME", "name of its unit", .text = &o.currency},
        {"--config", "FILE", "a configuration with metrics.price_per_rank_hour", .text = &o.config},
        {"--tokens", "N", "also what is left to N tokens at the present speed", .integer = &o.n_tokens, .min = 1,
         .max = INT64_C(1) << 60},
        {"--steps", "N", "the same to step N", .integer = &o.n_steps, .min = 1, .max = INT64_C(1) << 60}};
    int n = cli_parse(argc, argv, &cli_run_report, flags, sizeof(flags) / sizeof(flags[0]));
    if (n == 0)
        return cli_misuse(&cli_run_report, "which run's folder?");
    if (o.page != NULL && (o.cost != NULL || o.n_tokens > 0 || o.n_steps > 0 || o.style != TESS_FORM_TEXT))
        return cli_misuse(&cli_run_report, "-o writes a page: give it without other flags");
    if (o.page != NULL)
        return cli_end(write_page(mem, argv + 1, n, o.page));
    if (n != 1)
        return cli_misuse(&cli_run_report, "one run at a time; a page (-o FILE) shows up to %d", TESS_PAGE_RUNS);
    if (o.n_tokens > 0 && o.n_steps > 0)
        return cli_misuse(&cli_run_report, "--tokens or --steps, not both");
    o.folder = argv[1];
    return cli_end(report(mem, &o));
}

const cli_command cli_run_report = {
    "report",
    "FOLDER [FOLDER ...] -o FILE.html | FOLDER [--cost --price P [--currency NAME] | --config FILE] [--tokens N | "
    "--steps N] [--json | ...]",
    "tell what a run did, what it cost, and what the rest will take\n\n"
    "FOLDER is a run's job.dump_folder. It reads what the run has written, while it goes on or afterwards.\n"
    "With -o it writes one HTML file that needs no network: of one run, or of several on top of each other. A run\n"
    "writes such a page itself when it ends (metrics.report).",
    .examples = "tessera report out/kjv\n"
                "tessera report out/kjv --cost --price 2.5 --currency EUR\n"
                "tessera report out/a out/b -o compare.html",
    .run = run};
