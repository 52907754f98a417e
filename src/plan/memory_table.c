#include "plan/memory_table.h"

#include <stdio.h>
#include <string.h>

#include "base/os/memory_group.h"
#include "engine/model/adapter.h"
#include "plan/memory_need.h"
#include "engine/model/model_file.h"

/* The pools that have a column. */
static const tess_pool columns[] = {TESS_POOL_PARAMS, TESS_POOL_GRADS,    TESS_POOL_OPTIMIZER, TESS_POOL_ACTIVATIONS,
                                    TESS_POOL_COMM,   TESS_POOL_KV_CACHE, TESS_POOL_MISC};
enum { N_COLUMNS = sizeof(columns) / sizeof(columns[0]) };

static double sum_of(const tess_memory_of_rank *r)
{
    double sum = 0;
    for (int pool = 0; pool < TESS_POOL_COUNT; pool++)
        sum += r->pool[pool];
    return sum;
}

static double disk_of(const tess_memory_of_rank *r)
{
    double sum = 0;
    for (int pool = 0; pool < TESS_POOL_COUNT; pool++)
        sum += r->disk[pool];
    return sum;
}

static tess_status add_row(tess_buffer *text, const char *name, const tess_memory_of_rank *r)
{
    TESS_TRY(tess_buffer_printf(text, "  %-10s", name));
    for (int i = 0; i < N_COLUMNS; i++)
        TESS_TRY(tess_buffer_printf(text, " %11.3f", r->pool[columns[i]] / 0x1p30));
    TESS_TRY(tess_buffer_printf(text, " %11.3f", sum_of(r) / 0x1p30));
    if (disk_of(r) > 0)
        TESS_TRY(tess_buffer_printf(text, " %11.3f", disk_of(r) / 0x1p30));
    return tess_buffer_printf(text, "%s%s\n", r->stages[0] != '\0' ? "   " : "", r->stages);
}

/* Adds the rows of the table. Consecutive ranks with equal memory share a row. */
static tess_status add_rows(tess_buffer *text, const tess_memory_of_rank *ranks, int n)
{
    for (int first = 0, end; first < n; first = end) {
        char name[32];
        for (end = first + 1; end < n && memcmp(&ranks[first], &ranks[end], sizeof(ranks[0])) == 0; end++)
            ;
        snprintf(name, sizeof(name), end - first > 1 ? "%d-%d" : "%d", first, end - 1);
        TESS_TRY(add_row(text, name, &ranks[first]));
    }
    return TESS_OK;
}

static tess_status explain_units(tess_buffer *text, const tess_memory_of_rank *r)
{
    char bytes[32];
    TESS_TRY(tess_buffer_printf(text, "  units        %lld of %lld blocks, the largest %s when gathered",
                                (long long)r->units.n_units, (long long)r->n_blocks,
                                tess_format_bytes((double)r->units.largest_bytes, bytes, sizeof(bytes))));
    if (r->units.reductions > 0)
        TESS_TRY(tess_buffer_printf(text, "; collectives of a micro-batch: at most %lld gathers, %lld reductions",
                                    (long long)r->units.gathers, (long long)r->units.reductions));
    return tess_buffer_printf(text, "\n");
}

static tess_status explain(tess_buffer *text, const tess_memory_plan *plan, const tess_memory_of_rank *r)
{
    char bytes[32], optimizer[32];
    int n_tables;
    const tess_option_table *tables = tess_config_tables(&n_tables);
    TESS_TRY(tess_options_format_key(tables, n_tables, plan->config, "optimizer.name", optimizer, sizeof(optimizer)));
    TESS_TRY(tess_buffer_printf(
        text,
        "\n  params       weights in float32, a rank's share\n"
        "  grads        sums of gradients in float32, of what trains\n"
        "  optimizer    state of %s, of what trains\n"
        "  activations  of %lld tokens (%lld rows of %lld), and %s of work space for kernels\n"
        "  comm         gathered weights and windows of gradients; what ranks share counts for the "
        "first of them\n",
        optimizer, (long long)((plan->local_batch + plan->passes - 1) / plan->passes * plan->seq_len),
        (long long)((plan->local_batch + plan->passes - 1) / plan->passes), (long long)plan->seq_len,
        tess_format_bytes(r->work, bytes, sizeof(bytes))));
    TESS_TRY(explain_units(text, r));
    if (disk_of(r) > 0)
        TESS_TRY(tess_buffer_printf(text,
                                    "  disk         in offload.folder (docs/howto/offload.md): no memory, but for a "
                                    "window in comm (offload.resident)\n"));
    return tess_buffer_printf(text, "  misc         %s; texts, tokenizer and buffers come on top: some tens of MiB\n",
                              plan->saves_beside ? "the copy that a save writes from (checkpoint.async)" : "nothing");
}

