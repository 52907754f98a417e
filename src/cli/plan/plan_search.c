/* `tessera plan search`: the best layouts of a model on a cluster, why, and what to type. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/os/os.h"
#include "base/text/text.h"
#include "cli/cli.h"
#include "cli/plan/cli_plan.h"
#include "cli/plan/plan_run.h"
#include "cli/plan/written_config.h"
#include "plan/search/layout_search.h"

enum { JSON_VERSION = 1, MOST_TOP = 50, MORE_RANKS = 4 };

static const double gib = 1 << 30;

typedef struct search_flags {
    const char *ranks, *machine, *only, *why_not, *write, *axes, *fp8_products;
    int64_t hosts, top;
    double price;
    tess_form_style style;
} search_flags;

/* A search, with everything that its report needs. */
typedef struct search_job {
    cli_plan_run run;
    const search_flags *flags;
    tess_search_request request;
    tess_search found;
} search_job;

static void show_progress(void *self, int n_done, int n_all)
{
    double *shown_s = self;
    const double now_s = tess_os_now_s();
    if (now_s - *shown_s < 0.25)
        return;
    *shown_s = now_s;
    cli_status_line("search: %d of %d layouts planned", n_done, n_all);
}

/* Places ranks on hosts: on --hosts of them, or as the machine does. */
static tess_status place_ranks(const search_job *job, tess_plan_request *plan)
{
    const int hosts = (int)job->flags->hosts, n = plan->n_ranks;
    plan->ranks_a_host = hosts > 0 ? n / hosts : tess_machine_ranks_a_host(&job->run.machine, n);
    TESS_CHECK((hosts == 0 || n % hosts == 0) && n % plan->ranks_a_host == 0, TESS_E_INVALID,
               "%d ranks do not divide evenly among hosts of %d: give another -n, or --hosts", n,
               hosts > 0 ? (n + hosts - 1) / hosts : plan->ranks_a_host);
    return TESS_OK;
}

/* ---- Report ---- */
/* Parts of a step's time, by which one layout is better than another. */
static const struct {
    const char *name;
    size_t offset;
} parts[] = {{"computation", offsetof(tess_search_layout, compute_s)},
             {"communication that nothing hides", offsetof(tess_search_layout, exposed_s)},
             {"idle time of the pipeline", offsetof(tess_search_layout, bubble_s)},
             {"the optimizer", offsetof(tess_search_layout, optimizer_s)}};
enum { N_PARTS = sizeof(parts) / sizeof(parts[0]) };

static double part_s(const tess_search_layout *l, int part)
{
    return *(const double *)((const char *)l + parts[part].offset);
}

/* Says in which part of the step `other` is slower, most of all, unless the steps differ by less than 0.05%. */
static void explain(const tess_search_layout *l, const tess_search_layout *other, char *text, size_t size)
{
    int most = 0;
    if (other->step_s - l->step_s < 0.0005 * l->step_s) {
        tess_text_add(text, size, 0, "as fast");
        return;
    }
    for (int p = 1; p < N_PARTS; p++)
        if (part_s(other, p) - part_s(l, p) > part_s(other, most) - part_s(l, most))
            most = p;
    tess_text_add(text, size, 0, "%.1f%% slower: %.4g s more of %s", 100 * (other->step_s / l->step_s - 1),
                  part_s(other, most) - part_s(l, most), parts[most].name);
}

static json_t *layout_json(const tess_search_layout *l, const tess_search_layout *next)
{
    char text[TESS_SEARCH_TEXT], why[TESS_SEARCH_TEXT] = "";
    tess_search_describe(l, text, sizeof(text));
    if (next != NULL)
        explain(l, next, why, sizeof(why));
    json_t *json =
        json_pack("{s:s, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:s, s:s, s:s}", "layout", text, "step_s", l->step_s,
                  "tokens_per_s_rank", l->tokens_per_s_rank, "mfu", l->mfu, "memory_gib", l->bytes / gib, "compute_s",
                  l->compute_s, "exposed_s", l->exposed_s, "bubble_s", l->bubble_s, "optimizer_s", l->optimizer_s,
                  "bound", tess_plan_bound_name(l->bound), "bound_axis", l->bound_axis, "next", why);
    if (isfinite(l->price_per_million))
        json_object_set_new(json, "price_per_million", json_real(l->price_per_million));
    return json;
}

