#include "infer/generate.h"

#include <string.h>

#include "device/device.h"

typedef struct slot {
    int prompt;     /* -1: free */
    int64_t length; /* tokens in the cache */
    int64_t n_new;  /* tokens generated so far */
    int32_t last;   /* newest token: in the text, not yet in the cache */
    bool in_prompt; /* some prompt tokens are not read yet */
} slot;

struct tess_generator {
    tess_stream *stream;
    const tess_model *model;
    tess_executor *executor;
    tess_generator_options options;
    tess_sampler *sampler;
    void *cache_memory;
    void **k, **v; /* (L) */
    tess_kv_cache cache;
    slot *slots;
    int32_t *ids, *pos, *targets, *cu_seqlens, *cache_slots, *rows, *picked; /* of a batch; picked: drawn tokens */
    float *logits, *logprobs; /* (n_slots, V), (chunk_tokens) of the device */
    int32_t *drawn;           /* (n_slots) of the device: picked */
    float *room;              /* of the host, for either; NULL: it reads them in place */
    bool *seen;               /* (n_slots, V) tokens of the slot's text: of the repetition penalty */
};

static tess_status make_cache(tess_generator *g)
{
    const tess_model_config *config = tess_model_get_config(g->model);
    tess_mem *mem = tess_stream_mem(g->stream);
    size_t row = (size_t)(config->n_kv_heads * config->head_size) * tess_dtype_size(g->options.dtype), layer_bytes,
           bytes;
    size_t rows = (size_t)g->options.max_length * (size_t)g->options.n_slots, L = (size_t)config->n_layers;
    TESS_CHECK(!__builtin_mul_overflow(rows, row, &layer_bytes) && !__builtin_mul_overflow(layer_bytes, 2 * L, &bytes),
               TESS_E_NOMEM, "a cache of %lld prompts of %lld tokens is too large", (long long)g->options.n_slots,
               (long long)g->options.max_length);
    TESS_TRY(tess_device_alloc(tess_stream_device(g->stream), TESS_POOL_KV_CACHE, bytes, "keys and values",
                               &g->cache_memory));
    TESS_TRY(tess_mem_alloc_array(mem, TESS_POOL_MISC, L, sizeof(void *), "cache", (void **)&g->k));
    TESS_TRY(tess_mem_alloc_array(mem, TESS_POOL_MISC, L, sizeof(void *), "cache", (void **)&g->v));
    for (int64_t l = 0; l < config->n_layers; l++) {
        g->k[l] = (char *)g->cache_memory + (size_t)(2 * l) * layer_bytes;
        g->v[l] = (char *)g->cache_memory + (size_t)(2 * l + 1) * layer_bytes;
    }
    g->cache = (tess_kv_cache){.k = g->k,
                               .v = g->v,
                               .slot_stride = g->options.max_length * config->n_kv_heads * config->head_size,
                               .max_length = g->options.max_length,
                               .dtype = g->options.dtype};
    return TESS_OK;
}

static tess_status make_results(tess_generator *g, size_t logits, size_t logprobs)
{
    tess_device *device = tess_stream_device(g->stream);
    TESS_TRY(tess_device_alloc(device, TESS_POOL_ACTIVATIONS, logits, "logits", (void **)&g->logits));
    TESS_TRY(tess_device_alloc(device, TESS_POOL_ACTIVATIONS, logprobs, "log-probabilities", (void **)&g->logprobs));
    TESS_TRY(tess_device_alloc(device, TESS_POOL_ACTIVATIONS, (size_t)g->options.n_slots * sizeof(int32_t),
                               "drawn tokens", (void **)&g->drawn));
    if (tess_device_get_properties(device)->host_memory)
        return TESS_OK;
    return tess_mem_alloc(tess_stream_mem(g->stream), TESS_POOL_ACTIVATIONS, logits > logprobs ? logits : logprobs,
                          "fetched logits", (void **)&g->room);
}

