/* One rank of a run: the trainer's first steps, without its folder. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/os/os.h"
#include "tessera/comm.h"
#include "train/model_folder.h"
#include "train/trainer_impl.h"
#include "train/verify/verify_impl.h"

enum { CHUNK = 1 << 16 }; /* elements compared at a time */

static uint64_t hash_rows(const tess_shard *shard, const float *values, int64_t first, int64_t n)
{
    int64_t row = tess_shape_row_count(&shard->shape);
    uint64_t sum = 0;
    for (int64_t i = first; i < first + n; i++)
        sum += XXH3_64bits_withSeed(values + (i - shard->box.begin[0]) * row, (size_t)row * sizeof(float), (uint64_t)i);
    return sum;
}

static void add_digest(const verify_run *run, const tess_engine *e, int tensor, const tess_shard *shard)
{
    run_digest *d = verify_digest_of(run, e->step, tensor);
    const float *values[] = {shard->master, shard->grad};
    _Atomic uint64_t *primary[] = {&d->weights, &d->grads}, *held[] = {&d->held_weights, &d->held_grads};
    for (int i = 0; i < 2 && values[i] != NULL; i++) {
        uint64_t own = hash_rows(shard, values[i], shard->primary.begin[0], shard->primary.size[0]);
        bool has_more = shard->box.size[0] > shard->primary.size[0];
        uint64_t all = has_more ? hash_rows(shard, values[i], shard->box.begin[0], shard->box.size[0]) : own;
        atomic_fetch_add(primary[i], own);
        atomic_fetch_add(held[i], all);
        if (i == 0)
            run->shards[e->at.rank * run->n_tensors + tensor].weights = all;
    }
}

/* ---- Values of the last step ---- */
static tess_status compare_values(const verify_run *run, tess_engine *e, const float *values, int64_t n, int64_t at,
                                  int64_t number, tess_verify_delta *delta)
{
    float *there;
    TESS_TRY(tess_mem_alloc_array(e->mem, TESS_POOL_MISC, CHUNK, sizeof(*there), "values", (void **)&there));
    tess_status status = TESS_OK;
    for (int64_t i = 0; i < n && status == TESS_OK; i += CHUNK) {
        int64_t m = n - i < CHUNK ? n - i : CHUNK;
        status = tess_os_read_at(run->values_fd, (uint64_t)(at + i) * sizeof(float), there, (size_t)m * sizeof(float),
                                 "temporary file of the values");
        if (status == TESS_OK)
            tess_verify_compare(values + i, there, m, number + i, e->at.rank, delta);
    }
    tess_mem_free(e->mem, there);
    return status;
}

/* Writes the tensor's primary rows to the file, or compares them with it. */
static tess_status handle_values(const verify_run *run, tess_engine *e, int tensor)
{
    tess_shard shard;
    TESS_TRY(tess_fsdp_shard(e->fsdp, tensor, &shard));
    const run_tensor *t = &run->tensors[tensor], *last = &run->tensors[run->n_tensors - 1];
    const float *values[] = {shard.grad, shard.master};
    int64_t all = last->offset + last->rows * last->row;
    int64_t number = shard.primary.begin[0] * t->row, n = shard.primary.size[0] * t->row;
    int64_t skip = (shard.primary.begin[0] - shard.box.begin[0]) * t->row;
    for (int i = 0; i < 2; i++) {
        int64_t at = i * all + t->offset + number;
        tess_verify_delta *delta = &run->header->deltas[(e->at.rank * run->n_tensors + tensor) * 2 + i];
        if (values[i] == NULL)
            continue;
        if (run->values == RUN_WRITES_VALUES)
            TESS_TRY(tess_os_write_at(run->values_fd, (size_t)at * sizeof(float), values[i] + skip,
                                      (size_t)n * sizeof(float), "temporary file of the values"));
        else
            TESS_TRY(compare_values(run, e, values[i] + skip, n, at, number, delta));
    }
    return TESS_OK;
}