static int count(const tess_search *s, tess_search_outcome outcome)
{
    int n = 0;
    for (int i = 0; i < s->n; i++)
        n += s->layouts[i].outcome == outcome ? s->layouts[i].n_members : 0;
    return n;
}

/* The reason that most of the refused layouts share does not exist: the first one is an example. */
static json_t *outcome_json(const tess_search *s)
{
    static const char *const names[TESS_SEARCH_OUTCOMES] = {"fits", "slower", "too_large", "refused"};
    json_t *json = json_object();
    int n = 0;
    for (int outcome = 0; outcome < TESS_SEARCH_OUTCOMES; outcome++) {
        const int of_outcome = count(s, (tess_search_outcome)outcome);
        json_object_set_new(json, names[outcome], json_integer(of_outcome));
        n += of_outcome;
    }
    json_object_set_new(json, "n", json_integer(n));
    for (int i = s->n_fits; i < s->n; i++)
        if (s->layouts[i].outcome == TESS_SEARCH_REFUSED) {
            json_object_set_new(json, "refused_first", json_string(s->layouts[i].reason));
            break;
        }
    return json;
}

/* Returns what a layout that does not fit needs of the memory that lacks most. */
static tess_plan_shortage shortage_of(const search_job *job, const tess_search_layout *l)
{
    return tess_plan_short_of(&job->run.machine, l->bytes, l->missing);
}

static const char *owner_of(const tess_plan_shortage *lack)
{
    return lack->of_gpu_host ? "host" : "rank";
}

static void nearest_json(const search_job *job, json_t *report)
{
    char text[TESS_SEARCH_TEXT];
    const tess_search *s = &job->found;
    if (s->n_fits > 0 || s->layouts[0].outcome != TESS_SEARCH_TOO_LARGE)
        return;
    tess_search_describe(&s->layouts[0], text, sizeof(text));
    const tess_plan_shortage lack = shortage_of(job, &s->layouts[0]);
    json_object_update_new(report, json_pack("{s:s, s:f, s:f, s:s}", "nearest", text, "nearest_gib", lack.bytes / gib,
                                             "missing_gib", lack.missing / gib, "nearest_of", owner_of(&lack)));
}

/* Searches with a number of ranks, which may have no layout that was asked for. *fits: describes the best layout; "":
 * there is none that fits. */
static tess_status try_ranks(search_job *job, tess_search_request *request, char fits[TESS_SEARCH_TEXT])
{
    tess_search more;
    fits[0] = '\0';
    TESS_TRY(place_ranks(job, &request->plan));
    tess_status status = tess_search_layouts(job->run.mem, job->run.planner, request, &more);
    if (status == TESS_E_INVALID) {
        tess_error_clear();
        return TESS_OK;
    }
    TESS_TRY(status);
    if (more.n_fits > 0)
        tess_search_describe(&more.layouts[0], fits, TESS_SEARCH_TEXT);
    tess_search_free(&more);
    return TESS_OK;
}

/* Finds out with how many ranks it would fit: twice as many, four times as many and so on. */
static tess_status would_fit(search_job *job, json_t *report)
{
    char fits[TESS_SEARCH_TEXT] = "";
    tess_search_request request = job->request;
    TESS_AUTO(tess_config_free) tess_config config = {0};
    TESS_TRY(tess_config_copy(&job->run.config, &config));
    request.plan.config = &config;
    request.without_nearest = true;
    for (int i = 0; i < MORE_RANKS && fits[0] == '\0'; i++) {
        request.plan.n_ranks *= 2;
        config.training.global_batch_size *= 2;
        TESS_TRY(try_ranks(job, &request, fits));
    }
    if (fits[0] != '\0')
        json_object_update_new(report,
                               json_pack("{s:i, s:s}", "would_fit_ranks", request.plan.n_ranks, "would_fit", fits));
    return TESS_OK;
}

