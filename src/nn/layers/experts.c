/* A mixture of experts and its backward pass, in place of a layer's feed-forward.
 *
 *     y = norm(h2);  p = softmax(y Wrouter);  w = the K largest p of a token, each perhaps divided by their sum
 *     h3 = h2 + sum over a token's experts of w (silu(y Wgate) * y Wup) Wdown
 *
 * An expert that all tokens share is a feed-forward part after this one, parallel to it (transformer_layer.c).
 *
 * The router's logits and p are float32. Rows are sorted by (expert, token) once, and no row is dropped. The sum over
 * experts runs in float32, experts ascending, and is rounded once. So a token's bits depend on its own row alone, in
 * training, evaluation and generation. A token whose p has a NaN goes to the first K experts with weights of NaN, so
 * that its output and the loss are NaN: as without experts, `numbers` decides what follows.
 *
 * Ranks that share the layer cut each expert's F channels as those of a feed-forward. They route all tokens, each by
 * itself and with equal results. */
#include "nn/layers/experts.h"

#include <stdio.h>

#include "base/mem/dry_mem.h"
#include "device/device.h"
#include "nn/layers/expert_exchange.h"

/* ---- Routing ---- */
/* The router is no map of a layer: it has no adapter and no fp8, and its sums are in float32. */
static tess_layer_call call_of_router(const tess_layer_call *c)
{
    tess_layer_call router = *c;
    router.rounds = false;
    return router;
}

static tess_status route(const tess_layer_call *c, const void *y, const tess_experts_tensors *w)
{
    const tess_experts_params *p = c->own;
    const tess_layer_call router = call_of_router(c);
    const int64_t T = c->T, E = p->n_experts, K = p->top_k;
    TESS_CHECK(T <= INT32_MAX / K, TESS_E_INVALID,
               "%s: %lld tokens of %lld experts each are more than the 2^31 - 1 rows of a micro-batch: cut it",
               c->block->name, (long long)T, (long long)K);
    TESS_TRY(tess_linear_own_forward(&router, &p->router, y, w->probs, TESS_F32));
    TESS_TRY(c->kernels->route(c->stream, &(tess_route_args){.logits = w->probs,
                                                             .bias = p->bias >= 0 ? c->w[p->bias] : NULL,
                                                             .bias_dtype = TESS_F32,
                                                             .probs = w->probs,
                                                             .chosen = w->chosen,
                                                             .weights = w->weights,
                                                             .lse = w->lse,
                                                             .T = T,
                                                             .E = E,
                                                             .K = K,
                                                             .rule = p->rule}));
    return c->kernels->sort_rows(c->stream, &(tess_sort_rows_args){.chosen = w->chosen,
                                                                   .weights = w->weights,
                                                                   .ends = w->ends,
                                                                   .place = w->place,
                                                                   .token = w->token,
                                                                   .gate = w->gates,
                                                                   .T = T,
                                                                   .E = E,
                                                                   .K = K,
                                                                   .leaves = c->n_leaves});
}

/* x (N, C) = the rows of y (T, C) that experts read. */
static tess_status sort_inputs(const tess_layer_call *c, const void *y, const tess_experts_tensors *w)
{
    const tess_experts_params *p = c->own;
    return c->kernels->gather_rows(
        c->stream, &(tess_gather_rows_args){.x = y,
                                            .index = w->token,
                                            .y = w->x,
                                            .n = c->T * p->top_k,
                                            .row_bytes = c->block->hidden_size * (int64_t)tess_dtype_size(c->dtype)});
}

/* Computes to (R, C) = base + the sum over each token's experts of gates times rows (N, C). gates NULL: 1 each; base
 * NULL: 0 */
static tess_status combine(const tess_layer_call *c, const tess_experts_tensors *w, const void *rows,
                           const float *gates, const void *base, void *to)
{
    const tess_experts_params *p = c->own;
    int64_t begin, R = tess_own_rows(c, &begin);
    return c->kernels->combine_rows(c->stream, &(tess_combine_rows_args){.rows = rows,
                                                                         .gate = gates,
                                                                         .place = w->place + begin * p->top_k,
                                                                         .base = base,
                                                                         .y = to,
                                                                         .T = R,
                                                                         .K = p->top_k,
                                                                         .C = c->block->hidden_size,
                                                                         .dtype = c->dtype});
}

/* ---- Experts ---- */
/* Whether products may wait to be computed as a group. */
static bool may_group(const tess_layer_call *c)
{
    const bool whole = c->points->degree == 1 || tess_experts_are_divided(c->own);
    return whole && c->config->lora.rank == 0 && !c->rounds && c->decode == NULL;
}

