/* `tessera plan`: memory, volume and time of a run before it starts, on this machine or on one that is not here. */
#include "cli/plan/cli_plan.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem/scoped.h"
#include "base/os/os.h"
#include "base/text/json.h"
#include "bench/plan/calibrate.h"
#include "bench/plan/measure_plan.h"
#include "cli/plan/plan_run.h"
#include "engine/model/adapter.h"
#include "plan/kernel_times.h"
#include "plan/batch_choice.h"
#include "plan/plan.h"
#include "plan/plan_report.h"

enum { MOST_RANKS = 1 << 20, STEPS = 5, SAMPLES = 5 };

typedef struct plan_flags {
    const char *machine, *cache, *calibrate, *measure, *no_corrections, *fp8_products;
    int64_t ranks, hosts, steps;
    double price;
    tess_plan_options options;
    tess_form_style style;
} plan_flags;

typedef struct plan_session {
    cli_plan_run run;
    const plan_flags *flags;
    tess_plan_request request;
    bool chooses; /* training.local_batch_size=auto */
    tess_batch_choice micro;
} plan_session;

/* ---- Measured times ---- */
static tess_status save_times(plan_session *s)
{
    char folder[1024];
    snprintf(folder, sizeof(folder), "%s", s->run.times_path);
    *strrchr(folder, '/') = '\0';
    TESS_TRY(tess_os_make_dirs(folder));
    (void)tess_machine_fingerprint(s->run.times.machine, sizeof(s->run.times.machine));
    return tess_kernel_times_save(&s->run.times, s->run.times_path);
}

static const tess_form_part calibrated_form[] = {
    {.text =
         "{kernels} call{kernels:s} of kernels and {operations} operation{operations:s} between ranks are measured; "
         "they are in\n{path}\n"},
    {NULL, NULL}};

static tess_status report_calibration(plan_session *s)
{
    TESS_TRY(save_times(s));
    json_t *report = json_pack("{s:I, s:I, s:o}", "kernels", (json_int_t)s->run.times.n_calls, "operations",
                               (json_int_t)s->run.times.n_ops, "path", tess_json_text(s->run.times_path));
    return cli_report(s->run.mem, report, calibrated_form, s->flags->style, JSON_INDENT(2));
}

/* ---- The request ---- */
static tess_status check_run(plan_session *s)
{
    TESS_TRY(tess_config_check_step(&s->run.config, (int)s->flags->ranks));
    return tess_config_check_trainable(s->run.mem, &s->run.config, &s->run.model);
}

static tess_status make_request(plan_session *s)
{
    const plan_flags *f = s->flags;
    TESS_CHECK(f->hosts == 0 || f->ranks % f->hosts == 0, TESS_E_INVALID,
               "--hosts %lld: %lld ranks do not divide evenly: give a divisor of the ranks", (long long)f->hosts,
               (long long)f->ranks);
    s->request = cli_plan_run_request(&s->run, (int)f->ranks);
    s->request.ranks_a_host = f->hosts > 0 ? (int)(f->ranks / f->hosts) : 0;
    s->request.options = f->options;
    s->request.options.full_ranks = true;
    return TESS_OK;
}

/* Whether each rank has a share of a host's memory for itself: training.memory_budget. A GPU is one rank's anyway. */
static bool is_by_rank(const plan_session *s)
{
    return s->run.config.training.memory_budget > 0 && s->run.machine.machine.kind == TESS_MACHINE_CPU;
}

/* Returns what a configuration needs of the machine's memory, or of a rank's share. */
static tess_status need_of(void *self, const tess_config *config, double *bytes)
{
    tess_plan_memory memory;
    const plan_session *s = self;
    tess_plan_request request = s->request;
    request.config = config;
    TESS_TRY(tess_plan_memory_of(s->run.planner, &request, &memory));
    const bool of_rank = is_by_rank(s);
    const double room = of_rank ? (double)config->training.memory_budget : memory.room;
    *bytes = of_rank ? tess_pools_sum(memory.most.pool) : memory.bytes;
    if (memory.missing > 0) /* the machine has no room for it */
        *bytes = fmax(*bytes, room + memory.missing);
    return TESS_OK;
}

