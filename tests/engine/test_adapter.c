/* Adapters as files: PEFT's are read as they are, others are named, and merging gives the same model. */
#include "engine/model/adapter_merge.h"

#include <stdio.h>
#include <unistd.h>

#include "ckpt/safetensors/safetensors.h"
#include "nn/fixture.h"

static const char *const adapters[] = {"lora_llama", "lora_qwen2", "lora_gpt2"};
enum { N_ADAPTERS = sizeof(adapters) / sizeof(adapters[0]) };

/* A folder of that name, of this case. */
static void own_folder(const char *name, char folder[256])
{
    snprintf(folder, 256, "%s/%s", test_folder(), name);
    EXPECT_OK(tess_os_make_dirs(folder));
}

static void folder_of(int index, char folder[256])
{
    snprintf(folder, 256, "%s", fixture_file(adapters[index], ""));
}

static void open_case(fixture *f, int index)
{
    char folder[256];
    fixture_open(f, adapters[index]);
    folder_of(index, folder);
    EXPECT_OK(tess_lora_load(folder, &f->config.lora));
}

/* The fixture's model without its adapter, as a folder with config.json. */
static void write_base(int index, const char *folder)
{
    fixture f;
    rig r;
    char path[300];
    tess_st_writer *writer;
    fixture_open(&f, adapters[index]);
    rig_open(&r, &f.config, TESS_F32, NULL, 1);
    tess_st_tensor *tensors = test_alloc((size_t)r.n_params * sizeof(*tensors));
    for (int i = 0; i < r.n_params; i++) {
        const tess_param *p = tess_model_param(r.model, i);
        EXPECT_OK(tess_st_describe(&(tess_st_entry){p->name, TESS_F32, p->shape}, &tensors[i]));
    }
    EXPECT_OK(tess_st_write_begin(test_mem(), NULL, folder, "model", tensors, r.n_params, 0, NULL, &writer));
    for (int i = 0; i < r.n_params; i++)
        EXPECT_OK(tess_st_write_bytes(
            writer, i, 0, (size_t)tess_shape_count(&tess_model_param(r.model, i)->shape) * sizeof(float), r.w32[i]));
    EXPECT_OK(tess_st_write_finish(&writer, TESS_OK));
    snprintf(path, sizeof(path), "%s/config.json", folder);
    EXPECT_OK(tess_os_copy(fixture_file(adapters[index], "config.json"), path));
    test_free(tensors);
    rig_close(&r);
    fixture_close(&f);
}

static void adapters_of_peft_are_read_as_they_are(void)
{
    for (int i = 0; i < N_ADAPTERS; i++) {
        fixture f;
        rig r;
        tess_weights *weights;
        char folder[256], base[256];
        folder_of(i, folder);
        own_folder(adapters[i], base);
        write_base(i, base);
        open_case(&f, i);
        rig_open(&r, &f.config, TESS_F32, NULL, 1);
        EXPECT_OK(tess_weights_open(test_mem(), base, r.model, NULL, &weights));
        EXPECT_OK(tess_weights_add_adapter(weights, folder));
        int n = 0;
        for (int p = 0; p < r.n_params; p++) {
            const tess_param *param = tess_model_param(r.model, p);
            const tess_box whole = tess_box_whole(&param->shape);
            size_t count = (size_t)tess_shape_count(&param->shape);
            float *values = test_alloc(count * sizeof(float));
            EXPECT_OK(tess_weights_fill(weights, param->name, &param->shape, &whole, values));
            EXPECT_SAME(values, r.w32[p], count);
            n += param->adapter;
            test_free(values);
        }
        EXPECT(n >= 12);
        tess_weights_close(&weights);
        rig_close(&r);
        fixture_close(&f);
    }
}

