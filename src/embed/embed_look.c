/* Describes, lists and verifies checkpoints of other engines. A single process may call these functions. */
#include <stdio.h>
#include <stdlib.h>

#include "base/mem/scoped.h"
#include "ckpt/store/read.h"
#include "ckpt/tools/list.h"
#include "tessera/ckpt.h"

tess_status tess_checkpoint_describe(const char *name, tess_dtensor *tensor, tess_checkpoint_tensor *described)
{
    TESS_CHECK(name != NULL && tensor != NULL && described != NULL, TESS_E_INVALID,
               "tess_checkpoint_describe: a NULL argument");
    const tess_spec *spec = tess_dtensor_spec(tensor);
    for (int a = 0; a < spec->n_axes; a++)
        TESS_CHECK(
            spec->place[a].kind != TESS_PARTIAL, TESS_E_INVALID,
            "checkpoint: tensor '%s' is Partial over axis %d, so no rank holds its values: redistribute it first", name,
            a);
    *described = (tess_checkpoint_tensor){name, tess_dtensor_dtype(tensor), spec->shape, *tess_dtensor_box(tensor),
                                          tess_dtensor_local(tensor)};
    if (spec->shape.n_dims == 0)
        described->box = (tess_box){{0}, {1}};
    return TESS_OK;
}

/* Opens a checkpoint, and calls `use` on it. */
static tess_status with_catalog(const char *folder, int64_t step, tess_status (*use)(const tess_catalog *, void *),
                                void *self)
{
    TESS_AUTO(tess_mem_destroy) tess_mem *mem = NULL;
    TESS_AUTO(tess_catalog_destroy) tess_catalog *catalog = NULL;
    TESS_CHECK(folder != NULL, TESS_E_INVALID, "checkpoint: no folder is named");
    TESS_TRY(tess_mem_create(&mem));
    TESS_TRY(tess_ckpt_open_step(mem, folder, step, &catalog));
    return use(catalog, self);
}

static tess_status take_meta(const tess_catalog *catalog, void *text)
{
    const json_t *meta = json_object_get(catalog->meta, "meta");
    if (meta == NULL)
        return TESS_OK;
    *(char **)text = json_dumps(meta, JSON_COMPACT);
    return *(char **)text != NULL ? TESS_OK : TESS_FAIL(TESS_E_NOMEM, "%s: the text of its meta", catalog->path);
}

tess_status tess_checkpoint_meta(const char *folder, int64_t step, char **meta)
{
    TESS_CHECK(meta != NULL, TESS_E_INVALID, "tess_checkpoint_meta: a NULL argument");
    *meta = NULL;
    return with_catalog(folder, step, take_meta, meta);
}

static tess_status verify(const tess_catalog *catalog, TESS_UNUSED void *self)
{
    return tess_catalog_verify(catalog, NULL);
}

tess_status tess_checkpoint_verify(const char *folder, int64_t step)
{
    return with_catalog(folder, step, verify, NULL);
}

static tess_status copy_list(const tess_ckpt_list *list, tess_checkpoint_entry **entries)
{
    tess_checkpoint_entry *copy = calloc((size_t)list->n, sizeof(*copy));
    TESS_CHECK(copy != NULL, TESS_E_NOMEM, "a list of %d checkpoints", list->n);
    for (int i = 0; i < list->n; i++) {
        const tess_ckpt_item *item = &list->items[i];
        copy[i] = (tess_checkpoint_entry){.step = item->step,
                                          .bytes = item->bytes,
                                          .written_s = item->changed_s,
                                          .complete = item->state == TESS_CKPT_VALID};
        snprintf(copy[i].name, sizeof(copy[i].name), "%s", item->name);
        snprintf(copy[i].problem, sizeof(copy[i].problem), "%s", item->problem);
    }
    *entries = copy;
    return TESS_OK;
}

tess_status tess_checkpoint_list(const char *folder, tess_checkpoint_entry **entries, int *n)
{
    TESS_AUTO(tess_mem_destroy) tess_mem *mem = NULL;
    TESS_AUTO(tess_ckpt_list_free) tess_ckpt_list list = {0};
    TESS_CHECK(folder != NULL && entries != NULL && n != NULL, TESS_E_INVALID, "tess_checkpoint_list: a NULL argument");
    *entries = NULL;
    *n = 0;
    TESS_TRY(tess_mem_create(&mem));
    TESS_TRY(tess_ckpt_list_read(mem, folder, &list));
    TESS_TRY(copy_list(&list, entries));
    *n = list.n;
    return TESS_OK;
}