/* Chooses training.local_batch_size=auto for the machine. If nothing fits, the smallest is planned, and refused. */
static tess_status choose_batch(plan_session *s)
{
    const double budget = (double)s->run.config.training.memory_budget, most = s->run.machine.memory.gb * 1e9;
    const double room = budget > 0 && (most == 0 || is_by_rank(s) || budget < most) ? budget : most;
    const tess_batch_search search = {.config = &s->run.config,
                                      .model = &s->run.model,
                                      .n_ranks = (int)s->flags->ranks,
                                      .room = room,
                                      .need = need_of,
                                      .self = s};
    TESS_CHECK(room > 0, TESS_E_INVALID,
               "training.local_batch_size=auto: the memory of '%s' is not known: set training.memory_budget, or a "
               "number of rows",
               s->run.machine.machine.name);
    TESS_TRY(tess_batch_choose(s->run.mem, &search, &s->micro));
    s->run.config.training.local_batch_size = s->micro.rows;
    return TESS_OK;
}

static json_t *chosen_json(const plan_session *s)
{
    const tess_batch_choice *m = &s->micro;
    json_t *chosen = json_pack("{s:I, s:b}", "rows", (json_int_t)m->rows, "fits", (int)m->fits);
    if (m->next_rows > 0)
        json_object_update_new(
            chosen, json_pack("{s:I, s:f}", "next_rows", (json_int_t)m->next_rows, "next_bytes", m->next_bytes));
    return chosen;
}

/* Returns the key of a correction: a hash of the configuration, the model and the ranks. */
static uint64_t key_of(const plan_session *s)
{
    return tess_plan_key(&s->request) >> 1; /* JSON has no integers above INT64_MAX */
}

/* Applies the stored difference of this configuration. Returns the factor; 1: there is none. */
static double correct(const plan_session *s, tess_plan_time *t)
{
    const double factor = s->run.machine.times != NULL && s->flags->no_corrections == NULL
                              ? tess_kernel_times_factor(&s->run.times, key_of(s))
                              : 1;
    tess_plan_time_scale(t, factor);
    return factor;
}

/* ---- Reports ---- */
/* Refuses a plan that does not fit, and says what would. */
static tess_status check_room(plan_session *s, const tess_plan *plan)
{
    char bytes[32], room[32], missing[32], with[640];
    if (plan->memory.missing <= 0)
        return TESS_OK;
    const tess_plan_shortage lack = tess_plan_short_of(&s->run.machine, plan->memory.bytes, plan->memory.missing);
    TESS_TRY(tess_plan_would_fit(s->run.planner, &s->request, with, sizeof(with)));
    return TESS_FAIL(TESS_E_INVALID,
                     "this does not fit on '%s': %s%s are needed, %s are there, %s too little. It would fit %s",
                     s->run.machine.machine.name, tess_format_bytes(lack.bytes, bytes, sizeof(bytes)),
                     lack.of_gpu_host ? " of a host's memory" : "", tess_format_bytes(lack.room, room, sizeof(room)),
                     tess_format_bytes(lack.missing, missing, sizeof(missing)), with);
}

static tess_status show_plan(plan_session *s)
{
    tess_plan plan;
    TESS_TRY(tess_plan_make(s->run.planner, &s->request, &plan));
    const double factor = correct(s, &plan.time);
    json_t *report = tess_plan_json(&s->request, &plan);
    if (factor != 1)
        json_object_set_new(report, "corrected", json_real(factor));
    if (s->chooses)
        json_object_set_new(report, "micro_batch", chosen_json(s));
    TESS_TRY(cli_report(s->run.mem, report, tess_plan_form, s->flags->style, JSON_INDENT(2)));
    return check_room(s, &plan);
}

