#include "engine/block_units.h"

#include <stdio.h>
#include <string.h>

/* ---- The choice of units ---- */
static tess_unit_policy policy_of(const tess_config *c)
{
    const int64_t size = (int64_t)tess_dtype_size(tess_precision_dtype(c->training.mixed_precision_param));
    return (tess_unit_policy){.min_blocks = c->parallelism.fsdp_unit_blocks,
                              .min_elements = (c->parallelism.fsdp_unit_bytes + size - 1) / size,
                              .mixes_kinds = c->parallelism.fsdp_unit_mixed};
}

static bool is_cut(const tess_config *config)
{
    return config->parallelism.pipeline_parallel_degree > 1;
}

/* Describes a block by whole parameters, so that ranks which share layers unevenly make the same choice. */
static tess_unit_block describe(const tess_model *model, int block)
{
    enum { LAYER = -1 };
    int first, n;
    bool layer = tess_model_unit_layer(model, block) >= 0;
    tess_unit_block about = {.kind = layer ? LAYER : block};
    tess_model_unit_params(model, block, &first, &n);
    for (int i = first; i < first + n; i++)
        about.n_elements += tess_shape_count(&tess_model_param(model, i)->slice.whole);
    return about;
}

/* Assigns blocks [begin, end) to new units. */
static void deal(const tess_unit_policy *policy, const tess_unit_block *blocks, int begin, int end, int *unit_of,
                 int *n_units)
{
    const int n = tess_unit_policy_deal(policy, blocks + begin, end - begin, unit_of + begin);
    for (int block = begin; block < end; block++)
        unit_of[block] += *n_units;
    *n_units += n;
}

/* Writes the number of each block's unit to unit_of (tess_model_n_units) and the number of units to *n_units: the
 * same on all ranks of a stage. Different chunks of a stage run at different times, so no unit has blocks of two
 * chunks. In a pipeline the head is a unit by itself, because schedules that split the backward postpone the layers'
 * gradients. */
static tess_status deal_blocks(tess_mem *mem, const tess_config *config, const tess_model *model,
                               const tess_slot_units *chunks, int n_chunks, int *unit_of, int *n_units)
{
    const tess_unit_policy policy = policy_of(config);
    const int n_blocks = tess_model_n_units(model);
    TESS_AUTO(tess_mem_drop) tess_unit_block *blocks = NULL;
    TESS_TRY(TESS_NEW(mem, n_blocks, "blocks", &blocks));
    for (int block = 0; block < n_blocks; block++)
        blocks[block] = describe(model, block);
    *n_units = 0;
    deal(&policy, blocks, 0, chunks->begin, unit_of, n_units); /* block 0 if it is a tied table without its embedding */
    for (const tess_slot_units *chunk = chunks; chunk < chunks + n_chunks; chunk++) {
        const int begin = chunk->begin, last = chunk->end - 1;
        const bool head = is_cut(config) && last > 0 && tess_model_unit_layer(model, last) < 0;
        deal(&policy, blocks, begin, head ? last : last + 1, unit_of, n_units);
        deal(&policy, blocks, head ? last : last + 1, last + 1, unit_of, n_units);
    }
    return TESS_OK;
}

/* ---- The parameters of units ---- */
_Static_assert(TESS_GATHER_FP8 == (int)TESS_CODES_FP8, "the choices of training.gather are codes");
int tess_gathered_codes(const tess_config *config, const tess_fsdp *fsdp)
{
    return tess_fsdp_reads_masters(fsdp) ? 0 : config->training.gather;
}

/* Whether a parameter needs no float32 master weights. The frozen model under an adapter is neither saved nor
 * updated, and only read in the compute dtype. There are two exceptions: parameters on disk (offload) are paged as
 * master weights, and a device holds master weights only. */
static bool is_narrow(const tess_config *config, const tess_model *model, const tess_param *param, bool resident)
{
    return tess_model_get_config(model)->lora.rank > 0 && param->frozen && !param->wide && !config->offload.params &&
           !resident;
}

bool tess_param_is_narrow(const tess_config *config, const tess_model *model, int param, bool resident)
{
    return config->training.mixed_precision_param != TESS_PRECISION_F32 &&
           is_narrow(config, model, tess_model_param(model, param), resident);
}

