#include "plan/memory_table.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/os/memory_group.h"
#include "engine/model/adapter.h"
#include "plan/dry_rank.h"
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

/* Adds the rows of the table, of the host's memory or of the device's. Consecutive ranks with equal memory share a
 * row. */
static tess_status add_rows(tess_buffer *text, const tess_memory_of_rank *ranks, int n, bool of_device)
{
    const size_t begin = of_device ? offsetof(tess_memory_of_rank, device) : 0;
    const size_t bytes = of_device ? sizeof(ranks->device) : sizeof(*ranks);
    for (int first = 0, end; first < n; first = end) {
        char name[32];
        tess_memory_of_rank row = ranks[first];
        for (end = first + 1;
             end < n && memcmp((const char *)&ranks[first] + begin, (const char *)&ranks[end] + begin, bytes) == 0;
             end++)
            ;
        if (of_device)
            row = (tess_memory_of_rank){.work = 0};
        if (of_device)
            memcpy(row.pool, ranks[first].device, sizeof(row.pool));
        snprintf(name, sizeof(name), end - first > 1 ? "%d-%d" : "%d", first, end - 1);
        TESS_TRY(add_row(text, name, &row));
    }
    return TESS_OK;
}

static tess_status explain_units(tess_buffer *text, const tess_memory_of_rank *r)
{
    char bytes[32];
    TESS_TRY(tess_buffer_printf(text, "  units        %lld of %lld blocks, the largest %s when gathered",
                                (long long)r->n_units, (long long)r->n_blocks,
                                tess_format_bytes((double)r->largest_unit, bytes, sizeof(bytes))));
    return tess_buffer_printf(text, "\n");
}

static tess_status explain(tess_buffer *text, const tess_memory_plan *plan, const tess_memory_of_rank *r)
{
    char bytes[32], optimizer[32];
    int n_tables;
    const tess_option_table *tables = tess_config_tables(&n_tables);
    TESS_TRY(tess_options_format_key(tables, n_tables, plan->config, "optimizer.name", optimizer, sizeof(optimizer)));
    TESS_TRY(
        tess_buffer_printf(text,
                           "\n  params       weights in float32, a rank's share\n"
                           "  grads        sums of gradients in float32, of what trains\n"
                           "  optimizer    state of %s, of what trains\n"
                           "  activations  of %lld tokens (%lld rows of %lld), and %s of work space for kernels\n"
                           "  comm         gathered weights and windows of gradients; what ranks share counts for the "
                           "first of them\n",
                           optimizer, (long long)(tess_config_pass_rows(plan->config) * plan->config->training.seq_len),
                           (long long)tess_config_pass_rows(plan->config), (long long)plan->config->training.seq_len,
                           tess_format_bytes(r->work, bytes, sizeof(bytes))));
    TESS_TRY(explain_units(text, r));
    if (disk_of(r) > 0)
        TESS_TRY(tess_buffer_printf(text,
                                    "  disk         in offload.folder (docs/howto/offload.md): no memory, but for a "
                                    "window in comm (offload.resident)\n"));
    return tess_buffer_printf(text, "  misc         %s; texts, tokenizer and buffers come on top: some tens of MiB\n",
                              plan->saves_beside ? "the copy that a save writes from (checkpoint.async)" : "nothing");
}

/* Adds the rows of devices. */
static tess_status add_devices(tess_buffer *text, const tess_memory_of_rank *ranks, int n)
{
    if (tess_memory_of_device(&ranks[0]) == 0)
        return TESS_OK;
    TESS_TRY(tess_buffer_printf(
        text, "\nof the memory of devices, without work space of kernels%s\n",
        ranks[0].device[TESS_POOL_PARAMS] > 0 ? "; above, params and optimizer are the host's copies" : ""));
    return add_rows(text, ranks, n, true);
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
                                n > 1 ? "s" : "",
                                tess_strategy_name((tess_strategy)plan->config->parallelism.shard_strategy), "rank"));
    for (int i = 0; i < N_COLUMNS; i++)
        TESS_TRY(tess_buffer_printf(text, " %11s", tess_pool_name(columns[i])));
    TESS_TRY(tess_buffer_printf(text, " %11s", "sum"));
    TESS_TRY(tess_buffer_printf(text, disk_of(&all) > 0 ? "        disk\n" : "\n"));
    TESS_TRY(add_rows(text, ranks, n, false));
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

