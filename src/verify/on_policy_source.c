#include "verify/on_policy_source.h"

#include <string.h>

#include "base/core/rng.h"
#include "base/os/os.h"
#include "device/device.h"
#include "engine/engine.h"
#include "engine/model/model_file.h"
#include "engine/model/tied_head.h"

enum { FILE_LIMIT = 64 << 20 };

static const int64_t lengths[] = {1, 40, 5, 64, 17, 63, 2, 70};
enum { N_LENGTHS = sizeof(lengths) / sizeof(lengths[0]) };

/* ---- Weights ---- */
/* Reads the weights. adapter: a folder; "": the model has none. */
static tess_status read_weights(tess_on_policy_source *s, const char *folder, const char *adapter,
                                const tess_reporter *reporter)
{
    for (int d = 0; d < 2; d++) {
        TESS_TRY(tess_weights_open(s->mem, folder, s->model, d == 0 ? reporter : NULL, &s->weights[d]));
        if (adapter[0] != '\0')
            TESS_TRY(tess_weights_add_adapter(s->weights[d], adapter));
        TESS_TRY(tess_weights_whole(s->weights[d], s->stream, d == 0 ? TESS_F32 : TESS_BF16, &s->w[d]));
    }
    return TESS_OK;
}

static tess_status make_random(tess_on_policy_source *s, const tess_param *param, tess_random_weights *random,
                               void **f32, void **bf16)
{
    const int64_t n = tess_shape_count(&param->shape);
    const tess_dtype dtype = tess_param_dtype(param, TESS_BF16);
    tess_shape shape = tess_shape_atleast_1d(&param->shape);
    tess_box whole = tess_box_whole(&shape);
    TESS_TRY(tess_scope_alloc(&s->own, TESS_POOL_PARAMS, (size_t)n, sizeof(float), param->name, f32));
    TESS_TRY(tess_scope_alloc(&s->own, TESS_POOL_PARAMS, (size_t)n, tess_dtype_size(dtype), param->name, bf16));
    TESS_TRY(tess_random_weights_fill(random, param->name, &param->shape, &whole, *f32));
    return tess_stream_kernels(s->stream)->convert(
        s->stream, &(tess_convert_args){.x = *f32, .from = TESS_F32, .y = *bf16, .to = dtype, .n = n});
}

static tess_status draw_weights(tess_on_policy_source *s, uint64_t seed)
{
    int n = tess_model_n_params(s->model);
    tess_random_weights random = {s->model, seed, tess_stream_threads(s->stream)};
    for (int d = 0; d < 2; d++) {
        TESS_TRY(TESS_NEW_IN(&s->own, n, "weights", &s->random[d]));
        s->w[d] = (const void *const *)s->random[d];
    }
    for (int i = 0; i < n; i++)
        TESS_TRY(make_random(s, tess_model_param(s->model, i), &random, &s->random[0][i], &s->random[1][i]));
    return TESS_OK;
}

/* ---- The source of policy and prompts ---- */
static tess_status open_model(tess_on_policy_source *s, int n_threads)
{
    TESS_TRY(tess_model_create(s->mem, &s->config, &s->model));
    return tess_stream_create(s->mem, n_threads, NULL, &s->stream);
}

tess_status tess_on_policy_open_folder(tess_mem *mem, const char *folder, int64_t max_length, int n_threads,
                                       const tess_reporter *reporter, tess_on_policy_source *s)
{
    char path[1024];
    *s = (tess_on_policy_source){.mem = mem, .own.mem = mem};
    TESS_TRY(tess_model_folder_file(folder, "config.json", path, sizeof(path)));
    TESS_TRY(tess_model_config_load(path, &s->config));
    tess_untie_head(folder, reporter, &s->config);
    TESS_TRY(tess_model_config_set_max_length(&s->config, max_length, "--max-length"));
    TESS_TRY(open_model(s, n_threads));
    TESS_TRY(tess_os_join(s->tokenizer, sizeof(s->tokenizer), folder, "tokenizer.json"));
    TESS_TRY(read_weights(s, folder, "", reporter));
    s->dtype = tess_weights_dtype(s->weights[0]);
    return TESS_OK;
}

static tess_status find_tokenizer(tess_on_policy_source *s, const tess_config *config)
{
    if (config->tokenizer.path[0] != '\0')
        return tess_os_join(s->tokenizer, sizeof(s->tokenizer), "", config->tokenizer.path);
    return config->model.path[0] != '\0'
               ? tess_os_join(s->tokenizer, sizeof(s->tokenizer), config->model.path, "tokenizer.json")
               : TESS_OK;
}

