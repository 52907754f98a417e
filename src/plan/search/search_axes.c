#include "plan/search/search_axes.h"

#include <stddef.h>

#include "engine/options/job_section.h"
#include "mesh/coordinates.h"
#include "mesh/mesh_layout.h"
#include "parallel/pipeline/pipeline.h"
#include "tessera/fsdp.h"

/* ---- Names of values ---- */
static const char *name_of_strategy(int64_t value)
{
    return tess_strategy_name((tess_strategy)value);
}
static const char *name_of_schedule(int64_t value)
{
    return tess_pipeline_kind_name((tess_pipeline_kind)value);
}
static const char *name_of_method(int64_t value)
{
    return tess_context_method_name((int)value);
}
static const char *name_of_reshard(int64_t value)
{
    return value == 0 ? "0" : "1";
}
static const char *name_of_sequence(int64_t value)
{
    return value == 0 ? "off" : "on";
}
static const char *name_of_precision(int64_t value)
{
    static const char *const names[] = {"given", "bf16", "fp32", "fp8"};
    return names[value];
}
static const char *name_of_recompute(int64_t value)
{
    static const char *const names[] = {"none", "full", "every_n", "selective"};
    return names[value];
}
static const char *name_of_offload(int64_t value)
{
    static const char *const names[] = {"none", "optimizer", "optimizer+grads", "all"};
    return names[value];
}

/* ---- Settings ---- */
static void set_strategy(const tess_search_layout *l, tess_config *c)
{
    c->parallelism.shard_strategy = (int)l->strategy;
}

static void set_schedule(const tess_search_layout *l, tess_config *c)
{
    if (l->schedule >= 0)
        c->parallelism.pipeline_parallel_schedule = (int)l->schedule;
    else
        tess_text_list_free(&c->parallelism.pipeline_parallel_split_points);
}

static void set_method(const tess_search_layout *l, tess_config *c)
{
    const int64_t leaves = 2LL * l->degree[TESS_AXIS_CP];
    if (l->method >= 0)
        c->parallelism.context_parallel_method = (int)l->method;
    if (l->degree[TESS_AXIS_CP] > 1 && c->training.context_leaves < leaves)
        c->training.context_leaves = leaves;
}

static void set_micro(const tess_search_layout *l, tess_config *c)
{
    c->training.local_batch_size = l->micro;
}

static void set_reshard(const tess_search_layout *l, tess_config *c)
{
    c->parallelism.fsdp_reshard_after_forward = l->reshard;
}

static void set_sequence(const tess_search_layout *l, tess_config *c)
{
    if (l->degree[TESS_AXIS_TP] > 1)
        c->parallelism.enable_sequence_parallel = l->sequence != 0;
}

static void set_precision(const tess_search_layout *l, tess_config *c)
{
    if (l->precision == TESS_SEARCH_AS_GIVEN)
        return;
    c->training.mixed_precision_param = l->precision == TESS_SEARCH_FP32 ? TESS_PRECISION_F32 : TESS_PRECISION_BF16;
    c->training.fp8 = l->precision == TESS_SEARCH_FP8;
}

static void set_recompute(const tess_search_layout *l, tess_config *c)
{
    c->activation_checkpoint.mode = (int)l->recompute;
    c->activation_checkpoint.partition &= l->degree[TESS_AXIS_TP] > 1;
}

/* State that the configuration offloads stays away. Without a folder it lies in the memory of a GPU's host. */
static void set_offload(const tess_search_layout *l, tess_config *c)
{
    c->offload.optimizer |= l->offload >= TESS_SEARCH_OFFLOAD_OPTIMIZER;
    c->offload.grads |= l->offload >= TESS_SEARCH_OFFLOAD_GRADS;
    c->offload.params |= l->offload >= TESS_SEARCH_OFFLOAD_ALL;
    if (l->offload != TESS_SEARCH_OFFLOAD_NONE && c->offload.folder[0] == '\0')
        c->job.shards = TESS_SHARDS_DEVICE;
}

