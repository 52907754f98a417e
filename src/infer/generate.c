#include "infer/generate.h"

#include <string.h>

#include "device/device.h"
#include "infer/generate_impl.h"
#include "base/mem/scoped.h"

/* ---- Memory that tess_generator_sleep frees ---- */
static tess_status make_results(tess_generator *g)
{
    size_t n = (size_t)g->options.max_sequences, V = (size_t)tess_generate_vocab(g), row = V * sizeof(float);
    size_t logprobs = (size_t)g->options.pass_tokens * sizeof(float), bytes;
    TESS_CHECK(!__builtin_mul_overflow(2 * n, row, &bytes) && bytes < SIZE_MAX / 2, TESS_E_NOMEM,
               "logits of %zu sequences of %zu tokens are too large", n, V);
    TESS_TRY(tess_device_alloc(tess_stream_device(g->stream), TESS_POOL_ACTIVATIONS,
                               bytes + logprobs + n * sizeof(int32_t), "logits", &g->results));
    g->logits = g->results;
    for (size_t i = 0; i < n; i++)
        g->prompts[i].logits = g->logits + (n + i) * V;
    g->logprobs = g->logits + 2 * n * V;
    g->drawn = (int32_t *)(g->logprobs + g->options.pass_tokens);
    if (tess_device_get_properties(tess_stream_device(g->stream))->host_memory)
        return TESS_OK;
    return tess_device_alloc_pinned(tess_stream_device(g->stream), TESS_POOL_ACTIVATIONS,
                                    n * row > logprobs ? n * row : logprobs, "fetched logits", (void **)&g->room);
}

static tess_status wake(tess_generator *g)
{
    const tess_executor_options options = {.dtype = g->options.dtype,
                                           .max_tokens = g->options.pass_tokens,
                                           .max_position = g->options.max_length,
                                           .train = false,
                                           .points = g->options.points.degree > 1 ? &g->options.points : NULL,
                                           .expert_points =
                                               g->options.expert_points.degree > 1 ? &g->options.expert_points : NULL,
                                           .readers = g->options.readers.degree > 1 ? &g->options.readers : NULL,
                                           .sequence_parallel = g->options.sequence_parallel};
    TESS_TRY(tess_executor_create(g->stream, g->model, &g->hooks, &options, &g->executor));
    if (tess_model_get_part(g->model)->head)
        TESS_TRY(tess_sampler_create(tess_stream_mem(g->stream), tess_stream_threads(g->stream), tess_generate_vocab(g),
                                     &g->sampler));
    TESS_TRY(make_results(g));
    return tess_kv_pages_create(g->stream, g->model, g->options.dtype, g->n_pages, &g->cache);
}

tess_status tess_generator_wake(tess_generator *g)
{
    if (g->cache != NULL)
        return TESS_OK;
    tess_status status = wake(g);
    if (status != TESS_OK)
        tess_generator_sleep(g);
    return status;
}

void tess_generator_sleep(tess_generator *g)
{
    g->stats = tess_generator_get_stats(g);
    tess_kv_pages_destroy(&g->cache);
    tess_executor_destroy(&g->executor);
    tess_sampler_destroy(&g->sampler);
    tess_device_free(tess_stream_device(g->stream), g->results);
    tess_device_free_pinned(tess_stream_device(g->stream), g->room);
    for (int64_t i = 0; i < g->options.max_sequences && g->sequences != NULL; i++) /* their pages have been freed */
        g->sequences[i].text.table.n_pages = g->sequences[i].text.table.length = 0;
    g->results = NULL;
    g->room = NULL;
}

tess_generator_stats tess_generator_get_stats(const tess_generator *g)
{
    tess_generator_stats stats = g->stats;
    if (g->cache == NULL)
        return stats;
    tess_kv_stats cache = tess_kv_pages_stats(g->cache);
    stats.peak_pages = cache.peak > stats.peak_pages ? cache.peak : stats.peak_pages;
    stats.copied_pages += cache.copied;
    return stats;
}

