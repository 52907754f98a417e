#include "plan/context_plan.h"

#include <math.h>
#include <string.h>

#include "engine/batch/context_pieces.h"
#include "engine/model/adapter.h"
#include "engine/model/model_file.h"
#include "plan/memory_need.h"

/* ---- The estimate ---- */
static tess_context context_of(const tess_context_choice *choice, int rank)
{
    return (tess_context){
        .points = {.rank = rank, .degree = choice->degree}, .n_leaves = choice->n_leaves, .folded = choice->folded};
}

static tess_context_sizes sizes_of(const tess_context_case *of, const tess_context_choice *choice, int64_t window)
{
    const tess_context context = context_of(choice, 0);
    const int64_t real = of->rows * of->length, all = tess_context_filled(&context, real);
    return (tess_context_sizes){.n_heads = of->n_heads,
                                .n_kv_heads = of->n_kv_heads,
                                .head_size = of->head_size,
                                .n_tokens = all,
                                .length = of->length,
                                .n_filled = all - real,
                                .window = window};
}

/* One direction of some layers on the busiest rank. */
typedef struct busiest {
    double bytes, compute_s, exchange_s, total_s;
} busiest;

/* Raises *most to what a rank takes. */
static void raise_to(const tess_context_case *of, const tess_context_choice *choice, const tess_context_pass *pass,
                     busiest *most)
{
    const tess_context_speed *speed = &of->speed;
    const double bytes =
        (double)pass->elements * (double)tess_dtype_size(of->dtype) + (double)pass->floats * sizeof(float);
    most->bytes = fmax(most->bytes, bytes);
    if (speed->flops <= 0)
        return;
    const double compute_s = pass->flops / speed->flops,
                 exchange_s = bytes / speed->bytes_per_s + (double)pass->exchanges * speed->latency_s;
    most->compute_s = fmax(most->compute_s, compute_s);
    most->exchange_s = fmax(most->exchange_s, exchange_s);
    most->total_s =
        fmax(most->total_s, choice->way == TESS_WAY_RING ? fmax(compute_s, exchange_s) : compute_s + exchange_s);
}

static void add_layers(const tess_context_case *of, const tess_context_choice *choice, int64_t window, int64_t n_layers,
                       tess_context_estimate *e)
{
    const tess_context_sizes sizes = sizes_of(of, choice, window);
    const double n = (double)n_layers, forwards = of->recomputes ? 2 : 1;
    busiest forward = {.bytes = 0}, backward = {.bytes = 0};
    for (int rank = 0; rank < choice->degree && n_layers > 0; rank++) {
        const tess_context context = context_of(choice, rank);
        const tess_context_cost cost = tess_context_cost_of(&sizes, &context, choice->way);
        raise_to(of, choice, &cost.forward, &forward);
        raise_to(of, choice, &cost.backward, &backward);
    }
    e->forward_bytes += n * forward.bytes;
    e->backward_bytes += n * (backward.bytes + (forwards - 1) * forward.bytes);
    e->compute_s += n * (forwards * forward.compute_s + backward.compute_s);
    e->exchange_s += n * (forwards * forward.exchange_s + backward.exchange_s);
    e->step_s += n * (forwards * forward.total_s + backward.total_s);
}

/* The largest share of a rank's pairs, by the mean. Ranks that divide heads have all pairs of their heads. */
static double load_of(const tess_context_case *of, const tess_context_choice *choice)
{
    double most = 0, all = 0;
    const tess_context_sizes sizes = sizes_of(of, choice, of->n_full > 0 ? 0 : of->window);
    for (int rank = 0; rank < choice->degree; rank++) {
        const tess_context context = context_of(choice, rank);
        double share = tess_context_token_pairs(&sizes, &context, false);
        if (choice->way == TESS_WAY_ULYSSES) {
            int64_t begin, n;
            tess_cut_range((tess_cut){of->n_kv_heads, 1}, choice->degree, rank, &begin, &n);
            share = (double)n;
        }
        most = fmax(most, share);
        all += share;
    }
    return all > 0 ? most * choice->degree / all : 0;
}