/* Adds the rows of devices, if they have the shards. */
static tess_status add_devices(tess_buffer *text, const tess_memory_of_rank *ranks, int n)
{
    if (tess_memory_of_device(&ranks[0]) == 0)
        return TESS_OK;
    TESS_TRY(tess_buffer_printf(text, "\nof the memory of devices, without work space of kernels; above, params and "
                                      "optimizer are the host's copies\n"));
    for (int first = 0, end; first < n; first = end) {
        char name[32];
        tess_memory_of_rank of_device = {.work = 0};
        memcpy(of_device.pool, ranks[first].device, sizeof(of_device.pool));
        for (end = first + 1; end < n && memcmp(ranks[first].device, ranks[end].device, sizeof(of_device.pool)) == 0;
             end++)
            ;
        snprintf(name, sizeof(name), end - first > 1 ? "%d-%d" : "%d", first, end - 1);
        TESS_TRY(add_row(text, name, &of_device));
    }
    return TESS_OK;
}

static tess_status add_table(tess_buffer *text, const tess_memory_plan *plan, const tess_memory_of_rank *ranks, int n)
{
    char needed[32], room[32];
    bool by_group;
    uint64_t available = tess_memory_available(&by_group);
    tess_memory_of_rank all = {.work = 0};
    for (int rank = 0; rank < n; rank++)
        for (int pool = 0; pool < TESS_POOL_COUNT; pool++) {
            all.pool[pool] += ranks[rank].pool[pool];
            all.disk[pool] += ranks[rank].disk[pool];
        }
    TESS_TRY(tess_buffer_printf(text, "\nmemory of %d rank%s at the peak, in GiB, sharding %s\n  %-10s", n,
                                n > 1 ? "s" : "", tess_strategy_name(plan->policy.strategy), "rank"));
    for (int i = 0; i < N_COLUMNS; i++)
        TESS_TRY(tess_buffer_printf(text, " %11s", tess_pool_name(columns[i])));
    TESS_TRY(tess_buffer_printf(text, " %11s", "sum"));
    TESS_TRY(tess_buffer_printf(text, disk_of(&all) > 0 ? "        disk\n" : "\n"));
    TESS_TRY(add_rows(text, ranks, n));
    if (n > 1)
        TESS_TRY(add_row(text, "all", &all));
    TESS_TRY(add_devices(text, ranks, n));
    TESS_TRY(explain(text, plan, &ranks[0]));
    if (available == UINT64_MAX)
        return TESS_OK;
    return tess_buffer_printf(text, "  %s in all; %s has %s left%s\n",
                              tess_format_bytes(sum_of(&all), needed, sizeof(needed)),
                              by_group ? "the control group of this process" : "this host",
                              tess_format_bytes((double)available, room, sizeof(room)),
                              sum_of(&all) > (double)available ? ": TOO LITTLE" : "");
}

static tess_status predict_ranks(tess_mem *mem, tess_memory_rank_fn predict, const tess_config *config,
                                 const tess_model_config *sizes, int n, tess_memory_of_rank *ranks,
                                 tess_memory_plan *plan)
{
    tess_model *model;
    *plan = tess_memory_plan_of(config, tess_config_trainers(config, n));
    plan->saves_beside = config->checkpoint.enable && config->checkpoint.async;
    TESS_TRY(tess_model_create(mem, sizes, &model));
    int n_trainers = tess_config_trainers(config, n);
    tess_status status = TESS_OK;
    for (int rank = 0; status == TESS_OK && rank < n_trainers; rank++)
        status = predict(mem, model, plan, rank, &ranks[rank]);
    for (int rank = n_trainers; status == TESS_OK && rank < n; rank++)
        tess_memory_of_drawing(model, config, &ranks[rank]);
    tess_model_destroy(&model);
    return status;
}

tess_status tess_memory_table(tess_mem *mem, tess_memory_rank_fn predict, const tess_config *config, int n_ranks,
                              tess_buffer *text)
{
    tess_model_config sizes;
    tess_memory_plan plan;
    tess_memory_of_rank *ranks;
    TESS_TRY(tess_config_load_model(config, NULL, &sizes));
    TESS_TRY(tess_config_check_trainable(mem, config, &sizes));
    int n = n_ranks;
    TESS_TRY(tess_mem_alloc_array(mem, TESS_POOL_MISC, (size_t)n, sizeof(*ranks), "memory of ranks", (void **)&ranks));
    tess_status status = predict_ranks(mem, predict, config, &sizes, n, ranks, &plan);
    if (status == TESS_OK)
        status = add_table(text, &plan, ranks, n);
    tess_mem_free(mem, ranks);
    return status;
}
