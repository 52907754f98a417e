/* Plans a distributed checkpoint (DCP): cuts tensors into chunks and meta into objects. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem/make_room.h"
#include "ckpt/formats/dcp_impl.h"

enum { MAX_FILES = 99999 };

/* ---- Tensors ---- */
static tess_status add_chunk(dcp_plan *plan, int tensor, const tess_box *box, int file)
{
    TESS_TRY(tess_scope_make_room(&plan->own, plan->n_chunks, sizeof(dcp_chunk), "parts of tensors", &plan->chunk_room,
                                  &plan->chunks));
    plan->chunks[plan->n_chunks++] = (dcp_chunk){.tensor = tensor, .box = *box, .place.file = file};
    plan->n_files = file + 1 > plan->n_files ? file + 1 : plan->n_files;
    return TESS_OK;
}

/* Cuts rows as torch.chunk does: into parts of equal size, except that the last one may be smaller and there may be
 * fewer than n. */
static tess_status cut_rows(dcp_plan *plan, int tensor, const tess_box *whole, int n)
{
    tess_box box = *whole;
    int64_t rows = whole->size[0], part = rows / n + (rows % n != 0);
    for (int i = 0; i < n && i * part < rows; i++) {
        box.begin[0] = i * part;
        box.size[0] = rows - i * part < part ? rows - i * part : part;
        TESS_TRY(add_chunk(plan, tensor, &box, i));
    }
    return TESS_OK;
}

/* Adds the chunks of a tensor. If n_files is 0, chunks are the source's pieces, each in the file of its rank. A rank
 * number beyond any job's size is ignored. */
static tess_status add_tensor(dcp_plan *plan, int number, int n_files)
{
    const tess_export_tensor *tensor = &plan->out->tensors[number];
    const tess_catalog_tensor *source = tensor->source;
    tess_box whole = {0};
    memcpy(whole.size, tensor->dim, sizeof(tensor->dim));
    if (tensor->n_dims == 0 || tess_box_count(tensor->n_dims, &whole) == 0)
        return add_chunk(plan, number, &whole, 0);
    if (n_files > 0)
        return cut_rows(plan, number, &whole, n_files);
    for (int i = 0; i < source->n_pieces; i++) {
        const tess_catalog_piece *piece = &plan->out->catalog->pieces[source->first_piece + i];
        int file = piece->rank > 0 ? piece->rank : 0;
        TESS_TRY(add_chunk(plan, number, &piece->box, file < MAX_FILES ? file : MAX_FILES - 1));
    }
    return TESS_OK;
}

json_t *dcp_plan_path(const tess_export *out, const char *name)
{
    const char *const folders[] = {out->model_prefix, "optimizer.", "train_state."};
    for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
        size_t n = strlen(folders[i]);
        if (n > 0 && strncmp(name, folders[i], n) == 0 && name[n] != '\0')
            return json_pack("[s%, s]", folders[i], n - 1, name + n);
    }
    return json_pack("[s]", name);
}

/* ---- Objects ---- */
static tess_status add_object(dcp_plan *plan, const char *name, json_t *path, json_t *value)
{
    TESS_TRY(tess_scope_make_room(&plan->own, plan->n_objects, sizeof(dcp_object), "objects", &plan->object_room,
                                  &plan->objects));
    dcp_object *object = &plan->objects[plan->n_objects];
    *object = (dcp_object){.path = json_incref(path), .value = value};
    plan->n_objects++;
    TESS_TRY(TESS_NEW_IN(&plan->own, strlen(name) + 1, "objects", &object->name));
    strcpy(object->name, name);
    return TESS_OK;
}

/* Whether tensors have names that begin with `name` and a dot: an object of that name would hide them. */
static bool has_tensors_below(const tess_export *out, const char *name)
{
    size_t n = strlen(name);
    int low = 0, high = out->n_tensors; /* search bounds: the first tensor whose name is not less than "name." */
    while (low < high) {
        int middle = low + (high - low) / 2;
        const char *other = out->tensors[middle].name;
        int order = strncmp(other, name, n);
        if (order < 0 || (order == 0 && other[n] < '.'))
            low = middle + 1;
        else
            high = middle;
    }
    return low < out->n_tensors && strncmp(out->tensors[low].name, name, n) == 0 && out->tensors[low].name[n] == '.';
}

/* Adds a value of meta; of a nested object, adds each member. A tensor of the same name takes precedence. */
static tess_status add_member(dcp_plan *plan, const char *name, json_t *path, json_t *value)
{
    char inner[4096];
    const char *key;
    json_t *member;
    if (tess_export_find(plan->out, name) != NULL)
        return TESS_OK;
    if (!json_is_object(value) || json_object_size(value) == 0)
        return has_tensors_below(plan->out, name) ? TESS_OK : add_object(plan, name, path, value);
    json_object_foreach (value, key, member) {
        if (snprintf(inner, sizeof(inner), "%s.%s", name, key) >= (int)sizeof(inner))
            continue;
        json_t *deeper = json_copy(path);
        json_array_append_new(deeper, json_string(key));
        tess_status status = add_member(plan, inner, deeper, member);
        json_decref(deeper);
        TESS_TRY(status);
    }
    return TESS_OK;
}

static tess_status add_meta(dcp_plan *plan)
{
    const char *key;
    json_t *value;
    json_object_foreach (plan->out->meta, key, value) {
        json_t *path = dcp_plan_path(plan->out, key);
        tess_status status = add_member(plan, key, path, value);
        json_decref(path);
        TESS_TRY(status);
    }
    return TESS_OK;
}

/* ---- The chunks of each file, in the order of their tensors ---- */
static int by_file(const void *a, const void *b)
{
    const dcp_chunk *x = *(dcp_chunk *const *)a, *y = *(dcp_chunk *const *)b;
    return x->place.file != y->place.file ? (x->place.file > y->place.file) - (x->place.file < y->place.file)
                                          : (x > y) - (x < y);
}

static tess_status sort_by_file(dcp_plan *plan)
{
    TESS_TRY(TESS_NEW_IN(&plan->own, plan->n_chunks, "parts of tensors", &plan->by_file));
    for (size_t i = 0; i < plan->n_chunks; i++)
        plan->by_file[i] = &plan->chunks[i];
    if (plan->n_chunks > 0)
        qsort(plan->by_file, plan->n_chunks, sizeof(dcp_chunk *), by_file);
    return TESS_OK;
}

tess_status dcp_plan_make(const tess_export *out, int n_files, dcp_plan *plan)
{
    *plan = (dcp_plan){.own = {.mem = out->mem}, .out = out, .n_files = 1};
    for (int i = 0; i < out->n_tensors; i++)
        TESS_TRY(add_tensor(plan, i, n_files));
    TESS_TRY(sort_by_file(plan));
    return add_meta(plan);
}

void dcp_plan_free(dcp_plan *plan)
{
    for (size_t i = 0; i < plan->n_objects; i++)
        json_decref(plan->objects[i].path);
    tess_scope_end(&plan->own);
    *plan = (dcp_plan){0};
}

void dcp_file_name(int file, char *name, size_t size)
{
    snprintf(name, size, "__%d_0.distcp", file);
}