/* ---- Memory that tess_generator_sleep keeps ---- */
static tess_status make_texts(tess_generator *g)
{
    size_t n = (size_t)g->options.max_sequences, length = (size_t)g->options.max_length, room = (size_t)g->table_room;
    TESS_TRY(tess_scope_alloc(tess_scope_of(g), TESS_POOL_ACTIVATIONS, 2 * n, (length + room) * sizeof(int32_t),
                              "texts", &g->memory));
    int32_t *next = g->memory;
    for (size_t i = 0; i < n; i++) {
        text *const texts[] = {&g->sequences[i].text, &g->prompts[i].text};
        for (int k = 0; k < 2; k++) {
            texts[k]->ids = next;
            texts[k]->table.pages = next + length;
            next += length + room;
        }
        g->prompts[i].text.of = &g->prompts[i];
        g->prompts[i].text.row = -1;
    }
    return TESS_OK;
}

static tess_status make(tess_generator *g)
{
    size_t rows = (size_t)g->options.pass_tokens, n = (size_t)g->options.max_sequences;
    const struct {
        void **pointer;
        size_t count, size;
    } arrays[] = {{(void **)&g->sequences, n, sizeof(*g->sequences)},
                  {(void **)&g->prompts, n, sizeof(*g->prompts)},
                  {(void **)&g->running, 2 * n, sizeof(*g->running)},
                  {(void **)&g->ids, rows, sizeof(*g->ids)},
                  {(void **)&g->pos, rows, sizeof(*g->pos)},
                  {(void **)&g->targets, rows, sizeof(*g->targets)},
                  {(void **)&g->cu_seqlens, rows + 1, sizeof(*g->cu_seqlens)},
                  {(void **)&g->pages, rows, sizeof(*g->pages)},
                  {(void **)&g->rows, n, sizeof(*g->rows)},
                  {(void **)&g->picked, n, sizeof(*g->picked)},
                  {(void **)&g->draws, n, sizeof(*g->draws)},
                  {(void **)&g->news, n, sizeof(*g->news)}};
    for (size_t i = 0; i < sizeof(arrays) / sizeof(arrays[0]); i++)
        TESS_TRY(tess_scope_alloc(tess_scope_of(g), TESS_POOL_ACTIVATIONS, arrays[i].count, arrays[i].size,
                                  "generation", arrays[i].pointer));
    TESS_TRY(make_texts(g));
    return tess_generator_wake(g);
}

/* Checks the options, and chooses the sizes that they leave open. */
static tess_status size(tess_generator *g)
{
    tess_generator_options *o = &g->options;
    TESS_CHECK(o->readers.degree <= 1 ||
                   (o->points.degree <= 1 && o->expert_points.degree <= 1 && o->stages.forward == NULL),
               TESS_E_INVALID, "generation: ranks that read texts together have the whole model");
    TESS_CHECK(o->dtype == TESS_F32 || o->dtype == TESS_BF16, TESS_E_UNSUPPORTED,
               "generation in %s: keys and values in pages are float32 or bfloat16", tess_dtype_name(o->dtype));
    TESS_CHECK(
        o->max_sequences >= 1 && o->max_sequences <= 65536 && o->max_length >= 2 && o->max_length <= INT32_MAX &&
            o->pass_tokens >= 0 && o->pass_tokens <= INT32_MAX,
        TESS_E_INVALID,
        "generation of %lld sequences at once, %lld tokens each, %lld tokens a pass: choose 1 to 65536 sequences "
        "of at least 2 tokens",
        (long long)o->max_sequences, (long long)o->max_length, (long long)o->pass_tokens);
    if (o->pass_tokens == 0) {
        const int64_t all = o->max_length * o->max_sequences,
                      most = TESS_PASS_TOKENS * (o->readers.degree > 1 ? o->readers.degree : 1);
        o->pass_tokens = all < most ? all : most;
    }
    if (o->pass_tokens < o->max_sequences)
        o->pass_tokens = o->max_sequences;
    g->table_room = tess_kv_pages_of(o->max_length);
    /* One more page per sequence, for the end of a shared prompt */
    g->n_pages = (g->table_room + 1) * o->max_sequences;
    g->stats.page_bytes = tess_kv_page_bytes(g->model, o->dtype);
    const size_t page = o->page_bytes > g->stats.page_bytes ? o->page_bytes : g->stats.page_bytes;
    if (page > 0 && o->cache_bytes > 0 && o->cache_bytes / page < (size_t)g->n_pages)
        g->n_pages = (int64_t)(o->cache_bytes / page);
    TESS_CHECK(g->n_pages >= g->table_room, TESS_E_INVALID,
               "a cache of %zu bytes: keys and values of one text of %lld tokens are %lld pages of %zu bytes",
               o->cache_bytes, (long long)o->max_length, (long long)g->table_room, page);
    g->stats.n_pages = g->n_pages;
    return TESS_OK;
}

