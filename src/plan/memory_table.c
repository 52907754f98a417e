#include "plan/memory_table.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/mem/scoped.h"
#include "base/os/memory_group.h"
#include "base/text/json.h"
#include "engine/model/adapter.h"
#include "plan/dry_rank.h"
#include "engine/model/model_file.h"

#define ROWS(list) "{*" list "}  {rank:-10}{*gib} {:11.3f}{/} {sum:11.3f}[{offloads:!} {disk:11.3f}][   {stages}]\n{/}"

const char tess_memory_form[] =
    "[{memory:!}\nmemory of {memory.n_ranks} rank{memory.n_ranks:s} at the peak, in GiB, sharding {memory.sharding}\n"
    "  rank      {*memory.pools} {:11}{/}         sum[{memory.disk:!}        disk]\n" ROWS(
        "memory.ranks") "[{memory.devices:!}\nof the memory of devices, without work space of kernels"
                        "[{memory.copied:!}; above, params and optimizer are the host's copies]\n" ROWS(
                            "memory.devices") "]"
                                              "\n  params       weights in float32, a rank's share\n"
                                              "  grads        sums of gradients in float32, of what trains\n"
                                              "  optimizer    state of {memory.optimizer}, of what trains\n"
                                              "  activations  of {memory.tokens} tokens ({memory.rows} rows of "
                                              "{memory.seq_len}), and {memory.work:B} of work space "
                                              "for kernels\n"
                                              "  comm         gathered weights and windows of gradients; what ranks "
                                              "share counts for the first of them\n"
                                              "  units        {memory.units} of {memory.blocks} blocks, the largest "
                                              "{memory.largest_unit:B} when gathered\n"
                                              "[{memory.disk_of_first:!}  disk         in offload.folder "
                                              "(docs/howto/offload.md): no memory, but for a window in comm "
                                              "(offload.resident)\n]"
                                              "  misc         [{memory.saves_beside:!}the copy that a save writes from "
                                              "(checkpoint.async)|nothing]; texts, tokenizer "
                                              "and buffers come on top: some tens of MiB\n"
                                              "[{memory.room:!}  {memory.needed:B} in all; "
                                              "[{memory.room.by_group:!}the control group of this process|this host] "
                                              "has "
                                              "{memory.room.left:B} left[{memory.room.too_little:!}: TOO LITTLE]\n"
                                              "[{memory.room.fits_with:!}  it would fit {memory.room.fits_with}\n]]"
                                              "[{memory.volume:!}\nvolume of a step of rank 0, in MiB from other "
                                              "ranks\n"
                                              "  axis                     operation                   number         "
                                              "MiB\n"
                                              "{*memory.volume}  {axis:-24} {operation:-24} {number:9} "
                                              "{mib:11.3f}\n{/}]]";

/* `offloads`: the table has a column of bytes on disk. */
static void add_row(json_t *rows, const char *name, const tess_memory_of_rank *r, bool offloads)
{
    json_t *gib = json_array();
    for (int pool = 0; pool < TESS_POOL_COUNT; pool++)
        json_array_append_new(gib, json_real(r->pool[pool] / 0x1p30));
    json_array_append_new(rows, json_pack("{s:s, s:o, s:f, s:f, s:b, s:s}", "rank", name, "gib", gib, "sum",
                                          tess_pools_sum(r->pool) / 0x1p30, "disk", tess_pools_sum(r->disk) / 0x1p30,
                                          "offloads", offloads, "stages", r->stages));
}

/* Returns the rows of the table, of the host's memory or of the device's. Consecutive ranks with equal memory share a
 * row. */
static json_t *describe_ranks(const tess_memory_of_rank *ranks, int n, bool of_device, bool offloads)
{
    const size_t begin = of_device ? offsetof(tess_memory_of_rank, device) : 0;
    const size_t bytes = of_device ? sizeof(ranks->device) : sizeof(*ranks);
    json_t *rows = json_array();
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
        add_row(rows, name, &row, offloads);
    }
    return rows;
}

static tess_status describe_plan(const tess_memory_plan *plan, const tess_memory_of_rank *r, json_t *memory)
{
    char optimizer[32];
    int n_tables;
    const tess_option_table *tables = tess_config_tables(&n_tables);
    const json_int_t rows = tess_config_pass_rows(plan->config), seq_len = plan->config->training.seq_len;
    TESS_TRY(tess_options_format_key(tables, n_tables, plan->config, "optimizer.name", optimizer, sizeof(optimizer)));
    json_object_update_new(memory,
                           json_pack("{s:s, s:s, s:I, s:I, s:I, s:f, s:I, s:I, s:f, s:f, s:b}", "sharding",
                                     tess_strategy_name((tess_strategy)plan->config->parallelism.shard_strategy),
                                     "optimizer", optimizer, "tokens", rows * seq_len, "rows", rows, "seq_len", seq_len,
                                     "work", r->work, "units", (json_int_t)r->n_units, "blocks",
                                     (json_int_t)r->n_blocks, "largest_unit", (double)r->largest_unit, "disk_of_first",
                                     tess_pools_sum(r->disk), "saves_beside", plan->saves_beside));
    return TESS_OK;
}

