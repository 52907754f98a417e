/* Runs one rank of a run that is verified. Stores digests of weights and gradients after each of its first steps. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/core/flat.h"
#include "base/os/os.h"
#include "device/bf16.h"
#include "tessera/comm.h"
#include "train/first_steps.h"
#include "train/text/text_task.h"
#include "verify/verify_impl.h"

enum { CHUNK = 1 << 16 }; /* elements compared at a time */

/* Elements of a shard that are consecutive both in the whole tensor and in this rank's memory. */
typedef struct shard_run {
    int64_t n;
    int64_t number; /* index of the first one in the tensor */
    int64_t at;     /* index of the first one in memory */
} shard_run;

/* Returns the run of consecutive elements of `part`, a part of the shard, that begins at its element `done`. */
static shard_run run_from(const tess_shard *shard, const tess_box *part, int64_t done)
{
    const tess_shape shape = tess_shape_atleast_1d(&shard->shape);
    const tess_box whole = tess_box_whole(&shape);
    shard_run run = {.n = tess_flat_run(shape.n_dims, shape.dim, part->size)};
    tess_box slice;
    tess_flat_slice(shape.n_dims, part, done, run.n, &slice);
    run.number = tess_flat_offset(shape.n_dims, &whole, &slice);
    run.at = tess_flat_offset(shape.n_dims, &shard->box, &slice);
    return run;
}

static int64_t count_of(const tess_shard *shard, const tess_box *part)
{
    return tess_box_count(tess_shape_atleast_1d(&shard->shape).n_dims, part);
}

/* Hashes an element and its index with the finalizer of MurmurHash3 (Appleby, public domain). */
static uint64_t hash_element(uint32_t bits, uint64_t number)
{
    uint64_t h = number * 0x9e3779b97f4a7c15u + bits;
    h = (h ^ h >> 33) * 0xff51afd7ed558ccdu;
    h = (h ^ h >> 33) * 0xc4ceb9fe1a85ec53u;
    return h ^ h >> 33;
}

uint64_t verify_hash(const tess_shard *shard, const tess_box *part, const void *values, tess_dtype dtype)
{
    uint64_t sum = 0;
    shard_run run;
    for (int64_t done = 0, n = count_of(shard, part); done < n; done += run.n) {
        run = run_from(shard, part, done);
        for (int64_t i = 0; i < run.n; i++)
            sum += hash_element(tess_float_bits(tess_get_float(values, dtype, (size_t)(run.at + i))),
                                (uint64_t)(run.number + i));
    }
    return sum;
}

