/* `tessera verify advise`: recommends whether to use exact on-policy training, and proposes initial settings, a
 * reference model, and offload. */
#include "base/core/options.h"
#include "base/text/text.h"
#include "cli/cli.h"
#include "cli/cli_verify.h"
#include "rl/algo/rl_tuner.h"
#include "rl/reference/reference_choice.h"
#include "plan/offload_choice.h"
#include "verify/on_policy_choice.h"

typedef struct advise_flags {
    const char *algorithm, *size, *budget, *measured;
    const char *preset, *reference, *critical, *no_offload;
    const char *offload, *speed;
    int64_t steps, batch;
    double slowdown;
    tess_form_style style;
} advise_flags;

static json_t *texts_json(const char *const *texts, int n)
{
    json_t *list = json_array();
    for (int i = 0; i < n; i++)
        json_array_append_new(list, json_string(texts[i]));
    return list;
}

static const tess_form_part answer_form[] = {
    {.text = "exact on-policy training: {use_true_on_policy:?yes|no} (confidence {confidence})\n"},
    {.list = "reasons", .text = "  because {}\n"},
    {.list = "alternatives", .text = "  instead: {}\n"},
    {.text = "[{band:!}the price: {slowdown_pct:.1+}%, {band}\n]"
             "in Tessera it costs nothing: generation runs training's kernels\n"},
    {NULL, NULL}};

/* Parses "45.23,58.91": times of a step without and with exact on-policy training. */
static tess_status read_times(const char *text, double *slowdown)
{
    double standard = 0, exact = 0;
    char rest;
    TESS_CHECK(sscanf(text, "%lf,%lf%c", &standard, &exact, &rest) == 2 && standard > 0 && exact > 0 &&
                   standard < 1e30 && exact < 1e30,
               TESS_E_INVALID,
               "--measured: '%.60s' is not STANDARD,EXACT: the times of a step without and with, in one unit", text);
    *slowdown = tess_on_policy_slowdown(standard, exact);
    return TESS_OK;
}

static tess_status advise(tess_mem *mem, const advise_flags *f)
{
    tess_on_policy_question question;
    double slowdown = 0;
    TESS_TRY(tess_on_policy_question_parse(f->algorithm, f->size, f->budget, f->slowdown, &question));
    if (f->measured != NULL)
        TESS_TRY(read_times(f->measured, &slowdown));
    tess_on_policy_answer a = tess_on_policy_choose(&question);
    json_t *json = json_pack("{s:b, s:s, s:o, s:o}", "use_true_on_policy", a.use, "confidence",
                             tess_confidence_name(a.confidence), "reasons", texts_json(a.reasons, a.n_reasons),
                             "alternatives", texts_json(a.alternatives, a.n_alternatives));
    if (f->measured != NULL)
        json_object_update_new(
            json, json_pack("{s:f, s:s}", "slowdown_pct", slowdown, "band", tess_on_policy_cost_band(slowdown)));
    return cli_report(mem, json, answer_form, f->style, JSON_INDENT(2));
}

/* ---- A configuration to begin with ---- */
/* Prints the settings in the form that the command line takes. */
static tess_status print_preset(const tess_tuner_preset *p, tess_buffer *out)
{
    TESS_TRY(tess_buffer_printf(out, "rl.clip_low=%g rl.clip_high=%g rl.kl_beta=%g rl.entropy_coef=%g optimizer.lr=%g",
                                p->clip, p->clip, p->kl_beta, p->entropy_coef, p->lr));
    if (p->correction_high > 0)
        TESS_TRY(tess_buffer_printf(out, " rl.correction=tis rl.correction_high=%g", p->correction_high));
    return tess_buffer_printf(out, "\n");
}

static tess_status advise_settings(tess_mem *mem, const char *task)
{
    char known[128] = "";
    size_t at = 0;
    tess_buffer text = {.mem = mem};
    const tess_tuner_preset *preset = tess_tuner_preset_find(task);
    for (int i = 0; i < TESS_TUNER_PRESETS; i++)
        at = tess_text_add(known, sizeof(known), at, "%s%s", i > 0 ? ", " : "", tess_tuner_presets[i].task);
    TESS_CHECK(preset != NULL, TESS_E_INVALID, "--preset: there is none for '%.60s'; known are %s", task, known);
    return cli_print_text(print_preset(preset, &text), &text);
}

