/* `tessera plan advise`: rules of thumb that texts state, each by its name. */
#include "cli/plan/advise.h"

#include "base/core/options.h"
#include "cli/cli.h"
#include "cli/plan/cli_plan.h"

enum { MOST_RULES = 32 };

static const advise_group *const groups[] = {&advise_memory, &advise_layout, &advise_time, &advise_rl};

static int all_rules(const advise_rule *rules[MOST_RULES], const char *names[MOST_RULES])
{
    int n = 0;
    for (size_t g = 0; g < sizeof(groups) / sizeof(groups[0]); g++)
        for (int i = 0; i < groups[g]->n && n < MOST_RULES; i++, n++) {
            rules[n] = &groups[g]->rules[i];
            names[n] = rules[n]->name;
        }
    return n;
}

static const tess_form_part list_form[] = {
    {.text = "rules of thumb, as widely read texts state them; `tessera plan advise RULE` applies one\n"},
    {.list = "rules", .text = "  {name}\t  {what}\n"},
    {.text = "\nwhat they ask\n"},
    {.list = "rules", .text = "  {name}\t  {asks}\n"},
    {NULL, NULL}};

static tess_status list_rules(tess_mem *mem, const advise_rule *const *rules, int n, tess_form_style style)
{
    json_t *list = json_array();
    for (int i = 0; i < n; i++)
        json_array_append_new(
            list, json_pack("{s:s, s:s, s:s}", "name", rules[i]->name, "what", rules[i]->what, "asks", rules[i]->asks));
    return cli_report(mem, json_pack("{s:o}", "rules", list), list_form, style, JSON_INDENT(2));
}

static tess_status apply(tess_mem *mem, const advise_rule *rule, const advise_flags *f, tess_form_style style)
{
    json_t *report = NULL;
    tess_status status = rule->answer(f, &report);
    if (status == TESS_OK)
        return cli_report(mem, report, rule->form, style, JSON_INDENT(2));
    json_decref(report);
    return status;
}