/* The rows of this rank's experts: inputs or their gradients, outputs or their gradients. */
static void *own_x(const tess_experts_params *p, const tess_experts_tensors *w)
{
    return tess_experts_are_divided(p) ? w->own_x : w->x;
}

static void *own_out(const tess_experts_params *p, const tess_experts_tensors *w)
{
    return tess_experts_are_divided(p) ? w->own_out : w->out;
}

/* One expert with its rows of one source, or of one leaf of it. */
typedef struct expert_rows {
    tess_layer_call call;
    const tess_expert *expert;
    void *x, *gate, *up, *dact, *act, *out;
} expert_rows;

/* Returns the rows of `n` leaves of a source, from `leaf` on. Tensor-parallel ranks that have a part of each expert
 * have all rows of it, whatever their rows of the stream. */
static expert_rows leaves_of(const tess_layer_call *c, const tess_experts_tensors *w, const tess_expert_ends *ends,
                             int64_t source, int64_t e, int64_t leaf, int64_t n)
{
    const tess_experts_params *p = c->own;
    const int64_t *at = &ends->at[(source * p->n_own + e) * ends->leaves + leaf], begin = at[0],
                  C = c->block->hidden_size, F = p->size;
    expert_rows r = {*c,
                     &p->experts[e],
                     tess_at(c, own_x(p, w), begin * C),
                     tess_at(c, w->gate, begin * (p->joined ? 2 * F : F)),
                     p->joined ? NULL : tess_at(c, w->up, begin * F),
                     p->joined && w->dact != NULL ? tess_at(c, w->dact, begin * F) : NULL,
                     tess_at(c, w->act, begin * F),
                     tess_at(c, own_out(p, w), begin * C)};
    r.call.T = at[n] - begin;
    r.call.n_leaves = 1;
    r.call.states_leaf = false; /* these products have any number of rows */
    r.call.rows = (tess_cut){r.call.T, 0};
    r.call.split.by_rows = false;
    return r;
}

static expert_rows rows_of(const tess_layer_call *c, const tess_experts_tensors *w, const tess_expert_ends *ends,
                           int64_t source, int64_t e)
{
    return leaves_of(c, w, ends, source, e, 0, ends->leaves);
}

/* gate, up (n, F) = x Wgate, x Wup;  act (n, F) = silu(gate) * up;  out (n, C) = act Wdown */
static tess_status gate_forward(const expert_rows *r)
{
    return tess_linear_forward(&r->call, &r->expert->gate, r->x, r->gate);
}

static tess_status up_forward(const expert_rows *r)
{
    return tess_linear_act_forward(&r->call, &r->expert->up, r->x, r->gate, r->up, r->act);
}

static tess_status down_forward(const expert_rows *r)
{
    return tess_linear_forward(&r->call, &r->expert->down, r->act, r->out);
}

/* The number of rows of this rank's experts. */
static int64_t own_rows(const tess_experts_params *p, const tess_expert_ends *ends)
{
    return ends->at[p->sources * p->n_own * ends->leaves];
}

/* act (own rows, F) of all experts, if gate and up are one map. */
static tess_status clamped_forward(const tess_layer_call *c, const tess_experts_tensors *w,
                                   const tess_expert_ends *ends)
{
    const tess_experts_params *p = c->own;
    return c->kernels->clamped_glu_forward(c->stream, &(tess_clamped_glu_args){.x = w->gate,
                                                                               .y = w->act,
                                                                               .T = own_rows(p, ends),
                                                                               .C = 2 * p->size,
                                                                               .alpha = p->alpha,
                                                                               .limit = p->limit,
                                                                               .dtype = c->dtype});
}

static tess_status dact_backward(const expert_rows *r)
{
    return tess_linear_backward_input(&r->call, &r->expert->down, r->out, r->dact);
}

static tess_status clamped_backward(const tess_layer_call *c, const tess_experts_tensors *w,
                                    const tess_expert_ends *ends)
{
    const tess_experts_params *p = c->own;
    return c->kernels->clamped_glu_backward(c->stream, &(tess_clamped_glu_grad_args){.x = w->gate,
                                                                                     .dy = w->dact,
                                                                                     .dx = w->gate,
                                                                                     .y = w->act,
                                                                                     .T = own_rows(p, ends),
                                                                                     .C = 2 * p->size,
                                                                                     .alpha = p->alpha,
                                                                                     .limit = p->limit,
                                                                                     .dtype = c->dtype});
}

