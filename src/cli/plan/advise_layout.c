/* Rules of thumb for strategies and layouts. */
#include "cli/plan/advise.h"
#include "plan/rules/layout_rules.h"
#include "plan/rules/time_rules.h"
#include "base/core/options.h"

static const double gb = 1e9, gib = 1 << 30;

static tess_rule_case case_of(const advise_flags *f)
{
    return (tess_rule_case){.params_b = f->params_b,
                            .layers = (double)f->layers,
                            .hidden = (double)f->hidden,
                            .ranks = (double)f->ranks,
                            .memory_gb = (double)f->memory / gb,
                            .sequence = (double)f->sequence,
                            .needs_pipeline = f->pipeline != NULL};
}

static tess_status strategy(const advise_flags *f, json_t **report)
{
    const tess_rule_case of = case_of(f);
    json_t *rules = json_array();
    for (int i = 0; i < tess_strategy_rules_n; i++) {
        const tess_strategy_rule *rule = &tess_strategy_rules[i];
        char answer[TESS_RULE_TEXT], why[TESS_RULE_TEXT];
        rule->choose(&of, answer, why);
        json_array_append_new(rules, json_pack("{s:s, s:s, s:s, s:s?}", "rule", rule->name, "answer", answer, "why",
                                               why, "note", rule->note));
    }
    *report = json_pack("{s:f, s:f, s:I, s:o}", "params_b", f->params_b, "memory_gb", of.memory_gb, "ranks", f->ranks,
                        "rules", rules);
    return TESS_OK;
}

static const tess_form_part strategy_form[] = {
    {.text = "{params_b:g} billion parameters on {ranks} GPUs of {memory_gb:g} GB; the rules disagree\n"},
    {.list = "rules", .text = "  {rule}\t  {answer}\t  {why}\n"},
    {.text = "\nwhat is wrong with them\n"},
    {.list = "rules", .text = "  {rule:-10} {note:13w}\n"},
    {.text = "`tessera plan CONFIG` counts what a run takes\n"},
    {NULL, NULL}};

static json_t *axes_json(const tess_axes_choice *c, const char *name)
{
    return json_pack("{s:s, s:f, s:f, s:f, s:f, s:f, s:f, s:i, s:b}", "rule", name, "tp", c->tp, "pp", c->pp, "dp",
                     c->dp, "weights_gb", c->weights_gb, "state_gb", c->state_gb, "global_batch", c->global_batch,
                     "zero_stage", c->zero_stage, "possible", c->dp >= 1);
}

static tess_status axes(const advise_flags *f, json_t **report)
{
    const tess_rule_case of = case_of(f);
    const tess_axes_choice text = tess_choose_axes(&of, false), counted = tess_choose_axes(&of, true);
    TESS_CHECK(text.dp >= 1 || counted.dp >= 1, TESS_E_INVALID,
               "tp %.0f x pp %.0f need %.0f ranks, and there are %lld; `--ranks` gives more, or `--memory` larger GPUs",
               counted.tp, counted.pp, counted.tp * counted.pp, (long long)f->ranks);
    *report =
        json_pack("{s:f, s:f, s:I, s:[o, o]}", "params_b", f->params_b, "memory_gb", of.memory_gb, "ranks", f->ranks,
                  "layouts", axes_json(&text, "as the text has it"), axes_json(&counted, "with weights over tp"));
    return TESS_OK;
}

static const tess_form_part axes_form[] = {
    {.text = "{params_b:g} billion parameters on {ranks} GPUs of {memory_gb:g} GB\n"
             "rule\v  tp\v  pp\v  dp\v  GB by the rule\v  GB of state\v  global batch\t  ZeRO stage\n"},
    {.list = "layouts",
     .text =
         "{rule}\v  {tp:.0f}\v  {pp:.0f}\v  [{possible:!}{dp:.0f}|none]\v  {weights_gb:.1f}\v  [{state_gb:.1f}|-]\v  "
         "{global_batch:.0f}\t  {zero_stage}\n"},
    {.text = "\nthe rule counts 16-bit weights and 10 GB; the state is weights, gradients and an optimizer over dp "
             "(16 bytes/param)\n"},
    {NULL, NULL}};

