/* Rules of thumb for reinforcement learning. */
#include <stdio.h>

#include "cli/plan/advise.h"
#include "rl/algo/rl_tuner.h"
#include "rl/reference/reference_choice.h"
#include "tessera/status.h"
#include "verify/on_policy_choice.h"

#include "base/text/text.h"

static const double gb = 1e9;

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

static tess_status on_policy(const advise_flags *f, json_t **report)
{
    tess_on_policy_question question;
    double slowdown = 0;
    TESS_CHECK(f->algorithm != NULL, TESS_E_INVALID, "--algorithm says what is trained: ppo, grpo, dpo or sft");
    TESS_TRY(tess_on_policy_question_parse(f->algorithm, f->size, f->budget, f->slowdown, &question));
    if (f->measured != NULL)
        TESS_TRY(read_times(f->measured, &slowdown));
    const tess_on_policy_answer a = tess_on_policy_choose(&question);
    *report = json_pack("{s:b, s:s, s:o, s:o}", "use_true_on_policy", a.use, "confidence",
                        tess_confidence_name(a.confidence), "reasons", advise_texts(a.reasons, a.n_reasons),
                        "alternatives", advise_texts(a.alternatives, a.n_alternatives));
    if (f->measured != NULL)
        json_object_update_new(
            *report, json_pack("{s:f, s:s}", "slowdown_pct", slowdown, "band", tess_on_policy_cost_band(slowdown)));
    return TESS_OK;
}

static const tess_form_part on_policy_form[] = {
    {.text = "exact on-policy training: {use_true_on_policy:?yes|no} (confidence {confidence})\n"},
    {.list = "reasons", .text = "  because {}\n"},
    {.list = "alternatives", .text = "  instead: {}\n"},
    {.text = "[{band:!}the price: {slowdown_pct:.1+}%, {band}\n]"
             "in Tessera it costs nothing: generation runs training's kernels\n"},
    {NULL, NULL}};

static tess_status settings(const advise_flags *f, json_t **report)
{
    char known[128] = "";
    size_t at = 0;
    for (int i = 0; i < TESS_TUNER_PRESETS; i++)
        at = tess_text_add(known, sizeof(known), at, "%s%s", i > 0 ? ", " : "", tess_tuner_presets[i].task);
    TESS_CHECK(f->task != NULL, TESS_E_INVALID, "--task says what is trained; known are %s", known);
    const tess_tuner_preset *p = tess_tuner_preset_find(f->task);
    TESS_CHECK(p != NULL, TESS_E_INVALID, "--task: there are no settings for '%.60s'; known are %s", f->task, known);
    *report = json_pack("{s:f, s:f, s:f, s:f}", "clip", p->clip, "kl_beta", p->kl_beta, "entropy_coef", p->entropy_coef,
                        "lr", p->lr);
    if (p->correction_high > 0)
        json_object_set_new(*report, "correction_high", json_real(p->correction_high));
    return TESS_OK;
}

/* The form that the command line takes. */
static const tess_form_part settings_form[] = {
    {.text = "rl.clip_low={clip:g} rl.clip_high={clip:g} rl.kl_beta={kl_beta:g} rl.entropy_coef={entropy_coef:g} "
             "optimizer.lr={lr:g}[{correction_high:!} rl.correction=tis rl.correction_high={correction_high:g}]\n"},
    {NULL, NULL}};

static tess_status reference(const advise_flags *f, json_t **report)
{
    const tess_reference_choice c =
        tess_reference_choose(&(tess_reference_case){.model_gb = (double)f->model / gb,
                                                     .available_gb = (double)f->memory / gb,
                                                     .steps_per_rollout = f->steps,
                                                     .kl_is_critical = f->critical_kl != NULL,
                                                     .forbids_offload = f->no_offload != NULL});
    json_t *votes = json_array();
    for (int i = 0; i < c.n_votes; i++)
        json_array_append_new(votes, json_pack("{s:s, s:s}", "factor", c.votes[i].factor, "kind",
                                               tess_reference_kind_name(c.votes[i].kind)));
    *report = json_pack("{s:s, s:i, s:i, s:f, s:o}", "kind", tess_reference_kind_name(c.kind), "swap", c.n_swap,
                        "independent", c.n_independent, "saved_gb", c.saved_gb, "votes", votes);
    return TESS_OK;
}

static const tess_form_part reference_form[] = {
    {.text = "reference model: {kind} (votes for swapping {swap}, for an instance of its own {independent})\n"},
    {.list = "votes", .text = "  {factor}: {kind}\n"},
    {.text = "[  swapping saves {saved_gb:.1f} GB\n]"
             "in Tessera it is neither: one copy a host, mapped from its file or shared by the ranks\n"},
    {NULL, NULL}};

static const advise_rule rules[] = {
    {"on-policy", "two engines: should they pay for exactly equal log-probabilities?",
     "--algorithm --size --budget --slowdown --measured", on_policy, on_policy_form},
    {"settings", "settings of RL to begin with", "--task", settings, settings_form},
    {"reference", "a reference model that is swapped, or an instance of its own",
     "--model --memory --steps --critical-kl --no-offload", reference, reference_form},
};
const advise_group advise_rl = {rules, sizeof(rules) / sizeof(rules[0])};
