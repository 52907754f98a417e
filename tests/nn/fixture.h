/* A model with weights, a stream and hooks for tests, and the cases of tools/make_model_fixtures.py. */
#ifndef TESS_TESTS_NN_FIXTURE_H
#define TESS_TESTS_NN_FIXTURE_H

#include "base/os/os.h"
#include "base/text/json.h"
#include "nn/model.h"
#include "support/test.h"

static const char *const fixture_names[] = {
    "llama",       "llama_biases", "llama3",       "llama_dynamic",  "llama_dynamic_within",
    "mistral",     "qwen2",        "qwen2_layers", "qwen3",          "qwen3_layers",
    "ministral",   "gpt2",         "gpt2_erf",     "smollm3",        "ministral3",
    "phi3",        "phi4",         "olmo2",        "olmo3",          "starcoder2",
    "stablelm",    "granite",      "gemma",        "gemma3",         "glm",
    "glm4",        "exaone4",      "gemma2",       "cohere2",        "stablelm_parallel",
    "mixtral",     "qwen3_moe",    "olmoe",        "qwen2_moe",      "gpt_oss",
    "deepseek_v2", "deepseek_v3",  "gpt_neox",     "stablelm_norms", "olmoe_clipped"};
enum { N_FIXTURES = sizeof(fixture_names) / sizeof(fixture_names[0]) };

static const char *const kernel_levels[] = {"ref", "avx2", "avx512", "avx512_bf16", "amx"};
enum { N_LEVELS = sizeof(kernel_levels) / sizeof(kernel_levels[0]) };

static inline bool have_level(const char *name)
{
    const tess_kernels *kernels;
    return tess_kernels_select(name, &kernels) == TESS_OK;
}

static inline void *test_alloc(size_t bytes)
{
    void *block = NULL;
    EXPECT_OK(tess_mem_alloc(test_mem(), TESS_POOL_MISC, bytes, "test", &block));
    return block;
}

static inline void test_free(void *block)
{
    tess_mem_free(test_mem(), block);
}

/* The script's weights(): uniform in [-1/2, 1/2); norms around 1 (or 0, if they multiply by 1 + w) and biases half as
 * wide. */
static inline void fixture_weight(const tess_param *param, float *dst)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (const char *c = param->name; *c != '\0'; c++)
        h = (h ^ (unsigned char)*c) * 0x100000001b3u;
    int64_t n = tess_shape_count(&param->shape);
    size_t length = strlen(param->name);
    bool matrix = param->shape.n_dims >= 2, weight = length > 7 && strcmp(param->name + length - 7, ".weight") == 0;
    for (int64_t i = 0; i < n; i++) {
        uint64_t z = h + (uint64_t)(i + 1) * 0x9e3779b97f4a7c15u;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        z ^= z >> 31;
        float u = (float)(z >> 40) * 0x1p-24f - 0.5f;
        dst[i] = matrix ? u : weight && param->init == TESS_INIT_ONE ? u * 0.5f + 1 : u * 0.5f;
    }
}

/* A model whose weights are in this process. */
typedef struct rig {
    tess_model_config config;
    tess_model *model;
    tess_stream *stream;
    tess_dtype dtype;
    int n_params;
    float **w32;
    void **w; /* weights in dtype */
    float **dw;
    tess_hooks hooks;
} rig;

/* Updates the weights in the compute dtype after a change of w32. */
static inline void rig_refresh(rig *r)
{
    for (int i = 0; i < r->n_params; i++) {
        const tess_param *param = tess_model_param(r->model, i);
        EXPECT_OK(tess_stream_kernels(r->stream)->convert(r->stream,
                                                          &(tess_convert_args){.x = r->w32[i],
                                                                               .from = TESS_F32,
                                                                               .y = r->w[i],
                                                                               .to = tess_param_dtype(param, r->dtype),
                                                                               .n = tess_shape_count(&param->shape)}));
    }
}

