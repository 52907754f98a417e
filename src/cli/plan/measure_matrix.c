/* `tessera plan matrix`: what recomputation, offload and divided tokens save and cost, measured here. */
#include <stdio.h>
#include <string.h>

#include "bench/plan/plan_matrix.h"
#include "cli/cli.h"
#include "cli/plan/cli_plan.h"
#include "cli/plan/plan_run.h"

typedef struct matrix_flags {
    const char *ranks, *folder, *context;
    const char *layouts[CLI_REPEATS + 1];
    int64_t steps, rounds;
    tess_form_style style;
} matrix_flags;

/* A request, with the run that it borrows. */
typedef struct matrix_job {
    cli_plan_run run;
    const matrix_flags *flags;
    tess_matrix_request request;
} matrix_job;

static void show_progress(void *self, int round, int row)
{
    const matrix_job *job = self;
    cli_status_line("round %d of %d, row %d of %d", round + 1, job->request.n_rounds, row + 1, job->request.n);
}

static tess_status choose_rows(matrix_job *job)
{
    const matrix_flags *f = job->flags;
    tess_matrix_request *q = &job->request;
    if (f->layouts[0] == NULL && f->context != NULL)
        tess_matrix_add_context(q);
    else if (f->layouts[0] == NULL)
        tess_matrix_add_recompute(q, f->folder);
    for (const char *const *layout = f->layouts; *layout != NULL; layout++) {
        TESS_CHECK(strlen(*layout) < TESS_MATRIX_TEXT, TESS_E_INVALID, "--layout: %zu characters are too many",
                   strlen(*layout));
        snprintf(q->rows[q->n++], TESS_MATRIX_TEXT, "%s", *layout);
    }
    return TESS_OK;
}

static tess_status measure(matrix_job *job, char *const *words, int n_words)
{
    tess_ranks ranks;
    cli_plan_run *run = &job->run;
    json_t *report;
    TESS_TRY(cli_count_ranks(job->flags->ranks, &ranks));
    TESS_TRY(cli_plan_run_load(run, words, n_words));
    TESS_TRY(cli_plan_run_on(run, NULL, NULL, 0));
    TESS_TRY(cli_plan_run_fix_batch(run, ranks.n));
    job->request = (tess_matrix_request){.plan = cli_plan_run_request(run, ranks.n),
                                         .n_steps = (int)job->flags->steps,
                                         .n_rounds = (int)job->flags->rounds,
                                         .progress = show_progress,
                                         .self = job};
    TESS_TRY(choose_rows(job));
    const tess_status status = tess_matrix_measure(run->mem, run->planner, &job->request, &report);
    cli_status_clear();
    return status == TESS_OK ? cli_report(run->mem, report, tess_matrix_form, job->flags->style, JSON_INDENT(2))
                             : status;
}

static int run(tess_mem *mem, int argc, char **argv)
{
    matrix_flags f = {.steps = 3, .rounds = 3};
    const cli_flag flags[] = {
        {"-n", "RANKS", "ranks, on this machine (1)", .text = &f.ranks},
        {"--folder", "DIR", "a folder on a disk: adds rows that offload to it", .text = &f.folder},
        {"--context", NULL, "rows of ranks that divide tokens, instead of recomputation", .text = &f.context},
        {"--layout", "SETTINGS ...", "settings of a row, in quotation marks, instead of those", .text = f.layouts},
        {"--steps", "N", "timed steps of a row in each round, after two to warm up (3)", .integer = &f.steps, .min = 1,
         .max = 500},
        {"--rounds", "N", "rounds over all rows (3)", .integer = &f.rounds, .min = 1, .max = TESS_MATRIX_ROUNDS},
        CLI_STYLES(&f.style)};
    matrix_job job = {.run.mem = mem, .flags = &f};
    const int n = cli_parse(argc, argv, &cli_plan_matrix, flags, sizeof(flags) / sizeof(flags[0]));
    if (n == 0)
        return cli_misuse(&cli_plan_matrix, "name a configuration file, or section.key=value");
    const tess_status status = measure(&job, argv + 1, n);
    cli_plan_run_end(&job.run);
    return cli_end(status);
}

const cli_command cli_plan_matrix = {
    "plan matrix", "CONFIG.yaml [-n RANKS] [--folder DIR] [--context] [--layout SETTINGS] [section.key=value ...]",
    "measure what recomputation, offload or divided tokens save and cost\n"
    "Each row is a setting. A few steps with it run here, with artificial tokens and weights. The memory of rank 0,\n"
    "the time of a step and the bytes that ranks exchange stand next to those of the plan.",
    .examples = "tessera plan matrix run.yaml -n 2\n"
                "tessera plan matrix run.yaml --folder /mnt/disk\n"
                "tessera plan matrix run.yaml -n 4 --context",
    .run = run};
