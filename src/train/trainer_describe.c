/* Describes a run before its first step and after its last one. */
#include <string.h>

#include "base/mem/named.h"
#include "base/mem/pager.h"
#include "base/text/text.h"
#include "comm/seat.h"
#include "tessera/comm.h"
#include "engine/model/adapter.h"
#include "tessera/loop_program.h"
#include "train/memory_report.h"
#include "train/run_record.h"
#include "engine/stages/rank_stage.h"
#include "train/trainer_impl.h"

/* ---- Before ---- */
/* Shows the first two lines of the mesh: its shape, and which ranks are on which host. */
static void describe_mesh(const tess_trainer *t)
{
    char text[800], *end = text;
    tess_mesh_format(t->engine->mesh, text, sizeof(text));
    for (int line = 0; line < 2 && end != NULL; line++) {
        char *begin = end + strspn(end, "\n ");
        end = strchr(begin, '\n');
        if (end != NULL)
            *end++ = '\0';
        tess_trainer_note(t, "%s", begin);
    }
}

static tess_status describe_stages(const tess_trainer *t, int64_t n_local)
{
    const tess_engine *e = t->engine;
    tess_buffer text = {.mem = t->mem};
    if (e->stage == NULL && t->config.metrics.pipeline_timeline > 0)
        tess_trainer_note(t, "warning: metrics.pipeline_timeline: there is no pipeline to draw; see "
                             "parallelism.pipeline_parallel_degree");
    if (e->stage == NULL || t->rank != 0)
        return TESS_OK;
    TESS_TRY(
        tess_stage_plan_describe(t->mem, e->stage_plan, e->whole, t->config.training.seq_len, (int)n_local, &text));
    tess_trainer_note(t, "%s", text.data);
    tess_buffer_free(&text);
    return TESS_OK;
}

/* Returns the share of the last of n_ranks, which gets the fewest of n items. */
static int64_t least_share(int64_t n, int n_ranks)
{
    int64_t begin, least;
    tess_shard_rows(n, n_ranks, n_ranks - 1, &begin, &least);
    return least;
}

/* Formats a range of shares: "2 to 3 of 8". */
static const char *share_text(int64_t n, int n_ranks, char text[48])
{
    long long most = (long long)((n + n_ranks - 1) / n_ranks), least = (long long)least_share(n, n_ranks);
    if (most == least)
        snprintf(text, 48, "%lld of %lld", most, (long long)n);
    else
        snprintf(text, 48, "%lld to %lld of %lld", least, most, (long long)n);
    return text;
}

static void describe_tensor(const tess_trainer *t)
{
    int n_tp = t->engine->at.degree[TESS_AXIS_TP], all = n_tp;
    char heads[48], channels[48];
    const tess_model_config *m = &t->model_config;
    const bool shares = n_tp > m->n_kv_heads; /* a key head */
    const int64_t n_heads = shares ? m->n_heads : m->n_kv_heads, experts = m->parts.experts.n;
    const bool whole = t->engine->at.n_experts > 1;
    if (whole && n_tp == 1)
        tess_trainer_note(t, "experts: %d ranks divide those of every layer; each has %s", t->engine->at.n_experts,
                          share_text(experts, t->engine->at.n_experts, channels));
    if (n_tp == 1)
        return;
    tess_trainer_note(t, "tensor: %d ranks share every layer; each has %s %s, %s %s%s", n_tp,
                      share_text(n_heads, n_tp, heads), shares ? "query heads" : "key heads with their queries",
                      whole ? share_text(experts, t->engine->at.n_experts, channels)
                            : share_text(experts > 0 ? m->parts.experts.size : m->intermediate_size, n_tp, channels),
                      whole         ? "experts"
                      : experts > 0 ? "channels of an expert"
                                    : "channels",
                      t->config.parallelism.enable_sequence_parallel ? ", and its rows of the stream" : "");
    while (least_share(n_heads, all) == 0)
        all--;
    if (all < n_tp)
        tess_trainer_note(t,
                          "warning: parallelism.tensor_parallel_degree=%d leaves ranks without heads, which wait while "
                          "others attend; with %d each would have some",
                          n_tp, all);
}