/* The same lines backwards; `out` holds its gradient, and x becomes one. */
static tess_status act_backward(const expert_rows *r)
{
    return tess_linear_act_backward(&r->call, &r->expert->down, r->out, r->gate, r->up, r->act, r->call.fusing);
}

static tess_status params_backward(const expert_rows *r)
{
    TESS_TRY(tess_linear_backward_params(&r->call, &r->expert->down, r->act, r->out));
    TESS_TRY(tess_linear_backward_params(&r->call, &r->expert->gate, r->x, r->gate));
    return r->up != NULL ? tess_linear_backward_params(&r->call, &r->expert->up, r->x, r->up) : TESS_OK;
}

static tess_status inputs_backward(const expert_rows *r)
{
    const tess_linear_grad terms[] = {{&r->expert->gate, r->gate}, {&r->expert->up, r->up}};
    return tess_linear_backward_inputs(&r->call, terms, r->up != NULL ? 2 : 1, r->call.fusing, r->x);
}

/* Whether a step of an expert runs: one without rows has only gradients of its weights, which are 0. When ranks
 * rehearse a step, those with an empty micro-batch exchange as often as those whose first K experts have all tokens. */
static bool runs(const tess_layer_call *c, const expert_rows *r, int64_t e, bool params)
{
    const tess_experts_params *p = c->own;
    return r->call.T > 0 || params || (c->T == 0 && e < p->top_k && tess_mem_is_dry(tess_stream_mem(c->stream)));
}

/* Does a step for every expert and source, as one group of products where they read only stored values of this rank. */
static tess_status each_expert(const tess_layer_call *c, const tess_experts_tensors *w, const tess_expert_ends *ends,
                               tess_status (*step)(const expert_rows *))
{
    const tess_experts_params *p = c->own;
    tess_product_list list;
    tess_layer_call call = *c;
    call.list = may_group(c) ? &list : NULL;
    list.n = 0;
    for (int64_t s = 0; s < p->sources; s++)
        for (int64_t e = 0; e < p->n_own; e++) {
            const expert_rows r = rows_of(&call, w, ends, s, e);
            if (runs(c, &r, e, step == params_backward))
                TESS_TRY(step(&r));
        }
    return tess_linear_flush(&call);
}

/* Shows what the experts of this rank have computed. Tensor-parallel ranks that have a part of each expert show
 * nothing: each has other columns. */
static void show_outputs(const tess_layer_call *c, const tess_experts_tensors *w, const tess_expert_ends *ends)
{
    const tess_experts_params *p = c->own;
    const bool whole = c->points->degree == 1 || tess_experts_are_divided(p);
    for (int64_t i = 0; i < p->sources * p->n_own && whole && c->watch->see != NULL; i++) {
        char what[48];
        const expert_rows r = rows_of(c, w, ends, i / p->n_own, i % p->n_own);
        snprintf(what, sizeof(what), "output of expert %lld",
                 (long long)(c->expert_points->rank * p->n_own + i % p->n_own));
        c->watch->see(c->watch->self, c->unit, what, r.out, c->dtype, 0, r.call.T, c->block->hidden_size);
    }
}

/* ---- Gradients of weights that are sums of several leaves or micro-batches ---- */
/* An expert has as many parameters at most: weights, biases, and the two factors of adapters. */
enum { N_GRADIENTS = 3 * 4 };

/* An expert with its parameters in arrays of its own, so that their gradients can go elsewhere. */
typedef struct moved_expert {
    tess_expert expert;
    const void *w[N_GRADIENTS];
    float *dw[N_GRADIENTS];
    int64_t size[N_GRADIENTS];
    int n;
} moved_expert;

/* Moves the parameter from `first` on: one tensor may have those of all experts. */
static void move_param(const tess_layer_call *c, moved_expert *m, int *index, int64_t first, int64_t size)
{
    m->w[m->n] = tess_at(c, c->w[*index], first);
    m->dw[m->n] = c->dw[*index] != NULL ? c->dw[*index] + first : NULL;
    m->size[m->n] = size;
    *index = m->n++;
}

static void move_map(const tess_layer_call *c, moved_expert *m, tess_linear *map)
{
    if (map->weight < 0)
        return;
    move_param(c, m, &map->weight, map->offset, map->n_in * map->n_out);
    if (map->bias >= 0)
        move_param(c, m, &map->bias, map->first, map->n_out);
    if (map->adapter.rank > 0) {
        move_param(c, m, &map->adapter.a, 0, map->adapter.rank * map->n_in);
        move_param(c, m, &map->adapter.b, 0, map->adapter.rank * map->n_out);
    }
    map->offset = map->first = 0;
}