static int run(tess_mem *mem, int argc, char **argv)
{
    static const int64_t gb = 1000000000, most = 1000000000000000000;
    tess_form_style style = TESS_FORM_TEXT;
    advise_flags f = {.params_b = 7,
                      .kept_percent = 5,
                      .bandwidth = 25,
                      .latency_ms = 0.05,
                      .compute_ms = 100,
                      .exchange_ms = 50,
                      .layers = 32,
                      .hidden = 4096,
                      .ranks = 8,
                      .batch = 1,
                      .sequence = 2048,
                      .context = 1,
                      .accumulation = 8,
                      .operations = 1,
                      .tensors = 100,
                      .steps = 1,
                      .memory = 80 * gb,
                      .host = 512 * gb,
                      .bucket = 25 << 20,
                      .size = "medium",
                      .budget = "medium",
                      .slowdown = 30};
    const cli_flag flags[] = {
        {"--params", "BILLIONS", "parameters, in billions (7)", .number = &f.params_b, .least = 1e-3, .most = 1e6},
        {"--model", "SIZE", "the weights; a plain number counts GB (2 bytes a parameter)", .bytes = &f.model,
         .unit = gb, .min = 1, .max = most},
        {"--layers", "N", "layers (32)", .integer = &f.layers, .min = 1, .max = 100000},
        {"--hidden", "N", "width (4096)", .integer = &f.hidden, .min = 1, .max = 10000000},
        {"--ranks", "N", "GPUs (8)", .integer = &f.ranks, .min = 1, .max = 10000000},
        {"--context", "N", "GPUs that divide a text (1)", .integer = &f.context, .min = 1, .max = 1000000},
        {"--memory", "SIZE", "memory of a GPU (80 GB)", .bytes = &f.memory, .unit = gb, .min = 1, .max = most},
        {"--host", "SIZE", "memory of the host (512 GB)", .bytes = &f.host, .unit = gb, .min = 1, .max = most},
        {"--activations", "SIZE", "activations of a GPU (0)", .bytes = &f.activations, .unit = gb, .max = most},
        {"--kept", "PERCENT", "of the memory are activations (5)", .number = &f.kept_percent, .most = 100},
        {"--batch", "N", "texts (1)", .integer = &f.batch, .min = 1, .max = 1000000},
        {"--sequence", "TOKENS", "tokens of a text (2048)", .integer = &f.sequence, .min = 1, .max = 1000000000},
        {"--accumulation", "N", "micro-batches of a step (8)", .integer = &f.accumulation, .min = 1, .max = 1000000},
        {"--recompute", NULL, "activations are recomputed", .text = &f.recompute},
        {"--to-host", NULL, "state lies in the host's memory", .text = &f.offload},
        {"--needs-pipeline", NULL, "a pipeline is wanted", .text = &f.pipeline},
        {"--device", "GPU", "its name, such as H100 (all)", .text = &f.device},
        {"--bandwidth", "GB/s", "of a link (25)", .number = &f.bandwidth, .least = 1e-3, .most = 1e9},
        {"--latency", "MS", "milliseconds of a message (0.05)", .number = &f.latency_ms, .most = 1e9},
        {"--operations", "N", "messages of a step (1)", .integer = &f.operations, .max = 1000000000},
        {"--seconds", "S", "time of a step", .number = &f.seconds, .most = 1e9},
        {"--compute", "MS", "milliseconds that a layer computes (100)", .number = &f.compute_ms, .least = 1e-6,
         .most = 1e9},
        {"--exchange", "MS", "milliseconds that a layer communicates (50)", .number = &f.exchange_ms, .most = 1e9},
        {"--tensors", "N", "tensors in buckets (100)", .integer = &f.tensors, .min = 1, .max = 100000},
        {"--bucket", "SIZE", "of a bucket; a plain number counts MiB (25)", .bytes = &f.bucket, .unit = 1 << 20,
         .min = 1, .max = most},
        {"--algorithm", "NAME", "ppo, grpo, dpo or sft", .text = &f.algorithm},
        {"--size", "CLASS", "small (below 1 B parameters), medium (to 10 B) or large (medium)", .text = &f.size},
        {"--budget", "CLASS", "of training: tight, medium or abundant (medium)", .text = &f.budget},
        {"--slowdown", "PERCENT", "that may be paid (30)", .number = &f.slowdown, .most = 1e6},
        {"--measured", "STANDARD,EXACT", "times of a step, without and with: what they mean", .text = &f.measured},
        {"--task", "NAME", "llm_rlhf, llm_grpo, game_ai or default", .text = &f.task},
        {"--steps", "N", "steps that learn from one rollout (1)", .integer = &f.steps, .min = 1, .max = 1000000},
        {"--critical-kl", NULL, "the divergence must be precise", .text = &f.critical_kl},
        {"--no-offload", NULL, "weights may not leave the device", .text = &f.no_offload},
        {"--critical-speed", NULL, "steps may not get slower", .text = &f.critical_speed},
        CLI_STYLES(&style)};
    const advise_rule *rules[MOST_RULES];
    const char *names[MOST_RULES];
    int chosen = 0;
    const int n = all_rules(rules, names),
              given = cli_parse(argc, argv, &cli_plan_advise, flags, sizeof(flags) / sizeof(flags[0]));
    if (given == 0)
        return cli_end(list_rules(mem, rules, n, style));
    if (given > 1)
        return cli_misuse(&cli_plan_advise, "'%.60s': one rule at a time", argv[2]);
    if (f.model == 0)
        f.model = (int64_t)(2e9 * f.params_b);
    tess_status status = tess_options_choose("rule", argv[1], names, n, &chosen);
    return cli_end(status != TESS_OK ? status : apply(mem, rules[chosen], &f, style));
}

const cli_command cli_plan_advise = {
    "plan advise", "[RULE] [flags]",
    "apply a rule of thumb of the literature, and say where it is wrong\n"
    "Without a rule: the list of them, with the flags that each one reads. A plain number of --model, --memory and\n"
    "--host counts GB (1e9 bytes).",
    .examples = "tessera plan advise memory --params 7 --ranks 8\n"
                "tessera plan advise axes --params 175 --ranks 512 --memory 40\n"
                "tessera plan advise on-policy --algorithm grpo --size large --budget tight",
    .run = run};