/* Names the nearest lengths of rows with which no tokens fill up leaves. */
static void describe_filling(const tess_trainer *t, int64_t rest, int64_t tokens)
{
    const tess_config *c = &t->config;
    const int64_t unit = tess_context_length_unit(&t->engine->pieces.context, tess_config_pass_rows(c)),
                  below = c->training.seq_len / unit * unit;
    char shorter[32] = "";
    if (below > 1)
        snprintf(shorter, sizeof(shorter), "%lld or ", (long long)below);
    tess_trainer_note(t,
                      "%s%lld tokens without targets fill up the leaves of each %s of %lld: training.seq_len=%s%lld "
                      "needs none",
                      4 * rest > tokens ? "warning: " : "", (long long)rest,
                      c->training.passes > 1 ? "pass" : "micro-batch", (long long)tokens, shorter,
                      (long long)(below + unit));
}

static void describe_context(const tess_trainer *t)
{
    const tess_config *c = &t->config;
    const tess_context *context = &t->engine->pieces.context;
    const int n = context->points.degree;
    const int64_t tp = c->parallelism.tensor_parallel_degree, heads = (t->model_config.n_kv_heads + tp - 1) / tp,
                  tokens = tess_config_pass_rows(c) * c->training.seq_len,
                  rest = tess_context_tokens(context, tokens) * n - tokens;
    if (context->n_leaves <= 1)
        return;
    if (n > 1)
        tess_trainer_note(t,
                          "context: %d ranks divide the tokens of each micro-batch; each has %d of %d leaves, and %s",
                          n, context->n_leaves / n, context->n_leaves,
                          context->by_heads ? "attends with some key heads"
                          : context->rings  ? "attends with its queries, while keys travel from rank to rank"
                                            : "attends with its queries");
    if (n > heads && context->by_heads)
        tess_trainer_note(t,
                          "warning: parallelism.context_parallel_method=ulysses: %lld key heads leave some of %d ranks "
                          "without one; with ring or gather each would attend with its queries",
                          (long long)heads, n);
    if (rest > 0)
        describe_filling(t, rest, tokens);
}

static void describe_batch(const tess_trainer *t)
{
    const tess_config *c = &t->config;
    if (t->kind->program != NULL)
        tess_trainer_note(t, "batch: %lld micro-batches a step", (long long)c->training.global_batch_size);
    else
        tess_trainer_note(t, "batch: %lld rows of %lld tokens a step, in micro-batches of %lld",
                          (long long)c->training.global_batch_size, (long long)c->training.seq_len,
                          (long long)c->training.local_batch_size);
    int64_t n_micro = tess_config_micro_batches(c), n_data = t->engine->at.n_data;
    int64_t idle = tess_coordinates_rounds(&t->engine->at, n_micro) * n_data - n_micro;
    if (idle > 0)
        tess_trainer_note(t, "%lld micro-batches over %d ranks: %lld rank%s without one at the end of each step",
                          (long long)n_micro, (int)n_data, (long long)idle, idle == 1 ? " is" : "s are");
}

static void describe_activations(const tess_trainer *t)
{
    char bytes[32], again[TESS_ACTIVATIONS_TEXT];
    const tess_engine *e = t->engine;
    const tess_executor_options *o = tess_executor_get_options(e->executor);
    if (t->config.activation_checkpoint.mode == TESS_RECOMPUTE_SELECTIVE)
        tess_trainer_note(t, "activations: %s a rank; computed again: %s",
                          tess_format_bytes((double)tess_executor_bytes(e->model, o), bytes, sizeof(bytes)),
                          tess_activations_describe(e->model, o, again));
}

/* Warns if offload.resident is below what rank 0 uses at once. */
static void describe_resident(const tess_trainer *t)
{
    char given[32], used[32];
    const size_t limit = tess_pager_get_stats(tess_mem_pager(t->mem)).limit;
    if (t->config.offload.resident > 0 && (size_t)t->config.offload.resident < limit)
        tess_trainer_note(
            t,
            "warning: offload.resident=%lld: %s is less than the %s that rank %d uses at once and keeps in memory: set "
            "offload.resident=%zu or more",
            (long long)t->config.offload.resident,
            tess_format_bytes((double)t->config.offload.resident, given, sizeof(given)),
            tess_format_bytes((double)limit, used, sizeof(used)), t->rank, limit);
}

