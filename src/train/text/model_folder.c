#include "train/text/model_folder.h"

#include <stdio.h>

#include "base/os/os.h"
#include "engine/model/model_file.h"
#include "engine/model/tied_head.h"
#include "nn/lora.h"

tess_status tess_model_folder_open(tess_mem *mem, const char *folder, const tess_model_folder_options *o,
                                   const tess_reporter *reporter, tess_model_folder *m)
{
    char path[1024];
    const void *const *w;
    *m = (tess_model_folder){.mem = mem};
    tess_status status;
    TESS_CHECK(tess_os_is_dir(folder) || tess_is_hub_name(folder), TESS_E_NOT_FOUND,
               "%s: no such folder; expected a model's, with config.json, tokenizer.json and weights", folder);
    snprintf(m->folder, sizeof(m->folder), "%s", folder);
    TESS_GOTO(tess_model_folder_file(folder, "config.json", path, sizeof(path)), opened);
    TESS_GOTO(tess_model_config_load(path, &m->config), opened);
    tess_untie_head(folder, reporter, &m->config);
    TESS_GOTO(tess_model_config_set_max_length(&m->config, o->max_length, "--max-length"), opened);
    if (reporter != NULL && tess_model_config_longrope(&m->config, path, sizeof(path))[0] != '\0')
        tess_report_line(reporter, "%s", path);
    if (o->adapter != NULL)
        TESS_GOTO(tess_lora_load(o->adapter, &m->config.lora), opened);
    TESS_GOTO(tess_model_create(mem, &m->config, &m->model), opened);
    TESS_GOTO(tess_model_folder_file(folder, "tokenizer.json", path, sizeof(path)), opened);
    TESS_GOTO(tess_tokenizer_load(mem, path, &m->tokenizer), opened);
    TESS_GOTO(tess_stream_create(mem, o->n_threads > 0 ? o->n_threads : tess_os_cores(), NULL, &m->stream), opened);
    TESS_GOTO(tess_compute_open(o->device, 0, m->stream, &m->compute), opened);
    TESS_GOTO(tess_weights_open(mem, folder, m->model, reporter, &m->weights), opened);
    if (o->adapter != NULL)
        TESS_GOTO(tess_weights_add_adapter(m->weights, o->adapter), opened);
    m->dtype = o->dtype != TESS_DTYPE_COUNT ? o->dtype : tess_weights_dtype(m->weights);
    TESS_GOTO(tess_weights_whole(m->weights, m->stream, m->dtype, &w), opened);
    TESS_GOTO(tess_static_hooks(mem, m->model, w, NULL, &m->hooks), opened);
    const tess_staging_options staging = {.dtype = m->dtype, .constant = true};
    TESS_GOTO(tess_compute_hooks(&m->compute, m->model, &m->hooks, &staging), opened);
    return TESS_OK;
opened:
    tess_model_folder_close(m);
    return status;
}

void tess_model_folder_close(tess_model_folder *m)
{
    tess_compute_close(&m->compute);
    if (m->hooks.self != NULL)
        tess_static_hooks_free(&m->hooks);
    tess_weights_close(&m->weights);
    tess_stream_destroy(&m->stream);
    tess_tokenizer_destroy(&m->tokenizer);
    tess_model_destroy(&m->model);
}