static moved_expert move_expert(const tess_layer_call *c, const tess_expert *expert)
{
    moved_expert m = {.expert = *expert, .n = 0};
    move_map(c, &m, &m.expert.gate);
    move_map(c, &m, &m.expert.up);
    move_map(c, &m, &m.expert.down);
    return m;
}

/* Elements of an expert's gradients. */
static int64_t count_gradients(const tess_expert *x)
{
    const tess_linear *const maps[] = {&x->gate, &x->up, &x->down};
    int64_t n = 0;
    for (int i = 0; i < 3; i++)
        n += maps[i]->n_in * maps[i]->n_out + maps[i]->n_out + maps[i]->adapter.rank * (maps[i]->n_in + maps[i]->n_out);
    return n;
}

/* Computes the sum of an expert's gradients over leaves [begin, end), source by source, as the tree of leaves and
 * micro-batches has it: the sum of both halves. A leaf without rows for the expert adds zeros, a source without tokens
 * nothing. *any: whether the gradients were written. */
static tess_status sum_leaves(const tess_layer_call *c, const tess_experts_tensors *w, const tess_expert_ends *ends,
                              int64_t e, moved_expert m, int64_t begin, int64_t end, float *room, bool *any)
{
    if (end - begin == 1) {
        const int64_t source = begin / ends->leaves;
        expert_rows r = leaves_of(c, w, ends, source, e, begin % ends->leaves, 1);
        *any = ends->has[source];
        r.expert = &m.expert;
        r.call.w = m.w;
        r.call.dw = m.dw;
        TESS_TRY(*any ? params_backward(&r) : TESS_OK);
        return tess_linear_flush(c); /* before it is added */
    }
    const int64_t middle = (begin + end) / 2;
    moved_expert second = m;
    bool has_second;
    TESS_TRY(sum_leaves(c, w, ends, e, m, begin, middle, room, any));
    for (int i = 0; i < m.n && *any; i++)
        if (m.dw[i] != NULL) {
            second.dw[i] = room;
            room += m.size[i];
        }
    TESS_TRY(sum_leaves(c, w, ends, e, second, middle, end, room, &has_second));
    for (int i = 0; i < m.n && *any && has_second; i++)
        if (m.dw[i] != NULL)
            TESS_TRY(c->kernels->add(
                c->stream,
                &(tess_add_args){.a = m.dw[i], .b = second.dw[i], .y = m.dw[i], .n = m.size[i], .dtype = TESS_F32}));
    *any |= has_second;
    return TESS_OK;
}

/* The gradients of all experts' weights, each the sum over the leaves of all sources. */
static tess_status gradients(const tess_layer_call *c, const tess_experts_tensors *w, const tess_expert_ends *ends)
{
    const tess_experts_params *p = c->own;
    tess_product_list list = {.n = 0};
    tess_layer_call call = *c;
    const int64_t n = p->sources * ends->leaves;
    if (n == 1)
        return each_expert(c, w, ends, params_backward);
    call.list = may_group(c) ? &list : NULL;
    for (int64_t e = 0; e < p->n_own; e++) {
        bool any;
        TESS_TRY(sum_leaves(&call, w, ends, e, move_expert(c, &p->experts[e]), 0, n, w->partial, &any));
        if (!any) {
            const expert_rows r = rows_of(c, w, ends, 0, e);
            TESS_TRY(params_backward(&r));
        }
    }
    return TESS_OK;
}

/* ---- The part ---- */
/* Whether backward needs the part's normed input: for the gradients of the router or of an expert. That may be an
 * expert of another rank. */
static bool reads_input(const tess_layer_call *c)
{
    const tess_experts_params *p = c->own;
    bool reads = tess_wants(c, p->router.weight) || tess_experts_are_divided(p);
    for (int64_t e = 0; e < p->n_own && !reads; e++)
        reads = tess_linear_reads_input(c, &p->experts[e].gate) ||
                (!p->joined && tess_linear_reads_input(c, &p->experts[e].up));
    return reads;
}