/* Compares a layout that fits with the best one that was found. A search of its own settings may find a better one. */
static void compare(const tess_search *found, const tess_search_layout *l, char *why, size_t size)
{
    const tess_search_layout *best = found->n_fits > 0 ? &found->layouts[0] : NULL;
    if (best == NULL)
        tess_text_add(why, size, 0, "it fits, with settings that a search tries only if it is asked for them");
    else if (tess_search_equal(l, best))
        tess_text_add(why, size, 0, "it is the best one");
    else if (l->step_s < best->step_s)
        tess_text_add(
            why, size, 0,
            "it is %.1f%% faster than the best one, with settings that a search tries only if it is asked for "
            "them",
            100 * (best->step_s / l->step_s - 1));
    else
        explain(best, l, why, size);
}

/* Compares the best layout with the best of those that the user asks after. */
static tess_status why_not(search_job *job, json_t *report)
{
    tess_search_request request = job->request;
    tess_search other;
    char text[TESS_SEARCH_TEXT], why[TESS_SEARCH_TEXT] = "";
    request.only = job->flags->why_not;
    TESS_TRY(tess_search_layouts(job->run.mem, job->run.planner, &request, &other));
    const tess_search_layout *best = &other.layouts[0];
    tess_search_describe(best, text, sizeof(text));
    if (best->outcome == TESS_SEARCH_REFUSED)
        tess_text_add(why, sizeof(why), 0, "it is refused: %s", best->reason);
    else if (best->outcome == TESS_SEARCH_TOO_LARGE) {
        const tess_plan_shortage lack = shortage_of(job, best);
        tess_text_add(why, sizeof(why), 0, "it takes %.2f GiB a %s, %.2f GiB too many", lack.bytes / gib,
                      owner_of(&lack), lack.missing / gib);
    } else
        compare(&job->found, best, why, sizeof(why));
    json_object_set_new(report, "why_not",
                        json_pack("{s:s, s:s, s:s, s:f}", "asked", job->flags->why_not, "layout", text, "why", why,
                                  "step_s", best->step_s));
    tess_search_free(&other);
    return TESS_OK;
}

static const tess_form_part form[] = {
    {.text = "{outcome.n} layout{outcome.n:s} of {ranks} rank{ranks:s} on {machine}, {rows} rows of {tokens} tokens a "
             "step: {outcome.fits} fit, {outcome.slower} are slower by their bounds, {outcome.too_large} are too "
             "large, {outcome.refused} are refused\n"
             "[first refusal: {outcome.refused_first:w}\n]"},
    {.text = "[{top:!}\n\v\v  tokens/s/rank\v  MFU\v  GiB\v  step s\v  compute\v  exposed\v  bubble\v  optimizer\t  "
             "layout\n]"},
    {.list = "top",
     .text =
         "\v{number}\v  {tokens_per_s_rank:.1f}\v  {mfu:.1%}\v  {memory_gib:.2f}\v  {step_s:.4g}\v  {compute_s:.4g}\v  "
         "{exposed_s:.4g}\v  {bubble_s:.4g}\v  {optimizer_s:.4g}\t  {layout}\n"},
    {.text = "\n"},
    {.list = "top",
     .text = "{number}: limited by {bound}[ ({bound_axis})][; price of a million tokens {price_per_million:.3g}][; the "
             "next one is {next}]\n"},
    {.text =
         "[nothing fits: the nearest, {nearest}, takes {nearest_gib:.2f} GiB a {nearest_of}, {missing_gib:.2f} GiB too "
         "many\n][it would fit on {would_fit_ranks} ranks: {would_fit}\n]"
         "[{why_not:!}\nwhy not {why_not.asked}: {why_not.layout}: {why_not.why}\n]"
         "[\nwritten: {written}\nnext: {launch}\n]"},
    {NULL, NULL}};

