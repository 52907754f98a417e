/* Starts a run from a checkpoint of another run, in any format. */
#include <string.h>

#include "comm/agree.h"
#include "ckpt/store/read.h"
#include "device/finite.h"
#include "engine/model/exclude.h"
#include "train/trainer_impl.h"

typedef struct warm_start {
    tess_trainer *t;
    tess_catalog *catalog;
    tess_export *list;
    tess_ckpt_tensor *tensors; /* (n) tensors to read */
    int n;
    tess_catalog_request *requests; /* (n) */
} warm_start;

static const tess_catalog_tensor *find_tensor(const warm_start *w, const tess_ckpt_tensor *tensor)
{
    char name[TESS_STORE_NAME];
    if (tensor->state == NULL)
        return tess_weights_find(w->list, tensor->name);
    tess_store_tensor_name(tensor->state, tensor->name, name);
    return tess_catalog_find(w->catalog, name);
}

static tess_status check_shape(const warm_start *w, const tess_ckpt_tensor *wanted, const tess_catalog_tensor *found)
{
    char text[200], asked[96];
    tess_box whole = tess_catalog_whole(found);
    TESS_CHECK(tess_catalog_has_shape(found, &wanted->shape), TESS_E_INVALID,
               "%s: tensor '%s' has elements %s, but this model's shape is %s: give the checkpoint's model, or start "
               "the tensor anew with checkpoint.exclude_from_loading",
               w->catalog->path, found->name, tess_box_format(found->n_dims, &whole, text, sizeof(text)),
               tess_shape_format(&wanted->shape, asked, sizeof(asked)));
    return TESS_OK;
}

static tess_status match(warm_start *w)
{
    int n_missing = 0;
    const char *missing = "";
    for (int i = 0; i < w->n; i++) {
        const tess_ckpt_tensor *t = &w->tensors[i];
        const tess_catalog_tensor *found = find_tensor(w, t);
        if (found == NULL) {
            missing = n_missing++ == 0 ? t->name : missing;
            continue;
        }
        TESS_TRY(check_shape(w, t, found));
        w->requests[i] = tess_store_request(t, found);
    }
    TESS_CHECK(n_missing == 0, TESS_E_INVALID,
               "%s: %d of the %d tensors are missing, the first is of '%s': give the checkpoint's model, a copy of it "
               "under Tessera's names (`tessera convert --to tessera`), take the weights alone "
               "(checkpoint.initial_load_model_only=true), or name what is to start anew in "
               "checkpoint.exclude_from_loading",
               w->catalog->path, n_missing, w->n, missing);
    return TESS_OK;
}

/* Whether the tensor is a value head that the other run did not have. It keeps its initial values. */
static bool is_left_out(const warm_start *w, const tess_ckpt_tensor *tensor)
{
    const tess_model *model = w->t->engine->whole;
    const int index = tess_model_find_param(model, tensor->name);
    return index >= 0 && tess_model_param(model, index)->beside && find_tensor(w, tensor) == NULL;
}

static tess_status prepare(warm_start *w)
{
    tess_trainer *t = w->t;
    TESS_TRY(tess_catalog_open(t->mem, t->config.checkpoint.initial_load_path, &w->catalog));
    TESS_TRY(tess_weights_list(w->catalog, t->engine->whole, &w->list));
    TESS_TRY(tess_trainer_list_tensors(t, &w->tensors, &w->n));
    TESS_TRY(tess_exclude_tensors(&t->without, w->tensors, &w->n));
    int n = 0;
    for (int i = 0; i < w->n; i++)
        if ((w->tensors[i].state == NULL || !t->config.checkpoint.initial_load_model_only) &&
            !is_left_out(w, &w->tensors[i]))
            w->tensors[n++] = w->tensors[i];
    w->n = n;
    TESS_TRY(tess_mem_alloc_array(t->mem, TESS_POOL_MISC, (size_t)w->n, sizeof(w->requests[0]), "tensors to read",
                                  (void **)&w->requests));
    return match(w);
}

/* Names the tensors with NaN or infinite values, from all ranks, because each rank has read only its own rows. */
static tess_status report_broken(const warm_start *w)
{
    tess_trainer *t = w->t;
    TESS_AUTO(tess_mem_drop) int32_t *broken = NULL;
    TESS_TRY(TESS_NEW(t->mem, w->n, "broken tensors", &broken));
    for (int i = 0; i < w->n; i++)
        broken[i] = w->requests[i].floats && w->requests[i].dst != NULL &&
                    !tess_all_finite(w->requests[i].dst, TESS_F32,
                                     tess_box_count(w->requests[i].tensor->n_dims, &w->requests[i].box));
    TESS_TRY(tess_all_reduce(t->team, broken, broken, (size_t)w->n, TESS_I32, TESS_MAX, NULL));
    for (int i = 0; i < w->n; i++)
        if (broken[i])
            tess_trainer_warn(t, "%s: tensor '%s' holds NaN or infinite values",
                              tess_catalog_file_of(w->catalog, w->requests[i].tensor), w->requests[i].tensor->name);
    return TESS_OK;
}

static tess_status finish(warm_start *w)
{
    tess_trainer *t = w->t;
    const char *first;
    if (!t->config.checkpoint.initial_load_model_only)
        TESS_TRY(tess_trainer_restore_state(t, json_object_get(w->catalog->meta, "meta")));
    TESS_TRY(tess_engine_weights_changed(t->engine));
    int n_unused = tess_weights_count_unused(w->list, w->requests, w->n, t->model_config.tied, &first);
    if (n_unused > 0)
        tess_trainer_warn(t, "%s: %d tensors are not taken, the first is '%s'", w->catalog->path, n_unused, first);
    tess_trainer_note(t, "%s of %s (%s)",
                      t->config.checkpoint.initial_load_model_only ? "starts from the weights" : "goes on from the run",
                      w->catalog->path, w->catalog->format);
    return TESS_OK;
}

tess_status tess_trainer_warm_start(tess_trainer *t)
{
    warm_start w = {.t = t};
    t->without = t->config.checkpoint.exclude_from_loading;
    tess_status status = tess_team_agree(t->team, prepare(&w));
    if (status == TESS_OK)
        status = tess_team_agree(
            t->team, tess_catalog_read_all(w.catalog, tess_stream_threads(t->engine->stream), w.requests, w.n));
    if (status == TESS_OK)
        status = report_broken(&w);
    if (status == TESS_OK)
        status = finish(&w);
    tess_mem_free(t->mem, w.requests);
    tess_mem_free(t->mem, w.tensors);
    tess_export_destroy(&w.list);
    tess_catalog_destroy(&w.catalog);
    return status;
}
