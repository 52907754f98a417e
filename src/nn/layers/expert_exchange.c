#include "nn/layers/expert_exchange.h"

#include "base/mem/dry_mem.h"
#include "device/device.h"
#include "device/dry_device.h"

/* A dry device has routed nothing: there, the first K experts have all tokens, because products of T rows need most
 * work space. If several sources make a group of products, most of them do: then each expert has a row, and the K-th
 * fewer. */
static void assume_ends(const tess_layer_call *c, int32_t *ends)
{
    const tess_experts_params *p = c->own;
    for (int64_t e = 0; e < p->n_experts; e++)
        ends[e] = (int32_t)((e < p->top_k ? e + 1 : p->top_k) * c->T);
    const int64_t others = p->n_own - p->top_k;
    for (int64_t e = p->top_k - 1; e < p->n_own && p->sources > 1 && others > 0 && others < c->T; e++)
        ends[e] -= (int32_t)(p->n_own - 1 - e);
}

/* If experts get no gradients, work space depends on the number of experts with rows, and kernels for few rows may
 * need more than others. So the experts after the K-th have 64, 16, 4 and then 1 rows, as far as the K-th has them. */
static void assume_all_chosen(const tess_experts_params *p, int64_t T, int32_t *ends)
{
    int32_t counts[TESS_MAX_EXPERTS] = {0};
    int64_t left = T, rows = 64;
    for (int64_t e = 0; e < p->top_k; e++)
        counts[e] = (int32_t)T;
    for (int64_t e = p->top_k; e < p->n_own && left > 1; e++) {
        while (rows >= left)
            rows /= 4;
        counts[e] = (int32_t)rows;
        left -= rows;
        rows = rows > 1 ? rows / 4 : 1;
    }
    counts[p->top_k - 1] = (int32_t)left;
    for (int64_t e = 0; e < p->n_experts; e++)
        ends[e] = counts[e] + (e > 0 ? ends[e - 1] : 0);
}

/* All experts have as many rows, as in a run whose router is balanced: what a step of average length computes. */
static void assume_even(const tess_experts_params *p, int64_t T, int32_t *ends)
{
    for (int64_t e = 0; e < p->n_experts; e++)
        ends[e] = (int32_t)(T * p->top_k * (e + 1) / p->n_experts);
}

/* Divides the rows of each expert evenly among the leaves. `experts` (E): the end of each expert's rows. */
static void spread(const tess_experts_params *p, const int32_t *experts, const tess_expert_ends *ends)
{
    for (int64_t e = 0; e < p->n_experts; e++) {
        const int64_t begin = e > 0 ? experts[e - 1] : 0, n = experts[e] - begin;
        for (int64_t leaf = 0; leaf < ends->leaves; leaf++)
            ends->own[e * ends->leaves + leaf] = (int32_t)(begin + n * (leaf + 1) / ends->leaves);
    }
}

static void rehearse(const tess_layer_call *c, const tess_expert_ends *ends)
{
    int32_t experts[TESS_MAX_EXPERTS];
    if (tess_dry_stream_has_even_experts(c->stream))
        assume_even(c->own, c->T, experts);
    else if (c->config->lora.rank > 0 || c->loads == NULL)
        assume_all_chosen(c->own, c->T, experts);
    else
        assume_ends(c, experts);
    spread(c->own, experts, ends);
}

