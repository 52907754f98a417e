/* Rules of thumb for memory. */
#include "cli/plan/advise.h"
#include "plan/offload_choice.h"
#include "plan/rules/memory_rules.h"

static const double gb = 1e9, gib = 1 << 30;

static json_t *stages_json(const tess_state_rule *rule, const advise_flags *f)
{
    json_t *list = json_array();
    for (int stage = 0; stage < TESS_ZERO_STAGES; stage++)
        json_array_append_new(list, json_real(f->params_b * tess_state_bytes(rule, stage, (double)f->ranks)));
    return list;
}

static json_t *state_json(const tess_state_rule *rule, const advise_flags *f)
{
    const double sharded = f->params_b * tess_state_bytes(rule, TESS_ZERO_STAGES - 1, (double)f->ranks);
    const double all = sharded + (double)f->activations / gb, limit = (double)f->memory / gb;
    return json_pack("{s:s, s:f, s:o, s:f, s:s, s:s, s:s?}", "rule", rule->name, "bytes_per_parameter",
                     rule->weights + rule->grads + rule->optimizer, "stages", stages_json(rule, f), "with_activations",
                     all, "fits", all <= limit ? "fits" : "does not fit", "counts", rule->counts, "note", rule->note);
}

static tess_status memory(const advise_flags *f, json_t **report)
{
    const double params = f->params_b * 1e9, batch = (double)f->batch, sequence = (double)f->sequence;
    const tess_single_memory one = tess_single_gpu_memory(params, 2, batch, sequence);
    const tess_fsdp2_memory fsdp2 =
        tess_fsdp2_estimate(params, (double)f->ranks, batch, sequence, f->recompute != NULL, f->offload != NULL);
    json_t *rules = json_array();
    for (int i = 0; i < tess_state_rules_n; i++)
        json_array_append_new(rules, state_json(&tess_state_rules[i], f));
    *report =
        json_pack("{s:f, s:I, s:f, s:f, s:I, s:I, s:o, s:{s:f, s:f, s:f, s:f, s:f}, s:{s:f, s:f, s:f, s:f}}",
                  "params_b", f->params_b, "ranks", f->ranks, "memory_gb", (double)f->memory / gb, "activations_gb",
                  (double)f->activations / gb, "batch", f->batch, "sequence", f->sequence, "rules", rules, "single_gib",
                  "weights", one.weights / gib, "grads", one.grads / gib, "optimizer", one.optimizer / gib,
                  "activations", one.activations / gib, "sum", one.sum / gib, "fsdp2_gb", "state", fsdp2.state / gb,
                  "activations", fsdp2.activations / gb, "buffers", fsdp2.buffers / gb, "sum", fsdp2.sum / gb);
    return TESS_OK;
}

static const tess_form_part memory_form[] = {
    {.text = "state of {params_b:g} billion parameters on {ranks} ranks, in GB of a rank, by ZeRO's stage\n"
             "rule\v  bytes/param\v  stage 0\v  stage 1\v  stage 2\v  stage 3\v  with {activations_gb:g} GB\t  in "
             "{memory_gb:g} GB\n"},
    {.list = "rules",
     .text =
         "{rule}\v  {bytes_per_parameter:g}\v  {stages.0:.2f}\v  {stages.1:.2f}\v  {stages.2:.2f}\v  {stages.3:.2f}\v  "
         "{with_activations:.1f}\t  {fits}\n"},
    {.text = "\n"},
    {.list = "rules", .text = "{rule:-8} {counts:9w}[\n         ({note:9w})]\n"},
    {.text = "\none GPU, {batch} text{batch:s} of {sequence} tokens, in GiB (width 4096 and 32 layers, whatever the "
             "model is)\n"
             "  weights {single_gib.weights:.1f} + gradients {single_gib.grads:.1f} + optimizer "
             "{single_gib.optimizer:.1f} + activations {single_gib.activations:.1f} = {single_gib.sum:.1f}\n"
             "  (its text prints 98.6 for 7 billion parameters and 8 texts of 2048 tokens; its code gives 144.3)\n"
             "FSDP2's estimate, in GB of a rank\n"
             "  state {fsdp2_gb.state:.2f} + activations {fsdp2_gb.activations:.2f} + buffers {fsdp2_gb.buffers:.2f} = "
             "{fsdp2_gb.sum:.2f}\n"
             "  (its code divides gigabytes by 1024 and prints a thousandth of the state)\n"
             "rules of thumb; `tessera plan CONFIG` counts what a run takes\n"},
    {NULL, NULL}};