static tess_status experts_forward(const tess_layer_call *c, const tess_tensors *t, const void *before, unsigned groups)
{
    const tess_experts_params *p = c->own;
    const tess_experts_tensors *w = t->own;
    const bool again = c->dw != NULL;
    const void *y = t->y;
    const tess_expert_ends ends = tess_expert_ends_in(p, c->n_leaves, t->host);

    /* h2 (R, C) = h + branch;  y = norm(h2), which backward also reads */
    if (groups & TESS_GROUP_RESIDUAL)
        TESS_TRY(tess_norm_input(c, &p->norm, t, before, w->stats, &y));
    else if (groups & TESS_GROUP_FEED_FORWARD || reads_input(c))
        TESS_TRY(tess_norm_again(c, &p->norm, t, &y));
    if (!(groups & TESS_GROUP_FEED_FORWARD))
        return TESS_OK;

    /* The experts of each token;  x (N, C) = y of each sorted row;  out (N, C) = its expert's output */
    TESS_TRY(route(c, y, w));
    if (!again) {
        tess_layer_show_floats(c, "router probabilities", w->probs, c->T, p->n_experts);
        tess_layer_show_floats(c, "weights of experts", w->weights, c->T, p->top_k);
    }
    if (!again)
        TESS_TRY(tess_experts_meet(c, w, &ends));
    TESS_TRY(sort_inputs(c, y, w));
    TESS_TRY(tess_experts_send(c, &ends, w->x, w->own_x));
    TESS_TRY(each_expert(c, w, &ends, gate_forward));
    TESS_TRY(p->joined ? clamped_forward(c, w, &ends) : each_expert(c, w, &ends, up_forward));
    TESS_TRY(each_expert(c, w, &ends, down_forward));
    if (!again)
        show_outputs(c, w, &ends);
    TESS_TRY(tess_experts_return(c, &ends, w->own_out, w->out));
    if (again)
        return TESS_OK;

    /* branch (R, C) = the weighted sum over each token's experts */
    TESS_TRY(combine(c, w, w->out, w->gates, NULL, t->branch));
    if (!p->lends_norm)
        tess_layer_show(c, "feed-forward output", t->branch, c->block->hidden_size);
    return TESS_OK;
}

/* ---- Auxiliary losses ---- */
/* The auxiliary losses are those of a whole micro-batch, whatever number of ranks divides its tokens. */
typedef struct whole_batch {
    int64_t T, n_targets;
    int32_t rows[TESS_MAX_EXPERTS]; /* (E) of each expert */
    const int32_t *ends;            /* (E) their ends, in memory of the device */
} whole_batch;

static int64_t count_targets(const tess_layer_call *c)
{
    int64_t n = 0;
    for (int64_t i = 0; i < c->T; i++)
        n += c->batch->targets[i] >= 0;
    return n;
}

/* Gathers each rank's rows of each expert, and targets, into w->met. */
static tess_status gather_numbers(const tess_layer_call *c, const tess_experts_tensors *w, const whole_batch *own)
{
    const tess_points *points = &c->context->points;
    const int64_t E = ((const tess_experts_params *)c->own)->n_experts, degree = points->degree;
    int32_t *mine = w->met + points->rank * (E + 1), n_targets = (int32_t)own->n_targets;
    TESS_TRY(tess_upload(c->stream, mine, own->rows, (size_t)E * sizeof(int32_t)));
    TESS_TRY(tess_upload(c->stream, mine + E, &n_targets, sizeof(int32_t)));
    return tess_meet_over(points, "loads", sizeof(int32_t), (tess_matrix_box){{degree, 1}, {E + 1, 0}, mine, E + 1},
                          (tess_matrix_box){{degree, 0}, {E + 1, 0}, w->met, E + 1});
}

/* Finds the numbers of the whole micro-batch from those of this rank's tokens. */
static tess_status meet_batch(const tess_layer_call *c, const tess_experts_tensors *w, const tess_expert_ends *ends,
                              whole_batch *b)
{
    const tess_experts_params *p = c->own;
    const int64_t E = p->n_experts, degree = c->context->points.degree;
    *b = (whole_batch){.T = c->T, .n_targets = count_targets(c), .ends = w->ends};
    for (int64_t e = 0; e < E; e++)
        b->rows[e] = tess_expert_rows_of(ends, e);
    if (w->met == NULL)
        return TESS_OK;
    int32_t at[TESS_MAX_EXPERTS + 1], end = 0;
    b->ends = w->met + degree * (E + 1);
    b->T *= degree;
    if (degree > 1)
        TESS_TRY(gather_numbers(c, w, b));
    for (int64_t r = 0; r < degree && !tess_mem_is_dry(tess_stream_mem(c->stream)); r++) {
        if (r == c->context->points.rank)
            continue;
        TESS_TRY(tess_fetch(c->stream, at, w->met + r * (E + 1), (size_t)(E + 1) * sizeof(int32_t)));
        for (int64_t e = 0; e < E; e++)
            b->rows[e] += at[e];
        b->n_targets += at[E];
    }
    for (int64_t e = 0; e < E; e++)
        at[e] = end += b->rows[e];
    return tess_upload(c->stream, w->met + degree * (E + 1), at, (size_t)E * sizeof(int32_t));
}