/* Parses n sizes separated by commas. A plain number is in GB. */
static bool read_sizes(const char *text, int n, double *const gb[])
{
    for (int i = 0; i < n; i++) {
        char part[64];
        int64_t bytes;
        size_t size = strcspn(text, ",");
        snprintf(part, sizeof(part), "%.*s", (int)(size < sizeof(part) ? size : sizeof(part)), text);
        if (size >= sizeof(part) || (text[size] == ',') != (i + 1 < n) ||
            tess_options_bytes(part, 1000000000, 0, 1000000000000000000, &bytes) != TESS_OK)
            return false;
        *gb[i] = (double)bytes / 1e9;
        text += size + 1;
    }
    return true;
}

/* ---- The choice of a reference ---- */
static const tess_form_part choice_form[] = {
    {.text = "reference model: {kind} (votes for swapping {swap}, for an instance of its own {independent})\n"},
    {.list = "votes", .text = "  {factor}: {kind}\n"},
    {.text = "[  swapping saves {saved_gb:.1f} GB\n]"
             "in Tessera it is neither: one copy a host, mapped from its file or shared by the ranks\n"},
    {NULL, NULL}};

static json_t *choice_json(const tess_reference_choice *c)
{
    json_t *votes = json_array();
    for (int i = 0; i < c->n_votes; i++)
        json_array_append_new(votes, json_pack("{s:s, s:s}", "factor", c->votes[i].factor, "kind",
                                               tess_reference_kind_name(c->votes[i].kind)));
    return json_pack("{s:s, s:i, s:i, s:f, s:o}", "kind", tess_reference_kind_name(c->kind), "swap", c->n_swap,
                     "independent", c->n_independent, "saved_gb", c->saved_gb, "votes", votes);
}

static tess_status advise_reference(tess_mem *mem, const advise_flags *f)
{
    tess_reference_case of = {
        .steps_per_rollout = f->steps, .kl_is_critical = f->critical != NULL, .forbids_offload = f->no_offload != NULL};
    TESS_CHECK(read_sizes(f->reference, 2, (double *const[]){&of.model_gb, &of.available_gb}) && of.model_gb > 0,
               TESS_E_INVALID,
               "--reference: '%.60s' is not MODEL,AVAILABLE: the sizes of the model's weights and of the memory, such "
               "as 14GiB,80GiB, or in GB",
               f->reference);
    const tess_reference_choice choice = tess_reference_choose(&of);
    return cli_report(mem, choice_json(&choice), choice_form, f->style, JSON_INDENT(2));
}

/* ---- Offload ---- */
static const tess_form_part offload_form[] = {
    {.text = "offload: {decision}\n"},
    {.list = "factors", .text = "  {code}: {reason}\n"},
    {.text = "[  saves {saved_gb:.2f} GB of the device; {slower_pct.0:.0f} to {slower_pct.1:.0f}% slower\n]"},
    {.list = "advice", .text = "  {}\n"},
    {.text = "a rule of thumb; `tessera info CONFIG` counts what a run takes\n"},
    {NULL, NULL}};

static json_t *offload_json(const tess_offload_choice *c)
{
    json_t *factors = json_array();
    for (int i = 0; i < c->n_factors; i++)
        json_array_append_new(factors,
                              json_pack("{s:s, s:s}", "code", c->factors[i].code, "reason", c->factors[i].reason));
    return json_pack("{s:s, s:f, s:f, s:f, s:[f, f], s:o, s:o}", "decision", tess_offload_decision_name(c->decision),
                     "needed_gb", c->needed_gb, "saved_gb", c->saved_gb, "host_needed_gb", c->host_needed_gb,
                     "slower_pct", c->least_slower_pct, c->most_slower_pct, "factors", factors, "advice",
                     texts_json(c->advice, c->n_advice));
}

