/* Decides which rule updates a span, and where its state is stored: pure functions of spans and options. */
#include <string.h>

#include "base/core/flat.h"
#include "base/core/round_up.h"
#include "optim/optim_impl.h"

enum { LEAST_8BIT = 4096 }; /* smallest tensor for 8 bits, in elements: below it the saving is not worth the error */

static bool is_matrix(const tess_span *span)
{
    return span->hidden && span->shape.n_dims == 2;
}

static optim_rule rule_of(const tess_span *span, const tess_optimizer_options *o, optim_coding coding)
{
    if (span->param == NULL)
        return OPTIM_FROZEN;
    if (o->kind == TESS_MUON && is_matrix(span))
        return OPTIM_MUON;
    if (o->kind == TESS_ADAM || o->kind == TESS_SGD)
        return o->kind == TESS_ADAM ? OPTIM_ADAM : OPTIM_SGD;
    return coding == OPTIM_F32 ? OPTIM_ADAMW_ROW : OPTIM_ADAMW;
}

static optim_coding coding_of(const tess_span *span, const tess_optimizer_options *o)
{
    if (o->kind == TESS_ADAMW_8BIT && is_matrix(span) && tess_shape_count(&span->shape) >= LEAST_8BIT)
        return OPTIM_8BIT;
    return o->state_dtype == TESS_BF16 ? OPTIM_BF16 : OPTIM_F32;
}

static int moments_of(optim_rule rule, const tess_optimizer_options *o)
{
    switch (rule) {
    case OPTIM_FROZEN:
        return 0;
    case OPTIM_SGD:
        return o->momentum > 0;
    case OPTIM_MUON:
        return 1;
    default:
        return 2;
    }
}

static int64_t run_of(const tess_span *span, optim_coding coding)
{
    if (span->shape.n_dims == 0 || span->n == 0)
        return span->n;
    return coding == OPTIM_8BIT ? span->box.size[1]
                                : tess_flat_run(span->shape.n_dims, span->shape.dim, span->box.size);
}

static void place_state(optim_param *p, size_t *at)
{
    size_t begin = *at;
    for (int k = 0; k < p->n_moments; k++) {
        p->values[k] = *at;
        *at += tess_round_up((size_t)p->n * optim_value_bytes(p->coding), sizeof(float));
        p->absmax[k] = *at;
        *at += p->coding == OPTIM_8BIT ? (size_t)optim_blocks_count(p) * sizeof(float) : 0;
    }
    p->state_bytes = *at - begin;
}

/* Checks that blocks of codes are not split over ranks: a block has one largest magnitude. */
static tess_status check_blocks(const tess_span *span)
{
    int64_t begin = span->box.begin[1], end = begin + span->box.size[1];
    TESS_CHECK(span->n == 0 || (begin % OPTIM_BLOCK == 0 && (end % OPTIM_BLOCK == 0 || end == span->shape.dim[1])),
               TESS_E_INVALID,
               "adamw8bit: '%s' has columns [%lld, %lld) on this rank, which cut a block of %d: use fewer ranks that "
               "share layers (parallelism.tensor_parallel_degree), or adamw",
               span->name, (long long)begin, (long long)end, OPTIM_BLOCK);
    return TESS_OK;
}

/* Numbers all spans for the journals. Muon's blocks come last: first those of all momenta, then those of all
 * weights. */
static void number_spans(optim_param *params, int n_spans)
{
    int64_t elements = 0, blocks = 0;
    for (int i = 0; i < n_spans; i++) {
        optim_param *p = &params[i];
        int64_t *next = p->rule == OPTIM_ADAMW_ROW ? &elements : &blocks;
        if (p->rule == OPTIM_FROZEN || p->rule == OPTIM_MUON)
            continue;
        p->first = *next;
        *next += p->rule == OPTIM_ADAMW_ROW ? p->n : optim_blocks_count(p);
    }
    for (int i = 0; i < n_spans; i++)
        if (params[i].rule == OPTIM_MUON) {
            params[i].first = blocks;
            blocks += optim_blocks_count(&params[i]);
        }
}

/* The work space of Muon: this rank's elements of the matrices that are computed at the same time, and the space to
 * compute one matrix. */
static size_t work_of(const tess_span *spans, int n_spans, const optim_param *params, int n_ranks)
{
    size_t group = 0, parts = 0, whole = 0;
    int n = 0;
    for (int i = 0; i < n_spans; i++) {
        if (params[i].rule != OPTIM_MUON)
            continue;
        int64_t rows = spans[i].shape.dim[0], columns = spans[i].shape.dim[1];
        size_t work = optim_muon_work(rows, columns) + (n_ranks > 1 ? (size_t)(rows * columns) : 0);
        group = n++ % optim_turns(n_ranks) == 0 ? 0 : group;
        group += (size_t)spans[i].n;
        parts = group > parts ? group : parts;
        whole = work > whole ? work : whole;
    }
    return parts + whole;
}

tess_status optim_layout_of(const tess_span *spans, int n_spans, const tess_optimizer_options *o, int n_ranks,
                            optim_param *params, optim_layout *layout)
{
    *layout = (optim_layout){0};
    for (int i = 0; i < n_spans; i++) {
        optim_coding coding = coding_of(&spans[i], o);
        optim_rule rule = rule_of(&spans[i], o, coding);
        params[i] = (optim_param){.rule = rule,
                                  .coding = coding,
                                  .n_moments = moments_of(rule, o),
                                  .n = spans[i].n,
                                  .run = run_of(&spans[i], coding)};
        if (rule != OPTIM_FROZEN && coding == OPTIM_8BIT)
            TESS_TRY(check_blocks(&spans[i]));
        place_state(&params[i], &layout->state_bytes);
        layout->has_row |= rule == OPTIM_ADAMW_ROW;
        layout->has_blocks |= rule > OPTIM_ADAMW_ROW;
        layout->has_muon |= rule == OPTIM_MUON;
    }
    number_spans(params, n_spans);
    layout->work_elements = layout->has_muon ? work_of(spans, n_spans, params, n_ranks) : 0;
    return TESS_OK;
}