/* Adds the auxiliary losses of T tokens from `first` on: balance E sum of (n/T) (sum of p / T) over experts, where n is
 * an expert's number of tokens, and z times the mean of lse^2. The means are those over all tokens of the micro-batch,
 * so the sum over its leaves is its loss, in any order. They count once for each target token. */
static tess_status add_losses(const tess_layer_call *c, const tess_experts_tensors *w, const whole_batch *b,
                              int64_t first, int64_t T)
{
    const tess_experts_params *p = c->own;
    const int64_t E = p->n_experts;
    struct {
        double lse;
        float probs[TESS_MAX_EXPERTS];
    } sums;
    double balance = 0;
    TESS_TRY(c->kernels->column_sum(
        c->stream,
        &(tess_column_sum_args){
            .dy = w->probs + first * E, .stride = E, .db = (float *)w->sums + 2, .T = T, .C = E, .dtype = TESS_F32}));
    if (p->z > 0)
        TESS_TRY(c->kernels->row_sumsq(
            c->stream, &(tess_row_sumsq_args){.x = w->lse + first, .out = (double *)w->sums, .rows = 1, .C = T}));
    if (tess_mem_is_dry(tess_stream_mem(c->stream)))
        return TESS_OK;
    TESS_TRY(tess_fetch(c->stream, &sums, w->sums, (size_t)(E + 2) * sizeof(float)));
    for (int64_t e = 0; e < E; e++)
        balance += p->balance > 0 ? (double)b->rows[e] * (double)sums.probs[e] : 0;
    const double mean = p->balance * (double)E * balance / (double)b->T / (double)b->T +
                        (p->z > 0 ? p->z * sums.lse / (double)b->T : 0);
    tess_exact_add(&c->loads->aux, c->routers > 0 ? mean * (double)b->n_targets : 0);
    return TESS_OK;
}

/* Adds the tokens of each expert, and the auxiliary losses. */
static tess_status add_loads(const tess_layer_call *c, const tess_experts_tensors *w, const tess_expert_ends *ends,
                             const whole_batch *b)
{
    const tess_experts_params *p = c->own;
    const int64_t E = p->n_experts, T = c->T / c->n_leaves;
    if (c->loads == NULL || c->T == 0)
        return TESS_OK;
    for (int64_t leaf = 0; leaf < c->n_leaves && w->sums != NULL; leaf++)
        TESS_TRY(add_losses(c, w, b, leaf * T, T));
    for (int64_t e = 0; e < E && !tess_mem_is_dry(tess_stream_mem(c->stream)); e++)
        c->loads->counts[c->block->layer * E + e] += tess_expert_rows_of(ends, e);
    return TESS_OK;
}

/* dlogits (T, E) from the gradients of the weights of sorted rows, which are in w->gates, and from the auxiliary
 * losses. These count once for each target token of the micro-batch, as the mean of a step's loss does. */
static tess_status route_backward(const tess_layer_call *c, const tess_experts_tensors *w, const whole_batch *b)
{
    const tess_experts_params *p = c->own;
    const double T = (double)b->T, E = (double)p->n_experts;
    const double factor = (double)b->n_targets * (double)c->routers;
    return c->kernels->route_backward(
        c->stream, &(tess_route_grad_args){.probs = w->probs,
                                           .chosen = w->chosen,
                                           .place = w->place,
                                           .weights = w->weights,
                                           .dgate = w->gates,
                                           .ends = p->balance > 0 ? b->ends : NULL,
                                           .lse = w->lse,
                                           .balance = c->T > 0 ? (float)(factor * p->balance * E / T / T) : 0,
                                           .z = c->T > 0 ? (float)(factor * p->z * 2 / T) : 0,
                                           .dlogits = w->dlogits,
                                           .T = c->T,
                                           .E = p->n_experts,
                                           .K = p->top_k,
                                           .rule = p->rule,
                                           .dtype = c->dtype});
}