static tess_status describe_room(tess_mem *mem, const tess_model_config *sizes, const tess_memory_plan *plan,
                                 json_t *memory)
{
    char offers[640];
    const double needed = json_number_value(json_object_get(memory, "needed"));
    bool by_group;
    uint64_t available = tess_memory_available(&by_group);
    if (available == UINT64_MAX)
        return TESS_OK;
    json_t *room = json_pack("{s:f, s:b, s:b}", "left", (double)available, "by_group", by_group, "too_little",
                             needed > (double)available);
    json_object_set_new(memory, "room", room);
    if (needed <= (double)available)
        return TESS_OK;
    TESS_TRY(tess_memory_would_fit(mem, sizes, plan, (double)available, false, offers, sizeof(offers)));
    json_object_set_new(room, "fits_with", tess_json_text(offers));
    return TESS_OK;
}

static tess_status describe_all(const tess_memory_plan *plan, const tess_memory_of_rank *ranks, int n, json_t *memory)
{
    tess_memory_of_rank all = {.work = 0};
    json_t *pools = json_array();
    for (int rank = 0; rank < n; rank++)
        for (int pool = 0; pool < TESS_POOL_COUNT; pool++) {
            all.pool[pool] += ranks[rank].pool[pool];
            all.disk[pool] += ranks[rank].disk[pool];
        }
    const bool offloads = tess_pools_sum(all.disk) > 0;
    json_t *rows = describe_ranks(ranks, n, false, offloads);
    if (n > 1)
        add_row(rows, "all", &all, offloads);
    for (int pool = 0; pool < TESS_POOL_COUNT; pool++)
        json_array_append_new(pools, json_string(tess_pool_name((tess_pool)pool)));
    json_object_update_new(memory, json_pack("{s:i, s:o, s:o, s:f}", "n_ranks", n, "pools", pools, "ranks", rows,
                                             "disk", tess_pools_sum(all.disk)));
    if (tess_pools_sum(ranks[0].device) > 0)
        json_object_update_new(memory, json_pack("{s:o, s:b}", "devices", describe_ranks(ranks, n, true, false),
                                                 "copied", ranks[0].device[TESS_POOL_PARAMS] > 0));
    json_object_set_new(memory, "needed", json_real(tess_pools_sum(all.pool)));
    return describe_plan(plan, &ranks[0], memory);
}

/* ---- The volume ---- */
static void add_volume(json_t *rows, const char *axis, const char *operation, json_t *number, double bytes)
{
    json_array_append_new(rows, json_pack("{s:s, s:s, s:o, s:f}", "axis", axis, "operation", operation, "number",
                                          number, "mib", bytes / 0x1p20));
}

/* Names the axes whose ranks share layers, or the tokens of layers. */
static const char *sharing_axes(const tess_config *c)
{
    if (c->parallelism.context_parallel_degree == 1)
        return "tp";
    return c->parallelism.tensor_parallel_degree == 1 ? "cp" : "cp, tp";
}

/* Adds what a step of rank 0 brings from other ranks: a row for each team and operation. */
static tess_status predict_volume(const tess_memory_plan *plan, const tess_model_config *sizes, json_t *memory)
{
    tess_dry_report dry;
    tess_memory_plan whole = *plan;
    whole.moves = true;
    TESS_TRY(tess_dry_rank(&whole, sizes, 0, &dry));
    if (dry.volume.n_rows == 0)
        return TESS_OK;
    double sum = dry.exchanged_bytes;
    json_t *rows = json_array();
    for (int i = 0; i < dry.volume.n_rows; i++) {
        const tess_volume_row *row = &dry.volume.rows[i];
        sum += (double)row->bytes;
        if (row->bytes > 0)
            add_volume(rows, row->team, tess_trace_op_name(row->kind), json_integer((json_int_t)row->n),
                       (double)row->bytes);
    }
    if (dry.exchanged_bytes > 0)
        add_volume(rows, sharing_axes(plan->config), "exchanges of layers", json_string(""), dry.exchanged_bytes);
    add_volume(rows, "all", "", json_string(""), sum);
    json_object_set_new(memory, "volume", rows);
    return TESS_OK;
}

/* ---- All ---- */
tess_status tess_memory_describe(tess_mem *mem, const tess_dry_task *task, const tess_config *config, int n_ranks,
                                 json_t *report)
{
    tess_model_config sizes;
    const int n_train = tess_config_trainers(config, n_ranks);
    tess_memory_plan plan = tess_memory_plan_of(config, n_train);
    TESS_AUTO(tess_mem_drop) tess_memory_of_rank *ranks = NULL;
    TESS_AUTO(tess_memory_ranks_close) tess_memory_ranks *known = NULL;
    const tess_memory_of_rank *need;
    json_auto_t *memory = json_object();
    plan.saves_beside = config->checkpoint.enable && config->checkpoint.async;
    plan.n_drawing = n_ranks - n_train;
    plan.task = task;
    TESS_TRY(tess_config_load_model(config, NULL, &sizes));
    TESS_TRY(tess_config_check_trainable(mem, config, &sizes));
    TESS_TRY(TESS_NEW(mem, n_ranks, "memory of ranks", &ranks));
    TESS_TRY(tess_memory_ranks_open(mem, &sizes, &plan, true, &known));
    for (int rank = 0; rank < n_ranks; rank++) {
        TESS_TRY(tess_memory_ranks_need(known, rank, &need));
        ranks[rank] = *need;
    }
    TESS_TRY(describe_all(&plan, ranks, n_ranks, memory));
    TESS_TRY(describe_room(mem, &sizes, &plan, memory));
    if (n_train > 1)
        TESS_TRY(predict_volume(&plan, &sizes, memory));
    json_object_set(report, "memory", memory);
    return TESS_OK;
}