static tess_status make(tess_generator *g, const tess_hooks *hooks)
{
    tess_mem *mem = tess_stream_mem(g->stream);
    int64_t vocab = tess_model_get_config(g->model)->vocab_size;
    size_t most = (size_t)g->options.chunk_tokens, slots = (size_t)g->options.n_slots;
    tess_executor_options options = {.dtype = g->options.dtype,
                                     .max_tokens = g->options.chunk_tokens,
                                     .max_position = g->options.max_length,
                                     .train = false};
    TESS_TRY(tess_executor_create(g->stream, g->model, hooks, &options, &g->executor));
    TESS_TRY(tess_sampler_create(mem, vocab, &g->sampler));
    TESS_TRY(make_cache(g));
    const struct {
        void **pointer;
        size_t count, size;
    } arrays[] = {{(void **)&g->slots, slots, sizeof(slot)},
                  {(void **)&g->ids, most, sizeof(int32_t)},
                  {(void **)&g->pos, most, sizeof(int32_t)},
                  {(void **)&g->targets, most, sizeof(int32_t)},
                  {(void **)&g->cu_seqlens, slots + 2, sizeof(int32_t)},
                  {(void **)&g->cache_slots, slots + 1, sizeof(int32_t)},
                  {(void **)&g->rows, most, sizeof(int32_t)},
                  {(void **)&g->picked, slots, sizeof(int32_t)},
                  {(void **)&g->seen, slots * (size_t)vocab, sizeof(bool)}};
    for (size_t i = 0; i < sizeof(arrays) / sizeof(arrays[0]); i++)
        TESS_TRY(tess_mem_alloc_array(mem, TESS_POOL_ACTIVATIONS, arrays[i].count, arrays[i].size, "generation",
                                      arrays[i].pointer));
    return make_results(g, slots * (size_t)vocab * sizeof(float), most * sizeof(float));
}

tess_status tess_generator_create(tess_stream *stream, const tess_model *model, const tess_hooks *hooks,
                                  const tess_generator_options *options, tess_generator **out)
{
    TESS_CHECK(options->n_slots >= 1 && options->n_slots <= 4096 && options->max_length >= 2, TESS_E_INVALID,
               "generation of %lld prompts at once, %lld tokens each: choose 1 to 4096, and at least 2 tokens",
               (long long)options->n_slots, (long long)options->max_length);
    tess_generator *g;
    TESS_TRY(tess_mem_alloc(tess_stream_mem(stream), TESS_POOL_MISC, sizeof(*g), "generator", (void **)&g));
    *g = (tess_generator){.stream = stream, .model = model, .options = *options};
    if (g->options.chunk_tokens == 0)
        g->options.chunk_tokens = options->max_length < 512 ? options->max_length : 512;
    if (g->options.chunk_tokens < g->options.n_slots)
        g->options.chunk_tokens = g->options.n_slots;
    tess_status status = make(g, hooks);
    if (status != TESS_OK)
        tess_generator_destroy(&g);
    else
        *out = g;
    return status;
}

void tess_generator_destroy(tess_generator **handle)
{
    tess_generator *g = *handle;
    if (g == NULL)
        return;
    tess_mem *mem = tess_stream_mem(g->stream);
    tess_executor_destroy(&g->executor);
    tess_sampler_destroy(&g->sampler);
    void *const values[] = {g->cache_memory, g->logits, g->logprobs, g->drawn};
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
        tess_device_free(tess_stream_device(g->stream), values[i]);
    void *const blocks[] = {g->k,          g->v,           g->slots, g->ids,    g->pos,  g->targets,
                            g->cu_seqlens, g->cache_slots, g->rows,  g->picked, g->seen, g->room};
    for (size_t i = 0; i < sizeof(blocks) / sizeof(blocks[0]); i++)
        tess_mem_free(mem, blocks[i]);
    tess_mem_free(mem, g);
    *handle = NULL;
}

void tess_generator_set_watch(tess_generator *g, const tess_watch *watch)
{
    tess_executor_set_watch(g->executor, watch);
}