/* The stream's gradient is computed in any case: attention reads dh2. */
static tess_status experts_backward(const tess_layer_call *c, const tess_tensors *t, bool inputs,
                                    TESS_UNUSED bool want_dh)
{
    const tess_experts_params *p = c->own;
    const tess_experts_tensors *w = t->own;
    const tess_layer_call router = call_of_router(c);
    const void *dh3, *y = t->y; /* (T, C) */
    const tess_expert_ends ends = tess_expert_ends_in(p, c->n_leaves, t->host);
    whole_batch batch;

    /* out (N, C) = w dh3, and the gradients of w: dh3 out;  from these, dlogits (T, E) */
    if (inputs) {
        TESS_TRY(tess_stream_gather(c, t->dout, c->split.stream, &dh3));
        TESS_TRY(c->kernels->combine_backward(c->stream, &(tess_combine_grad_args){.dy = dh3,
                                                                                   .rows = w->out,
                                                                                   .gate = w->gates,
                                                                                   .token = w->token,
                                                                                   .drows = w->out,
                                                                                   .dgate = w->gates,
                                                                                   .n = c->T * p->top_k,
                                                                                   .C = c->block->hidden_size,
                                                                                   .dtype = c->dtype}));
        TESS_TRY(meet_batch(c, w, &ends, &batch));
        TESS_TRY(route_backward(c, w, &batch));
        TESS_TRY(add_loads(c, w, &ends, &batch));
        TESS_TRY(tess_experts_send(c, &ends, w->out, w->own_out));
    }

    /* The gradients of all weights;  x (N, C) becomes the gradient of each row's input */
    if (reads_input(c)) {
        if (c->block->parts[c->block->n_parts - 1].own != p) /* a later part has overwritten what forward left in y */
            TESS_TRY(tess_norm_again(c, &p->norm, t, &y));
        TESS_TRY(sort_inputs(c, y, w));
        TESS_TRY(tess_experts_send(c, &ends, w->x, w->own_x));
    }
    if (inputs)
        TESS_TRY(each_expert(c, w, &ends, p->joined ? dact_backward : act_backward));
    if (inputs && p->joined)
        TESS_TRY(clamped_backward(c, w, &ends));
    TESS_TRY(gradients(c, w, &ends));
    if (inputs) {
        TESS_TRY(each_expert(c, w, &ends, inputs_backward));
        TESS_TRY(tess_experts_return(c, &ends, own_x(p, w), w->x));
    }
    TESS_TRY(tess_linear_own_backward_params(&router, &p->router, y, w->dlogits, false));

    /* dy (R, C) = dlogits Wrouter^T + the sum over each token's experts;  dh2 = dh3 + norm'(dy) at h2 */
    if (inputs) {
        tess_layer_call own = router;
        int64_t begin;
        own.T = tess_own_rows(c, &begin);
        TESS_TRY(tess_linear_own_backward_input(&own, &p->router, tess_at(c, w->dlogits, begin * p->n_experts), t->dy));
        if (p->lends_norm)
            TESS_TRY(c->kernels->add(
                c->stream,
                &(tess_add_args){
                    .a = t->dy, .b = t->dsum, .y = t->dy, .n = own.T * c->block->hidden_size, .dtype = c->dtype}));
        TESS_TRY(combine(c, w, w->x, NULL, t->dy, t->dy));
    } else if (!tess_norm_trains(c, &p->norm)) {
        return TESS_OK;
    }
    return tess_norm_backward(c, &p->norm, t->in, w->stats, t->dy, inputs ? t->dout : NULL,
                              inputs ? t->din : t->branch);
}

/* ---- Tables ---- */
/* clang-format off */
enum { E = TESS_OWN_DIMS, K, ENDS, KC, Z, SUMS, GATES, UPS, DACT, MF, MC, PARTIAL, MET };
enum {
    RESIDUAL = TESS_GROUP_RESIDUAL, FEED = TESS_GROUP_FEED_FORWARD, SAVED = TESS_TENSOR_SAVED,
    RESULT = SAVED | TESS_TENSOR_FORWARD, CHANGED = RESULT | TESS_TENSOR_OVERWRITTEN,
    WORK = TESS_TENSOR_FORWARD | TESS_TENSOR_BACKWARD, BACKWARD = TESS_TENSOR_BACKWARD, LEFT = TESS_TENSOR_WEIGHTS
};
#define AT(member) offsetof(tess_experts_tensors, member)
static const tess_tensor_row tensors[] = {
    {AT(stats.rstd), TESS_DIM_R,   TESS_DIM_ONE,  true,  SAVED,           RESIDUAL},
    {AT(stats.mean), TESS_DIM_R,   TESS_DIM_MEAN, true,  SAVED,           RESIDUAL},
    {AT(probs),      TESS_DIM_T,   E,             true,  RESULT,          FEED},
    {AT(lse),        TESS_DIM_T,   Z,             true,  SAVED,           FEED},
    {AT(chosen),     TESS_DIM_T,   K,             true,  RESULT,          FEED},
    {AT(weights),    TESS_DIM_T,   K,             true,  RESULT,          FEED},
    {AT(place),      TESS_DIM_T,   K,             true,  RESULT,          FEED},
    {AT(token),      TESS_DIM_T,   K,             true,  RESULT,          FEED},
    {AT(gates),      TESS_DIM_T,   K,             true,  CHANGED,         FEED},
    {AT(ends),       TESS_DIM_ONE, ENDS,          true,  RESULT,          FEED},
    {AT(gate),       TESS_DIM_T,   GATES,         false, CHANGED,         FEED},
    {AT(up),         TESS_DIM_T,   UPS,           false, CHANGED,         FEED},
    {AT(dact),       TESS_DIM_T,   DACT,          false, BACKWARD,        0},
    {AT(out),        TESS_DIM_T,   KC,            false, CHANGED,         FEED},
    {AT(x),          TESS_DIM_T,   KC,            false, WORK,            0},
    {AT(own_x),      TESS_DIM_T,   MC,            false, WORK,            0},
    {AT(own_out),    TESS_DIM_T,   MC,            false, WORK | LEFT,     0},
    {AT(act),        TESS_DIM_T,   MF,            false, WORK | LEFT,     0},
    {AT(partial),    TESS_DIM_ONE, PARTIAL,       true,  BACKWARD,        0},
    {AT(dlogits),    TESS_DIM_T,   E,             false, BACKWARD | LEFT, 0},
    {AT(sums),       TESS_DIM_ONE, SUMS,          true,  BACKWARD,        0},
    {AT(met),        TESS_DIM_ONE, MET,           true,  BACKWARD,        0},
};
#undef AT
/* clang-format on */

