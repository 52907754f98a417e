#include "train/verify/verify.h"

#include <stdio.h>

#include "cli/cli.h"

enum { DIFFERENT = 5 };

typedef struct verify_options {
    const char *ranks, *kernels, *json, *all;
    int64_t steps;
} verify_options;

static void show_progress(void *self, const char *text)
{
    (void)self;
    cli_status_line("verify: %s", text);
}

static tess_status verify(tess_mem *mem, const verify_options *o, int n_words, char *const *words, bool *same)
{
    const char *path = tess_config_take_path(&words, &n_words);
    static tess_config config;
    tess_verify_plan plan = {
        .config = &config, .steps = o->steps, .reference_kernels = o->kernels, .note = show_progress};
    tess_verify_result *result;
    tess_ranks ranks = {0};
    tess_buffer text = {.mem = mem};
    TESS_TRY(cli_count_ranks(o->ranks, &ranks));
    TESS_CHECK(!ranks.is_warden && (!ranks.joins || ranks.n == 1), TESS_E_INVALID,
               "verify starts its ranks on this machine: call it without mpirun, srun or torchrun");
    plan.ranks = o->ranks != NULL ? ranks.n : 2;
    TESS_TRY(tess_config_load(mem, path, words, n_words, &config));
    TESS_TRY(tess_mem_alloc(mem, TESS_POOL_MISC, sizeof(*result), "verify", (void **)&result));
    tess_status status = tess_verify(mem, &plan, result);
    cli_status_clear();
    if (status == TESS_OK)
        status =
            o->json != NULL ? tess_verify_print_json(result, &text) : tess_verify_print(result, o->all != NULL, &text);
    status = cli_print_text(status, &text);
    *same = tess_verify_same(result);
    tess_verify_free(result);
    tess_mem_free(mem, result);
    return status;
}

static int run(tess_mem *mem, int argc, char **argv)
{
    verify_options o = {.steps = 3};
    bool same = false;
    const cli_flag flags[] = {
        {"-n", "RANKS", "ranks of the layout, on this machine (2)", .text = &o.ranks},
        {"--steps", "N", "steps to compare (3)", .integer = &o.steps, .min = 1, .max = TESS_VERIFY_MAX_STEPS},
        {"--against-kernels", "NAME", "kernel table of the one rank (ref, avx2, ...): compares tables as well",
         .text = &o.kernels},
        {"--all", NULL, "list every tensor that differs", .text = &o.all},
        {"--json", NULL, "print the result as JSON", .text = &o.json}};
    int n = cli_parse(argc, argv, &cli_verify, flags, 5);
    if (n == 0)
        return cli_misuse(&cli_verify, "name a configuration file, or section.key=value");
    tess_status status = verify(mem, &o, n, argv + 1, &same);
    return status != TESS_OK ? cli_end(status) : same ? TESS_EXIT_OK : DIFFERENT;
}

const cli_command cli_verify = {
    "verify", "[CONFIG.yaml] [-n RANKS] [--steps N] [section.key=value ...]",
    "does a layout give the bits of one rank? losses, gradients, parameters, shards, memory\n"
    "Runs the first steps of the configuration twice on this machine, sharded as it says and on one rank, with the\n"
    "same data. Nothing is written to job.dump_folder.\n"
    "Exit codes: 0 the same bits, 1 failed, 2 bad input, 5 something differs.",
    .run = run};
