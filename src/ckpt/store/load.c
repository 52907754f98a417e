/* Loads a checkpoint that all ranks see. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/rng.h"
#include "ckpt/ckpt_agree.h"
#include "ckpt/safetensors/safetensors.h"
#include "ckpt/store/load_impl.h"
#include "ckpt/store/store_write.h"

static const char way_out[] = "give the model that it was saved with, or begin this one in another folder";

static tess_status check_tensor(const tess_load *l, const tess_ckpt_tensor *wanted, const tess_catalog_tensor *found)
{
    char asked[96], there[96];
    TESS_CHECK(found->n_dims <= TESS_MAX_DIMS && tess_st_dtype_is_float(found->dtype), TESS_E_FORMAT,
               "%s: tensor '%s' is not of numbers in at most %d dimensions", l->catalog->path, found->name,
               TESS_MAX_DIMS);
    TESS_CHECK(tess_catalog_has_shape(found, &wanted->shape), TESS_E_INVALID,
               "%s: tensor '%s' has shape %s but this model's is %s: the checkpoint is of another model; %s",
               l->catalog->path, found->name, tess_dims_format(found->n_dims, found->dim, there, sizeof(there)),
               tess_shape_format(&wanted->shape, asked, sizeof(asked)), way_out);
    return TESS_OK;
}

static tess_status make_request(tess_load *l, int i)
{
    char name[TESS_STORE_NAME];
    const tess_ckpt_tensor *t = &l->tensors[i];
    tess_store_tensor_name(t->kind, t->name, name);
    const tess_catalog_tensor *found = tess_catalog_find(l->catalog, name);
    TESS_CHECK(found != NULL, TESS_E_INVALID, "%s: no tensor '%s': the checkpoint is of another model; %s",
               l->catalog->path, name, way_out);
    TESS_TRY(check_tensor(l, t, found));
    l->requests[i] = (tess_catalog_request){found, tess_catalog_rows(found, t->row_begin, t->n_rows), true,
                                            t->n_rows > 0 ? t->data : NULL};
    return TESS_OK;
}

static int compare_tensors(const void *a, const void *b)
{
    const tess_catalog_tensor *const *x = a, *const *y = b;
    return *x < *y ? -1 : *x > *y;
}

/* A checkpoint of a model with more layers would lose them silently. */
static tess_status check_whole(const tess_load *l)
{
    const tess_catalog *c = l->catalog;
    const tess_catalog_tensor **found;
    size_t n = (size_t)l->n;
    TESS_TRY(tess_mem_alloc_array(l->mem, TESS_POOL_MISC, n, sizeof(found[0]), "checkpoint tables", (void **)&found));
    for (size_t i = 0; i < n; i++)
        found[i] = l->requests[i].tensor;
    if (n > 1)
        qsort(found, n, sizeof(found[0]), compare_tensors);
    const char *extra = NULL;
    for (int i = c->n_tensors - 1; i >= 0; i--) {
        const tess_catalog_tensor *t = &c->tensors[i];
        if (n == 0 || bsearch(&t, found, n, sizeof(found[0]), compare_tensors) == NULL)
            extra = t->name;
    }
    tess_mem_free(l->mem, found);
    TESS_CHECK(extra == NULL, TESS_E_INVALID,
               "%s: tensor '%s' is not of this model: the checkpoint is of another one; %s", c->path, extra, way_out);
    return TESS_OK;
}

tess_status tess_load_open(tess_load *l, const char *dir, int64_t step)
{
    TESS_TRY(tess_ckpt_open_step(l->mem, dir, step, &l->catalog));
    TESS_TRY(tess_mem_alloc_array(l->mem, TESS_POOL_MISC, (size_t)l->n, sizeof(l->requests[0]), "checkpoint tables",
                                  (void **)&l->requests));
    for (int i = 0; i < l->n; i++)
        TESS_TRY(make_request(l, i));
    return l->options.whole ? check_whole(l) : TESS_OK;
}

void tess_load_close(tess_load *l)
{
    tess_mem_free(l->mem, l->requests);
    tess_catalog_destroy(&l->catalog);
}

tess_status tess_load_first_missing(const tess_load *l, int tensor, int64_t *row)
{
    bool missing;
    int64_t at[TESS_CATALOG_DIMS] = {0};
    const tess_catalog_request *r = &l->requests[tensor];
    *row = -1;
    if (r->dst == NULL)
        return TESS_OK;
    TESS_TRY(tess_catalog_first_missing(l->catalog, r->tensor, &r->box, &missing, at));
    if (missing)
        *row = at[0];
    return TESS_OK;
}

tess_status tess_load_read(tess_load *l, tess_team *team)
{
    tess_status status = TESS_OK;
    if (l->options.hosts != NULL)
        status = tess_load_share_duty(l);
    if (status == TESS_OK)
        status = tess_catalog_read_all(l->catalog, l->options.threads, l->requests, l->n);
    return tess_team_agree(team, status);
}

tess_status tess_load_finish(tess_load *l, tess_status status, int64_t step, json_t **meta)
{
    if (meta != NULL)
        *meta = status == TESS_OK ? json_incref(json_object_get(l->catalog->meta, "meta")) : NULL;
    tess_load_close(l);
    return status == TESS_OK ? TESS_OK : tess_fail_context(status, "load checkpoint of step %" PRId64, step);
}

/* A folder that all ranks read must not be one host's part. */
static tess_status check_no_part(const tess_load *l)
{
    for (int i = 0; i < l->n && json_object_get(l->catalog->meta, "host") != NULL; i++) {
        int64_t row;
        TESS_TRY(tess_load_first_missing(l, i, &row));
        TESS_CHECK(row < 0, TESS_E_INVALID,
                   "%s is one host's part of a checkpoint, without row %" PRId64 " of '%s': resume on the hosts that "
                   "saved it, with checkpoint.host_local=true",
                   l->catalog->path, row, l->requests[i].tensor->name);
    }
    return TESS_OK;
}

/* Hashes what all ranks must agree on: ranks that see different files would mix two checkpoints. */
static uint64_t fingerprint(const tess_catalog *c)
{
    uint64_t hash = (uint64_t)c->n_pieces;
    for (int i = 0; i < c->n_pieces; i++)
        hash = tess_hash_bytes(&c->pieces[i].sum, sizeof(c->pieces[i].sum), hash);
    return hash;
}

static tess_status open_alike(tess_load *l, tess_team *team, const char *dir, int64_t step)
{
    tess_status status = tess_load_open(l, dir, step);
    if (status == TESS_OK)
        status = check_no_part(l);
    TESS_TRY(tess_team_agree(team, status));
    return tess_ckpt_agree_same(team, fingerprint(l->catalog), "checkpoints under one name");
}

tess_status tess_ckpt_load(tess_mem *mem, tess_team *team, const char *dir, int64_t step,
                           const tess_ckpt_tensor *tensors, int n_tensors, const tess_ckpt_load_options *options,
                           json_t **meta)
{
    tess_load l = {.mem = mem, .tensors = tensors, .n = n_tensors};
    if (options != NULL)
        l.options = *options;
    tess_status status = open_alike(&l, team, dir, step);
    if (status == TESS_OK)
        status = tess_load_read(&l, team);
    return tess_load_finish(&l, status, step, meta);
}