/* The line that starts the run. */
static void launch_line(const search_job *job, char *text, size_t size)
{
    const tess_plan_request *plan = &job->request.plan;
    const int hosts = (plan->n_ranks + plan->ranks_a_host - 1) / plan->ranks_a_host;
    if (hosts == 1)
        tess_text_add(text, size, 0, "tessera train %s -n %d", job->flags->write, plan->n_ranks);
    else
        tess_text_add(text, size, 0, "tessera slurm %s --nodes %d --ranks-per-node %d > job.sh", job->flags->write,
                      hosts, plan->ranks_a_host);
}

static tess_status write_best(search_job *job, json_t *report)
{
    TESS_AUTO(tess_config_free) tess_config best = {0};
    char line[1024], head[2 * TESS_SEARCH_TEXT], layout[TESS_SEARCH_TEXT];
    TESS_CHECK(job->found.n_fits > 0, TESS_E_INVALID, "--write: no layout fits, so nothing is written");
    TESS_TRY(tess_config_copy(&job->run.config, &best));
    tess_search_configure(&job->found.layouts[0], &best);
    tess_search_describe(&job->found.layouts[0], layout, sizeof(layout));
    snprintf(head, sizeof(head), "%s\nfor %d ranks of %s, by tessera plan search", layout, job->request.plan.n_ranks,
             job->run.machine.machine.name);
    TESS_TRY(cli_config_write(job->run.mem, &best, head, job->flags->write));
    launch_line(job, line, sizeof(line));
    json_object_update_new(report, json_pack("{s:s, s:s}", "written", job->flags->write, "launch", line));
    return TESS_OK;
}

static tess_status fill_report(search_job *job, json_t *report)
{
    const tess_search *s = &job->found;
    json_t *top = json_array();
    for (int i = 0; i < s->n_fits && i < job->flags->top; i++) {
        json_t *layout = layout_json(&s->layouts[i], i + 1 < s->n_fits ? &s->layouts[i + 1] : NULL);
        json_object_set_new(layout, "number", json_integer(i + 1));
        json_array_append_new(top, layout);
    }
    json_object_update_new(
        report, json_pack("{s:i, s:s, s:i, s:s, s:I, s:I, s:o, s:o}", "version", JSON_VERSION, "type", "tessera-search",
                          "ranks", job->request.plan.n_ranks, "machine", job->run.machine.machine.name, "rows",
                          (json_int_t)job->run.config.training.global_batch_size, "tokens",
                          (json_int_t)job->run.config.training.seq_len, "outcome", outcome_json(s), "top", top));
    nearest_json(job, report);
    if (s->n_fits == 0)
        TESS_TRY(would_fit(job, report));
    if (job->flags->why_not != NULL)
        TESS_TRY(why_not(job, report));
    return job->flags->write != NULL ? write_best(job, report) : TESS_OK;
}

/* ---- The command ---- */
/* Reads --axes. Precision is the only axis that is not always varied, because it changes results. */
static tess_status read_axes(search_job *job)
{
    if (job->flags->axes == NULL)
        return TESS_OK;
    TESS_CHECK(strcmp(job->flags->axes, "precision") == 0, TESS_E_INVALID,
               "--axes adds precision alone, not '%.60s': all other axes are varied anyway, and --only limits them",
               job->flags->axes);
    job->request.varies_precision = true;
    return TESS_OK;
}

static tess_status read_request(search_job *job, char *const *words, int n)
{
    tess_ranks ranks;
    tess_config *config = &job->run.config;
    TESS_TRY(cli_count_ranks(job->flags->ranks, &ranks));
    TESS_TRY(cli_plan_run_load(&job->run, words, n));
    TESS_TRY(cli_plan_run_on(&job->run, job->flags->machine, NULL, job->flags->price));
    TESS_TRY(read_axes(job));
    if (job->flags->fp8_products != NULL)
        TESS_TRY(cli_machine_use_fp8(&job->run.machine));
    tess_config_assume_batch(config); /* the search tries sizes of the micro-batch */
    if (config->training.global_batch_size == 0)
        config->training.global_batch_size = config->training.local_batch_size * ranks.n;
    job->request.plan = cli_plan_run_request(&job->run, ranks.n);
    return place_ranks(job, &job->request.plan);
}

