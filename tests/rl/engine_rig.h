/* An engine of a tiny model with micro-batches of random tokens, and folders of models, for the tests of this folder.
 */
#ifndef TESS_TESTS_RL_ENGINE_RIG_H
#define TESS_TESTS_RL_ENGINE_RIG_H

#include <errno.h>
#include <sys/stat.h>

#include "base/core/rng.h"
#include "base/text/json.h"
#include "support/rig.h"
#include "tessera/comm.h"
#include "engine/engine.h"

enum { ROWS = 3, LENGTH = 8, TOKENS = ROWS * LENGTH, VOCABULARY = 61, MICRO = 4 };

static const char model_json[] =
    "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\", \"vocab_size\": 61, \"hidden_size\": 24,"
    "\"intermediate_size\": 36, \"num_hidden_layers\": 3, \"num_attention_heads\": 2, \"num_key_value_heads\": 2,"
    "\"head_dim\": 12, \"hidden_act\": \"silu\", \"max_position_embeddings\": 64, \"rms_norm_eps\": 1e-6,"
    "\"rope_theta\": 10000.0, \"tie_word_embeddings\": false}";

typedef struct rig {
    tess_runtime *runtime;
    tess_config config;
    tess_model_config model;
    tess_engine *engine;
    int32_t ids[TOKENS], pos[TOKENS], targets[TOKENS], cu_seqlens[ROWS + 1];
} rig;

static inline tess_status rig_next(void *self, int64_t index, tess_batch *batch)
{
    rig *r = self;
    uint32_t x = 2654435761u * (uint32_t)(index + 1);
    for (int i = 0; i < TOKENS; i++) {
        x = x * 1103515245u + 12345u;
        r->ids[i] = (int32_t)(x >> 16) % VOCABULARY;
        r->targets[i] = i % LENGTH == LENGTH - 1 ? -1 : (int32_t)(x >> 8) % VOCABULARY;
        r->pos[i] = i % LENGTH;
    }
    for (int i = 0; i <= ROWS; i++)
        r->cu_seqlens[i] = i * LENGTH;
    *batch = (tess_batch){.n_tokens = TOKENS,
                          .n_seqs = ROWS,
                          .ids = r->ids,
                          .pos = r->pos,
                          .targets = r->targets,
                          .cu_seqlens = r->cu_seqlens};
    return TESS_OK;
}

/* `overrides`: words separated by spaces. */
static inline void open_rig(rig *r, const char *overrides)
{
    *r = (rig){.runtime = test_stay_joined()};
    test_configure(&r->config, tess_runtime_world(r->runtime),
                   "training.local_batch_size=3 training.global_batch_size=12 training.seq_len=8 training.steps=100 "
                   "lr_scheduler.warmup_steps=0 lr_scheduler.decay_type=constant optimizer.lr=0.01 %s",
                   overrides);
    test_model(model_json, &r->model);
    EXPECT_OK(tess_engine_create(r->runtime, &r->config, &r->model, NULL, &r->engine));
}

static inline void step_rig(rig *r)
{
    tess_engine_report report;
    tess_batch_source source = tess_engine_source(r->engine, r, rig_next);
    EXPECT_OK(tess_engine_step(r->engine, &source, &report));
}

/* ---- Folders ---- */
/* A folder NAME in the first rank's folder with config.json and model.safetensors, whose weights are those of the
 * model's initialisation with `seed`, in F32 or BF16. The first rank writes it, for all. Returns a static buffer. */
static inline const char *write_folder(const char *name, const char *json, uint64_t seed, tess_dtype dtype)
{
    static char folder[512];
    char path[600], header[16384] = "{";
    size_t offset = 0, used = 1;
    tess_model_config config;
    tess_model *model;
    test_model(json, &config);
    EXPECT_OK(tess_model_create(test_mem(), &config, &model));
    snprintf(folder, sizeof(folder), "%s/%s", test_folder(), name);
    FILE *file = NULL;
    for (int i = 0; i < tess_model_n_params(model) && test_rank() == 0; i++) {
        const tess_param *p = tess_model_param(model, i);
        char shape[64];
        size_t bytes = (size_t)tess_shape_count(&p->shape) * tess_dtype_size(dtype);
        used += (size_t)snprintf(header + used, sizeof(header) - used,
                                 "%s\"%s\":{\"dtype\":\"%s\",\"shape\":%s,\"data_offsets\":[%zu,%zu]}",
                                 i > 0 ? "," : "", p->name, dtype == TESS_BF16 ? "BF16" : "F32",
                                 tess_shape_format(&p->shape, shape, sizeof(shape)), offset, offset + bytes);
        offset += bytes;
    }
    if (test_rank() == 0) {
        header[used++] = '}';
        while (used % 8 != 0)
            header[used++] = ' ';
        EXPECT(mkdir(folder, 0700) == 0 || errno == EEXIST);
        snprintf(path, sizeof(path), "%s/config.json", folder);
        EXPECT((file = fopen(path, "w")) != NULL && fputs(json, file) >= 0 && fclose(file) == 0);
        snprintf(path, sizeof(path), "%s/model.safetensors", folder);
        uint64_t length = used;
        EXPECT((file = fopen(path, "w")) != NULL && fwrite(&length, 8, 1, file) == 1 &&
               fwrite(header, 1, used, file) == used);
        for (int i = 0; i < tess_model_n_params(model); i++) {
            static float values[8192];
            const tess_param *p = tess_model_param(model, i);
            const tess_box whole = tess_box_whole(&p->shape);
            int64_t n = tess_shape_count(&p->shape);
            EXPECT(n <= 8192);
            tess_param_fill(p, seed, &whole, values);
            for (int64_t k = 0; k < n; k++) { /* values that bfloat16 has */
                uint32_t bits;
                memcpy(&bits, &values[k], sizeof(bits));
                bits &= 0xffff0000u;
                uint16_t narrow = (uint16_t)(bits >> 16);
                EXPECT(dtype == TESS_BF16 ? fwrite(&narrow, 2, 1, file) == 1 : fwrite(&bits, 4, 1, file) == 1);
            }
        }
        EXPECT(fclose(file) == 0);
    }
    tess_model_destroy(&model);
    EXPECT_OK(tess_broadcast(tess_runtime_team(test_stay_joined()), folder, sizeof(folder), TESS_U8, 0, NULL));
    return folder;
}

#endif
