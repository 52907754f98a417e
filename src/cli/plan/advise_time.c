/* Rules of thumb for the volume and the time of communication. */
#include "cli/plan/advise.h"
#include "plan/rules/time_rules.h"

static const double gb = 1e9, gib = 1 << 30, mib = 1 << 20, ms = 1e-3;

static tess_status volume(const advise_flags *f, json_t **report)
{
    const double model = (double)f->model / gb, ranks = (double)f->ranks;
    const tess_shard_volume v = tess_step_volume(model, ranks);
    const double ideal = tess_volume_time(v.sum, f->bandwidth, 0, 0);
    *report =
        json_pack("{s:f, s:I, s:f, s:f, s:f, s:f, s:f, s:f}", "model_gb", model, "ranks", f->ranks, "rank_gb",
                  model / ranks, "gathered_gb", v.gathered, "scattered_gb", v.scattered, "sum_gb", v.sum, "ideal_s",
                  ideal, "time_s", tess_volume_time(v.sum, f->bandwidth, f->latency_ms * ms, (double)f->operations));
    if (f->seconds > 0)
        json_object_update_new(*report, json_pack("{s:f, s:f, s:f}", "seconds", f->seconds, "reached_gb",
                                                  v.sum / f->seconds, "used", ideal / f->seconds));
    return TESS_OK;
}

static const tess_form_part volume_form[] = {
    {.text = "weights of {model_gb:g} GB over {ranks} ranks: {rank_gb:.2f} GB a rank\n"
             "a step gathers {gathered_gb:.2f} GB and scatters {scattered_gb:.2f} GB: {sum_gb:.2f} GB\n"
             "that takes {ideal_s:.3f} s at full bandwidth, {time_s:.3f} s with latencies\n"
             "[a step of {seconds:g} s reaches {reached_gb:.2f} GB/s, {used:.1%} of the bandwidth\n]"
             "weights that are freed after forward are gathered once more, {gathered_gb:.2f} GB\n"},
    {NULL, NULL}};

static tess_status layers(const advise_flags *f, json_t **report)
{
    const tess_layer_volume v = tess_layers_volume(&(tess_layer_case){.hidden = (double)f->hidden,
                                                                      .layers = (double)f->layers,
                                                                      .batch = (double)f->batch,
                                                                      .sequence = (double)f->sequence,
                                                                      .dp = (double)f->ranks,
                                                                      .cp = (double)f->context});
    *report = json_pack("{s:I, s:I, s:f, s:f, s:f}", "dp", f->ranks, "cp", f->context, "forward_gib", v.forward / gib,
                        "backward_gib", v.backward / gib, "sum_gib", v.sum / gib);
    return TESS_OK;
}

static const tess_form_part layers_form[] = {
    {.text = "a step with dp {dp} and cp {cp}: forward {forward_gib:.2f} GiB, backward {backward_gib:.2f} GiB, sum "
             "{sum_gib:.2f} GiB\n"
             "(as the text counts: gradients whole, weights (dp-1)/dp, and no second gather)\n"},
    {NULL, NULL}};

static tess_status all_reduce(const advise_flags *f, json_t **report)
{
    static const char *const names[] = {"ring", "tree", "naive"};
    static const char *const formulas[] = {"2 (N-1)/N D/B + 2 (N-1) a", "2 D/B + 2 log2(N) a", "N D/B + (N-1) a"};
    json_t *list = json_array();
    for (int i = 0; i < 3; i++)
        json_array_append_new(list,
                              json_pack("{s:s, s:f, s:s}", "algorithm", names[i], "ms",
                                        tess_all_reduce_time((tess_rule_algorithm)i, (double)f->model, (double)f->ranks,
                                                             f->bandwidth * gb, f->latency_ms * ms) /
                                            ms,
                                        "formula", formulas[i]));
    *report = json_pack("{s:f, s:I, s:f, s:f, s:o}", "model_gb", (double)f->model / gb, "ranks", f->ranks, "bandwidth",
                        f->bandwidth, "latency_ms", f->latency_ms, "algorithms", list);
    return TESS_OK;
}

static const tess_form_part all_reduce_form[] = {
    {.text = "all-reduce of {model_gb:g} GB over {ranks} ranks at {bandwidth:g} GB/s and {latency_ms:g} ms\n"},
    {.list = "algorithms", .text = "{algorithm}\v  {ms:.3f} ms\t  {formula}\n"},
    {NULL, NULL}};

