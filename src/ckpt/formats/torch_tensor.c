/* Reads tensors in the pickle of torch.save: calls that rebuild them from a storage, an offset, sizes and strides. */
#include <string.h>

#include "ckpt/formats/torch_impl.h"

/* The call that rebuilds a tensor, after the wrappers are removed: parameters, subclasses of Tensor. */
typedef struct rebuild {
    const char *name;
    const tess_pickle_value *args;
} rebuild;

static bool is_plain(const char *name)
{
    return strcmp(name, "torch._utils._rebuild_tensor_v2") == 0 ||
           strcmp(name, "torch._utils._rebuild_tensor_v3") == 0 || strcmp(name, "torch._utils._rebuild_tensor") == 0;
}

static bool unwrap(const tess_pickle_value *value, rebuild *call)
{
    while (value != NULL && value->kind == TESS_PICKLE_OBJECT) {
        const tess_pickle_object *object = value->object;
        *call = (rebuild){object->name, object->args};
        if (is_plain(call->name))
            return true;
        if (strcmp(call->name, "torch._tensor._rebuild_from_type_v2") == 0) {
            const tess_pickle_value *function = tess_pickle_at(object->args, 0);
            call->name = function != NULL && function->kind == TESS_PICKLE_NAME ? function->text : "";
            call->args = tess_pickle_at(object->args, 2);
            if (is_plain(call->name))
                return true;
        }
        bool wrapped = strcmp(call->name, "torch._utils._rebuild_parameter") == 0 ||
                       strcmp(call->name, "torch._utils._rebuild_parameter_with_state") == 0;
        value = wrapped ? tess_pickle_at(call->args, 0) : NULL;
    }
    return false;
}

bool torch_is_tensor(const tess_pickle_value *value)
{
    rebuild call;
    return unwrap(value, &call);
}

/* Reads a storage: ("storage", class, key of its record, device, elements). */
static tess_status read_storage(const torch_file *file, const rebuild *call, torch_tensor *tensor)
{
    char path[512];
    const tess_pickle_value *storage = tess_pickle_at(call->args, 0);
    TESS_CHECK(storage != NULL && storage->kind == TESS_PICKLE_PERSISTENT, TESS_E_FORMAT, "a tensor without a storage");
    const tess_pickle_value *id = storage->items[0], *type = tess_pickle_at(id, 1),
                            *dtype = tess_pickle_at(call->args, 6);
    const char *key = tess_pickle_text(tess_pickle_at(id, 2));
    TESS_CHECK(type != NULL && type->kind == TESS_PICKLE_NAME && key != NULL, TESS_E_FORMAT,
               "a storage without class or key");
    /* The call itself states the dtype then */
    bool untyped = strcmp(call->name, "torch._utils._rebuild_tensor_v3") == 0;
    const char *name = !untyped ? type->text : dtype != NULL && dtype->kind == TESS_PICKLE_NAME ? dtype->text : "?";
    const torch_dtype *known = torch_find_dtype(untyped ? TORCH_BY_NAME : TORCH_BY_STORAGE, name);
    TESS_CHECK(known != NULL, TESS_E_UNSUPPORTED, "elements of '%.100s'", name);
    tensor->element_bytes = known->bytes;
    snprintf(tensor->dtype, sizeof(tensor->dtype), "%s", known->catalog);
    snprintf(path, sizeof(path), "%sdata/%s", file->prefix, key);
    tensor->record = zip_find(&file->archive, path);
    TESS_CHECK(tensor->record != NULL, TESS_E_FORMAT, "the archive has no '%s'", path);
    return TESS_OK;
}

/* Fails if the view is lazily conjugated or negated. A dict after the other arguments says so. */
static tess_status check_lazy(const rebuild *call)
{
    for (size_t i = 6; i < call->args->n; i++) {
        const tess_pickle_value *metadata = call->args->items[i];
        for (size_t j = 1; metadata->kind == TESS_PICKLE_DICT && j < metadata->n; j += 2)
            TESS_CHECK(metadata->items[j]->kind != TESS_PICKLE_BOOL || !metadata->items[j]->flag, TESS_E_UNSUPPORTED,
                       "a view that is conjugated or negated");
    }
    return TESS_OK;
}