static tess_param_desc describe_param(const tess_config *config, const tess_fsdp *fsdp, const tess_model *model,
                                      int index, bool resident)
{
    const tess_param *param = tess_model_param(model, index);
    const int codes = tess_gathered_codes(config, fsdp);
    tess_param_desc desc = {.name = param->name,
                            .shape = param->slice.whole,
                            .trainable = !param->frozen && !param->copy,
                            .elsewhere = param->copy,
                            .decay = param->decay,
                            .hidden = param->hidden,
                            .narrow = is_narrow(config, model, param, resident),
                            .codes = param->wide                                        ? TESS_CODES_F32
                                     : codes != 0 && tess_model_owns_rows(model, index) ? codes
                                                                                        : 0};
    if (param->slice.unit > 0)
        desc.tp = (tess_param_cut){TESS_SHARD, param->slice.dim, param->slice.unit};
    return desc;
}

/* Names a unit: "model.layers.3" for one block, "model.layers.0-3" for layers, "model.embed_tokens to
 * model.layers.3" for blocks of different kinds. */
static void name_unit(const tess_model *model, int begin, int end, char *name, size_t size)
{
    const char *first = tess_model_unit_name(model, begin), *last = tess_model_unit_name(model, end - 1);
    const char *number = strrchr(last, '.');
    if (end - begin == 1)
        snprintf(name, size, "%s", first);
    else if (number != NULL && tess_model_unit_layer(model, begin) >= 0 && tess_model_unit_layer(model, end - 1) >= 0)
        snprintf(name, size, "%s-%s", first, number + 1);
    else
        snprintf(name, size, "%s to %s", first, last);
}

/* Counts the blocks of a unit that run backward, at least 1. Blocks below the first one that trains do not, unless
 * pipeline stages pass gradients on. A copy of a table whose gradient another stage computes does not either. */
static int with_backward(const tess_config *config, const tess_model *model, int begin, int end)
{
    const bool copies = tess_model_copies_table(model) && !tess_model_unit_trains(model, 0);
    const int first = is_cut(config) ? copies : tess_model_first_trainable_unit(model);
    const int n = end - (first > begin ? first : begin);
    return n > 1 ? n : 1;
}

/* The arguments of add_unit that are the same for all units. */
typedef struct unit_source {
    const tess_config *config;
    const tess_model *model;
    bool resident;
    tess_fsdp *fsdp;
    tess_fsdp_family *experts; /* NULL: ranks do not divide the experts */
    tess_param_desc *descs;    /* (n_params) room */
} unit_source;

/* Describes the parameters of a block that are experts', or all others. Returns their number. */
static int describe_block(const unit_source *s, int block, bool experts, tess_param_desc *descs)
{
    int first, n, k = 0;
    tess_model_unit_params(s->model, block, &first, &n);
    for (int i = first; i < first + n; i++)
        if ((s->experts != NULL && tess_model_param(s->model, i)->expert) == experts)
            descs[k++] = describe_param(s->config, s->fsdp, s->model, i, s->resident);
    return k;
}

/* Returns the number of the block's first parameter that is an expert's, or of the first one behind them. */
static int find_expert(const tess_model *model, int block, bool expert, int from)
{
    int first, n;
    tess_model_unit_params(model, block, &first, &n);
    while (from < n && tess_model_param(model, first + from)->expert != expert)
        from++;
    return from;
}

/* Adds the unit of the experts of blocks [begin, end), if there are any. */
static tess_status add_experts(const unit_source *s, int begin, int end, const char *blocks_name,
                               tess_block_unit *blocks)
{
    char name[112];
    int n = 0, used = 0;
    for (int block = begin; block < end; block++) {
        tess_block_unit *b = &blocks[block];
        b->first_expert = n;
        n += describe_block(s, block, true, s->descs + n);
        if (n == b->first_expert)
            continue;
        b->begin = find_expert(s->model, block, true, 0);
        b->end = find_expert(s->model, block, false, b->begin);
        used += with_backward(s->config, s->model, block, block + 1);
    }
    if (n == 0)
        return TESS_OK;
    tess_unit *unit;
    snprintf(name, sizeof(name), "%s.experts", blocks_name);
    TESS_TRY(tess_fsdp_add_unit_to(s->experts, name, s->descs, n, &unit));
    for (int block = begin; block < end; block++)
        if (blocks[block].end > blocks[block].begin)
            blocks[block].experts = unit;
    return tess_unit_set_blocks(unit, used);
}