size_t tess_generator_reader_bytes(const tess_model *model, const tess_generator_options *o, int n)
{
    int64_t most = o->pass_tokens > 0 ? o->pass_tokens : TESS_PASS_TOKENS * n;
    if (most < o->max_sequences) /* a pass has room for a token of each sequence */
        most = o->max_sequences;
    return tess_executor_reader_bytes(model, &(tess_executor_options){.dtype = o->dtype, .max_tokens = most}, n);
}

tess_status tess_generator_create(tess_stream *stream, const tess_model *model, const tess_hooks *hooks,
                                  const tess_generator_options *options, tess_generator **out)
{
    TESS_AUTO(tess_generator_destroy) tess_generator *g = NULL;
    *out = NULL;
    TESS_TRY(TESS_NEW(tess_stream_mem(stream), 1, "generator", &g));
    *g = (tess_generator){.stream = stream, .model = model, .hooks = *hooks, .options = *options};
    TESS_TRY(size(g));
    TESS_TRY(make(g));
    *out = TESS_GIVE(g);
    return TESS_OK;
}

void tess_generator_destroy(tess_generator **handle)
{
    tess_generator *g = *handle;
    if (g == NULL)
        return;
    tess_generator_sleep(g);
    tess_mem_drop(handle);
}

void tess_generator_set_watch(tess_generator *g, const tess_watch *watch)
{
    tess_executor_set_watch(g->executor, watch);
}

/* ---- A run ---- */
/* Whether a request needs any computing: new tokens, or log-probabilities of more than its first token. */
static bool has_work(const tess_request *r)
{
    return r->max_new_tokens > 0 || (r->want_prompt_logprobs && r->n > 1);
}

static tess_status admit(tess_generator *g, const generate_run *run)
{
    const tess_request_source *source = run->source;
    while (g->n_live < g->options.max_sequences) {
        tess_request request = {0};
        bool none = false;
        TESS_TRY(source->next(source->self, &request, &none));
        if (none)
            return TESS_OK;
        TESS_TRY(tess_generate_check(g, &request));
        if (has_work(&request))
            TESS_TRY(tess_generate_admit(g, &request));
        else
            TESS_TRY(source->finished(source->self, &request, TESS_FINISH_LENGTH));
    }
    return TESS_OK;
}

static tess_status serve(tess_generator *g, const generate_run *run)
{
    for (;;) {
        int64_t n_tokens, done = g->stats.drawn + g->stats.shared;
        TESS_TRY(admit(g, run));
        if (g->n_live == 0)
            return TESS_OK;
        TESS_TRY(tess_generate_plan(g, &n_tokens));
        TESS_TRY(tess_generate_pass(g, run, n_tokens));
        TESS_CHECK(n_tokens > 0 || g->stats.drawn + g->stats.shared > done, TESS_E_INTERNAL,
                   "generation: %lld requests run, and none can go on", (long long)g->n_live);
    }
}

tess_status tess_generator_run(tess_generator *g, const tess_sampling *sampling, const int64_t *end_tokens, int n_end,
                               const tess_request_source *source)
{
    const generate_run run = {sampling, end_tokens, n_end, source};
    TESS_TRY(tess_sampling_check(sampling));
    TESS_TRY(tess_generator_wake(g));
    tess_status status = serve(g, &run);
    tess_generate_clear(g, status != TESS_OK);
    return status;
}