tess_status tess_on_policy_open_config(tess_mem *mem, const tess_config *config, int n_threads,
                                       const tess_reporter *reporter, tess_on_policy_source *s)
{
    *s = (tess_on_policy_source){.mem = mem, .own.mem = mem};
    TESS_CHECK(
        config->training.mixed_precision_param != TESS_PRECISION_F16, TESS_E_UNSUPPORTED,
        "training.mixed_precision_param: nothing is generated in float16, which training could be compared with: "
        "choose bfloat16 or float32");
    TESS_CHECK(!config->training.fp8 && config->training.gather == TESS_GATHER_VALUES, TESS_E_UNSUPPORTED,
               "training.fp8: what is generated is not rounded, so it could not be compared: set training.fp8=false");
    TESS_TRY(tess_config_load_model(config, reporter, &s->config));
    TESS_CHECK(
        config->lora.rank == 0, TESS_E_INVALID,
        "tessera verify on-policy: an adapter that nobody has trained changes nothing: name one with lora.path in "
        "place of lora.rank");
    TESS_CHECK(s->config.vocab_size > 0, TESS_E_INVALID,
               "the model's vocab_size is open until the run has trained its tokenizer: name the folder that a run has "
               "left in 'model', or state vocab_size in its config.json");
    TESS_TRY(open_model(s, n_threads));
    s->dtype = tess_precision_dtype((int)tess_config_precision(config, tess_stream_kernels(s->stream)->name));
    TESS_TRY(find_tokenizer(s, config));
    return config->model.path[0] != '\0' ? read_weights(s, config->model.path, config->lora.path, reporter)
                                         : draw_weights(s, (uint64_t)config->debug.seed);
}

static void free_prompts(tess_on_policy_source *s)
{
    for (int i = 0; i < s->n_prompts; i++)
        tess_ids_free(&s->ids[i]);
    tess_mem_free(s->mem, s->ids);
    tess_mem_free(s->mem, s->prompts);
    s->ids = NULL;
    s->prompts = NULL;
    s->n_prompts = 0;
}

void tess_on_policy_source_close(tess_on_policy_source *s)
{
    free_prompts(s);
    tess_scope_end(&s->own);
    for (int d = 0; d < 2; d++)
        tess_weights_close(&s->weights[d]);
    tess_stream_destroy(&s->stream);
    tess_model_destroy(&s->model);
}

/* ---- Prompts ---- */
static tess_status room_for(tess_on_policy_source *s, int n)
{
    free_prompts(s);
    TESS_TRY(TESS_NEW(s->mem, n, "prompts", &s->prompts));
    return TESS_NEW(s->mem, n, "prompts", &s->ids);
}

static tess_ids *next_prompt(tess_on_policy_source *s)
{
    tess_ids *ids = &s->ids[s->n_prompts++];
    ids->mem = s->mem;
    return ids;
}

static void point_at_ids(tess_on_policy_source *s)
{
    for (int i = 0; i < s->n_prompts; i++)
        s->prompts[i] = (tess_on_policy_prompt){s->ids[i].data, (int64_t)s->ids[i].size};
}

static tess_status encode_lines(tess_on_policy_source *s, const tess_tokenizer *tokenizer, const char *path,
                                const char *text, size_t size)
{
    TESS_TRY(room_for(s, TESS_ON_POLICY_PROMPTS));
    for (size_t at = 0, n; at < size; at += n + 1) {
        const char *newline = memchr(text + at, '\n', size - at);
        n = newline != NULL ? (size_t)(newline - text) - at : size - at;
        if (n == 0)
            continue;
        TESS_CHECK(s->n_prompts < TESS_ON_POLICY_PROMPTS, TESS_E_INVALID, "%s: more than %d prompts", path,
                   TESS_ON_POLICY_PROMPTS);
        TESS_TRY(tess_encode_text(tokenizer, text + at, n, true, next_prompt(s)));
    }
    TESS_CHECK(s->n_prompts > 0, TESS_E_INVALID, "%s holds no prompt: one a line", path);
    point_at_ids(s);
    return TESS_OK;
}

tess_status tess_on_policy_read_prompts(tess_on_policy_source *s, const char *path)
{
    tess_tokenizer *tokenizer;
    char *text;
    size_t size;
    TESS_CHECK(s->tokenizer[0] != '\0', TESS_E_INVALID,
               "--prompts: there is no tokenizer to read %s with: name a model's folder, or tokenizer.path", path);
    TESS_TRY_CTX(tess_tokenizer_load(s->mem, s->tokenizer, &tokenizer), "--prompts");
    tess_status status = tess_os_read(s->mem, path, FILE_LIMIT, &text, &size);
    if (status == TESS_OK) {
        status = encode_lines(s, tokenizer, path, text, size);
        tess_mem_free(s->mem, text);
    }
    tess_tokenizer_destroy(&tokenizer);
    return status == TESS_OK ? TESS_OK : tess_fail_context(status, "--prompts");
}

tess_status tess_on_policy_make_prompts(tess_on_policy_source *s, int64_t new_tokens, uint64_t seed)
{
    int64_t most = tess_model_config_max_length(&s->config) - new_tokens;
    TESS_CHECK(most >= 1, TESS_E_INVALID, "--new-tokens: %lld leave no room for a prompt; the model takes %lld tokens",
               (long long)new_tokens, (long long)(most + new_tokens));
    TESS_TRY(room_for(s, N_LENGTHS));
    for (int i = 0; i < N_LENGTHS; i++) {
        tess_ids *ids = next_prompt(s);
        for (int64_t p = 0; p < lengths[i] && p < most; p++) {
            uint64_t drawn = tess_rng_u64(seed, TESS_RNG_TEST, (uint64_t)i, (uint64_t)p);
            TESS_TRY(tess_ids_append(ids, (int32_t)(drawn % (uint64_t)s->config.vocab_size)));
        }
    }
    point_at_ids(s);
    return TESS_OK;
}