static void add_digest(const verify_run *run, const tess_engine *e, int tensor, const tess_shard *shard)
{
    run_digest *d = verify_digest_of(run, e->step, tensor);
    const void *narrow =
        tess_engine_own_param(e, tensor) >= 0 ? tess_fsdp_narrow(e->fsdp, tess_engine_own_param(e, tensor)) : NULL;
    const void *values[] = {narrow != NULL ? narrow : shard->master, shard->grad};
    const tess_dtype dtypes[] = {narrow != NULL ? tess_fsdp_param_dtype(e->fsdp) : TESS_F32, TESS_F32};
    _Atomic uint64_t *primary[] = {&d->weights, &d->grads}, *held[] = {&d->held_weights, &d->held_grads};
    for (int i = 0; i < 2 && values[i] != NULL; i++) {
        uint64_t own = verify_hash(shard, &shard->primary, values[i], dtypes[i]);
        bool has_more = count_of(shard, &shard->box) > count_of(shard, &shard->primary);
        uint64_t all = has_more ? verify_hash(shard, &shard->box, values[i], dtypes[i]) : own;
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
    TESS_AUTO(tess_mem_drop) float *there = NULL;
    TESS_TRY(TESS_NEW(e->mem, CHUNK, "values", &there));
    for (int64_t i = 0; i < n; i += CHUNK) {
        int64_t m = n - i < CHUNK ? n - i : CHUNK;
        TESS_TRY(tess_os_read_at(run->values_fd, (uint64_t)(at + i) * sizeof(float), there, (size_t)m * sizeof(float),
                                 "temporary file of the values"));
        tess_verify_compare(values + i, there, m, number + i, tess_team_global_rank(e->team, e->at.rank), delta);
    }
    return TESS_OK;
}

/* Writes the primary part of a tensor to the file, or compares it with the file. `first` is the position of the
 * tensor's first element in the file. */
static tess_status handle_part(const verify_run *run, tess_engine *e, const tess_shard *shard, const float *values,
                               int64_t first, tess_verify_delta *delta)
{
    shard_run part;
    for (int64_t done = 0, n = count_of(shard, &shard->primary); done < n; done += part.n) {
        part = run_from(shard, &shard->primary, done);
        if (run->values == RUN_WRITES_VALUES)
            TESS_TRY(tess_os_write_at(run->values_fd, (size_t)(first + part.number) * sizeof(float), values + part.at,
                                      (size_t)part.n * sizeof(float), "temporary file of the values"));
        else
            TESS_TRY(compare_values(run, e, values + part.at, part.n, first + part.number, part.number, delta));
    }
    return TESS_OK;
}

static tess_status handle_values(const verify_run *run, tess_engine *e, int tensor)
{
    tess_shard shard;
    TESS_TRY(tess_engine_shard(e, tensor, &shard));
    const run_tensor *t = &run->tensors[tensor], *last = &run->tensors[run->n_tensors - 1];
    const float *values[] = {shard.grad, shard.master};
    int64_t all = last->offset + tess_shape_count(&last->shape);
    for (int i = 0; i < 2; i++) {
        tess_verify_delta *delta = &run->header->deltas[(e->at.rank * run->n_tensors + tensor) * 2 + i];
        if (values[i] != NULL)
            TESS_TRY(handle_part(run, e, &shard, values[i], i * all + t->offset, delta));
    }
    return TESS_OK;
}

/* ---- The run ---- */
static tess_status describe_tensors(verify_run *run, const tess_engine *e)
{
    int64_t offset = 0;
    TESS_CHECK(tess_model_n_params(e->whole) == run->n_tensors, TESS_E_INTERNAL, "%d tensors, expected %d",
               tess_model_n_params(e->whole), run->n_tensors);
    for (int i = 0; i < run->n_tensors; i++) {
        tess_shard shard;
        TESS_TRY(tess_engine_shard(e, i, &shard));
        run->shards[e->at.rank * run->n_tensors + i] =
            (run_shard){.held = shard.box, .primary = shard.primary, .narrow = shard.master == NULL};
        if (e->at.rank != 0)
            continue;
        run_tensor *t = &run->tensors[i];
        snprintf(t->name, sizeof(t->name), "%s", shard.name);
        t->shape = tess_shape_atleast_1d(&shard.shape);
        t->offset = offset;
        offset += tess_shape_count(&t->shape);
    }
    return TESS_OK;
}

static tess_status ready(void *self, tess_engine *e)
{
    TESS_TRY(describe_tensors(self, e));
    return tess_barrier(e->team, NULL); /* after the barrier, all ranks have the offsets */
}

static tess_status stepped(void *self, tess_engine *e, const tess_engine_report *report)
{
    const verify_run *run = self;
    TESS_TRY(tess_fsdp_see_gradients(e->fsdp));
    for (int i = 0; i < run->n_tensors; i++) {
        tess_shard shard;
        TESS_TRY(tess_engine_shard(e, i, &shard));
        add_digest(run, e, i, &shard);
    }
    if (e->at.rank == 0) {
        run->header->loss[e->step - 1] = report->loss;
        run->header->grad_norm[e->step - 1] = report->grad_norm;
    }
    return TESS_OK;
}

static tess_status finished(void *self, tess_engine *e)
{
    const verify_run *run = self;
    run->peaks[e->at.rank].rank = tess_team_global_rank(e->team, e->at.rank);
    tess_engine_peaks(e, run->peaks[e->at.rank].bytes);
    run->peaks[e->at.rank].codes = (int64_t)tess_fsdp_codes_bytes(e->fsdp);
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
                                    .native_reductions = c->comm.reduction == TESS_REDUCTION_NATIVE,
                                    .kernels = run->kernels,
                                    .fault = run->with_faults && c->fault.spec[0] != '\0' ? c->fault.spec : "",
                                    .fault_seed = (uint64_t)c->fault.seed,
                                    .phases = tess_train_phases};
    tess_status status = tess_runtime_create(&options, &rt);
    bool joined = status == TESS_OK;
    const tess_first_steps_observer observer = {run, ready, stepped, finished};
    if (joined)
        status = tess_train_first_steps(rt, &tess_text_task_kind, c, run->steps, &observer);
    if (!joined || tess_runtime_rank(rt) == 0) { /* ranks that cannot join all fail in the same way */
        run->header->status = status;
        snprintf(run->header->message, sizeof(run->header->message), "%s", tess_error_message());
    }
    tess_runtime_destroy(&rt);
    return status == TESS_OK ? 0 : 1;
}