static tess_status advise_offload(tess_mem *mem, const advise_flags *f)
{
    tess_offload_case of = {.batch = f->batch, .speed_is_critical = f->speed != NULL};
    TESS_CHECK(
        read_sizes(f->offload, 3, (double *const[]){&of.model_gb, &of.device_gb, &of.host_gb}) && of.model_gb > 0,
        TESS_E_INVALID,
        "--offload: '%.60s' is not MODEL,DEVICE,HOST: the sizes of the model's weights, and of the memory of the "
        "device and of the host, such as 14GiB,80GiB,512GiB, or in GB",
        f->offload);
    const tess_offload_choice choice = tess_offload_choose(&of);
    return cli_report(mem, offload_json(&choice), offload_form, f->style, JSON_INDENT(2));
}

static int run(tess_mem *mem, int argc, char **argv)
{
    advise_flags f = {.batch = 1, .size = "medium", .budget = "medium", .slowdown = 30, .steps = 1};
    const cli_flag flags[] = {
        {"--algorithm", "NAME", "ppo, grpo, dpo or sft", .text = &f.algorithm},
        {"--size", "CLASS", "small (below 1 B parameters), medium (to 10 B) or large (medium)", .text = &f.size},
        {"--budget", "CLASS", "of training: tight, medium or abundant (medium)", .text = &f.budget},
        {"--slowdown", "PERCENT", "that may be paid (30)", .number = &f.slowdown, .least = 0, .most = 1e6},
        {"--measured", "STANDARD,EXACT", "times of a step, without and with: what they mean", .text = &f.measured},
        {"--preset", "TASK", "instead: settings to begin with: llm_rlhf, llm_grpo, game_ai or default",
         .text = &f.preset},
        {"--reference", "MODEL,AVAILABLE",
         "instead: which kind of reference model; sizes of weights and of memory; plain numbers count GB",
         .text = &f.reference},
        {"--steps", "N", "reference: steps that learn from one rollout (1)", .integer = &f.steps, .min = 1,
         .max = 1000000},
        {"--critical-kl", NULL, "reference: the divergence must be precise", .text = &f.critical},
        {"--no-offload", NULL, "reference: weights may not leave the device", .text = &f.no_offload},
        {"--offload", "MODEL,DEVICE,HOST",
         "instead: offload to the host's memory? sizes of weights and of memory; plain numbers count GB",
         .text = &f.offload},
        {"--batch", "N", "offload: sequences a step of a device (1)", .integer = &f.batch, .min = 1, .max = 1000000},
        {"--critical-speed", NULL, "offload: steps may not get slower", .text = &f.speed},
        CLI_STYLES(&f.style)};
    if (cli_parse(argc, argv, &cli_verify_advise, flags, sizeof(flags) / sizeof(flags[0])) > 0)
        return cli_misuse(&cli_verify_advise, "'%.60s' is no option", argv[1]);
    if (f.preset != NULL)
        return cli_end(advise_settings(mem, f.preset));
    if (f.reference != NULL)
        return cli_end(advise_reference(mem, &f));
    if (f.offload != NULL)
        return cli_end(advise_offload(mem, &f));
    if (f.algorithm == NULL)
        return cli_misuse(&cli_verify_advise,
                          "--algorithm says what is trained (or ask for --preset, --reference or --offload)");
    return cli_end(advise(mem, &f));
}

const cli_command cli_verify_advise = {
    "verify advise",
    "--algorithm NAME [--size CLASS] [--budget CLASS] [--slowdown PERCENT] | --preset TASK | --reference "
    "MODEL,AVAILABLE | --offload MODEL,DEVICE,HOST",
    "should two engines, one that generates and one that trains, pay for exactly equal log-probabilities?\n"
    "For stacks in which equality costs time. Also: settings of RL to begin with, kinds of reference models, offload.",
    .examples = "tessera verify advise --algorithm grpo --size large --budget tight\n"
                "tessera verify advise --preset llm_grpo\n"
                "tessera verify advise --reference 14GB,80GB --steps 2",
    .run = run};
