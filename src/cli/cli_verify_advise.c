#include "base/text/json.h"
#include "cli/cli.h"
#include "cli/cli_verify.h"
#include "train/verify/on_policy_choice.h"

typedef struct advise_flags {
    const char *algorithm, *size, *budget, *json, *measured;
    double slowdown;
} advise_flags;

static json_t *texts_json(const char *const *texts, int n)
{
    json_t *list = json_array();
    for (int i = 0; i < n; i++)
        json_array_append_new(list, json_string(texts[i]));
    return list;
}

static tess_status print_answer(const tess_on_policy_answer *a, tess_buffer *out)
{
    TESS_TRY(tess_buffer_printf(out, "exact on-policy training: %s (confidence %s)\n", a->use ? "yes" : "no",
                                tess_confidence_name(a->confidence)));
    for (int i = 0; i < a->n_reasons; i++)
        TESS_TRY(tess_buffer_printf(out, "  because %s\n", a->reasons[i]));
    for (int i = 0; i < a->n_alternatives; i++)
        TESS_TRY(tess_buffer_printf(out, "  instead: %s\n", a->alternatives[i]));
    return TESS_OK;
}

/* "45.23,58.91": times of a step, without and with. */
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
    tess_buffer text = {.mem = mem};
    double slowdown = 0;
    TESS_TRY(tess_on_policy_question_parse(f->algorithm, f->size, f->budget, f->slowdown, &question));
    if (f->measured != NULL)
        TESS_TRY(read_times(f->measured, &slowdown));
    tess_on_policy_answer a = tess_on_policy_choose(&question);
    tess_status status;
    if (f->json != NULL) {
        json_t *json = json_pack("{s:b, s:s, s:o, s:o}", "use_true_on_policy", a.use, "confidence",
                                 tess_confidence_name(a.confidence), "reasons", texts_json(a.reasons, a.n_reasons),
                                 "alternatives", texts_json(a.alternatives, a.n_alternatives));
        if (f->measured != NULL)
            json_object_update_new(
                json, json_pack("{s:f, s:s}", "slowdown_pct", slowdown, "band", tess_on_policy_cost_band(slowdown)));
        return cli_print_text(tess_json_print(json, JSON_INDENT(2), &text), &text);
    }
    status = print_answer(&a, &text);
    if (status == TESS_OK && f->measured != NULL)
        status = tess_buffer_printf(&text, "the price: %+.1f%%, %s\n", slowdown, tess_on_policy_cost_band(slowdown));
    if (status == TESS_OK)
        status = tess_buffer_printf(&text, "in Tessera it costs nothing: generation runs training's kernels\n");
    return cli_print_text(status, &text);
}

static int run(tess_mem *mem, int argc, char **argv)
{
    advise_flags f = {.size = "medium", .budget = "medium", .slowdown = 30};
    const cli_flag flags[] = {
        {"--algorithm", "NAME", "ppo, grpo, dpo or sft", .text = &f.algorithm},
        {"--size", "CLASS", "small (below 1 B parameters), medium (to 10 B) or large (medium)", .text = &f.size},
        {"--budget", "CLASS", "of training: tight, medium or abundant (medium)", .text = &f.budget},
        {"--slowdown", "PERCENT", "that may be paid (30)", .number = &f.slowdown, .least = 0, .most = 1e6},
        {"--measured", "STANDARD,EXACT", "times of a step, without and with: what they mean", .text = &f.measured},
        {"--json", NULL, "print JSON", .text = &f.json}};
    if (cli_parse(argc, argv, &cli_verify_advise, flags, sizeof(flags) / sizeof(flags[0])) > 0)
        return cli_misuse(&cli_verify_advise, "'%.60s' is no option", argv[1]);
    if (f.algorithm == NULL)
        return cli_misuse(&cli_verify_advise, "--algorithm says what is trained");
    return cli_end(advise(mem, &f));
}

const cli_command cli_verify_advise = {
    "verify advise", "--algorithm NAME [--size CLASS] [--budget CLASS] [--slowdown PERCENT]",
    "should two engines, one that generates and one that trains, pay for exactly equal log-probabilities?\n"
    "For stacks in which equality costs time.",
    .run = run};
