/* `tessera mesh`: shows the place of each rank in a mesh, and what ranks that divide tokens cost. */
#include "bench/comm/comm_axes.h"
#include "cli/cli.h"
#include "control/supervise/mesh_plan.h"
#include "plan/context_plan.h"

typedef struct mesh_flags {
    const char *measure, *context;
    double tflops, link, latency; /* speed of a rank for --context; 0: not given */
    int64_t most;                 /* size of the messages to measure */
    tess_form_style style;
} mesh_flags;

static tess_status show(tess_mem *mem, const tess_mesh_plan *plan, const mesh_flags *flags)
{
    tess_bench_axes measured = {0};
    const bool for_people = flags->style == TESS_FORM_TEXT;
    tess_buffer text = {.mem = mem};
    if (flags->measure != NULL) {
        TESS_CHECK(
            plan->layout.hosts == NULL, TESS_E_INVALID,
            "--measure starts ranks on this machine: leave --hosts away, or measure over the hosts with `tessera "
            "launch --hosts ... -- bench comm`");
        TESS_CHECK(plan->layout.ranks == NULL, TESS_E_INVALID,
                   "--measure starts ranks that are numbered by place: leave --inside and parallelism.rank_order away");
        cli_status_line("mesh: measuring");
        TESS_TRY(tess_bench_axes_run(&plan->layout, (size_t)flags->most, &measured));
        cli_status_clear();
    }
    const tess_mesh_view view = {&plan->layout, plan->host_names, plan->axis, measured.n, measured.speeds};
    json_t *json = tess_mesh_view_json(&view, for_people);
    if (!for_people && plan->placements != NULL)
        json_object_set_new(json, "parameters", tess_param_placements_json(plan->placements));
    if (!for_people && plan->stages != NULL)
        json_object_set_new(json, "pipeline", tess_stage_plan_json(plan->stages));
    tess_status status = tess_form_put(json, tess_mesh_form, flags->style, JSON_INDENT(2), &text);
    if (status == TESS_OK && for_people && plan->stages != NULL)
        status = tess_stage_plan_print(plan->stages, &text);
    if (status == TESS_OK && for_people && plan->placements != NULL)
        status = tess_param_placements_print(plan->placements, &text);
    if (status == TESS_OK && for_people && plan->no_placements[0] != '\0')
        status = tess_buffer_printf(&text, "\nparameters: not known (%s)\n", plan->no_placements);
    return cli_print_text(status, &text);
}

/* Shows what ranks that divide the tokens of a micro-batch cost. */
static tess_status show_context(tess_mem *mem, const tess_mesh_request *request, const mesh_flags *flags)
{
    const tess_context_speed speed = {flags->tflops * 1e12, flags->link * 1e9 / 8, flags->latency * 1e-6};
    TESS_AUTO(tess_config_free) tess_config config = {0};
    json_t *report;
    TESS_CHECK((flags->tflops > 0) == (flags->link > 0), TESS_E_INVALID,
               "--tflops and --link: times need both: what a rank computes, and what it receives");
    TESS_TRY(tess_config_load(mem, request->config, request->overrides, request->n_overrides, &config));
    TESS_TRY(tess_context_describe(mem, &config, flags->tflops > 0 ? &speed : NULL, &report));
    return cli_report(mem, report, tess_context_form, flags->style, JSON_INDENT(2));
}

static int run(tess_mem *mem, int argc, char **argv)
{
    tess_mesh_request request = {0};
    mesh_flags chosen = {.most = 100 << 20, .latency = 50};
    int64_t ranks = 0;
    const cli_flag flags[] = {
        {"--mesh", "AXES", "dp=2,tp=4: the last axis varies fastest, -1 takes what is left", .text = &request.axes},
        {"-n", "RANKS", "ranks of the job", .integer = &ranks, .min = 1, .max = TESS_MESH_MOST_RANKS},
        {"--hosts", "HOSTS", "h1:4,h2:4: hosts with their ranks", .text = &request.hosts},
        {"--inside", "AXIS", "with --mesh: order ranks so that this axis stays inside hosts", .text = &request.inside},
        {"--axis", "NAME", "groups of this axis alone", .text = &request.axis},
        {"--context", NULL, "what ranks that divide tokens (cp) receive, keep and compute, for 1, 2, 4 and 8 of them",
         .text = &chosen.context},
        {"--tflops", "N", "with --context: 10^12 operations per second of a rank, for times", .number = &chosen.tflops,
         .least = 1e-6, .most = 1e6},
        {"--link", "N", "with --context: Gbit/s that a rank receives, for times", .number = &chosen.link, .least = 1e-6,
         .most = 1e6},
        {"--latency", "US", "with --context: microseconds of an exchange (50)", .number = &chosen.latency, .least = 0,
         .most = 1e6},
        {"--measure", NULL, "check each axis with real ranks, on this machine, and time an all_reduce",
         .text = &chosen.measure},
        {"--most", "SIZE", "largest size to measure, such as 64MiB (100); a plain number counts MiB",
         .bytes = &chosen.most, .unit = 1 << 20, .min = 0, .max = (int64_t)1 << 40},
        CLI_STYLES(&chosen.style)};
    int n = cli_parse(argc, argv, &cli_mesh, flags, sizeof(flags) / sizeof(flags[0]));
    char *const *words = argv + 1;
    request.config = tess_config_take_path(&words, &n);
    request.overrides = words;
    request.n_overrides = n;
    request.ranks = (int)ranks;
    if (chosen.context != NULL)
        return cli_end(show_context(mem, &request, &chosen));
    tess_mesh_plan plan;
    tess_status status = tess_mesh_plan_make(mem, &request, &plan);
    if (status == TESS_OK)
        status = show(mem, &plan, &chosen);
    tess_mesh_plan_free(&plan);
    return cli_end(status);
}

const cli_command cli_mesh = {"mesh", "[CONFIG.yaml] [section.key=value ...] [--mesh AXES] [-n RANKS] [--hosts HOSTS]",
                              "show which rank is where in a mesh: coordinates, groups, hosts, bandwidth of each axis\n"
                              "The mesh of a configuration, or of --mesh. If the configuration names a model: also the "
                              "placement of every parameter. Nothing is trained.",
                              .examples = "tessera mesh run.yaml -n 8\n"
                                          "tessera mesh --mesh dp=2,tp=4 --hosts h1:4,h2:4\n"
                                          "tessera mesh run.yaml --context --tflops 400 --link 200",
                              .run = run};