/* Levels of the tree over the leaves of all sources. */
static int64_t levels_of(int64_t leaves)
{
    int64_t n = 0;
    while (1 << n < leaves)
        n++;
    return n;
}

static void sizes(TESS_UNUSED const tess_model *model, const void *own, int64_t size[TESS_N_DIMS])
{
    const tess_experts_params *p = own;
    const int64_t leaves = p->sources * size[TESS_DIM_LEAVES], ranks = size[TESS_DIM_CONTEXT_RANKS];
    const bool loses = p->z > 0 || p->balance > 0;
    size[E] = p->n_experts;
    size[K] = p->top_k;
    size[ENDS] = p->n_experts * size[TESS_DIM_LEAVES];
    size[MF] = p->sources * p->top_k * p->size;
    size[GATES] = (p->joined ? 2 : 1) * size[MF];
    size[UPS] = p->joined ? -1 : size[MF];
    size[DACT] = p->joined ? size[MF] : -1;
    size[KC] = p->top_k * size[TESS_DIM_C];
    size[MC] = tess_experts_are_divided(p) ? p->sources * size[KC] : -1;
    size[PARTIAL] = leaves > 1 ? levels_of(leaves) * count_gradients(&p->experts[0]) : -1;
    size[Z] = p->z > 0 ? 1 : -1;
    size[SUMS] = loses ? p->n_experts + 2 : -1;
    size[MET] = loses && ranks > 0 ? ranks * (p->n_experts + 1) + p->n_experts : -1;
}

static const tess_linear *map(const void *own, int *i)
{
    const tess_experts_params *p = own;
    const int each = p->joined ? 2 : 3, n = each * (int)p->n_own, k = *i % each;
    if (*i >= n) {
        *i -= n;
        return NULL;
    }
    const tess_expert *x = &p->experts[*i / each];
    return k == 0 ? &x->gate : k == each - 1 ? &x->down : &x->up;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* The rows of an expert are at most T. Ranks that share them gather all of an operand's rows. */
static void room_of(const void *own, tess_part_room *room)
{
    const tess_experts_params *p = own;
    const int64_t all = 2 * p->experts[0].down.in.size;
    room->width = larger(room->width, 2 * p->size);
    room->shared = larger(room->shared, all);
    room->operands = larger(room->operands, all);
    room->activated = larger(room->activated, p->size);
    room->grouped = larger(room->grouped, p->sources * p->top_k);
    room->sums |= p->experts[0].down.adapter.rank > 0;
}

tess_group_cost tess_experts_cost(const tess_experts_params *p, double C, double element)
{
    const double F = (double)p->experts[0].down.in.size, K_ = (double)p->top_k;
    return (tess_group_cost){K_ * (2 * F + C) * element, 6 * K_ * C * F};
}

const tess_part tess_experts_part = {
    .name = "experts",
    .group = TESS_GROUP_RESIDUAL,
    .own_bytes = sizeof(tess_experts_params),
    .work_bytes = sizeof(tess_experts_tensors),
    .tensors = tensors,
    .n_tensors = sizeof(tensors) / sizeof(tensors[0]),
    .map = map,
    .sizes = sizes,
    .room = room_of,
    .forward = experts_forward,
    .backward = experts_backward,
};