/* A model without adapter, of the merged weights, has the logits of the two. */
static void a_merged_model_has_the_logits_of_model_and_adapter(void)
{
    for (int i = 0; i < N_ADAPTERS; i++) {
        fixture f;
        rig r;
        tess_adapter_merge *m;
        char folder[256], base[256];
        int n = 0;
        folder_of(i, folder);
        own_folder(adapters[i], base);
        write_base(i, base);
        fixture_open(&f, adapters[i]);
        rig_open(&r, &f.config, TESS_F32, NULL, 1);
        EXPECT_OK(tess_adapter_merge_open(test_mem(), base, base, folder, NULL, &m));
        const tess_rewrite_change change = tess_adapter_merge_change(m);
        for (int p = 0; p < r.n_params; p++) {
            const tess_param *param = tess_model_param(r.model, p);
            int64_t half = param->shape.dim[0] / 2, row = tess_shape_count(&param->shape) / param->shape.dim[0];
            tess_box upper = tess_box_whole(&param->shape), lower = upper;
            if (!change.concerns(change.self, param->name))
                continue;
            upper.size[0] = lower.begin[0] = half;
            lower.size[0] -= half;
            EXPECT_OK(change.apply(change.self, param->name, &upper, r.w32[p]));
            EXPECT_OK(change.apply(change.self, param->name, &lower, r.w32[p] + half * row));
            n++;
        }
        EXPECT(n >= 6);
        rig_refresh(&r);
        tess_executor *e =
            rig_executor(&r, (tess_executor_options){.max_tokens = FIXTURE_TOKENS, .max_position = f.max_position});
        int64_t T = f.batch.n_tokens, V = f.config.vocab_size;
        int32_t rows[FIXTURE_TOKENS];
        float *logits = test_alloc((size_t)(T * V) * sizeof(float));
        for (int32_t t = 0; t < T; t++)
            rows[t] = t;
        EXPECT_OK(tess_executor_logits(e, &f.batch, rows, T, logits));
        test_expect_close(__FILE__, __LINE__, adapters[i], logits, f.expected, (size_t)(T * V), 2e-5, 0);
        test_free(logits);
        tess_executor_destroy(&e);
        tess_adapter_merge_close(&m);
        rig_close(&r);
        fixture_close(&f);
    }
}

static void expect_refused(const char *base, const char *folder, tess_status status, const char *message)
{
    tess_adapter_merge *m;
    EXPECT_FAILS(tess_adapter_merge_open(test_mem(), base, base, folder, NULL, &m), status, message);
    EXPECT(m == NULL);
}

static void adapters_that_are_not_of_the_model_are_named(void)
{
    char llama[256], base[256], broken[256], from[300], path[300], text[64];
    own_folder("base", base);
    own_folder("broken", broken);
    write_base(0, base);
    folder_of(0, llama);
    expect_refused(base, broken, TESS_E_NOT_FOUND, "adapter_config.json: no such file");
    expect_refused(base, fixture_file("lora_gpt2", ""), TESS_E_INVALID, "'c_attn' is no linear map");
    expect_refused(base, fixture_file("lora_qwen2", ""), TESS_E_FORMAT, "are not of the same model");

    /* Half written. */
    snprintf(from, sizeof(from), "%s/adapter_config.json", llama);
    snprintf(path, sizeof(path), "%s/adapter_config.json", broken);
    EXPECT_OK(tess_os_copy(from, path));
    expect_refused(base, broken, TESS_E_NOT_FOUND, "the adapter is not whole");
    snprintf(from, sizeof(from), "%s/adapter_model.safetensors", llama);
    snprintf(path, sizeof(path), "%s/adapter_model.safetensors", broken);
    EXPECT_OK(tess_os_copy(from, path));
    EXPECT_INT(truncate(path, 9000), 0);
    expect_refused(base, broken, TESS_E_FORMAT, "adapter_model.safetensors");

    /* More, and less, than adapter_config.json says. */
    EXPECT_OK(tess_os_copy(from, path));
    snprintf(path, sizeof(path), "%s/adapter_config.json", broken);
    for (int k = 0; k < 2; k++) {
        snprintf(text, sizeof(text), "{\"peft_type\": \"LORA\", \"r\": %d, \"target_modules\": [\"q_proj\"]}", 4 + k);
        EXPECT_OK(tess_os_write_atomic(path, text, strlen(text)));
        expect_refused(base, broken, TESS_E_FORMAT,
                       k == 0 ? "it is an adapter of another model"
                              : "has shape [4, 24], but adapter_config.json asks");
    }
    folder_of(2, llama);
    snprintf(from, sizeof(from), "%s/adapter_model.safetensors", llama);
    snprintf(path, sizeof(path), "%s/adapter_model.safetensors", broken);
    EXPECT_OK(tess_os_copy(from, path));
    expect_refused(base, broken, TESS_E_NOT_FOUND, "4 of the 4 tensors that adapter_config.json asks for are missing");
}

static const test_case cases[] = {
    CASE(adapters_of_peft_are_read_as_they_are),
    CASE(a_merged_model_has_the_logits_of_model_and_adapter),
    CASE(adapters_that_are_not_of_the_model_are_named),
};
TEST_MAIN(cases)
