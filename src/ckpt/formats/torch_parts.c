/* Reads DTensor and ShardedTensor in the pickle of torch.save: finds which box of the whole tensor a file holds. */
#include <string.h>

#include "base/text/text.h"
#include "ckpt/formats/torch_impl.h"

enum { MAX_MESH = 8 };

/* Returns the arguments of _rebuild_from_type_v2(function, class, arguments, state). A parameter may be wrapped around
 * it. */
static const tess_pickle_value *find_call(const tess_pickle_value *value)
{
    if (tess_pickle_is(value, "torch._utils._rebuild_parameter"))
        value = tess_pickle_at(value->object->args, 0);
    return tess_pickle_is(value, "torch._tensor._rebuild_from_type_v2") ? value->object->args : NULL;
}

static bool is_class(const tess_pickle_value *value, const char *name)
{
    const tess_pickle_value *class = tess_pickle_at(find_call(value), 1);
    return class != NULL && class->kind == TESS_PICKLE_NAME && tess_text_ends_with(class->text, name);
}

bool torch_is_sharded(const tess_pickle_value *value)
{
    return is_class(value, ".DTensor") || is_class(value, ".ShardedTensor");
}

/* ---- DTensor: a mesh of ranks, the writer's coordinates, and one placement for each dimension of the mesh ---- */
typedef struct mesh {
    int n_dims;
    int64_t dim[MAX_MESH], at[MAX_MESH];
} mesh;

/* Multiplies the numbers in nested tuples, which gives the number of ranks along a dimension of the mesh. */
static bool multiply(const tess_pickle_value *shape, int64_t *product)
{
    int64_t value;
    if (torch_read_int(shape, &value))
        return value > 0 && !__builtin_mul_overflow(*product, value, product);
    if (shape == NULL || (shape->kind != TESS_PICKLE_TUPLE && shape->kind != TESS_PICKLE_LIST))
        return false;
    bool good = true;
    for (size_t i = 0; i < shape->n && good; i++)
        good = multiply(shape->items[i], product);
    return good;
}

/* Reads the mesh's shape. Depending on PyTorch's release it is _layout.axes[i].shape, _layout.shape, or the shape of a
 * tensor of ranks. */
static tess_status read_mesh_shape(const tess_pickle_value *object, mesh *mesh)
{
    const tess_pickle_value *layout = torch_attribute(object, "_layout"), *axes = torch_attribute(layout, "axes");
    const tess_pickle_value *shape = axes != NULL ? axes : torch_attribute(layout, "shape");
    const tess_pickle_value *ranks = torch_attribute(object, "mesh");
    if (shape == NULL && ranks != NULL && ranks->kind == TESS_PICKLE_OBJECT)
        shape = tess_pickle_at(ranks->object->args, 2);
    TESS_CHECK(shape != NULL && shape->kind >= TESS_PICKLE_LIST && shape->kind <= TESS_PICKLE_TUPLE, TESS_E_UNSUPPORTED,
               "a mesh of ranks in a form that is not known");
    TESS_CHECK(shape->n <= MAX_MESH, TESS_E_UNSUPPORTED, "a mesh of %zu dimensions", shape->n);
    mesh->n_dims = (int)shape->n;
    for (int i = 0; i < mesh->n_dims; i++) {
        mesh->dim[i] = 1;
        const tess_pickle_value *axis = shape->items[i];
        TESS_CHECK(multiply(axes != NULL ? torch_attribute(axis, "shape") : axis, &mesh->dim[i]), TESS_E_FORMAT,
                   "dimension %d of its mesh is no number", i);
    }
    return TESS_OK;
}

static tess_status read_mesh(const tess_pickle_value *object, mesh *mesh)
{
    int n;
    TESS_TRY(read_mesh_shape(object, mesh));
    TESS_TRY_CTX(torch_read_ints(torch_attribute(object, "_coordinate_on_dim"), mesh->at, MAX_MESH, &n),
                 "the writer's place on its mesh");
    TESS_CHECK(n == mesh->n_dims, TESS_E_FORMAT, "%d coordinates on a mesh of %d dimensions", n, mesh->n_dims);
    for (int i = 0; i < n; i++)
        TESS_CHECK(mesh->at[i] >= 0 && mesh->at[i] < mesh->dim[i], TESS_E_FORMAT,
                   "coordinate %lld on dimension %d of a mesh, which has %lld", (long long)mesh->at[i], i,
                   (long long)mesh->dim[i]);
    return TESS_OK;
}

