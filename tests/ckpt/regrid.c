/* regrid IN OUT ROWS COLUMNS: writes the checkpoint IN (one step) to OUT/step-*, as ROWS * COLUMNS ranks would whose
 * mesh cuts dimension 0 and, where there is one, dimension 1 of every tensor. For tests of the command. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/store/store_write.h"

typedef struct recut {
    tess_mem *mem;
    tess_catalog *in;
    const char *out;
    int rows, columns;
    void **data; /* (tensors) whole */
    tess_store_piece *pieces;
} recut;

static void take_part(tess_box *box, int dim, int n_parts, int index)
{
    int64_t begin;
    tess_shard_rows(box->size[dim], n_parts, index, &begin, &box->size[dim]);
    box->begin[dim] += begin;
}

static tess_status write_rank(const recut *r, const char *folder, int rank, json_t **part)
{
    char file[32];
    for (int i = 0; i < r->in->n_tensors; i++) {
        const tess_catalog_tensor *t = &r->in->tensors[i];
        tess_store_piece *p = &r->pieces[i];
        tess_shape shape = {.n_dims = t->n_dims};
        memcpy(shape.dim, t->dim, sizeof(shape.dim));
        shape = tess_shape_atleast_1d(&shape);
        *p = (tess_store_piece){
            .name = t->name, .dtype = t->dtype, .n_dims = t->n_dims, .rank = rank, .data = r->data[i]};
        memcpy(p->dim, t->dim, sizeof(p->dim));
        p->box = p->held = tess_box_whole(&shape);
        take_part(&p->box, 0, r->rows, rank / r->columns);
        take_part(&p->box, shape.n_dims > 1, r->columns, rank % r->columns);
    }
    snprintf(file, sizeof(file), "rank-%05d.data", rank);
    return tess_store_write_part(r->mem, NULL, folder, file, r->pieces, r->in->n_tensors, part);
}

static tess_status write_grid(const recut *r)
{
    char folder[TESS_CKPT_PATH];
    int n = r->rows * r->columns;
    json_t *parts[64];
    int64_t step = json_integer_value(json_object_get(r->in->meta, "step"));
    const tess_store_facts facts = {.meta = json_object_get(r->in->meta, "meta"), .world_size = n};
    TESS_TRY(tess_store_begin(NULL, r->out, step, folder));
    for (int rank = 0; rank < n; rank++)
        TESS_TRY(write_rank(r, folder, rank, &parts[rank]));
    TESS_TRY(tess_store_commit(NULL, r->out, step, parts, n, &facts));
    for (int rank = 0; rank < n; rank++)
        json_decref(parts[rank]);
    return TESS_OK;
}

static tess_status read_all(const recut *r)
{
    for (int i = 0; i < r->in->n_tensors; i++) {
        const tess_catalog_tensor *t = &r->in->tensors[i];
        const tess_box whole = tess_catalog_whole(t);
        TESS_TRY(tess_mem_alloc(r->mem, TESS_POOL_MISC, tess_catalog_tensor_bytes(t), t->name, &r->data[i]));
        TESS_TRY(tess_catalog_read(r->in, t, &whole, r->data[i]));
    }
    return TESS_OK;
}

static tess_status run(recut *r, const char *in)
{
    TESS_TRY(tess_mem_create(&r->mem));
    TESS_TRY(tess_catalog_open(r->mem, in, &r->in));
    size_t n = (size_t)r->in->n_tensors;
    TESS_TRY(tess_mem_alloc_array(r->mem, TESS_POOL_MISC, n, sizeof(void *), "tensors", (void **)&r->data));
    TESS_TRY(tess_mem_alloc_array(r->mem, TESS_POOL_MISC, n, sizeof(*r->pieces), "pieces", (void **)&r->pieces));
    TESS_TRY(read_all(r));
    return write_grid(r);
}

int main(int argc, char **argv)
{
    recut r = {.out = argc == 5 ? argv[2] : NULL};
    r.rows = argc == 5 ? atoi(argv[3]) : 0;
    r.columns = argc == 5 ? atoi(argv[4]) : 0;
    if (r.rows < 1 || r.columns < 1 || r.rows * r.columns > 64)
        return fprintf(stderr, "usage: regrid IN OUT ROWS COLUMNS (at most 64 in all)\n"), 2;
    tess_status status = run(&r, argv[1]);
    if (status != TESS_OK)
        fprintf(stderr, "regrid: %s\n", tess_error_message());
    for (int i = 0; r.data != NULL && i < r.in->n_tensors; i++)
        tess_mem_free(r.mem, r.data[i]);
    tess_mem_free(r.mem, r.data);
    tess_mem_free(r.mem, r.pieces);
    tess_catalog_destroy(&r.in);
    tess_mem_destroy(&r.mem);
    return status == TESS_OK ? 0 : 1;
}