static tess_status saving(const advise_flags *f, json_t **report)
{
    const double ranks = (double)f->ranks, kept = f->kept_percent / 100;
    *report = json_pack("{s:I, s:f, s:f, s:f}", "ranks", f->ranks, "kept", kept, "saved", tess_shard_saving(ranks, 0),
                        "saved_with_kept", tess_shard_saving(ranks, kept));
    return TESS_OK;
}

static const tess_form_part saving_form[] = {
    {.text = "sharding over {ranks} ranks saves {saved:.2%} of what is sharded\n"
             "if {kept:.0%} are activations, which stay whole, it saves {saved_with_kept:.2%} of all\n"},
    {NULL, NULL}};

static tess_status accumulation(const advise_flags *f, json_t **report)
{
    const double whole =
        tess_activation_bytes((double)f->batch, (double)f->sequence, (double)f->hidden, (double)f->layers, 2);
    const double micro = whole / (double)f->accumulation;
    *report = json_pack("{s:I, s:I, s:f, s:f, s:f}", "batch", f->batch, "accumulation", f->accumulation, "whole_gib",
                        whole / gib, "micro_gib", micro / gib, "saved", 1 - micro / whole);
    return TESS_OK;
}

static const tess_form_part accumulation_form[] = {
    {.text = "activations of {batch} texts at once: {whole_gib:.1f} GiB; of one of {accumulation} micro-batches: "
             "{micro_gib:.1f} GiB, {saved:.1%} less\n"},
    {NULL, NULL}};

static json_t *factors_json(const tess_offload_choice *c)
{
    json_t *factors = json_array();
    for (int i = 0; i < c->n_factors; i++)
        json_array_append_new(factors,
                              json_pack("{s:s, s:s}", "code", c->factors[i].code, "reason", c->factors[i].reason));
    return factors;
}

static tess_status offload(const advise_flags *f, json_t **report)
{
    const tess_offload_choice c =
        tess_offload_choose(&(tess_offload_case){.model_gb = (double)f->model / gb,
                                                 .device_gb = (double)f->memory / gb,
                                                 .host_gb = (double)f->host / gb,
                                                 .batch = f->batch,
                                                 .speed_is_critical = f->critical_speed != NULL});
    *report = json_pack("{s:s, s:f, s:f, s:f, s:[f, f], s:o, s:o}", "decision", tess_offload_decision_name(c.decision),
                        "needed_gb", c.needed_gb, "saved_gb", c.saved_gb, "host_needed_gb", c.host_needed_gb,
                        "slower_pct", c.least_slower_pct, c.most_slower_pct, "factors", factors_json(&c), "advice",
                        advise_texts(c.advice, c.n_advice));
    return TESS_OK;
}

static const tess_form_part offload_form[] = {
    {.text = "offload: {decision}\n"},
    {.list = "factors", .text = "  {code}: {reason}\n"},
    {.text = "[  saves {saved_gb:.2f} GB of the device; {slower_pct.0:.0f} to {slower_pct.1:.0f}% slower\n]"},
    {.list = "advice", .text = "  {}\n"},
    {.text = "a rule of thumb; `tessera plan CONFIG` counts what a run takes\n"},
    {NULL, NULL}};

static const advise_rule rules[] = {
    {"memory", "what weights, gradients and optimizer take, by five conventions",
     "--params --ranks --memory --activations --batch --sequence --recompute --to-host", memory, memory_form},
    {"saving", "how much sharding saves", "--ranks --kept", saving, saving_form},
    {"accumulation", "how much accumulation saves", "--batch --accumulation --sequence --hidden --layers", accumulation,
     accumulation_form},
    {"offload", "whether state should move to the host's memory", "--model --memory --host --batch --critical-speed",
     offload, offload_form},
};
const advise_group advise_memory = {rules, sizeof(rules) / sizeof(rules[0])};