static void describe_trainable(const tess_trainer *t)
{
    char trains[32];
    const tess_lora *lora = &t->model_config.lora;
    int64_t n = tess_model_count_trainable(t->engine->whole), all = tess_model_count(t->engine->whole);
    if (lora->rank > 0)
        tess_trainer_note(t, "adapter: rank %lld, counted %g times", (long long)lora->rank, tess_lora_scale(lora));
    if (n < all)
        tess_trainer_note(t, "%s parameters train (%.2f%%): the others have neither gradients nor moments",
                          tess_format_count((double)n, trains, sizeof(trains)), 100 * (double)n / (double)all);
}

/* Notes how ranks on unequal machines have agreed on one table of kernels and one dtype. */
static void describe_vote(const tess_trainer *t)
{
    const char *vote = tess_runtime_kernels_vote(t->runtime);
    if (vote[0] != '\0')
        tess_trainer_note(t, "%s", vote);
    if (t->fell_back)
        tess_trainer_note(t,
                          "Falling back to float32: kernels '%s' have no products of bfloat16 in hardware "
                          "(training.mixed_precision_param=auto)",
                          tess_runtime_kernels(t->runtime));
}

static void describe_model(const tess_trainer *t)
{
    char params[32], active[32], mixture[64] = "", text[160];
    const tess_model_config *m = &t->model_config;
    tess_format_count((double)tess_model_count(t->engine->whole), params, sizeof(params));
    if (m->parts.experts.n > 0)
        snprintf(mixture, sizeof(mixture), " (%s active for a token)",
                 tess_format_count(tess_model_count_active(t->engine->whole), active, sizeof(active)));
    if (t->kind->program != NULL)
        tess_trainer_note(t, "model: %s, %s parameters in %d units", t->kind->program->name, params,
                          t->kind->program->n_units);
    else
        tess_trainer_note(t, "model: %s, %s parameters%s, %lld layers, vocabulary %lld", tess_family_name(m->family),
                          params, mixture, (long long)m->n_layers, (long long)m->vocab_size);
    if (tess_model_config_longrope(m, text, sizeof(text))[0] != '\0')
        tess_trainer_note(t, "%s", text);
    if (m->dropout > 0)
        tess_trainer_note(
            t, "the dropout of config.json (%g) is not applied: a step depends on its weights and data alone",
            m->dropout);
    describe_trainable(t);
    if (t->kind->program == NULL)
        describe_activations(t);
}

tess_status tess_trainer_describe(const tess_trainer *t)
{
    const tess_config *c = &t->config;
    const int64_t n_micro = tess_config_micro_batches(c);
    describe_model(t);
    describe_resident(t);
    describe_vote(t);
    char peak[32] = "";
    if (t->engine->compute.team_flops > 0)
        snprintf(peak, sizeof(peak), ", peak %.2f TFLOP/s", t->engine->compute.team_flops * 1e-12);
    tess_trainer_note(t, "ranks: %d (%s%s), %d thread%s each, sharding %s, %s, kernels %s%s", tess_team_size(t->team),
                      tess_runtime_backend(t->runtime), t->hosts->n > 1 && c->comm.tls ? ", encrypted" : "",
                      tess_threads_count(tess_stream_threads(t->engine->stream)),
                      tess_threads_count(tess_stream_threads(t->engine->stream)) > 1 ? "s" : "",
                      tess_strategy_name((tess_strategy)c->parallelism.shard_strategy),
                      tess_dtype_name(tess_precision_dtype(c->training.mixed_precision_param)),
                      tess_stream_kernels(t->engine->stream)->name, peak);
    const tess_compute *compute = &t->engine->compute;
    if (compute->apart)
        tess_trainer_note(t, "device %s: kernels %s", tess_device_get_properties(compute->device)->name,
                          tess_stream_kernels(compute->stream)->name);
    if (t->engine->compute.shards_note[0] != '\0')
        tess_trainer_note(t, "%s", t->engine->compute.shards_note);
    if (t->hosts->n > 1 || t->ordered != NULL)
        describe_mesh(t);
    if (t->hosts->n > 1 && c->comm.reduction == TESS_REDUCTION_NATIVE)
        tess_trainer_note(t,
                          "comm.reduction=native: MPI adds between hosts in an order of its own; results depend on the "
                          "number of ranks and hosts");
    if (!t->kind->has_own_batches)
        describe_batch(t);
    describe_tensor(t);
    describe_context(t);
    return describe_stages(t, tess_coordinates_rounds(&t->engine->at, n_micro));
}