static const tess_form_part measured_form[] = {
    {.text = "predicted and measured: {steps} steps of {ranks} rank{ranks:s}, medians of steps and means of phases\n"
             "  row              predicted     measured     error\n"
             "{*rows}  {name:-12} {predicted:13m} {measured:12m}  {error:8.1%}  {unit}\n{/}"
             "[{stored:!}the difference is stored, and the next plan of this configuration uses it (--no-corrections "
             "does not)|"
             "the difference is not stored, because kernels were not measured: run tessera plan --calibrate first]\n"},
    {NULL, NULL}};

static tess_status measure(plan_session *s)
{
    tess_plan plan;
    tess_measured_step step;
    tess_memory_of_rank rank0;
    const tess_memory_plan of = tess_memory_plan_of(&s->run.config, (int)s->flags->ranks);
    TESS_CHECK(cli_machine_is_here(s->flags->machine), TESS_E_INVALID,
               "--measure runs steps on this machine: leave --machine out");
    TESS_TRY(tess_plan_make(s->run.planner, &s->request, &plan));
    TESS_TRY(tess_memory_predict_rank(&s->run.model, &of, 0, &rank0));
    TESS_TRY(tess_measure_step(&s->request, (int)s->flags->steps, &step));
    const tess_step_correction correction = {.config = key_of(s), .factor = step.step_s / plan.time.step_s};
    const bool stores = s->run.machine.times != NULL;
    if (stores) {
        TESS_TRY(tess_kernel_times_correct(&s->run.times, &correction));
        TESS_TRY(save_times(s));
    }
    json_t *report = json_pack("{s:i, s:I, s:I, s:o}", "version", 1, "steps", (json_int_t)s->flags->steps, "ranks",
                               (json_int_t)s->flags->ranks, "rows", tess_measured_json(&plan, &rank0, &step));
    json_object_set_new(report, "stored", json_boolean(stores));
    return cli_report(s->run.mem, report, measured_form, s->flags->style, JSON_INDENT(2));
}

/* Measures the calls of a configuration, or without one the usual set. */
static tess_status calibrate(plan_session *s, bool has_config)
{
    const int n = (int)s->flags->ranks;
    s->run.times.n_corrections = 0; /* they belong to the old times */
    if (!has_config) {
        TESS_TRY(tess_calibrate_usual(s->run.mem, n > 1 ? n : tess_os_cores(), &s->run.times));
        return report_calibration(s);
    }
    TESS_TRY(tess_calibrate_peaks(s->run.mem, &s->run.times));
    TESS_TRY(tess_calibrate_kernels(&s->run.config, &s->run.model, n, SAMPLES, &s->run.times));
    TESS_TRY(tess_calibrate_operations(n, &s->run.times));
    return report_calibration(s);
}

/* Loads the times that a calibration adds to. It replaces a file that cannot be read. */
static tess_status load_old_times(plan_session *s)
{
    tess_status status = cli_load_times(s->run.mem, s->flags->cache, &s->run.times, s->run.times_path);
    if (status != TESS_E_FORMAT)
        return status;
    tess_error_clear();
    tess_kernel_times_free(&s->run.times);
    return TESS_OK;
}

static tess_status run_session(plan_session *s, char *const *words, int n_words)
{
    const bool calibrates = s->flags->calibrate != NULL;
    if (n_words > 0)
        TESS_TRY(cli_plan_run_load(&s->run, words, n_words));
    s->chooses = n_words > 0 && tess_config_batch_is_open(&s->run.config);
    if (n_words > 0 && (calibrates || !s->chooses))
        TESS_TRY(check_run(s));
    if (calibrates) {
        TESS_TRY(load_old_times(s));
        return calibrate(s, n_words > 0);
    }
    TESS_TRY(cli_plan_run_on(&s->run, s->flags->machine, s->flags->cache, s->flags->price));
    if (s->flags->fp8_products != NULL)
        TESS_TRY(cli_machine_use_fp8(&s->run.machine));
    TESS_TRY(make_request(s));
    if (s->chooses) {
        TESS_TRY(choose_batch(s));
        TESS_TRY(check_run(s));
    }
    return s->flags->measure != NULL ? measure(s) : show_plan(s);
}