static tess_status search(search_job *job, char *const *words, int n)
{
    double shown_s = tess_os_now_s();
    TESS_TRY(read_request(job, words, n));
    job->request.only = job->flags->only;
    job->request.progress = show_progress;
    job->request.self = &shown_s;
    TESS_TRY(tess_search_layouts(job->run.mem, job->run.planner, &job->request, &job->found));
    json_t *report = json_object();
    tess_status status = fill_report(job, report);
    cli_status_clear();
    if (status != TESS_OK) {
        json_decref(report);
        return status;
    }
    TESS_TRY(cli_report(job->run.mem, report, form, job->flags->style, JSON_INDENT(2)));
    const tess_search_layout *first = &job->found.layouts[0]; /* refused layouts are the last ones */
    TESS_CHECK(first->outcome != TESS_SEARCH_REFUSED, TESS_E_INVALID, "all layouts are refused; the first one: %s",
               first->reason);
    return TESS_OK;
}

static int run(tess_mem *mem, int argc, char **argv)
{
    search_flags f = {.top = 3};
    const cli_flag flags[] = {
        {"-n", "RANKS", "ranks of the job (2)", .text = &f.ranks},
        {"--machine", "NAME|FILE",
         "the machine: a name such as h100-sxm, or a file (this machine, as it was calibrated)", .text = &f.machine},
        {"--hosts", "N", "hosts (as many as the machine's devices need)", .integer = &f.hosts, .min = 1,
         .max = 1000000},
        {"--only", "WORDS", "only layouts such as tp=8,pp=4,strategy=full,schedule=1f1b,micro=2,sp=off,offload=none",
         .text = &f.only},
        {"--axes", "precision", "also search among bf16, fp32 and fp8, which change the results of the run",
         .text = &f.axes},
        {"--fp8-products", NULL, "time products at the machine's FP8 peak; with --axes precision: those of fp8",
         .text = &f.fp8_products},
        {"--why-not", "WORDS", "compare the best layout with the best one of these", .text = &f.why_not},
        {"--top", "N", "layouts to show (3)", .integer = &f.top, .min = 1, .max = MOST_TOP},
        {"--write", "FILE", "write the best layout's configuration", .text = &f.write},
        CLI_PRICE_FLAG(&f.price),
        CLI_STYLES(&f.style)};
    search_job job = {.run.mem = mem, .flags = &f};
    const int n = cli_parse(argc, argv, &cli_plan_search, flags, sizeof(flags) / sizeof(flags[0]));
    if (n == 0)
        return cli_misuse(&cli_plan_search, "name a configuration file, or section.key=value");
    const tess_status status = search(&job, argv + 1, n);
    tess_search_free(&job.found);
    cli_plan_run_end(&job.run);
    return cli_end(status);
}

const cli_command cli_plan_search = {
    "plan search", "[CONFIG.yaml] [-n RANKS] [--machine NAME] [--why-not WORDS] [--write FILE] [section.key=value ...]",
    "find the layouts of a model on a cluster that make a step soonest\n"
    "Bounds every way to divide the ranks among axes, with all schedules of a pipeline, with and without sequence\n"
    "parallelism and recomputation, and, where nothing fits, with state in the host's memory. Plans those that may be\n"
    "among the best. Nothing is started. training.global_batch_size is kept; without it, it is local_batch_size times\n"
    "the ranks. Words of conditions: pp, dp_replicate, dp_shard, cp, tp, ep, strategy, schedule, method, micro,\n"
    "reshard, sp, precision, recompute, offload.",
    .examples = "tessera plan search run.yaml -n 8 --machine h100-sxm\n"
                "tessera plan search run.yaml -n 512 --machine h100-sxm --why-not tp=8,pp=1\n"
                "tessera plan search run.yaml -n 64 --machine a100-80gb --write best.yaml",
    .run = run};
