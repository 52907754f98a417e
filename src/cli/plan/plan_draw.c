/* `tessera plan draw`: pictures of a plan, in the terminal or as a page. */
#include <string.h>

#include "cli/cli.h"
#include "cli/plan/cli_plan.h"
#include "cli/plan/plan_run.h"
#include "plan/plan_pictures.h"

typedef struct draw_flags {
    const char *ranks, *machine;
    const char *layouts[CLI_REPEATS + 1];
    tess_form_style style;
} draw_flags;

/* A request, with the run that it borrows. */
typedef struct pictures_job {
    cli_plan_run run;
    const draw_flags *flags;
    tess_pictures_request request;
} pictures_job;

_Static_assert(TESS_PICTURE_LAYOUTS == CLI_REPEATS + 1, "the pictures have all layouts, and the configuration's own");

/* Takes the layouts of --layout, or the usual ones, after the configuration's own. */
static void choose_layouts(pictures_job *job)
{
    static const char *const usual[] = {"parallelism.shard_strategy=none",
                                        "parallelism.shard_strategy=zero1",
                                        "parallelism.shard_strategy=zero2",
                                        "parallelism.shard_strategy=full",
                                        "parallelism.shard_strategy=full activation_checkpoint.mode=full",
                                        NULL};
    tess_pictures_request *q = &job->request;
    q->layouts[q->n_layouts++] = "";
    for (const char *const *layout = job->flags->layouts[0] != NULL ? job->flags->layouts : usual; *layout != NULL;
         layout++)
        q->layouts[q->n_layouts++] = *layout;
}

static tess_status draw(pictures_job *job, char *const *words, int n_words)
{
    tess_ranks ranks;
    cli_plan_run *run = &job->run;
    TESS_AUTO(tess_buffer_free) tess_buffer page = {.mem = run->mem};
    json_t *report;
    TESS_TRY(cli_count_ranks(job->flags->ranks, &ranks));
    TESS_TRY(cli_plan_run_load(run, words, n_words));
    TESS_TRY(cli_plan_run_on(run, job->flags->machine, NULL, 0));
    TESS_TRY(cli_plan_run_fix_batch(run, ranks.n));
    job->request.plan = cli_plan_run_request(run, ranks.n);
    choose_layouts(job);
    TESS_TRY(tess_plan_pictures(run->mem, run->planner, &job->request, &report));
    if (job->flags->style != TESS_FORM_HTML)
        return cli_report(run->mem, report, tess_plan_pictures_form, job->flags->style, JSON_INDENT(2));
    tess_status status = tess_plan_page(run->mem, report, &page);
    json_decref(report);
    return cli_print_text(status, &page);
}

static int run(tess_mem *mem, int argc, char **argv)
{
    draw_flags f = {.ranks = NULL};
    const cli_flag flags[] = {{"-n", "RANKS", "ranks of the job (2)", .text = &f.ranks},
                              {"--machine", "NAME|FILE",
                               "the machine: a name such as h100-sxm, or a file (this machine, as it was calibrated)",
                               .text = &f.machine},
                              {"--layout", "SETTINGS ...",
                               "settings of a layout, in quotation marks (the usual strategies)", .text = f.layouts},
                              CLI_STYLES(&f.style)};
    pictures_job job = {.run.mem = mem, .flags = &f};
    const int n = cli_parse(argc, argv, &cli_plan_draw, flags, sizeof(flags) / sizeof(flags[0]));
    if (n == 0)
        return cli_misuse(&cli_plan_draw, "name a configuration file, or section.key=value");
    const tess_status status = draw(&job, argv + 1, n);
    cli_plan_run_end(&job.run);
    return cli_end(status);
}

const cli_command cli_plan_draw = {
    "plan draw", "CONFIG.yaml [-n RANKS] [--machine NAME] [--layout SETTINGS] [section.key=value ...]",
    "draw memory and time of layouts, a step, and how it scales\n"
    "Bars compare the memory and the step of layouts, a time line shows a step of the first one, and curves show\n"
    "how it scales up to RANKS. With --html they are one page that needs no other file. Nothing is started.",
    .examples = "tessera plan draw run.yaml -n 8 --machine h100-sxm\n"
                "tessera plan draw run.yaml -n 64 --machine h100-sxm --html > plan.html\n"
                "tessera plan draw run.yaml -n 8 --layout 'parallelism.tensor_parallel_degree=8'",
    .run = run};