/* ---- The volume ---- */
/* Adds what a step of rank 0 brings from other ranks: a row for each team and operation. */
static tess_status add_volume(tess_buffer *text, const tess_dry_report *dry)
{
    double sum = dry->exchanged_bytes;
    TESS_TRY(tess_buffer_printf(text, "\nvolume of a step of rank 0, in MiB from other ranks\n  %-24s %-24s %9s %11s\n",
                                "axis", "operation", "number", "MiB"));
    for (int i = 0; i < dry->volume.n_rows; i++) {
        const tess_volume_row *row = &dry->volume.rows[i];
        sum += (double)row->bytes;
        if (row->bytes > 0)
            TESS_TRY(tess_buffer_printf(text, "  %-24s %-24s %9lld %11.3f\n", row->team, tess_trace_op_name(row->kind),
                                        (long long)row->n, (double)row->bytes / 0x1p20));
    }
    if (dry->exchanged_bytes > 0)
        TESS_TRY(tess_buffer_printf(text, "  %-24s %-24s %9s %11.3f\n", "tp", "exchanges of layers", "",
                                    dry->exchanged_bytes / 0x1p20));
    return tess_buffer_printf(text, "  %-24s %-24s %9s %11.3f\n", "all", "", "", sum / 0x1p20);
}

static tess_status predict_volume(const tess_memory_plan *plan, const tess_model_config *sizes, tess_buffer *text)
{
    tess_dry_report dry;
    tess_memory_plan whole = *plan;
    whole.moves = true;
    TESS_TRY(tess_dry_rank(&whole, sizes, 0, &dry));
    return dry.volume.n_rows > 0 ? add_volume(text, &dry) : TESS_OK;
}

/* ---- All ---- */
static tess_status predict_ranks(tess_mem *mem, tess_memory_rank_fn predict, const tess_config *config,
                                 const tess_model_config *sizes, int n, tess_memory_of_rank *ranks,
                                 tess_memory_plan *plan)
{
    *plan = tess_memory_plan_of(config, tess_config_trainers(config, n));
    plan->saves_beside = config->checkpoint.enable && config->checkpoint.async;
    int n_trainers = tess_config_trainers(config, n);
    tess_status status = TESS_OK;
    for (int rank = 0; status == TESS_OK && rank < n_trainers; rank++)
        status = predict(mem, sizes, plan, rank, &ranks[rank]);
    for (int rank = n_trainers; status == TESS_OK && rank < n; rank++)
        status = tess_memory_of_drawing(sizes, config, 0, &ranks[rank]);
    return status;
}

tess_status tess_memory_table(tess_mem *mem, tess_memory_rank_fn predict, const tess_config *config, int n_ranks,
                              tess_buffer *text)
{
    tess_model_config sizes;
    tess_memory_plan plan;
    TESS_AUTO(tess_mem_drop) tess_memory_of_rank *ranks = NULL;
    TESS_TRY(tess_config_load_model(config, NULL, &sizes));
    TESS_TRY(tess_config_check_trainable(mem, config, &sizes));
    int n = n_ranks;
    TESS_TRY(TESS_NEW(mem, n, "memory of ranks", &ranks));
    TESS_TRY(predict_ranks(mem, predict, config, &sizes, n, ranks, &plan));
    TESS_TRY(add_table(text, &plan, ranks, n));
    if (tess_config_trainers(config, n) > 1)
        TESS_TRY(predict_volume(&plan, &sizes, text));
    return TESS_OK;
}