/* Returns the index after the tensor's last element in the record; -1: a number is out of range. */
static int64_t end_of(const torch_tensor *tensor)
{
    int64_t end = tensor->first, step;
    if (tensor->first < 0)
        return -1;
    for (int i = 0; i < tensor->n_dims; i++) {
        if (tensor->dim[i] < 0 || tensor->stride[i] < 0)
            return -1;
        if (tensor->dim[i] == 0)
            return tensor->first;
        if (__builtin_mul_overflow(tensor->dim[i] - 1, tensor->stride[i], &step) ||
            __builtin_add_overflow(end, step, &end))
            return -1;
    }
    return end == INT64_MAX ? -1 : end + 1;
}

static tess_status read_layout(const rebuild *call, torch_tensor *tensor)
{
    int n_strides;
    TESS_CHECK(torch_read_int(tess_pickle_at(call->args, 1), &tensor->first), TESS_E_FORMAT,
               "a tensor without its storage's offset");
    TESS_TRY_CTX(torch_read_ints(tess_pickle_at(call->args, 2), tensor->dim, TESS_CATALOG_DIMS, &tensor->n_dims),
                 "its size");
    TESS_TRY_CTX(torch_read_ints(tess_pickle_at(call->args, 3), tensor->stride, TESS_CATALOG_DIMS, &n_strides),
                 "its strides");
    TESS_CHECK(n_strides == tensor->n_dims, TESS_E_FORMAT, "%d dimensions, but %d strides", tensor->n_dims, n_strides);
    int64_t end = end_of(tensor), room = (int64_t)(tensor->record->bytes / (uint64_t)tensor->element_bytes);
    TESS_CHECK(end >= 0 && end <= room, TESS_E_FORMAT, "it needs %lld elements, its storage '%s' has %lld",
               (long long)end, tensor->record->name, (long long)room);
    TESS_CHECK(tensor->first == 0 || !tensor->record->deflated, TESS_E_UNSUPPORTED,
               "it begins inside of '%s', which is packed", tensor->record->name);
    return TESS_OK;
}

tess_status torch_read_tensor(const torch_file *file, const tess_pickle_value *value, torch_tensor *tensor)
{
    rebuild call;
    *tensor = (torch_tensor){0};
    TESS_CHECK(unwrap(value, &call) && call.args != NULL && call.args->kind == TESS_PICKLE_TUPLE, TESS_E_FORMAT,
               "a tensor expected");
    TESS_TRY(read_storage(file, &call, tensor));
    TESS_TRY(check_lazy(&call));
    return read_layout(&call, tensor);
}

static bool is_row_major(const torch_tensor *tensor)
{
    int64_t expected = 1;
    for (int i = tensor->n_dims; i-- > 0;) {
        if ((tensor->dim[i] != 1 && tensor->stride[i] != expected) ||
            __builtin_mul_overflow(expected, tensor->dim[i], &expected))
            return false;
    }
    return true;
}

/* Describes a tensor as a piece. A record's checksum covers the whole record, so a view of a part has no checksum of
 * its own; it is verified with the record's range. */
tess_catalog_piece torch_piece(const torch_source *from, const torch_tensor *tensor, const tess_box *box)
{
    const zip_entry *record = tensor->record;
    uint64_t first = (uint64_t)tensor->first * (uint64_t)tensor->element_bytes;
    uint64_t end = (uint64_t)end_of(tensor) * (uint64_t)tensor->element_bytes;
    tess_catalog_piece piece = {.file = from->catalog_file,
                                .rank = from->rank,
                                .offset = from->file->base + record->offset,
                                .stored = record->stored,
                                .bytes = record->bytes,
                                .strided = !is_row_major(tensor)};
    if (record->deflated) {
        piece.codec = TESS_CODEC_DEFLATE;
    } else {
        piece.offset += first;
        piece.stored = piece.bytes = end - first;
    }
    if (piece.stored == record->stored && record->crc != 0) {
        piece.sum_kind = record->deflated ? TESS_SUM_KIND_CRC32_UNPACKED : TESS_SUM_KIND_CRC32;
        piece.sum = record->crc;
    }
    size_t n = (size_t)tensor->n_dims * sizeof(int64_t);
    memcpy(piece.stride, tensor->stride, n);
    if (box != NULL)
        piece.box = *box;
    else
        memcpy(piece.box.size, tensor->dim, n);
    return piece;
}

tess_status torch_add_piece(const torch_source *from, const torch_tensor *tensor, const tess_box *box, int number)
{
    const tess_catalog_piece piece = torch_piece(from, tensor, box);
    return tess_catalog_add_piece(from->catalog, number, &piece);
}
