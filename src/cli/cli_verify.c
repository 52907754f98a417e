#include "verify/verify.h"

#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/cli_verify.h"
#include "verify/verify_layouts.h"

enum { DIFFERENT = 5 };

typedef struct verify_options {
    const char *ranks, *kernels, *all, *layouts;
    int64_t steps;
    tess_form_style style;
} verify_options;

static void show_progress(TESS_UNUSED void *self, const char *text)
{
    cli_status_line("verify: %s", text);
}

/* The configuration and the ranks, as both forms of the command take them. */
static tess_status read_words(tess_mem *mem, const verify_options *o, int n_words, char *const *words,
                              tess_config *config, tess_verify_plan *plan)
{
    const char *path = tess_config_take_path(&words, &n_words);
    tess_ranks ranks = {0};
    TESS_TRY(cli_count_ranks(o->ranks, &ranks));
    TESS_CHECK(!ranks.is_warden && (!ranks.joins || ranks.n == 1), TESS_E_INVALID,
               "verify starts its ranks on this machine: call it without mpirun, srun or torchrun");
    *plan = (tess_verify_plan){.config = config,
                               .ranks = o->ranks != NULL ? ranks.n : 2,
                               .steps = o->steps,
                               .reference_kernels = o->kernels,
                               .note = show_progress};
    return tess_config_load(mem, path, words, n_words, config);
}

static tess_status verify(tess_mem *mem, const verify_options *o, const tess_verify_plan *plan, int *code)
{
    tess_verify_result *result;
    tess_buffer text = {.mem = mem};
    TESS_TRY(TESS_NEW(mem, 1, "verify", &result));
    tess_status status = tess_verify(mem, plan, result);
    cli_status_clear();
    if (status == TESS_OK)
        status = tess_verify_print(result, o->all != NULL, o->style, &text);
    status = cli_print_text(status, &text);
    *code = tess_verify_same(result) ? TESS_EXIT_OK : DIFFERENT;
    tess_verify_free(result);
    tess_mem_free(mem, result);
    return status;
}

/* ---- Many layouts ---- */
static void print_layout(void *self, const tess_verify_layout *layout)
{
    tess_buffer text = {.mem = self};
    cli_status_clear();
    if (cli_print_text(tess_verify_print_layout(layout, &text), &text) == TESS_OK)
        fflush(stdout);
}

static tess_status verify_layouts(tess_mem *mem, const verify_options *o, tess_verify_plan *plan, int *code)
{
    tess_verify_walk walk;
    tess_buffer text = {.mem = mem};
    plan->self = mem;
    tess_status status =
        tess_verify_layouts(mem, plan, o->layouts, o->style == TESS_FORM_TEXT ? print_layout : NULL, &walk);
    cli_status_clear();
    if (status == TESS_OK)
        status = tess_verify_print_walk(&walk, o->style, &text);
    status = cli_print_text(status, &text);
    *code = tess_verify_walk_count(&walk, TESS_VERIFY_FAILED) > 0          ? TESS_EXIT_FAILED
            : tess_verify_walk_count(&walk, TESS_VERIFY_DIFFERS) > 0       ? DIFFERENT
            : tess_verify_walk_count(&walk, TESS_VERIFY_REFUSED) == walk.n ? TESS_EXIT_BAD_INPUT
                                                                           : TESS_EXIT_OK;
    tess_verify_walk_free(&walk);
    return status;
}

/* ---- Other questions ---- */
static const cli_command *const verbs[] = {&cli_verify_on_policy, &cli_verify_invariance};

static int run(tess_mem *mem, int argc, char **argv)
{
    const cli_command *verb = cli_find_verb(argc, argv, verbs, sizeof(verbs) / sizeof(verbs[0]));
    if (verb != NULL)
        return cli_run_command(mem, argc - 1, argv + 1, verb);
    verify_options o = {.steps = 3};
    int code = TESS_EXIT_OK;
    tess_verify_plan plan;
    tess_config config = {0};
    const cli_flag flags[] = {
        {"-n", "RANKS", "ranks of the layout, on this machine (2)", .text = &o.ranks},
        {"--steps", "N", "steps to compare (3)", .integer = &o.steps, .min = 1, .max = TESS_VERIFY_MAX_STEPS},
        {"--against-kernels", "NAME", "kernel table of the one rank (ref, avx2, ...): compares tables as well",
         .text = &o.kernels},
        {"--layouts", "all|WORDS",
         "every layout of the ranks instead, or those with pp=2,strategy=full,schedule=1f1b,...", .text = &o.layouts},
        {"--all", NULL, "list every tensor that differs", .text = &o.all},
        CLI_STYLES(&o.style)};
    int n = cli_parse(argc, argv, &cli_verify, flags, sizeof(flags) / sizeof(flags[0]));
    if (n == 0)
        return cli_misuse(&cli_verify, "name a configuration file, or section.key=value");
    tess_status status = read_words(mem, &o, n, argv + 1, &config, &plan);
    if (status == TESS_OK)
        status = o.layouts != NULL ? verify_layouts(mem, &o, &plan, &code) : verify(mem, &o, &plan, &code);
    tess_config_free(&config);
    return status != TESS_OK ? cli_end(status) : code;
}

const cli_command cli_verify = {
    "verify",
    "[CONFIG.yaml] [-n RANKS] [--steps N] [--layouts all] [section.key=value ...]",
    "check that a layout gives the bits of one rank: losses, gradients, parameters, shards, memory\n"
    "Runs the first steps of the configuration twice on this machine, sharded as it says and on one rank, with the\n"
    "same data. Nothing is written to job.dump_folder. --layouts all does so for every way to share the model among\n"
    "the ranks: data-parallel strategies, replicas, tensor parallelism, context parallelism, experts, stages of a\n"
    "pipeline and their schedules.\n"
    "Also: verify on-policy (are training and generation one policy?), verify invariance (does a kernel's row depend\n"
    "on its neighbours?). With --help each says more.",
    .exit_codes = "0 the same bits; 1 failed; 2 bad input; 5 something differs",
    .examples = "tessera verify run.yaml -n 4 --steps 3\n"
                "tessera verify run.yaml -n 8 --layouts all\n"
                "tessera verify on-policy out/kjv/model",
    .run = run};