tess_status tess_experts_meet(const tess_layer_call *c, const tess_experts_tensors *w, const tess_expert_ends *ends)
{
    const tess_experts_params *p = c->own;
    const int64_t all = p->n_experts * ends->leaves, n = p->n_own * ends->leaves; /* numbers of all experts, own ones */
    const bool dry = tess_mem_is_dry(tess_stream_mem(c->stream));
    if (dry)
        rehearse(c, ends);
    else
        TESS_TRY(tess_fetch(c->stream, ends->own, w->ends, (size_t)all * sizeof(int32_t)));
    /* Each rank receives the numbers of rows for its experts, and of tokens. */
    for (int64_t i = 0; i < all; i++) {
        ends->sent[i / n * (n + 1) + i % n] = ends->own[i] - (i > 0 ? ends->own[i - 1] : 0);
        ends->sent[i / n * (n + 1) + n] = (int32_t)c->T;
    }
    const bool divided = tess_experts_are_divided(p);
    if (divided)
        TESS_TRY(c->expert_points->counts(c->expert_points->self, ends->sent, ends->received, n + 1));
    const int64_t together = c->expert_points->degree / p->sources; /* tensor-parallel ranks, which count alike */
    ends->at[0] = 0;
    for (int64_t s = 0; s < p->sources; s++) {
        const int32_t *counts = divided && !dry ? ends->received + s * together * (n + 1) : ends->sent;
        for (int64_t i = 0; i < n; i++)
            ends->at[s * n + i + 1] = ends->at[s * n + i] + counts[i];
        ends->has[s] = counts[n] > 0;
    }
    return TESS_OK;
}

/* The rows that this rank and another one exchange. */
typedef struct row_parcels {
    size_t sorted_rows[TESS_MAX_EXPERTS],
        sorted_at[TESS_MAX_EXPERTS]; /* (degree) of this micro-batch at rank r's experts */
    size_t owned_rows[TESS_MAX_EXPERTS],
        owned_at[TESS_MAX_EXPERTS]; /* (degree) of rank r's micro-batch at own experts */
} row_parcels;

/* All experts have as many rows on a dry device: that is the volume to expect. */
static void find_parcels(const tess_layer_call *c, const tess_expert_ends *ends, row_parcels *x)
{
    const tess_experts_params *p = c->own;
    const int64_t n = p->n_own, degree = c->expert_points->degree, together = degree / p->sources,
                  own = n * ends->leaves; /* numbers of a source in ends->at */
    const bool dry = tess_mem_is_dry(tess_stream_mem(c->stream));
    const int64_t even = c->T * p->top_k / degree;
    for (int64_t r = 0; r < degree; r++) {
        const int64_t begin = tess_expert_begin(ends, r * n), source = r / together;
        x->sorted_at[r] = (size_t)(dry ? r * even : begin);
        x->sorted_rows[r] = (size_t)(dry ? even : tess_expert_begin(ends, (r + 1) * n) - begin);
        x->owned_at[r] = (size_t)(dry ? source * even : ends->at[source * own]);
        x->owned_rows[r] = (size_t)(dry ? even : ends->at[(source + 1) * own] - ends->at[source * own]);
    }
}

static tess_status move_rows(const tess_layer_call *c, tess_row_exchange x)
{
    x.what = "experts";
    x.row_bytes = (size_t)c->block->hidden_size * tess_dtype_size(c->dtype);
    return c->expert_points->rows(c->expert_points->self, &x);
}

/* All tensor-parallel ranks of a micro-batch have its rows. The one sends them that has the same place as the expert's
 * rank. */
tess_status tess_experts_send(const tess_layer_call *c, const tess_expert_ends *ends, const void *sorted, void *owned)
{
    const tess_experts_params *p = c->own;
    const int64_t together = c->expert_points->degree / p->sources, place = c->expert_points->rank % together;
    row_parcels x;
    if (!tess_experts_are_divided(p))
        return TESS_OK;
    find_parcels(c, ends, &x);
    for (int64_t r = 0; r < c->expert_points->degree; r++)
        if (r % together != place)
            x.sorted_rows[r] = x.owned_rows[r] = 0;
    return move_rows(c, (tess_row_exchange){.in = sorted,
                                            .out = owned,
                                            .in_rows = x.sorted_rows,
                                            .in_at = x.sorted_at,
                                            .out_rows = x.owned_rows,
                                            .out_at = x.owned_at});
}

tess_status tess_experts_return(const tess_layer_call *c, const tess_expert_ends *ends, const void *owned, void *sorted)
{
    row_parcels x;
    if (!tess_experts_are_divided(c->own))
        return TESS_OK;
    find_parcels(c, ends, &x);
    return move_rows(c, (tess_row_exchange){.in = owned,
                                            .out = sorted,
                                            .in_rows = x.owned_rows,
                                            .in_at = x.owned_at,
                                            .out_rows = x.sorted_rows,
                                            .out_at = x.sorted_at});
}
