/* PEFT's adapter_config.json: what is accepted is in its limits, and reads back as it is written. */
#include <stdlib.h>
#include <string.h>

#include "base/text/json.h"
#include "nn/lora.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_back(const tess_lora *lora)
{
    json_t *json;
    tess_lora again;
    if (tess_lora_to_json(lora, "base", false, &json) != TESS_OK || tess_lora_parse(json, "again", &again) != TESS_OK)
        abort();
    json_decref(json);
    if (again.rank != lora->rank || again.alpha != lora->alpha || again.rslora != lora->rslora ||
        again.n_targets != lora->n_targets || memcmp(again.targets, lora->targets, sizeof(again.targets)) != 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_t *json;
    tess_lora lora;
    if (tess_json_parse((const char *)data, size, "fuzz", true, &json) != TESS_OK)
        return 0;
    if (tess_lora_parse(json, "fuzz", &lora) == TESS_OK) {
        if (!(tess_lora_scale(&lora) > 0 && tess_lora_scale(&lora) <= 1e6))
            abort();
        tess_lora_adapts(&lora, "model.layers.0.self_attn.q_proj");
        read_back(&lora);
    }
    json_decref(json);
    tess_error_clear();
    return 0;
}