/* What the parts of one tess_generate call share. */
typedef struct generate_job {
    tess_generator *g;
    const tess_prompt *prompts;
    int n_prompts, next_prompt;
    int64_t max_new_tokens;
    const tess_sampling *sampling;
    const int64_t *end_tokens;
    int n_end;
    tess_token_fn on_token;
    void *context;
} generate_job;

static bool *seen_of(const tess_generator *g, const slot *s)
{
    return g->seen + (s - g->slots) * tess_model_get_config(g->model)->vocab_size;
}

/* Takes a slot's new token, drawn from `logits`: reports it and decides whether the slot goes on. */
static tess_status accept(generate_job *j, slot *s, int32_t token, float logprob)
{
    const tess_prompt *prompt = &j->prompts[s->prompt];
    bool ends = false;
    s->last = token;
    s->n_new++;
    seen_of(j->g, s)[token] = true;
    TESS_TRY(j->on_token(j->context, s->prompt, prompt->n + s->n_new - 1, token, logprob, true));
    for (int i = 0; i < j->n_end; i++)
        ends |= j->end_tokens[i] == token;
    if (s->n_new >= j->max_new_tokens || ends || prompt->n + s->n_new >= j->g->options.max_length)
        s->prompt = -1;
    return TESS_OK;
}

/* Draws for `n` slots from g->logits and accepts. Log-probabilities come from the kernel that training uses. */
static tess_status draw(generate_job *j, slot *const *slots, int64_t n)
{
    tess_generator *g = j->g;
    int64_t vocab = tess_model_get_config(g->model)->vocab_size;
    const void *read;
    TESS_TRY(tess_view(g->stream, g->logits, (size_t)(n * vocab) * sizeof(float), g->room, &read));
    const float *logits = read;
    for (int64_t i = 0; i < n; i++) {
        const tess_prompt *prompt = &j->prompts[slots[i]->prompt];
        TESS_TRY(tess_sampler_draw(g->sampler, j->sampling, logits + i * vocab, seen_of(g, slots[i]),
                                   (uint64_t)slots[i]->prompt, (uint64_t)(prompt->n + slots[i]->n_new), &g->picked[i]));
    }
    TESS_TRY(tess_upload(g->stream, g->drawn, g->picked, (size_t)n * sizeof(int32_t)));
    tess_cross_entropy rows = {.n = n,
                               .V = vocab,
                               .logits = g->logits,
                               .ld = vocab,
                               .targets = g->drawn,
                               .inv_temperature = tess_sampling_inv_temperature(j->sampling),
                               .logprob = g->logprobs};
    TESS_TRY(tess_stream_kernels(g->stream)->cross_entropy(g->stream, &rows));
    TESS_TRY(tess_view(g->stream, g->logprobs, (size_t)n * sizeof(float), g->room, &read));
    const float *logprobs = read;
    for (int64_t i = 0; i < n; i++)
        TESS_TRY(accept(j, slots[i], g->picked[i], logprobs[i]));
    return TESS_OK;
}

static tess_batch batch_of(const tess_generator *g, int64_t n_tokens, int64_t n_seqs)
{
    return (tess_batch){.n_tokens = n_tokens,
                        .n_seqs = n_seqs,
                        .ids = g->ids,
                        .pos = g->pos,
                        .targets = g->targets,
                        .cu_seqlens = g->cu_seqlens,
                        .cache_slot = g->cache_slots,
                        .cache = &g->cache};
}