static inline void rig_open_part(rig *r, const tess_model_config *config, const tess_model_part *part, tess_dtype dtype,
                                 const char *level, int n_threads)
{
    memset(r, 0, sizeof(*r));
    r->config = *config;
    r->dtype = dtype;
    EXPECT_OK(tess_stream_create(test_mem(), n_threads, level, &r->stream));
    if (part != NULL)
        EXPECT_OK(tess_model_create_part(test_mem(), config, part, &r->model));
    else
        EXPECT_OK(tess_model_create(test_mem(), config, &r->model));
    r->n_params = tess_model_n_params(r->model);
    size_t pointers = (size_t)r->n_params * sizeof(void *);
    r->w32 = test_alloc(pointers);
    r->w = test_alloc(pointers);
    r->dw = test_alloc(pointers);
    for (int i = 0; i < r->n_params; i++) {
        const tess_param *param = tess_model_param(r->model, i);
        size_t bytes = (size_t)tess_shape_count(&param->shape) * sizeof(float);
        r->w32[i] = test_alloc(bytes);
        r->w[i] = test_alloc(bytes);
        r->dw[i] = test_alloc(bytes);
        /* backward must overwrite gradients, not add to them; what is not trained has none */
        memset(r->dw[i], param->frozen && config->lora.rank == 0 ? 0 : 0xff, bytes);
        fixture_weight(param, r->w32[i]);
    }
    rig_refresh(r);
    EXPECT_OK(tess_static_hooks(test_mem(), r->model, (const void *const *)r->w, r->dw, &r->hooks));
}

static inline void rig_open(rig *r, const tess_model_config *config, tess_dtype dtype, const char *level, int n_threads)
{
    rig_open_part(r, config, NULL, dtype, level, n_threads);
}

static inline void rig_close(rig *r)
{
    tess_static_hooks_free(&r->hooks);
    for (int i = 0; i < r->n_params; i++) {
        test_free(r->w32[i]);
        test_free(r->w[i]);
        test_free(r->dw[i]);
    }
    test_free(r->w32);
    test_free(r->w);
    test_free(r->dw);
    tess_model_destroy(&r->model);
    tess_stream_destroy(&r->stream);
}

static inline tess_executor *rig_executor(rig *r, tess_executor_options options)
{
    tess_executor *executor = NULL;
    options.dtype = r->dtype;
    EXPECT_OK(tess_executor_create(r->stream, r->model, &r->hooks, &options, &executor));
    return executor;
}

/* One of the script's cases. */
enum { FIXTURE_TOKENS = 64 };
typedef struct fixture {
    tess_model_config config;
    json_t *json;
    tess_mapping file;
    const float *expected; /* logits (T, V), then gradients in the order of json "grads" */
    int32_t ids[FIXTURE_TOKENS], pos[FIXTURE_TOKENS], targets[FIXTURE_TOKENS], cu_seqlens[8];
    tess_batch batch;
    int64_t max_position;
    double loss;
} fixture;

static inline const char *fixture_file(const char *name, const char *file)
{
    static char relative[128];
    snprintf(relative, sizeof(relative), "nn/fixtures/%s/%s", name, file);
    return test_path(relative);
}

static inline int64_t fixture_list(const json_t *json, const char *key, int32_t *out, size_t most)
{
    const json_t *list = json_object_get(json, key);
    size_t n = json_array_size(list);
    EXPECT(n <= most);
    for (size_t i = 0; i < n; i++)
        out[i] = (int32_t)json_integer_value(json_array_get(list, i));
    return (int64_t)n;
}

static inline void fixture_open(fixture *f, const char *name)
{
    memset(f, 0, sizeof(*f));
    EXPECT_OK(tess_model_config_load(fixture_file(name, "config.json"), &f->config));
    EXPECT_OK(tess_json_load(fixture_file(name, "case.json"), 1 << 20, &f->json));
    EXPECT_OK(tess_os_map(fixture_file(name, "expected.bin"), &f->file));
    f->expected = (const float *)(const void *)f->file.data;
    int64_t T = fixture_list(f->json, "ids", f->ids, FIXTURE_TOKENS);
    EXPECT_INT(fixture_list(f->json, "targets", f->targets, FIXTURE_TOKENS), T);
    int64_t n_seqs = fixture_list(f->json, "cu_seqlens", f->cu_seqlens, 8) - 1;
    for (int64_t i = 0; i < n_seqs; i++)
        for (int32_t t = f->cu_seqlens[i]; t < f->cu_seqlens[i + 1]; t++)
            f->pos[t] = t - f->cu_seqlens[i];
    f->max_position = json_integer_value(json_object_get(f->json, "max_position"));
    if (f->max_position > tess_model_config_max_length(&f->config)) /* dynamic scaling depends on it */
        EXPECT_OK(tess_model_config_set_max_length(&f->config, f->max_position, "max_position"));
    f->loss = json_real_value(json_object_get(f->json, "loss"));
    f->batch = (tess_batch){.n_tokens = T,
                            .n_seqs = n_seqs,
                            .ids = f->ids,
                            .pos = f->pos,
                            .targets = f->targets,
                            .cu_seqlens = f->cu_seqlens};
}

static inline void fixture_close(fixture *f)
{
    json_decref(f->json);
    tess_os_unmap(&f->file);
}

#endif