typedef enum placement_kind { REPLICATE, SHARD, STRIDED_SHARD } placement_kind;

typedef struct placement {
    placement_kind kind;
    int64_t dim, split;
} placement;

static tess_status read_placement(const tess_pickle_value *value, int n_dims, placement *placement)
{
    const char *name = value->kind == TESS_PICKLE_OBJECT ? value->object->name : "?";
    *placement = (struct placement){.kind = REPLICATE};
    if (tess_text_ends_with(name, ".Replicate"))
        return TESS_OK;
    TESS_CHECK(tess_text_ends_with(name, ".Shard") || tess_text_ends_with(name, "._StridedShard"), TESS_E_UNSUPPORTED,
               "it is placed as %.100s", name);
    placement->kind = tess_text_ends_with(name, ".Shard") ? SHARD : STRIDED_SHARD;
    TESS_CHECK(torch_read_int(torch_attribute(value, "dim"), &placement->dim) && placement->dim >= 0 &&
                   placement->dim < n_dims,
               TESS_E_FORMAT, "sharded along a dimension that it does not have");
    TESS_CHECK(placement->kind == SHARD || torch_read_int(torch_attribute(value, "split_factor"), &placement->split),
               TESS_E_FORMAT, "_StridedShard without split_factor");
    return TESS_OK;
}

/* Cuts [begin, +size) into `n` parts as torch.chunk does, and keeps part `at`. */
static void cut(int64_t *begin, int64_t *size, int64_t n, int64_t at)
{
    int64_t chunk = *size / n + (*size % n != 0), skip = chunk == 0 || at > *size / chunk ? *size : at * chunk;
    *begin += skip;
    *size = *size - skip < chunk ? *size - skip : chunk;
}

/* Checks _StridedShard(dim, k), which means that later dimensions of the mesh cut `dim` first, into k parts. */
static tess_status check_strided(const mesh *mesh, const placement *placements, int strided)
{
    int64_t later = 1;
    for (int i = 0; i < mesh->n_dims; i++) {
        const placement *other = &placements[i];
        if (i == strided || other->kind == REPLICATE || other->dim != placements[strided].dim)
            continue;
        TESS_CHECK(i > strided && other->kind == SHARD, TESS_E_UNSUPPORTED,
                   "_StridedShard behind another shard of dimension %lld", (long long)other->dim);
        TESS_CHECK(!__builtin_mul_overflow(later, mesh->dim[i], &later), TESS_E_FORMAT, "a mesh of too many ranks");
    }
    TESS_CHECK(later == placements[strided].split, TESS_E_UNSUPPORTED, "_StridedShard with split_factor %lld over %lld",
               (long long)placements[strided].split, (long long)later);
    return TESS_OK;
}

static tess_status place(const mesh *mesh, const placement *placements, tess_box *box)
{
    for (placement_kind kind = SHARD; kind <= STRIDED_SHARD; kind++)
        for (int i = 0; i < mesh->n_dims; i++) {
            int64_t dim = placements[i].dim;
            if (placements[i].kind != kind)
                continue;
            if (kind == STRIDED_SHARD)
                TESS_TRY(check_strided(mesh, placements, i));
            cut(&box->begin[dim], &box->size[dim], mesh->dim[i], mesh->at[i]);
        }
    return TESS_OK;
}

/* Newer releases may state the order in which a dimension was cut. Only the order of the mesh is supported. */
static tess_status check_order(const tess_pickle_value *spec)
{
    const tess_pickle_value *order = torch_attribute(spec, "shard_order");
    for (size_t i = 0; order != NULL && order->kind == TESS_PICKLE_TUPLE && i < order->n; i++) {
        const tess_pickle_value *entry = order->items[i];
        int64_t dims[MAX_MESH];
        int n;
        if (entry->kind == TESS_PICKLE_OBJECT)
            entry = entry->object->args;
        TESS_TRY_CTX(torch_read_ints(tess_pickle_at(entry, 1), dims, MAX_MESH, &n), "its shards' order");
        for (int j = 1; j < n; j++)
            TESS_CHECK(dims[j - 1] < dims[j], TESS_E_UNSUPPORTED, "shards in another order than that of the mesh");
    }
    return TESS_OK;
}