static tess_status precision(const advise_flags *f, json_t **report)
{
    const char *names[32];
    json_t *list = json_array();
    int chosen = -1;
    for (int i = 0; i < tess_precision_rules_n; i++)
        names[i] = tess_precision_rules[i].device;
    tess_status status =
        f->device == NULL ? TESS_OK : tess_options_choose("GPU", f->device, names, tess_precision_rules_n, &chosen);
    for (int i = 0; i < tess_precision_rules_n && status == TESS_OK; i++)
        if (chosen < 0 || chosen == i)
            json_array_append_new(list,
                                  json_pack("{s:s, s:s, s:s?}", "device", tess_precision_rules[i].device, "format",
                                            tess_precision_rules[i].format, "note", tess_precision_rules[i].note));
    *report = json_pack("{s:o}", "devices", list);
    return status;
}

static const tess_form_part precision_form[] = {{.list = "devices", .text = "{device}\t  {format}\t  [{note}]\n"},
                                                {NULL, NULL}};

static tess_status context(const advise_flags *f, json_t **report)
{
    const tess_layer_case of = {.hidden = (double)f->hidden,
                                .layers = (double)f->layers,
                                .batch = (double)f->batch,
                                .sequence = (double)f->sequence};
    json_t *list = json_array();
    for (int cp = 1; cp <= 8; cp *= 2) {
        const tess_context_step r = tess_context_volume(&of, cp);
        json_array_append_new(list, json_pack("{s:i, s:f, s:f, s:f, s:f, s:f}", "cp", cp, "local", r.local,
                                              "activations_gib", r.activations / gib, "ring_gib", r.ring / gib,
                                              "gather_gib", r.gather / gib, "sum_gib", r.sum / gib));
    }
    const int needed = tess_context_ranks(tess_context_volume(&of, 1).activations, (double)f->memory);
    *report =
        json_pack("{s:I, s:I, s:f, s:o, s:o}", "sequence", f->sequence, "batch", f->batch, "memory_gb",
                  (double)f->memory / gb, "needed", needed > 0 ? json_integer(needed) : json_null(), "degrees", list);
    return TESS_OK;
}

static const tess_form_part context_form[] = {
    {.text = "{batch} texts of {sequence} tokens over cp ranks, in GiB of a rank and a step\n"
             "\v  cp\v  tokens\v  activations\v  ring\v  gather\v  sum\n"},
    {.list = "degrees",
     .text =
         "\v  {cp}\v  {local:.0f}\v  {activations_gib:.2f}\v  {ring_gib:.2f}\v  {gather_gib:.2f}\v  {sum_gib:.2f}\n"},
    {.text =
         "\n[activations fit into {memory_gb:g} GB from cp = {needed}|not even 1,024 ranks suffice]\n"
         "ring and gather are those of forward; the sum has backward too\n"
         "(one text prints a ring of 18.00 GiB for 32768 tokens at cp = 4; its formula gives 12.00 for one text and "
         "48.00 for four)\n"},
    {NULL, NULL}};

static const advise_rule rules[] = {
    {"strategy", "DDP, FSDP, ZeRO or three axes, by six rule sets",
     "--params --layers --hidden --ranks --memory --sequence --needs-pipeline", strategy, strategy_form},
    {"axes", "tensor, pipeline and data parallel degrees", "--params --ranks --memory", axes, axes_form},
    {"context", "context parallel: what it costs and saves", "--sequence --batch --hidden --layers --memory", context,
     context_form},
    {"precision", "the 16-bit format of a GPU", "--device", precision, precision_form},
};
const advise_group advise_layout = {rules, sizeof(rules) / sizeof(rules[0])};