/* ---- The run ---- */
static tess_status describe_tensors(verify_run *run, const tess_engine *e)
{
    int64_t offset = 0;
    TESS_CHECK(tess_fsdp_shards(e->fsdp) == run->n_tensors, TESS_E_INTERNAL, "%d tensors, expected %d",
               tess_fsdp_shards(e->fsdp), run->n_tensors);
    for (int i = 0; i < run->n_tensors; i++) {
        tess_shard shard;
        TESS_TRY(tess_fsdp_shard(e->fsdp, i, &shard));
        run->shards[e->at.rank * run->n_tensors + i] =
            (run_shard){shard.box.begin[0], shard.box.size[0], shard.primary.begin[0], shard.primary.size[0], 0};
        if (e->at.rank != 0)
            continue;
        run_tensor *t = &run->tensors[i];
        snprintf(t->name, sizeof(t->name), "%s", shard.name);
        t->rows = tess_shape_rows(&shard.shape);
        t->row = tess_shape_row_count(&shard.shape);
        t->offset = offset;
        offset += t->rows * t->row;
    }
    return TESS_OK;
}

static tess_status run_rank(verify_run *run, tess_trainer *t)
{
    TESS_TRY(tess_trainer_join_hosts(t));
    TESS_TRY(tess_config_load_model(&t->config, &t->model_config));
    TESS_TRY(tess_trainer_check_memory(t));
    TESS_TRY(tess_trainer_tokenizer(t));
    TESS_TRY(tess_trainer_open_data(t));
    TESS_TRY(tess_engine_create(t->runtime, &t->config, &t->model_config, NULL, &t->engine));
    tess_engine *e = t->engine;
    TESS_TRY(describe_tensors(run, e));
    TESS_TRY(tess_barrier(t->team, NULL)); /* all have the offsets */
    for (int64_t i = 0; i < run->steps; i++) {
        tess_engine_report report;
        tess_batch_source source;
        TESS_TRY(tess_trainer_next_step(t, &source));
        TESS_TRY(tess_engine_step(e, &source, &report));
        TESS_CHECK(!report.stop, TESS_E_INTERRUPTED, "interrupted after step %lld", (long long)e->step);
        for (int k = 0; k < run->n_tensors; k++) {
            tess_shard shard;
            TESS_TRY(tess_fsdp_shard(e->fsdp, k, &shard));
            add_digest(run, e, k, &shard);
        }
        if (e->at.rank == 0) {
            run->header->loss[i] = report.loss;
            run->header->grad_norm[i] = report.grad_norm;
        }
    }
    tess_engine_peaks(e, run->header->peak_bytes[e->at.rank]);
    if (e->at.rank == 0)
        snprintf(run->header->kernels, sizeof(run->header->kernels), "%s", tess_stream_kernels(e->stream)->name);
    for (int i = 0; i < run->n_tensors && run->values != RUN_NO_VALUES; i++)
        TESS_TRY(handle_values(run, e, i));
    return TESS_OK;
}

int verify_rank_main(void *context)
{
    verify_run *run = context;
    const tess_config *c = &run->config;
    tess_runtime *rt;
    tess_runtime_options options = {.n_threads = (int)c->training.threads,
                                    .comm_timeout_s = c->comm.timeout_s,
                                    .config_hash = tess_config_hash(c),
                                    .native_reductions = c->comm.reduction == 1,
                                    .kernels = run->kernels,
                                    .fault = run->with_faults && c->fault.spec[0] != '\0' ? c->fault.spec : "",
                                    .fault_seed = (uint64_t)c->fault.seed,
                                    .phases = tess_train_phases};
    tess_status status = tess_runtime_create(&options, &rt);
    bool joined = status == TESS_OK;
    if (joined) {
        tess_trainer trainer;
        tess_trainer_begin(&trainer, rt, c, NULL);
        status = tess_trainer_end(&trainer, run_rank(run, &trainer));
    }
    if (!joined || tess_runtime_rank(rt) == 0) { /* ranks that cannot join fail alike */
        run->header->status = status;
        snprintf(run->header->message, sizeof(run->header->message), "%s", tess_error_message());
    }
    tess_runtime_destroy(&rt);
    return status == TESS_OK ? 0 : 1;
}