tess_context_estimate tess_context_estimate_of(const tess_context_case *of, const tess_context_choice *choice)
{
    tess_context_estimate e = {.load = load_of(of, choice)};
    const tess_context own = context_of(choice, 0);
    e.tokens = tess_context_tokens(&own, of->rows * of->length);
    for (int rank = 0; rank < choice->degree; rank++) {
        tess_context context = context_of(choice, rank);
        context.n_leaves = 2 * choice->degree;
        const int64_t pairs = tess_context_piece_pairs(&context);
        e.piece_pairs = pairs > e.piece_pairs ? pairs : e.piece_pairs;
    }
    add_layers(of, choice, 0, of->n_full, &e);
    add_layers(of, choice, of->window, of->n_windowed, &e);
    if (of->speed.flops > 0) {
        const double other_s = of->other_flops * (of->recomputes ? 4.0 / 3 : 1) * (double)e.tokens / of->speed.flops;
        e.compute_s += other_s;
        e.step_s += other_s;
    }
    return e;
}

tess_context_rule tess_context_rule_of(int64_t hidden_size, int64_t n_layers, int64_t rows, int64_t length,
                                       tess_dtype dtype, int degree)
{
    const double row = (double)hidden_size * (double)tess_dtype_size(dtype), layers = (double)n_layers,
                 own = (double)rows * (double)(length / degree), hops = degree - 1;
    tess_context_rule rule = {.activations = 4 * (double)rows * (double)length * row * layers / degree,
                              .ring = own * 2 * row * hops * layers,
                              .gather = own * row * hops * layers};
    rule.total = 2 * (rule.ring + rule.gather);
    return rule;
}

/* ---- The report ---- */
enum { JSON_VERSION = 1, MOST_DEGREES = 5 };

const tess_form_part tess_context_form[] = {
    {.text =
         "{tokens} tokens in a micro-batch, {rows} row{rows:s} of {length}; {n_layers} layers with {n_heads} query "
         "heads "
         "and {n_kv_heads} key heads of {head_size} channels; {dtype}\n"
         "\n\vranks\t  method\t  order\v  tokens\v  activations\v  pairs\v  load\v  forward\v  backward[{timed:!}\v  "
         "compute\v  exchange\v  sum\v  speed]\n"
         "{*estimates}\v{ranks}\t  {method}\t  {order}\v  {tokens}\v  {activation_bytes:B}\v  {piece_pairs}\v  "
         "{load:.2f}\v  {forward_bytes:B}\v  {backward_bytes:B}[{step_ms:!}\v  {compute_ms:.1f} ms\v  "
         "{exchange_ms:.1f} "
         "ms\v  {step_ms:.1f} ms\v  {speed:.2f}]\n{/}"
         "\n  tokens       of a rank, with those that fill up its leaves (training.context_leaves, at least 2 for a "
         "rank)\n"
         "  activations  of rank 0, as a run counts them, with the work space of this host's kernels; -: no run has "
         "it\n"
         "  pairs        pairs of pieces of queries and keys of the busiest rank, if a row is cut in 2 pieces for a "
         "rank\n"
         "  load         pairs of a query and a key that it sees (ulysses: key heads) of the busiest rank, by the "
         "mean\n"
         "  forward      bytes that the busiest rank receives in all layers of a micro-batch; backward likewise\n"
         "[{timed:!}  compute      of the busiest rank, all layers and the head, without the optimizer; sum: with "
         "exchanges, which a ring hides\n"
         "  speed        1 rank's time by the sum\n]"
         "\nrule of thumb: keys and values as wide as the stream, circulated, and all outputs gathered\n"
         "\n\vranks\v  activations\v  ring\v  gather\v  total of forward and backward\n"
         "{*rule}\v{ranks}\v  {activations:B}\v  {ring:B}\v  {gather:B}\v  {total:B}\n{/}"},
    {NULL, NULL}};

static const char *const way_names[TESS_CONTEXT_WAYS] = {"gather", "ulysses", "ring"};

/* The method of each way in a configuration. */
static const int methods[TESS_CONTEXT_WAYS] = {TESS_CONTEXT_GATHER, TESS_CONTEXT_ULYSSES, TESS_CONTEXT_RING};

/* Sets a copy of the configuration to the ranks of a choice, to one rank along every other axis, and to one
 * micro-batch. */