static const cli_command *const verbs[] = {&cli_plan_search, &cli_plan_draw, &cli_plan_matrix, &cli_plan_advise,
                                           &cli_plan_launches};

static int run(tess_mem *mem, int argc, char **argv)
{
    const cli_command *verb = cli_find_verb(argc, argv, verbs, sizeof(verbs) / sizeof(verbs[0]));
    if (verb != NULL)
        return cli_run_command(mem, argc - 1, argv + 1, verb);
    plan_flags f = {.ranks = 1, .steps = STEPS};
    double failures = 0;
    const cli_flag flags[] = {
        {"-n", "RANKS", "ranks of the job (1)", .integer = &f.ranks, .min = 1, .max = MOST_RANKS},
        {"--hosts", "H", "hosts that the ranks are on (as many as the machine's devices need)", .integer = &f.hosts,
         .min = 1, .max = MOST_RANKS},
        {"--machine", "NAME", "machine of the data sheets, or a file; here: this one, as it was measured (here)",
         .text = &f.machine},
        {"--fp8-products", NULL, "time products at the machine's FP8 peak, which ours do not reach",
         .text = &f.fp8_products},
        {"--cache", "DIR", "folder of measured times (~/.cache/tessera)", .text = &f.cache},
        {"--calibrate", NULL, "measure kernels and operations of this machine, and store their times",
         .text = &f.calibrate},
        {"--measure", NULL, "run a few steps here and compare them with the plan", .text = &f.measure},
        {"--steps", "N", "with --measure: steps that count (5)", .integer = &f.steps, .min = 1, .max = 500},
        {"--no-corrections", NULL, "do not use differences that --measure stored", .text = &f.no_corrections},
        {"--straggler", "F", "the slowest rank takes F times as long (1)", .number = &f.options.straggler, .least = 1,
         .most = 1000},
        {"--failures", "N", "failures of the job a day (0)", .number = &failures, .least = 0, .most = 1e6},
        {"--save-time", "S", "seconds that a save stalls the ranks (0)", .number = &f.options.save_s, .least = 0,
         .most = 1e6},
        {"--save-every", "S", "seconds between saves (the best by Young and Daly)", .number = &f.options.save_every_s,
         .least = 0, .most = 1e9},
        {"--restart-time", "S", "seconds from a failure to the next step (0)", .number = &f.options.restart_s,
         .least = 0, .most = 1e6},
        CLI_PRICE_FLAG(&f.price),
        CLI_STYLES(&f.style)};
    const int n_words = cli_parse(argc, argv, &cli_plan, flags, sizeof(flags) / sizeof(flags[0]));
    if (n_words == 0 && f.calibrate == NULL)
        return cli_misuse(&cli_plan, "name a configuration");
    f.options.failures_per_day = failures;
    plan_session s = {.run.mem = mem, .flags = &f};
    tess_status status = run_session(&s, argv + 1, n_words);
    cli_plan_run_end(&s.run);
    return cli_end(status);
}

const cli_command cli_plan = {
    "plan", "CONFIG.yaml [-n RANKS] [--machine NAME] [section.key=value ...]",
    "predict memory, volume and time of a run, here or on machines that are not here\n"
    "Nothing is started, except with --calibrate and --measure.\n"
    "Also: plan search (the best layouts of a cluster), plan draw (pictures), plan matrix (what settings save and\n"
    "cost, measured), plan advise (rules of thumb of the literature by name), plan launches (the time of GPU work\n"
    "from its launches). With --help each says more.",
    .examples = "tessera plan --calibrate\n"
                "tessera plan examples/kjv.yaml -n 2\n"
                "tessera plan run.yaml -n 512 --machine h100-sxm",
    .run = run};