/* Reads the next chunk of a slot's prompt into the cache and reports its tokens' log-probabilities. */
static tess_status read_prompt(generate_job *j, slot *s)
{
    tess_generator *g = j->g;
    const tess_prompt *prompt = &j->prompts[s->prompt];
    int64_t n = prompt->n - s->length < g->options.chunk_tokens ? prompt->n - s->length : g->options.chunk_tokens;
    for (int64_t i = 0; i < n; i++) {
        int64_t at = s->length + i;
        g->ids[i] = prompt->ids[at];
        g->pos[i] = (int32_t)at;
        g->targets[i] = at + 1 < prompt->n ? prompt->ids[at + 1] : -1;
    }
    g->cu_seqlens[0] = 0;
    g->cu_seqlens[1] = (int32_t)n;
    g->cache_slots[0] = (int32_t)(s - g->slots);
    tess_batch batch = batch_of(g, n, 1);
    bool last = s->length + n == prompt->n;
    TESS_TRY(
        tess_executor_logprobs(g->executor, &batch, tess_sampling_inv_temperature(j->sampling), g->logprobs, NULL));
    const void *read;
    TESS_TRY(tess_view(g->stream, g->logprobs, (size_t)n * sizeof(float), g->room, &read));
    const float *logprobs = read;
    bool *seen = seen_of(g, s);
    if (s->length == 0)
        memset(seen, 0, (size_t)tess_model_get_config(g->model)->vocab_size * sizeof(*seen));
    for (int64_t i = 0; i < n; i++) {
        seen[g->ids[i]] = true;
        if (g->targets[i] >= 0)
            TESS_TRY(j->on_token(j->context, s->prompt, s->length + i + 1, g->targets[i], logprobs[i], false));
    }
    s->length += n;
    if (!last)
        return TESS_OK;
    s->in_prompt = false;
    s->last = prompt->ids[prompt->n - 1];
    /* The last prompt token runs again, as a batch of one, for its logits: the same row, the same bits, without ever
     * storing the chunk's logits. */
    s->length--;
    return TESS_OK;
}

/* Generates one token for every slot past its prompt. */
static tess_status step(generate_job *j)
{
    tess_generator *g = j->g;
    slot *active[4096];
    int64_t n = 0;
    for (int64_t i = 0; i < g->options.n_slots; i++) {
        slot *s = &g->slots[i];
        if (s->prompt < 0 || s->in_prompt)
            continue;
        g->ids[n] = s->last;
        g->pos[n] = (int32_t)s->length;
        g->targets[n] = -1;
        g->cu_seqlens[n] = (int32_t)n;
        g->cache_slots[n] = (int32_t)i;
        g->rows[n] = (int32_t)n;
        active[n++] = s;
    }
    if (n == 0)
        return TESS_OK;
    g->cu_seqlens[n] = (int32_t)n;
    tess_batch batch = batch_of(g, n, n);
    TESS_TRY(tess_executor_logits(g->executor, &batch, g->rows, n, g->logits));
    for (int64_t i = 0; i < n; i++)
        active[i]->length++;
    return draw(j, active, n);
}

tess_status tess_generate(tess_generator *g, const tess_prompt *prompts, int n_prompts, int64_t max_new_tokens,
                          const tess_sampling *sampling, const int64_t *end_tokens, int n_end, tess_token_fn on_token,
                          void *context)
{
    TESS_CHECK(max_new_tokens >= 0, TESS_E_INVALID, "cannot generate %lld new tokens", (long long)max_new_tokens);
    for (int i = 0; i < n_prompts; i++)
        TESS_CHECK(prompts[i].n >= 1 && prompts[i].n < g->options.max_length, TESS_E_INVALID,
                   "prompt %d has %lld tokens: it must have 1 to %lld, and room for new ones", i,
                   (long long)prompts[i].n, (long long)g->options.max_length - 1);
    generate_job j = {g, prompts, n_prompts, 0, max_new_tokens, sampling, end_tokens, n_end, on_token, context};
    for (int64_t i = 0; i < g->options.n_slots; i++)
        g->slots[i].prompt = -1;
    for (;;) {
        bool busy = false;
        for (int64_t i = 0; i < g->options.n_slots; i++) {
            slot *s = &g->slots[i];
            if (s->prompt < 0 && j.next_prompt < n_prompts)
                *s = (slot){.prompt = j.next_prompt++, .in_prompt = true};
            while (s->prompt >= 0 && s->in_prompt)
                TESS_TRY_CTX(read_prompt(&j, s), "prompt %d", s->prompt);
            if (s->prompt >= 0 && max_new_tokens == 0)
                s->prompt = -1;
            busy |= s->prompt >= 0;
        }
        if (!busy && j.next_prompt == n_prompts)
            return TESS_OK;
        TESS_TRY(step(&j));
    }
}