static tess_status read_dtensor(const torch_file *file, const tess_pickle_value *call,
                                const torch_part_visitor *visitor, int n_dims, const int64_t *dim)
{
    torch_tensor local;
    mesh mesh = {0};
    placement placements[MAX_MESH] = {0};
    const tess_pickle_value *state = tess_pickle_at(tess_pickle_at(call, 3), 1);
    const tess_pickle_value *spec = tess_pickle_get(state, "_spec"), *list = torch_attribute(spec, "placements");
    TESS_TRY(read_mesh(torch_attribute(spec, "mesh"), &mesh));
    TESS_CHECK(list != NULL && list->kind == TESS_PICKLE_TUPLE && (int)list->n == mesh.n_dims, TESS_E_FORMAT,
               "its placements are not one for each dimension of the mesh");
    bool first = true;
    for (int i = 0; i < mesh.n_dims; i++) {
        TESS_TRY(read_placement(list->items[i], n_dims, &placements[i]));
        first = first && (placements[i].kind != REPLICATE || mesh.at[i] == 0);
    }
    tess_box box = {0};
    memcpy(box.size, dim, sizeof(box.size));
    TESS_TRY(check_order(spec));
    TESS_TRY(place(&mesh, placements, &box));
    TESS_TRY(torch_read_tensor(file, tess_pickle_get(state, "_local_tensor"), &local));
    TESS_CHECK(local.n_dims == n_dims && memcmp(local.dim, box.size, sizeof(int64_t) * (size_t)n_dims) == 0,
               TESS_E_FORMAT, "its part is not as large as its placement on the mesh makes it");
    return first ? visitor->part(visitor->self, n_dims, dim, &local, &box) : TESS_OK;
}

/* ---- ShardedTensor: each shard states its offsets ---- */
static tess_status read_shard(const torch_file *file, const tess_pickle_value *shard, const torch_part_visitor *visitor,
                              int n_dims, const int64_t *dim)
{
    torch_tensor local;
    int n;
    tess_box box = {0};
    const tess_pickle_value *metadata = torch_attribute(shard, "metadata");
    TESS_TRY_CTX(torch_read_ints(torch_attribute(metadata, "shard_offsets"), box.begin, TESS_CATALOG_DIMS, &n),
                 "its offsets");
    TESS_CHECK(n == n_dims, TESS_E_FORMAT, "a shard of %d dimensions of a tensor of %d", n, n_dims);
    TESS_TRY(torch_read_tensor(file, torch_attribute(shard, "tensor"), &local));
    TESS_CHECK(local.n_dims == n_dims, TESS_E_FORMAT, "a shard of %d dimensions of a tensor of %d", local.n_dims,
               n_dims);
    memcpy(box.size, local.dim, sizeof(box.size));
    return visitor->part(visitor->self, n_dims, dim, &local, &box);
}

tess_status torch_read_parts(const torch_file *file, const tess_pickle_value *value, const torch_part_visitor *visitor)
{
    int n_dims;
    int64_t dim[TESS_CATALOG_DIMS] = {0};
    /* The call is _rebuild_wrapper_subclass(class, dtype, size, ..) */
    const tess_pickle_value *call = find_call(value);
    TESS_TRY_CTX(torch_read_ints(tess_pickle_at(tess_pickle_at(call, 2), 2), dim, TESS_CATALOG_DIMS, &n_dims),
                 "its size");
    for (int i = 0; i < n_dims; i++)
        TESS_CHECK(dim[i] >= 0, TESS_E_FORMAT, "a size of %lld", (long long)dim[i]);
    if (is_class(value, ".DTensor"))
        return read_dtensor(file, call, visitor, n_dims, dim);
    const tess_pickle_value *shards = tess_pickle_at(tess_pickle_at(call, 3), 0);
    TESS_CHECK(shards != NULL && shards->kind == TESS_PICKLE_LIST, TESS_E_FORMAT, "its shards are no list");
    for (size_t i = 0; i < shards->n; i++)
        TESS_TRY_CTX(read_shard(file, shards->items[i], visitor, n_dims, dim), "shard %zu", i);
    return TESS_OK;
}
