/* config.json: whatever is accepted must describe a model that can be built, planned and written back the same.
 * generation_config.json: what is accepted can be sampled by. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/json.h"
#include "infer/generation_config.h"
#include "nn/layers/layers.h"
#include "nn/model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool condition)
{
    if (!condition)
        abort();
}

static void use(const tess_model_config *config)
{
    tess_mem *mem;
    tess_model *model;
    must(tess_mem_create(&mem) == TESS_OK);
    must(tess_model_create(mem, config, &model) == TESS_OK);
    must(tess_model_count(model) > 0);
    must(tess_model_flops_per_token(model, 1 << 20) > 0);
    int64_t longest = tess_model_config_max_length(config);
    must(longest >= 1);
    const tess_executor_options options = {
        .dtype = TESS_BF16, .max_tokens = INT32_MAX, .max_position = longest, .train = true};
    must(tess_executor_bytes(model, &options) > 0);
    tess_executor_options least = options;
    least.recompute_groups = TESS_GROUP_ALL;
    size_t window, budget = tess_executor_bytes(model, &options) / 2;
    /* Its time grows with the square of the layers. */
    if (config->n_layers <= 64 && tess_executor_fit(model, budget, 0, &least) == TESS_OK)
        must(tess_executor_bytes(model, &least) <= budget);
    tess_error_clear();
    least.on_disk = true;
    must(tess_executor_disk_bytes(model, &least, &window) >= window);
    if (config->family != TESS_FAMILY_GPT2) {
        float inv_freq[512]; /* head_dim is at most 1024 */
        const int64_t rotary = tess_model_config_rotary(config);
        double scale = tess_rope_frequencies(&config->rope, rotary, longest, inv_freq);
        must(!isnan(scale));
        for (int64_t i = 0; i < rotary / 2; i++)
            must(!isnan(inv_freq[i]));
    }
    tess_model_destroy(&model);
    must(tess_mem_destroy(&mem) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_t *json;
    if (tess_json_parse((const char *)data, size, "fuzz", true, &json) != TESS_OK)
        return 0;
    tess_generation_config generation;
    if (tess_generation_config_parse(json, "fuzz", &generation) == TESS_OK) {
        const tess_sampling *s = &generation.sampling;
        must(s->temperature <= 100 && s->top_p <= 1 && s->repetition_penalty <= 100 && generation.n_end <= 8);
        must(memchr(generation.ignored, '\0', sizeof(generation.ignored)) != NULL);
    }
    tess_error_clear();
    tess_model_config config, again;
    tess_status status = tess_model_config_parse(json, "fuzz", &config);
    json_decref(json);
    if (status != TESS_OK)
        return 0;
    use(&config);
    must(tess_model_config_to_json(&config, TESS_F32, &json) == TESS_OK);
    must(tess_model_config_parse(json, "again", &again) == TESS_OK);
    json_decref(json);
    config.text_part = false; /* a text model is written alone */
    config.dropout = 0;       /* written as 0 */
    must(memcmp(&config, &again, sizeof(config)) == 0);
    return 0;
}