/* ---- Behind: memory and time ---- */
/* Prints one line: bytes of each pool, summed over the ranks of the team. */
static tess_status describe_pools(const tess_trainer *t, tess_team *team, const char *what,
                                  double peaks[TESS_POOL_COUNT])
{
    char line[512] = "";
    int64_t bytes[TESS_POOL_COUNT];
    for (int pool = 0; pool < TESS_POOL_COUNT; pool++)
        bytes[pool] = (int64_t)peaks[pool];
    TESS_TRY(tess_all_reduce(team, bytes, bytes, TESS_POOL_COUNT, TESS_I64, TESS_SUM, NULL));
    for (int pool = 0; pool < TESS_POOL_COUNT; pool++)
        peaks[pool] = (double)bytes[pool];
    tess_pools_format(peaks, line, sizeof(line), 0);
    tess_trainer_note(t, "%s: %s", what, line);
    return TESS_OK;
}

/* Prints one line: how much all ranks moved to and from disk, at what speed, and how long rank 0 waited for it. */
static tess_status describe_transfers(const tess_trainer *t)
{
    char read[32], written[32];
    tess_pager_stats s = tess_pager_get_stats(tess_mem_pager(t->mem));
    int64_t bytes[] = {(int64_t)s.read_bytes, (int64_t)s.written_bytes};
    TESS_TRY(tess_all_reduce(tess_runtime_team(t->runtime), bytes, bytes, 2, TESS_I64, TESS_SUM, NULL));
    tess_trainer_note(
        t,
        "disk: all ranks read %s and wrote %s; rank 0 read for %.1f s, wrote for %.1f s, and waited %.1f s "
        "for it",
        tess_format_bytes((double)bytes[0], read, sizeof(read)),
        tess_format_bytes((double)bytes[1], written, sizeof(written)), (double)s.read_ns * 1e-9,
        (double)s.write_ns * 1e-9, (double)s.waited_ns * 1e-9);
    return TESS_OK;
}

tess_status tess_trainer_describe_memory(const tess_trainer *t)
{
    double peaks[TESS_POOL_COUNT], on_disk[TESS_POOL_COUNT];
    for (int pool = 0; pool < TESS_POOL_COUNT; pool++) {
        peaks[pool] = (double)tess_mem_stats(t->mem, (tess_pool)pool).peak_bytes;
        on_disk[pool] = (double)tess_mem_disk_bytes(t->mem, (tess_pool)pool);
    }
    TESS_TRY(describe_pools(t, tess_runtime_team(t->runtime), "memory of all ranks at the peak", peaks));
    if (!tess_config_offloads(&t->config))
        return TESS_OK;
    TESS_TRY(describe_pools(t, tess_runtime_team(t->runtime), "state of all ranks on disk", on_disk));
    return describe_transfers(t);
}

static tess_status describe_training(tess_trainer *t)
{
    const tess_compute *compute = &t->engine->compute;
    double peaks[TESS_POOL_COUNT];
    TESS_TRY(tess_trainer_describe_memory(t));
    TESS_TRY(tess_trainer_record_memory(t));
    if (!compute->apart && t->kind->program == NULL) /* the memory of a program is not predicted */
        TESS_TRY(tess_trainer_compare_memory(t));
    for (int pool = 0; pool < TESS_POOL_COUNT; pool++)
        peaks[pool] = (double)tess_device_mem_stats(compute->device, (tess_pool)pool).peak_bytes;
    return compute->apart ? describe_pools(t, t->team, "memory of all devices at the peak", peaks) : TESS_OK;
}

/* Prints one line: the phases in which rank 0 spent the time of all steps. */
static void describe_time(const tess_trainer *t)
{
    char line[512];
    double total = 0;
    size_t used = 0;
    for (int phase = 0; phase < TESS_PHASE_COUNT; phase++)
        total += t->phase_s[phase];
    for (int phase = 0; phase < TESS_PHASE_COUNT && total > 0; phase++)
        used = tess_text_add(line, sizeof(line), used, "%s%s %.1f%%", used > 0 ? ", " : "",
                             tess_phase_name((tess_phase)phase), 100 * t->phase_s[phase] / total);
    if (used > 0)
        tess_trainer_note(t, "time of the steps: %s", line);
}

tess_status tess_trainer_describe_end(tess_trainer *t)
{
    TESS_TRY(describe_training(t));
    describe_time(t);
    return TESS_OK;
}
