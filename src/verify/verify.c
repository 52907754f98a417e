#include "verify/verify.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem/scoped.h"
#include "base/core/variables.h"
#include "base/os/os.h"
#include "engine/model/model_file.h"
#include "nn/model.h"
#include "parallel/pipeline/pipeline.h"
#include "tessera/fsdp.h"
#include "plan/memory_need.h"
#include "verify/verify_impl.h"

static void note(const tess_verify_plan *plan, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void note(const tess_verify_plan *plan, const char *format, ...)
{
    char text[256];
    va_list args;
    if (plan->note == NULL)
        return;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    plan->note(plan->self, text);
}

/* ---- The two runs ---- */
static tess_status count_tensors(tess_mem *mem, const tess_config *config, int *n)
{
    tess_model_config model_config;
    tess_model *model;
    TESS_TRY(tess_config_load_model(config, NULL, &model_config));
    TESS_TRY(tess_model_create(mem, &model_config, &model));
    *n = tess_model_n_params(model);
    tess_model_destroy(&model);
    return TESS_OK;
}

static tess_status open_run(tess_mem *mem, verify_run *run)
{
    run->values_fd = -1;
    TESS_TRY(tess_config_check(&run->config, run->ranks));
    TESS_TRY_CTX(count_tensors(mem, &run->config, &run->n_tensors), "model");
    return verify_run_open(run);
}

tess_status verify_open_layout(tess_mem *mem, const tess_verify_plan *plan, const tess_config *config,
                               verify_run *layout)
{
    *layout = (verify_run){.ranks = plan->ranks, .steps = plan->steps, .with_faults = true};
    TESS_TRY(tess_config_copy(config, &layout->config));
    return open_run(mem, layout);
}

tess_status verify_open_one(tess_mem *mem, const tess_verify_plan *plan, const tess_config *checked, verify_run *one)
{
    *one = (verify_run){.ranks = 1, .steps = plan->steps, .kernels = plan->reference_kernels};
    TESS_TRY(tess_config_copy(checked, &one->config));
    one->config.parallelism.shard_strategy = TESS_STRATEGY_NONE;
    for (int axis = 0; axis < TESS_AXES; axis++)
        *tess_axis_degree(&one->config.parallelism, axis) = 1;
    one->config.parallelism.expert_parallel_degree = 1;
    tess_text_list_free(&one->config.parallelism.rank_order);
    tess_text_list_free(&one->config.parallelism.pipeline_parallel_split_points);
    one->config.activation_checkpoint.partition = false; /* one rank shares no layers */
    one->config.fault.spec[0] = '\0';
    return open_run(mem, one);
}

static tess_status open_runs(tess_mem *mem, const tess_verify_plan *plan, verify_run runs[2])
{
    TESS_TRY(verify_open_layout(mem, plan, plan->config, &runs[LAYOUT]));
    return verify_open_one(mem, plan, &runs[LAYOUT].config, &runs[ONE]);
}

static tess_status run_both(const tess_verify_plan *plan, verify_run runs[2], double seconds[2])
{
    for (int i = ONE; i >= LAYOUT; i--) {
        double begin_s = tess_os_now_s();
        note(plan, "%lld step%s on %d rank%s", (long long)runs[i].steps, runs[i].steps > 1 ? "s" : "", runs[i].ranks,
             runs[i].ranks > 1 ? "s" : "");
        TESS_TRY_CTX(verify_run_steps(&runs[i]), "%s", i == ONE ? "one rank" : "the layout");
        seconds[i] = tess_os_now_s() - begin_s;
    }
    return TESS_OK;
}

/* ---- Differences ---- */
static bool differs(double a, double b)
{
    return memcmp(&a, &b, sizeof(a)) != 0;
}

static void note_step(int64_t step, bool is_different, int64_t *first)
{
    if (is_different && *first == 0)
        *first = step;
}

static void compare_step(const verify_run runs[2], int64_t step, tess_verify_result *r)
{
    note_step(step, differs(r->loss[0][step - 1], r->loss[1][step - 1]), &r->loss_step);
    note_step(step, differs(r->grad_norm[0][step - 1], r->grad_norm[1][step - 1]), &r->norm_step);
    for (int i = 0; i < r->n_tensors; i++) {
        const run_digest *a = verify_digest_of(&runs[LAYOUT], step, i), *b = verify_digest_of(&runs[ONE], step, i);
        note_step(step, a->grads != b->grads, &r->tensors[i].grads_step);
        note_step(step, a->weights != b->weights, &r->tensors[i].weights_step);
        note_step(step, r->tensors[i].grads_step != 0 || r->tensors[i].weights_step != 0, &r->first_step);
    }
    note_step(step, r->loss_step != 0 || r->norm_step != 0, &r->first_step);
}

/* ---- Memory ---- */
/* Returns the planned bytes of the optimizer on the rank that has most. */
static tess_status plan_optimizer(tess_mem *mem, const verify_run *layout, int64_t *most)
{
    const tess_memory_plan plan = tess_memory_plan_of(&layout->config, layout->ranks);
    TESS_AUTO(tess_memory_ranks_close) tess_memory_ranks *ranks = NULL;
    *most = 0;
    TESS_TRY(tess_memory_ranks_open(mem, tess_model_get_config(layout->planned.model), &plan, true, &ranks));
    for (int rank = 0; rank < layout->ranks; rank++) {
        const tess_memory_of_rank *need;
        TESS_TRY(tess_memory_ranks_need(ranks, rank, &need));
        int64_t bytes = (int64_t)need->pool[TESS_POOL_OPTIMIZER];
        *most = bytes > *most ? bytes : *most;
    }
    return TESS_OK;
}

static tess_status measure_memory(tess_mem *mem, const verify_run runs[2], tess_verify_result *r)
{
    int64_t optimizer;
    TESS_TRY_CTX(plan_optimizer(mem, &runs[LAYOUT], &optimizer), "memory");
    for (int pool = 0; pool < TESS_POOL_COUNT; pool++) {
        tess_verify_memory *m = &r->memory[pool];
        *m = (tess_verify_memory){.one = runs[ONE].peaks[0].bytes[pool], .planned = -1};
        for (int rank = 0; rank < runs[LAYOUT].ranks; rank++) {
            int64_t bytes = runs[LAYOUT].peaks[rank].bytes[pool];
            m->all += bytes;
            m->largest = bytes > m->largest ? bytes : m->largest;
        }
    }
    const tess_config *c = &runs[LAYOUT].config; /* bytes on disk do not count as memory */
    r->memory[TESS_POOL_PARAMS].planned = c->offload.params ? -1 : verify_most_planned(&runs[LAYOUT]);
    r->memory[TESS_POOL_OPTIMIZER].planned = optimizer;
    return TESS_OK;
}

/* ---- Values of tensors whose hashes differ ---- */
/* Creates an unlinked file, which disappears when its last descriptor is closed. */
static tess_status open_values(const tess_verify_result *r, int *fd)
{
    char path[4096];
    const char *folder = tess_variable_value(TESS_VAR_TMPDIR);
    int64_t elements = 0;
    for (int i = 0; i < r->n_tensors; i++)
        elements += r->tensors[i].rows * r->tensors[i].row;
    snprintf(path, sizeof(path), "%s/tessera-verify-XXXXXX", folder != NULL && folder[0] != '\0' ? folder : "/tmp");
    *fd = mkostemp(path, O_CLOEXEC);
    if (*fd < 0)
        return tess_os_error("create", path);
    unlink(path);
    tess_status status = tess_os_reserve(*fd, (uint64_t)elements * 2 * sizeof(float), path);
    if (status == TESS_OK)
        return TESS_OK;
    tess_os_close(fd);
    return tess_fail_context(status, "no room for %lld values (set TMPDIR)", (long long)elements * 2);
}

static bool same_again(const verify_run *run, const verify_run *again, int64_t step)
{
    if (differs(run->header->loss[step - 1], again->header->loss[step - 1]))
        return false;
    for (int i = 0; i < run->n_tensors; i++)
        if (verify_digest_of(run, step, i)->grads != verify_digest_of(again, step, i)->grads ||
            verify_digest_of(run, step, i)->weights != verify_digest_of(again, step, i)->weights)
            return false;
    return true;
}

static void collect_values(const verify_run *layout, tess_verify_result *r)
{
    for (int rank = 0; rank < layout->ranks; rank++) {
        const tess_verify_delta *deltas = &layout->header->deltas[(size_t)rank * (size_t)r->n_tensors * 2];
        for (int i = 0; i < r->n_tensors; i++) {
            tess_verify_merge(&deltas[i * 2], &r->tensors[i].grads);
            tess_verify_merge(&deltas[i * 2 + 1], &r->tensors[i].weights);
        }
    }
    r->has_values = true;
}

static tess_status run_again(const tess_verify_plan *plan, const verify_run runs[2], int fd, tess_verify_result *r)
{
    double seconds[2];
    verify_run again[2];
    for (int i = 0; i < 2; i++) {
        again[i] = runs[i]; /* the repeated runs share the configurations of the first ones */
        again[i].steps = r->first_step;
        again[i].values = i == ONE ? RUN_WRITES_VALUES : RUN_COMPARES_VALUES;
        again[i].values_fd = fd;
        again[i].shared = NULL;
    }
    tess_status status = verify_run_open(&again[0]);
    if (status == TESS_OK)
        status = verify_run_open(&again[1]);
    if (status == TESS_OK)
        status = run_both(plan, again, seconds);
    if (status == TESS_OK) {
        bool one_is = same_again(&runs[ONE], &again[ONE], r->first_step);
        bool layout_is = same_again(&runs[LAYOUT], &again[LAYOUT], r->first_step);
        r->irreproducible = !one_is ? 2 : !layout_is ? 1 : 0;
        collect_values(&again[LAYOUT], r);
    }
    verify_run_unmap(&again[0]);
    verify_run_unmap(&again[1]);
    return status;
}

/* Finds the values that differ. If the disk has no room for the values, the result still names the tensors. */
static tess_status find_values(const tess_verify_plan *plan, const verify_run runs[2], tess_verify_result *r)
{
    TESS_AUTO(tess_os_close) int fd = -1;
    if (open_values(r, &fd) != TESS_OK) {
        snprintf(r->no_values, sizeof(r->no_values), "%s", tess_error_message());
        return TESS_OK;
    }
    note(plan, "step %lld differs: once more, for the values", (long long)r->first_step);
    return run_again(plan, runs, fd, r);
}

/* ---- The whole ---- */
static tess_status plan_places(tess_mem *mem, verify_run *layout, tess_verify_result *r)
{
    tess_model_config sizes;
    TESS_TRY(tess_config_load_model(&layout->config, NULL, &sizes));
    TESS_TRY(tess_param_placements_create(mem, &layout->config, &sizes, &layout->planned));
    for (int i = 0; i < r->n_tensors; i++)
        r->tensors[i].stage = layout->planned.list[i].stage;
    r->stages = layout->planned.n_stages;
    if (r->stages > 1)
        snprintf(r->schedule, sizeof(r->schedule), "%s",
                 tess_pipeline_kind_name((tess_pipeline_kind)layout->config.parallelism.pipeline_parallel_schedule));
    return TESS_OK;
}

tess_status verify_take_results(tess_mem *mem, verify_run runs[2], tess_verify_result *r)
{
    r->n_tensors = runs[LAYOUT].n_tensors;
    TESS_TRY(TESS_NEW(mem, r->n_tensors, "tensors", &r->tensors));
    snprintf(r->strategy, sizeof(r->strategy), "%s",
             tess_strategy_name((tess_strategy)runs[LAYOUT].config.parallelism.shard_strategy));
    r->sharing = (int)runs[LAYOUT].config.parallelism.tensor_parallel_degree;
    r->dividing = (int)runs[LAYOUT].config.parallelism.context_parallel_degree;
    r->n_experts = (int)runs[LAYOUT].config.parallelism.expert_parallel_degree;
    for (int i = 0; i < r->n_tensors; i++) {
        const run_tensor *t = &runs[ONE].tensors[i];
        snprintf(r->tensors[i].name, sizeof(r->tensors[i].name), "%s", t->name);
        r->tensors[i].rows = tess_shape_rows(&t->shape);
        r->tensors[i].row = tess_shape_row_count(&t->shape);
    }
    for (int i = 0; i < 2; i++) {
        memcpy(r->loss[i], runs[i].header->loss, sizeof(r->loss[i]));
        memcpy(r->grad_norm[i], runs[i].header->grad_norm, sizeof(r->grad_norm[i]));
        snprintf(r->kernels[i], sizeof(r->kernels[i]), "%s", runs[i].header->kernels);
    }
    for (int64_t step = 1; step <= r->steps; step++)
        compare_step(runs, step, r);
    TESS_TRY(plan_places(mem, &runs[LAYOUT], r));
    for (int i = 0; i < r->n_tensors; i++)
        TESS_TRY(verify_check_shards(mem, &runs[LAYOUT], i, r->tensors[i].shards));
    return measure_memory(mem, runs, r);
}

tess_status tess_verify(tess_mem *mem, const tess_verify_plan *plan, tess_verify_result *r)
{
    verify_run runs[2] = {0};
    *r = (tess_verify_result){.mem = mem, .ranks = plan->ranks, .steps = plan->steps};
    TESS_CHECK(plan->steps >= 1 && plan->steps <= TESS_VERIFY_MAX_STEPS, TESS_E_INVALID, "%lld steps: 1 to %d",
               (long long)plan->steps, TESS_VERIFY_MAX_STEPS);
    tess_status status = open_runs(mem, plan, runs);
    if (status == TESS_OK)
        status = run_both(plan, runs, r->seconds);
    if (status == TESS_OK)
        status = verify_take_results(mem, runs, r);
    if (status == TESS_OK && r->first_step > 0)
        status = find_values(plan, runs, r);
    verify_run_close(&runs[0]);
    verify_run_close(&runs[1]);
    return status;
}

void tess_verify_free(tess_verify_result *r)
{
    tess_mem_drop(&r->tensors);
}

bool tess_verify_same(const tess_verify_result *r)
{
    bool same = r->first_step == 0;
    for (int i = 0; i < r->n_tensors; i++)
        same = same && r->tensors[i].shards[0] == '\0';
    for (int pool = 0; pool < TESS_POOL_COUNT; pool++)
        same = same && (r->memory[pool].planned < 0 || r->memory[pool].planned == r->memory[pool].largest);
    return same;
}