static tess_status add_unit(const unit_source *s, int begin, int end, tess_block_unit *blocks)
{
    char name[96];
    int n = 0;
    tess_unit *unit;
    name_unit(s->model, begin, end, name, sizeof(name));
    for (int block = begin; block < end; block++) {
        blocks[block] = (tess_block_unit){.first = n};
        n += describe_block(s, block, false, s->descs + n);
    }
    TESS_TRY(tess_fsdp_add_unit(s->fsdp, name, s->descs, n, &unit));
    for (int block = begin; block < end; block++)
        blocks[block].unit = unit;
    TESS_TRY(tess_unit_set_blocks(unit, with_backward(s->config, s->model, begin, end)));
    return s->experts != NULL ? add_experts(s, begin, end, name, blocks) : TESS_OK;
}

tess_status tess_block_units_add(tess_mem *mem, const tess_config *config, const tess_model *model,
                                 const tess_slot_units *chunks, int n_chunks, bool resident, tess_fsdp *fsdp,
                                 tess_fsdp_family *experts, tess_block_unit *blocks)
{
    const int n_blocks = tess_model_n_units(model);
    int n_units;
    TESS_AUTO(tess_mem_drop) int *unit_of = NULL;
    TESS_AUTO(tess_mem_drop) tess_param_desc *descs = NULL;
    TESS_TRY(TESS_NEW(mem, n_blocks, "units", &unit_of));
    TESS_TRY(TESS_NEW(mem, tess_model_n_params(model), "units", &descs));
    const unit_source source = {config, model, resident, fsdp, experts, descs};
    TESS_TRY(deal_blocks(mem, config, model, chunks, n_chunks, unit_of, &n_units));
    for (int begin = 0, end; begin < n_blocks; begin = end) {
        for (end = begin + 1; end < n_blocks && unit_of[end] == unit_of[begin]; end++)
            ;
        TESS_TRY(add_unit(&source, begin, end, blocks));
    }
    return TESS_OK;
}

/* ---- Open parameters ---- */
static tess_status call(const tess_block_unit *block, tess_status (*hook)(tess_unit *unit))
{
    TESS_TRY(hook(block->unit));
    return block->experts != NULL ? hook(block->experts) : TESS_OK;
}

tess_status tess_block_pre_forward(const tess_block_unit *block)
{
    return call(block, tess_unit_pre_forward);
}

tess_status tess_block_post_forward(const tess_block_unit *block)
{
    return call(block, tess_unit_post_forward);
}

tess_status tess_block_pre_backward(const tess_block_unit *block)
{
    return call(block, tess_unit_pre_backward);
}

tess_status tess_block_post_backward(const tess_block_unit *block)
{
    return call(block, tess_unit_post_backward);
}

/* Returns the unit of a block's parameter, and its number there. */
static tess_unit *unit_of(const tess_block_unit *block, int index, int *number)
{
    const bool expert = index >= block->begin && index < block->end;
    const int before = index >= block->end ? block->end - block->begin : 0;
    *number = expert ? block->first_expert + index - block->begin : block->first + index - before;
    return expert ? block->experts : block->unit;
}

int tess_block_unit_number(const tess_block_unit *block, int index)
{
    int number;
    const tess_unit *unit = unit_of(block, index, &number);
    return tess_unit_number(unit, number);
}

const void *tess_block_unit_param(const tess_block_unit *block, int index)
{
    int number;
    const tess_unit *unit = unit_of(block, index, &number);
    return tess_unit_param(unit, number);
}

float *tess_block_unit_grad(const tess_block_unit *block, int index)
{
    int number;
    const tess_unit *unit = unit_of(block, index, &number);
    return tess_unit_grad(unit, number);
}

tess_status tess_block_params_create(tess_scope *scope, const tess_model *model, tess_block_params *params)
{
    TESS_TRY(TESS_NEW_IN(scope, tess_model_n_params(model), "units", &params->w));
    return TESS_NEW_IN(scope, tess_model_n_params(model), "units", &params->dw);
}

void tess_block_params_open(const tess_block_params *params, const tess_model *model, int block,
                            const tess_block_unit *unit, bool backward, int *first)
{
    int n;
    tess_model_unit_params(model, block, first, &n);
    for (int i = 0; i < n; i++) {
        params->w[*first + i] = tess_block_unit_param(unit, i);
        if (backward)
            params->dw[*first + i] = tess_block_unit_grad(unit, i);
    }
}