static void choose(const tess_context_choice *choice, tess_config *c)
{
    c->parallelism.context_parallel_degree = choice->degree;
    c->parallelism.context_parallel_method = methods[choice->way];
    c->parallelism.context_parallel_load_balancer = choice->folded ? TESS_BALANCER_ZIGZAG : TESS_BALANCER_CONTIGUOUS;
    c->parallelism.tensor_parallel_degree = c->parallelism.pipeline_parallel_degree =
        c->parallelism.expert_parallel_degree = 1;
    c->parallelism.data_parallel_shard_degree = c->parallelism.data_parallel_replicate_degree = 1;
    c->activation_checkpoint.partition = false;
    c->training.context_leaves = choice->n_leaves;
    c->training.global_batch_size = c->training.local_batch_size;
}

/* Counts the activations of a dry rank. 0: a run refuses the choice. */
static tess_status count_activations(const tess_model_config *sizes, const tess_context_choice *choice, tess_config *c,
                                     double *bytes)
{
    tess_memory_of_rank need = {.work = 0};
    const tess_memory_plan plan = tess_memory_plan_of(c, choice->degree);
    tess_status status = tess_config_check_step(c, choice->degree);
    if (status == TESS_OK)
        status = tess_memory_predict_rank(sizes, &plan, 0, &need);
    *bytes = need.pool[TESS_POOL_ACTIVATIONS];
    if (status != TESS_E_INVALID && status != TESS_E_UNSUPPORTED)
        return status;
    tess_error_clear();
    return TESS_OK;
}

/* The configuration's leaves, or two for each rank if they are fewer. One rank alone needs no leaves. */
static int leaves_for(const tess_config *c, int degree)
{
    const int given = (int)c->training.context_leaves, least = degree > 1 ? 2 * degree : 1;
    return given > least ? given : least;
}

static tess_context_case case_of(const tess_config *c, const tess_model *model, const tess_context_speed *speed)
{
    const tess_model_config *m = tess_model_get_config(model);
    tess_context_case of = {.n_heads = m->n_heads,
                            .n_kv_heads = m->n_kv_heads,
                            .head_size = m->head_size,
                            .window = m->sliding_window,
                            .rows = c->training.local_batch_size,
                            .length = c->training.seq_len,
                            .dtype = tess_precision_dtype(c->training.mixed_precision_param),
                            .recomputes = c->activation_checkpoint.mode == TESS_RECOMPUTE_FULL,
                            .other_flops = tess_model_flops_per_token(model, 0),
                            .speed = speed != NULL ? *speed : (tess_context_speed){.flops = 0}};
    for (int64_t layer = 0; layer < m->n_layers; layer++)
        *(tess_model_config_window(m, layer) > 0 ? &of.n_windowed : &of.n_full) += 1;
    return of;
}

static json_t *describe(const tess_context_case *of, const tess_context_choice *choice, double activations,
                        double alone_s)
{
    const tess_context_estimate e = tess_context_estimate_of(of, choice);
    const char *order = choice->degree == 1 || choice->way == TESS_WAY_ULYSSES ? ""
                        : choice->folded                                       ? "zigzag"
                                                                               : "contiguous";
    json_t *row =
        json_pack("{s:i, s:s, s:s, s:I, s:f, s:f, s:f}", "ranks", choice->degree, "method",
                  choice->degree == 1 ? "" : way_names[choice->way], "order", order, "tokens", (json_int_t)e.tokens,
                  "load", e.load, "forward_bytes", e.forward_bytes, "backward_bytes", e.backward_bytes);
    if (activations > 0)
        json_object_set_new(row, "activation_bytes", json_real(activations));
    if (order[0] != '\0') /* ranks divide queries */
        json_object_set_new(row, "piece_pairs", json_integer((json_int_t)e.piece_pairs));
    if (e.step_s > 0)
        json_object_update_new(row,
                               json_pack("{s:f, s:f, s:f, s:f}", "compute_ms", e.compute_s * 1e3, "exchange_ms",
                                         e.exchange_s * 1e3, "step_ms", e.step_s * 1e3, "speed", alone_s / e.step_s));
    return row;
}

static tess_status add_choice(const tess_config *config, const tess_context_case *of, const tess_model_config *sizes,
                              const tess_context_choice *choice, json_t *rows)
{
    const tess_context_choice alone = {.degree = 1, .n_leaves = 1, .way = TESS_WAY_ULYSSES};
    double activations;
    TESS_AUTO(tess_config_free) tess_config c = {0};
    TESS_TRY(tess_config_copy(config, &c));
    choose(choice, &c);
    TESS_TRY(count_activations(sizes, choice, &c, &activations));
    json_array_append_new(rows, describe(of, choice, activations, tess_context_estimate_of(of, &alone).step_s));
    return TESS_OK;
}