static tess_status moves(const advise_flags *f, json_t **report)
{
    json_t *list = json_array();
    for (int i = 0; i < tess_move_rules_n; i++) {
        const tess_move_rule *rule = &tess_move_rules[i];
        json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:f}", "from", rule->from, "to", rule->to, "operation",
                                              rule->operation, "gb",
                                              tess_move_bytes(rule, (double)f->model, (double)f->ranks) / gb));
    }
    *report = json_pack("{s:f, s:I, s:o}", "model_gb", (double)f->model / gb, "ranks", f->ranks, "moves", list);
    return TESS_OK;
}

static const tess_form_part moves_form[] = {
    {.text =
         "a tensor of {model_gb:g} GB over {ranks} ranks changes its placement; GB that a rank brings from others\n"},
    {.list = "moves", .text = "{from}\t  to {to}\t  {operation}\v  {gb:.3f}\n"},
    {NULL, NULL}};

static tess_status overlap(const advise_flags *f, json_t **report)
{
    const tess_overlap o = tess_overlap_layers((double)f->layers, f->compute_ms, f->exchange_ms);
    *report = json_pack("{s:I, s:f, s:f, s:f, s:f, s:f, s:f}", "layers", f->layers, "compute_ms", f->compute_ms,
                        "exchange_ms", f->exchange_ms, "without_ms", o.without, "with_ms", o.with, "speedup", o.speedup,
                        "saved", o.saved);
    return TESS_OK;
}

static const tess_form_part overlap_form[] = {
    {.text = "{layers} layers that compute {compute_ms:g} ms and communicate {exchange_ms:g} ms: {without_ms:.0f} ms "
             "one after the other, {with_ms:.0f} ms overlapped, {speedup:.2f}x, {saved:.1%} less\n"},
    {NULL, NULL}};

static tess_status buckets(const advise_flags *f, json_t **report)
{
    double bytes;
    const int flushes = tess_bucket_flushes((int)f->tensors, (double)f->bucket, &bytes);
    *report = json_pack("{s:I, s:f, s:f, s:i, s:f}", "tensors", f->tensors, "all_mib", bytes / mib, "bucket_mib",
                        (double)f->bucket / mib, "flushes", flushes, "ms", flushes * f->latency_ms);
    return TESS_OK;
}

static const tess_form_part buckets_form[] = {
    {.text = "{tensors} tensors of 4 KiB, 8 KiB, ...: {all_mib:.2f} MiB in buckets of {bucket_mib:g} MiB are "
             "{flushes} message{flushes:s}, {ms:.2f} ms of latency\n"
             "(one text prints 19.53 MB and three messages at 10 MB for 100 tensors; its algorithm gives 19.73 and "
             "two)\n"},
    {NULL, NULL}};

static tess_status scaling(const advise_flags *f, json_t **report)
{
    json_t *list = json_array();
    for (int i = 0; i < tess_scaling_rules_n; i++)
        json_array_append_new(list, json_pack("{s:s, s:f, s:f}", "strategy", tess_scaling_rules[i].strategy,
                                              "efficiency", tess_scaling_rules[i].efficiency, "speedup",
                                              tess_scaling_rules[i].efficiency * (double)f->ranks));
    *report = json_pack("{s:I, s:o}", "ranks", f->ranks, "strategies", list);
    return TESS_OK;
}

static const tess_form_part scaling_form[] = {
    {.text = "{ranks} GPUs are as fast as so many, by constants that nobody measured\n"},
    {.list = "strategies", .text = "{strategy}\v  {speedup:.2f}\v  {efficiency:.0%}\n"},
    {NULL, NULL}};

static const advise_rule rules[] = {
    {"volume", "bytes and time that a sharded step communicates",
     "--model --ranks --bandwidth --latency --operations --seconds", volume, volume_form},
    {"layers", "the same from a transformer's sizes", "--hidden --layers --batch --sequence --ranks --context", layers,
     layers_form},
    {"all-reduce", "ring, tree and naive all-reduce", "--model --ranks --bandwidth --latency", all_reduce,
     all_reduce_form},
    {"moves", "bytes of a tensor that changes its placement", "--model --ranks", moves, moves_form},
    {"overlap", "communication behind computation", "--layers --compute --exchange", overlap, overlap_form},
    {"buckets", "messages of buckets", "--tensors --bucket --latency", buckets, buckets_form},
    {"scaling", "the efficiencies that texts draw", "--ranks", scaling, scaling_form},
};
const advise_group advise_time = {rules, sizeof(rules) / sizeof(rules[0])};
