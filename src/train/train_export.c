/* Writes the trained model as a Hugging Face folder, or its adapter as a PEFT folder. Each rank writes its primary
 * boxes. With host-local folders, the other ranks send their boxes to rank 0, which writes them all. */
#include "engine/model/model_file.h"
#include "train/trainer_impl.h"

#include <stdio.h>
#include <string.h>

#include "base/core/flat.h"
#include "base/os/os.h"
#include "base/text/json.h"
#include "ckpt/safetensors/safetensors.h"
#include "comm/agree.h"
#include "tessera/comm.h"

enum { CHUNK_VALUES = 1 << 20, CONFIG_LIMIT = 1 << 20 };

/* Copies the members of the model's own config.json that Tessera does not read. */
static void carry_unknown_keys(const tess_trainer *t, json_t *json)
{
    static const char *const spelled_otherwise[] = {"dtype", "rope_parameters"};
    char path[1024];
    json_t *source = NULL;
    if (tess_config_model_file(&t->config, path, sizeof(path)) == TESS_OK &&
        tess_json_load(path, CONFIG_LIMIT, &source) == TESS_OK) {
        for (size_t i = 0; i < sizeof(spelled_otherwise) / sizeof(spelled_otherwise[0]); i++)
            json_object_del(source, spelled_otherwise[i]);
        if (!tess_json_has(source, "text_config") && !tess_json_has(source, "vision_config")) /* text alone is saved */
            json_object_update_missing(json, source);
    }
    json_decref(source);
    tess_error_clear(); /* A resumed run may have lost the file; then the configuration comes from the checkpoint. */
}

static tess_status write_descriptions(const tess_trainer *t, const char *folder)
{
    json_t *json;
    TESS_TRY(tess_os_make_dirs(folder));
    if (t->kind->program != NULL)
        return TESS_OK; /* it alone can describe its model */
    TESS_TRY(tess_model_config_to_json(&t->model_config, tess_precision_dtype(t->config.model.save_dtype), &json));
    carry_unknown_keys(t, json);
    TESS_TRY(tess_json_write_in(json, JSON_INDENT(2) | JSON_PRESERVE_ORDER, folder, "config.json"));
    return t->task.export != NULL ? t->task.export(t->task.self, folder) : TESS_OK;
}

static tess_status write_adapter_config(const tess_trainer *t, const char *folder)
{
    tess_lora lora;
    json_t *json;
    TESS_TRY(tess_os_make_dirs(folder));
    TESS_TRY(tess_model_lora(t->engine->whole, &lora));
    TESS_TRY(tess_lora_to_json(&lora, t->config.model.path, t->model_config.family == TESS_FAMILY_GPT2, &json));
    return tess_json_write_in(json, JSON_INDENT(2) | JSON_PRESERVE_ORDER, folder, "adapter_config.json");
}

/* A box of a parameter that rank `from` sends and rank `to` writes. It is contiguous in memory (tess_shard), and
 * consists of runs of equal length in the file. */
typedef struct box_transfer {
    tess_trainer *t;
    tess_st_writer *writer;
    void *encoded; /* (CHUNK_VALUES) values in the dtype of the file */
    tess_dtype dtype;
    int index; /* index of the tensor in the file */
    int from, to;
    tess_shape shape;
    tess_box box;
    const float *values; /* values of the box; valid on rank `from` only */
} box_transfer;

/* Transfers elements [done, +count) of the box, and returns the status of the transfer. The status of the write is
 * stored in *written, because a write error must not keep the sender waiting. */
static tess_status transfer_chunk(const box_transfer *p, int64_t done, int64_t count, tess_status *written)
{
    const tess_trainer *t = p->t;
    if (t->rank == p->from)
        TESS_TRY(tess_st_encode(p->values + done, count, p->dtype, p->encoded));
    if (t->rank == p->from && p->from != p->to)
        return tess_send(t->team, p->encoded, (size_t)count, p->dtype, p->to, (uint32_t)p->index, NULL);
    if (t->rank != p->to)
        return TESS_OK;
    if (p->from != p->to)
        TESS_TRY(tess_recv(t->team, p->encoded, (size_t)count, p->dtype, p->from, (uint32_t)p->index, NULL));
    if (*written == TESS_OK)
        *written = tess_st_write_box(p->writer, p->index, &p->box, done, count, p->encoded);
    return TESS_OK;
}

static tess_status transfer_box(const box_transfer *p, tess_status *written)
{
    int64_t n = tess_box_count(p->shape.n_dims, &p->box);
    for (int64_t done = 0; done < n; done += CHUNK_VALUES)
        TESS_TRY(transfer_chunk(p, done, n - done < CHUNK_VALUES ? n - done : CHUNK_VALUES, written));
    return TESS_OK;
}

/* Rank 0 receives and writes all boxes, because only its folder will have the whole model. */
static tess_status collect(box_transfer *p, tess_status *written)
{
    const tess_trainer *t = p->t;
    tess_box mine = p->box;
    TESS_AUTO(tess_mem_drop) tess_box *all = NULL;
    TESS_TRY(TESS_NEW(t->mem, tess_team_size(t->team), "export", &all));
    TESS_TRY(tess_all_gather(t->team, &mine, all, sizeof(mine) / sizeof(int64_t), TESS_I64, NULL));
    p->to = 0;
    for (p->from = 0; p->from < tess_team_size(t->team); p->from++) {
        p->box = all[p->from];
        TESS_TRY(transfer_box(p, written));
    }
    return TESS_OK;
}