static tess_status add_degree(const tess_config *config, const tess_context_case *of, const tess_model_config *sizes,
                              int degree, json_t *rows)
{
    static const tess_context_choice ways[] = {{.way = TESS_WAY_ULYSSES, .folded = true},
                                               {.way = TESS_WAY_GATHER, .folded = true},
                                               {.way = TESS_WAY_GATHER},
                                               {.way = TESS_WAY_RING, .folded = true},
                                               {.way = TESS_WAY_RING}};
    for (size_t i = 0; i < (degree == 1 ? 1 : sizeof(ways) / sizeof(ways[0])); i++) {
        tess_context_choice choice = ways[i];
        choice.degree = degree;
        choice.n_leaves = leaves_for(config, degree);
        TESS_TRY(add_choice(config, of, sizes, &choice, rows));
    }
    return TESS_OK;
}

/* Lists 1, 2, 4, 8 and the configuration's own number, which is a power of two, in order. Returns how many they are. */
static int list_degrees(int own, int degrees[MOST_DEGREES])
{
    int n = 0;
    for (int degree = 1; degree <= 8; degree *= 2)
        degrees[n++] = degree;
    if (own > 8)
        degrees[n++] = own;
    return n;
}

static tess_status describe_model(const tess_config *config, const tess_model *model, const tess_context_speed *speed,
                                  json_t *report)
{
    const tess_context_case of = case_of(config, model, speed);
    const int64_t hidden = tess_model_get_config(model)->hidden_size, n_layers = of.n_full + of.n_windowed;
    int degrees[MOST_DEGREES];
    const int n = list_degrees((int)config->parallelism.context_parallel_degree, degrees);
    json_t *estimates = json_array(), *rules = json_array();
    json_object_update_new(
        report, json_pack("{s:i, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:b, s:o, s:o}", "version", JSON_VERSION,
                          "tokens", (json_int_t)(of.rows * of.length), "rows", (json_int_t)of.rows, "length",
                          (json_int_t)of.length, "n_layers", (json_int_t)n_layers, "n_heads", (json_int_t)of.n_heads,
                          "n_kv_heads", (json_int_t)of.n_kv_heads, "head_size", (json_int_t)of.head_size, "dtype",
                          tess_dtype_name(of.dtype), "timed", speed != NULL, "estimates", estimates, "rule", rules));
    for (int i = 0; i < n; i++) {
        const tess_context_rule rule = tess_context_rule_of(hidden, n_layers, of.rows, of.length, of.dtype, degrees[i]);
        TESS_TRY(add_degree(config, &of, tess_model_get_config(model), degrees[i], estimates));
        json_array_append_new(rules, json_pack("{s:i, s:f, s:f, s:f, s:f}", "ranks", degrees[i], "activations",
                                               rule.activations, "ring", rule.ring, "gather", rule.gather, "total",
                                               rule.total));
    }
    return TESS_OK;
}

tess_status tess_context_describe(tess_mem *mem, const tess_config *config, const tess_context_speed *speed,
                                  json_t **report)
{
    tess_model_config sizes;
    TESS_AUTO(tess_model_destroy) tess_model *model = NULL;
    TESS_AUTO(tess_config_free) tess_config c = {0};
    *report = NULL;
    TESS_CHECK(config->model.config[0] != '\0' || config->model.path[0] != '\0', TESS_E_INVALID,
               "--context: the configuration names no model: set model.config or model.path");
    TESS_CHECK((config->parallelism.context_parallel_degree & (config->parallelism.context_parallel_degree - 1)) == 0,
               TESS_E_INVALID, "parallelism.context_parallel_degree: %lld; it is a power of two",
               (long long)config->parallelism.context_parallel_degree);
    TESS_TRY(tess_config_copy(config, &c));
    if (c.training.mixed_precision_param == TESS_PRECISION_AUTO)
        c.training.mixed_precision_param = TESS_PRECISION_BF16;
    TESS_TRY(tess_config_read_model(&c, &sizes));
    TESS_TRY(tess_model_create(mem, &sizes, &model));
    tess_config_freeze(&c, model);
    *report = json_object();
    const tess_status status = describe_model(&c, model, speed, *report);
    if (status != TESS_OK)
        json_decref(*report);
    *report = status == TESS_OK ? *report : NULL;
    return status;
}