/* ---- The table ---- */
static bool has_stages(const tess_search_layout *l)
{
    return l->degree[TESS_AXIS_PP] > 1;
}
static bool shares_layers(const tess_search_layout *l)
{
    return l->degree[TESS_AXIS_TP] > 1;
}
static bool always(TESS_UNUSED const tess_search_layout *l)
{
    return true;
}

static const struct {
    int n_values;
    const char *(*name)(int64_t value);
    void (*set)(const tess_search_layout *l, tess_config *config);
    bool (*spreads)(const tess_search_layout *l); /* NULL: never */
} rows[TESS_SEARCH_AXES] = {
    [TESS_SEARCH_STRATEGY] = {TESS_STRATEGY_HYBRID + 1, name_of_strategy, set_strategy, NULL},
    [TESS_SEARCH_SCHEDULE] = {TESS_PIPELINE_KINDS, name_of_schedule, set_schedule, has_stages},
    [TESS_SEARCH_METHOD] = {TESS_CONTEXT_METHODS, name_of_method, set_method, NULL},
    [TESS_SEARCH_MICRO] = {0, NULL, set_micro, NULL},
    [TESS_SEARCH_RESHARD] = {2, name_of_reshard, set_reshard, NULL},
    [TESS_SEARCH_SEQUENCE] = {2, name_of_sequence, set_sequence, shares_layers},
    [TESS_SEARCH_PRECISION] = {TESS_SEARCH_FP8 + 1, name_of_precision, set_precision, always},
    [TESS_SEARCH_RECOMPUTE] = {TESS_RECOMPUTE_SELECTIVE + 1, name_of_recompute, set_recompute, NULL},
    [TESS_SEARCH_OFFLOAD] = {TESS_SEARCH_OFFLOAD_ALL + 1, name_of_offload, set_offload, NULL},
};

const char *tess_search_axis_word(tess_search_axis axis)
{
#define WORD(id, word, field) word,
    static const char *const words[] = {TESS_SEARCH_AXIS_ROWS(WORD)};
#undef WORD
    return words[axis];
}

int64_t *tess_search_value(tess_search_layout *l, tess_search_axis axis)
{
#define FIELD(id, word, field) offsetof(tess_search_layout, field),
    static const size_t fields[] = {TESS_SEARCH_AXIS_ROWS(FIELD)};
#undef FIELD
    return (int64_t *)((char *)l + fields[axis]);
}

int64_t tess_search_value_of(const tess_search_layout *l, tess_search_axis axis)
{
    return *tess_search_value((tess_search_layout *)(uintptr_t)l, axis);
}

int tess_search_axis_values(tess_search_axis axis)
{
    return rows[axis].n_values;
}

const char *tess_search_axis_value_name(tess_search_axis axis, int64_t value)
{
    return rows[axis].name(value);
}

tess_status tess_search_axis_parse(tess_search_axis axis, const char *text, int64_t *value)
{
    enum { MOST_VALUES = 16 };
    const char *names[MOST_VALUES];
    int chosen = 0;
    if (rows[axis].n_values == 0)
        return tess_options_int(text, 1, TESS_MESH_MOST_RANKS, value);
    for (int i = 0; i < rows[axis].n_values; i++)
        names[i] = rows[axis].name(i);
    TESS_TRY(tess_options_choose(tess_search_axis_word(axis), text, names, rows[axis].n_values, &chosen));
    *value = chosen;
    return TESS_OK;
}

void tess_search_axes_configure(const tess_search_layout *l, tess_config *config)
{
    for (int axis = 0; axis < TESS_SEARCH_AXES; axis++)
        rows[axis].set(l, config);
}

bool tess_search_axis_spreads(tess_search_axis axis, const tess_search_layout *l)
{
    return rows[axis].spreads != NULL && rows[axis].spreads(l);
}