/* A tensor to write: a weight of the model, or one of its adapter under PEFT's name and in float32, as PEFT trains
 * it. */
typedef struct export_tensor {
    int param;
    char name[TESS_PARAM_NAME_SIZE + 20];
} export_tensor;

typedef struct export_list {
    bool adapter;
    const char *stem;
    tess_dtype dtype;
    int n;
    export_tensor *tensors;   /* (n_params) */
    tess_st_tensor *in_files; /* (n_params) */
    void *encoded;            /* (CHUNK_VALUES) */
} export_list;

static tess_status list_tensors(const tess_trainer *t, export_list *list)
{
    for (int i = 0; i < tess_model_n_params(t->engine->whole); i++) {
        const tess_param *param = tess_model_param(t->engine->whole, i);
        export_tensor *tensor = &list->tensors[list->n];
        if (param->beside || param->adapter != list->adapter)
            continue;
        tensor->param = i;
        snprintf(tensor->name, sizeof(tensor->name), "%s%s", list->adapter ? "base_model.model." : "", param->name);
        tess_st_entry entry = {tensor->name, tess_param_dtype(param, list->dtype), param->shape};
        TESS_TRY(tess_st_describe(&entry, &list->in_files[list->n++]));
    }
    return TESS_OK;
}

static tess_status write_tensor(tess_trainer *t, tess_st_writer *writer, const export_list *list, int index,
                                tess_status *written)
{
    tess_shard shard;
    TESS_TRY(tess_engine_shard(t->engine, list->tensors[index].param, &shard));
    box_transfer p = {.t = t,
                      .writer = writer,
                      .encoded = list->encoded,
                      .dtype =
                          tess_param_dtype(tess_model_param(t->engine->whole, list->tensors[index].param), list->dtype),
                      .index = index,
                      .from = t->rank,
                      .to = t->rank};
    p.shape = tess_shape_atleast_1d(&shard.shape);
    p.box = shard.primary;
    p.values =
        shard.master != NULL ? shard.master + tess_flat_offset(p.shape.n_dims, &shard.box, &shard.primary) : NULL;
    bool own_folders = t->config.checkpoint.host_local && t->hosts->n > 1;
    return own_folders ? collect(&p, written) : transfer_box(&p, written);
}

static tess_status write_tensors(tess_trainer *t, const char *folder, export_list *list)
{
    size_t shard_bytes = list->adapter ? SIZE_MAX : 0; /* PEFT reads a single file */
    tess_st_writer *writer;
    TESS_TRY(list_tensors(t, list));
    TESS_TRY(
        tess_st_write_begin(t->mem, t->team, folder, list->stem, list->in_files, list->n, shard_bytes, NULL, &writer));
    tess_status status = TESS_OK, written = TESS_OK;
    for (int i = 0; i < list->n && status == TESS_OK; i++)
        status = write_tensor(t, writer, list, i, &written);
    return tess_st_write_finish(&writer, status != TESS_OK ? status : written);
}

static tess_status write_folder(tess_trainer *t, const char *folder, export_list *list)
{
    size_t n = (size_t)tess_model_n_params(t->engine->whole);
    TESS_AUTO(tess_scope_end) tess_scope own = {.mem = t->mem};
    TESS_TRY(TESS_NEW_IN(&own, n, "export", &list->tensors));
    TESS_TRY(TESS_NEW_IN(&own, n, "export", &list->in_files));
    TESS_TRY(tess_scope_alloc(&own, TESS_POOL_MISC, CHUNK_VALUES, sizeof(float), "export", &list->encoded));
    return write_tensors(t, folder, list);
}

tess_status tess_trainer_export(tess_trainer *t, const char *name, char *folder, size_t size)
{
    bool adapter = t->model_config.lora.rank > 0;
    const char *usual = adapter ? "adapter" : "model";
    export_list list = {.adapter = adapter,
                        .stem = adapter ? "adapter_model" : "model",
                        .dtype = adapter ? TESS_F32 : tess_precision_dtype(t->config.model.save_dtype)};
    tess_status (*describe)(const tess_trainer *, const char *) = adapter ? write_adapter_config : write_descriptions;
    tess_runtime_phase(t->runtime, "export", t->engine->step, -1);
    TESS_TRY(tess_trainer_path(t, name != NULL ? name : usual, folder, size));
    TESS_TRY(tess_team_agree(t->team, t->rank == 0 ? describe(t, folder) : TESS_OK));
    TESS_TRY(write_folder(t, folder, &list));
    tess_trainer_note(t, "%s: %s (%s, %s)", usual, folder,
                      adapter                    ? "PEFT format"
                      : t->kind->program != NULL ? "safetensors"
                                                 : "Hugging Face format",
                      tess_dtype_name(list.dtype));
    return TESS_OK;
}
