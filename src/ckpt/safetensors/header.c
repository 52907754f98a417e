/* Parses the header of a safetensors file: first its JSON, then the rules of the reference reader in its order. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/json.h"
#include "base/text/text.h"
#include "ckpt/safetensors/safetensors_impl.h"

size_t tess_st_first_invalid(const uint8_t *text, size_t size)
{
    size_t i = 0;
    for (int n = 1; i < size && n > 0; i += (size_t)n) {
        uint32_t code_point;
        n = text[i] < 0x80 ? 1 : tess_utf8_decode(text + i, size - i, &code_point);
    }
    return i;
}

/* Reads the first `most` whole numbers of an array. Returns the array's length; -1: it is not an array of whole
 * numbers. */
static int64_t read_sizes(const json_t *array, int64_t *sizes, size_t most)
{
    size_t i;
    json_t *size;
    if (!json_is_array(array))
        return -1;
    json_array_foreach (array, i, size) {
        if (!json_is_integer(size) || json_integer_value(size) < 0)
            return -1;
        if (i < most)
            sizes[i] = json_integer_value(size);
    }
    return (int64_t)json_array_size(array);
}

/* Reads the entry of a tensor. Ignores unknown members, as the reference does. */
static tess_status read_entry(const char *name, const json_t *entry, tess_st_tensor *t)
{
    int64_t offsets[2];
    const json_t *dtype = json_object_get(entry, "dtype"), *shape = json_object_get(entry, "shape"),
                 *place = json_object_get(entry, "data_offsets");
    TESS_CHECK(json_is_object(entry), TESS_E_FORMAT, "tensor '%s': an object expected", name);
    TESS_CHECK(dtype != NULL && shape != NULL && place != NULL, TESS_E_FORMAT, "tensor '%s': '%s' is missing", name,
               dtype == NULL   ? "dtype"
               : shape == NULL ? "shape"
                               : "data_offsets");
    TESS_CHECK(json_is_string(dtype), TESS_E_FORMAT, "tensor '%s': 'dtype' is no string", name);
    const char *text = json_string_value(dtype);
    TESS_CHECK(tess_st_dtype_number(text) >= 0, TESS_E_FORMAT, "tensor '%s': unknown dtype '%.32s'", name, text);
    *t = (tess_st_tensor){.name = name};
    snprintf(t->dtype_text, sizeof(t->dtype_text), "%s", text);
    int64_t n_dims = read_sizes(shape, t->dim, TESS_ST_MAX_DIMS);
    TESS_CHECK(n_dims >= 0, TESS_E_FORMAT, "tensor '%s': 'shape' is no array of whole numbers of at least 0", name);
    TESS_CHECK(read_sizes(place, offsets, 2) == 2, TESS_E_FORMAT,
               "tensor '%s': 'data_offsets' are not two whole numbers of at least 0", name);
    t->n_dims = n_dims < INT32_MAX ? (int)n_dims : INT32_MAX;
    t->offset = (uint64_t)offsets[0];
    t->bytes = (uint64_t)(offsets[1] - offsets[0]);
    return TESS_OK;
}

static tess_status check_metadata(const json_t *metadata)
{
    const char *key;
    json_t *value;
    TESS_CHECK(json_is_object(metadata) || json_is_null(metadata), TESS_E_FORMAT, "__metadata__ is no object");
    json_object_foreach ((json_t *)metadata, key, value)
        TESS_CHECK(json_is_string(value), TESS_E_FORMAT, "__metadata__ key '%s': a string expected", key);
    return TESS_OK;
}

static tess_status read_entries(const uint8_t *json, size_t size, tess_st_header *h)
{
    const char *name;
    json_t *entry;
    TESS_TRY(tess_json_parse((const char *)json, size, "header", true, &h->json));
    TESS_CHECK(json_is_object(h->json), TESS_E_FORMAT, "an object expected");
    TESS_TRY(TESS_NEW(h->mem, json_object_size(h->json), "safetensors tensors", &h->tensors));
    json_object_foreach (h->json, name, entry) {
        bool metadata = strcmp(name, "__metadata__") == 0;
        TESS_TRY(metadata ? check_metadata(entry) : read_entry(name, entry, &h->tensors[h->n_tensors]));
        h->n_tensors += !metadata;
    }
    return TESS_OK;
}

static int compare_offsets(const void *a, const void *b)
{
    const tess_st_tensor *x = a, *y = b;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* Computes the bytes that shape and dtype need. */
static tess_status tensor_bytes(const char *path, const tess_st_tensor *t, uint64_t *bytes)
{
    int64_t bits = tess_st_dtype_bits(t->dtype_text);
    bool overflow = false;
    TESS_CHECK(t->n_dims <= TESS_ST_MAX_DIMS, TESS_E_UNSUPPORTED, "%s: tensor '%s' has more than %d dimensions", path,
               t->name, TESS_ST_MAX_DIMS);
    for (int d = 0; d < t->n_dims; d++)
        overflow |= __builtin_mul_overflow(bits, t->dim[d], &bits);
    TESS_CHECK(!overflow, TESS_E_FORMAT,
               "%s: tensor '%s': its shape and dtype %s are larger than any memory: the header is damaged or hostile "
               "(ValidationOverflow)",
               path, t->name, t->dtype_text);
    TESS_CHECK(bits % 8 == 0, TESS_E_FORMAT,
               "%s: tensor '%s': %" PRId64 " bits of %s do not fill whole bytes (MisalignedSlice)", path, t->name, bits,
               t->dtype_text);
    *bytes = (uint64_t)bits / 8;
    return TESS_OK;
}

/* Checks that every tensor, in the order of offsets, begins where the previous one ends: there are no holes, no
 * overlaps and no hidden bytes. */
static tess_status check_tensors(const char *path, const tess_st_header *h, uint64_t *end)
{
    *end = 0;
    for (int i = 0; i < h->n_tensors; i++) {
        const tess_st_tensor *t = &h->tensors[i];
        uint64_t bytes = 0;
        bool backwards = (int64_t)t->bytes < 0;
        TESS_CHECK(t->offset == *end && !backwards, TESS_E_FORMAT,
                   "%s: tensor '%s': data_offsets [%" PRIu64 ", %" PRIu64
                   "] %s (InvalidOffset): the file was written by a broken tool",
                   path, t->name, t->offset, t->offset + t->bytes,
                   backwards          ? "end before they begin"
                   : t->offset > *end ? "leave a hole before them"
                                      : "overlap the tensor before");
        *end = t->offset + t->bytes;
        TESS_TRY(tensor_bytes(path, t, &bytes));
        TESS_CHECK(t->bytes == bytes, TESS_E_FORMAT,
                   "%s: tensor '%s': shape and dtype %s need %" PRIu64 " bytes but data_offsets span %" PRIu64
                   " (TensorInvalidInfo): the file was written by a broken tool",
                   path, t->name, t->dtype_text, bytes, t->bytes);
    }
    return TESS_OK;
}

static tess_status parse(const char *path, const uint8_t *data, size_t size, tess_st_header *h)
{
    TESS_CHECK(
        size >= 8, TESS_E_FORMAT,
        "%s: %zu bytes are fewer than any safetensors file has: it is truncated, or something else (HeaderTooSmall)",
        path, size);
    uint64_t n = 0, end;
    for (int i = 7; i >= 0; i--)
        n = n << 8 | data[i];
    TESS_CHECK(n <= TESS_ST_MAX_HEADER, TESS_E_FORMAT,
               "%s: the header claims %" PRIu64 " bytes, more than the %d allowed: not a safetensors file? "
               "(HeaderTooLarge)",
               path, n, TESS_ST_MAX_HEADER);
    TESS_CHECK(n <= size - 8, TESS_E_FORMAT,
               "%s: the header claims %" PRIu64 " bytes but only %zu follow: the file is truncated, fetch it again "
               "(InvalidHeaderLength)",
               path, n, size - 8);
    size_t invalid = tess_st_first_invalid(data + 8, n);
    TESS_CHECK(invalid == n, TESS_E_FORMAT,
               "%s: byte %zu of the header is not UTF-8: the file is damaged or no safetensors file (InvalidHeader)",
               path, invalid);
    TESS_TRY_CTX(read_entries(data + 8, n, h),
                 "%s: the header is not the JSON of a safetensors file (InvalidHeaderDeserialization)", path);
    if (h->n_tensors > 1)
        qsort(h->tensors, (size_t)h->n_tensors, sizeof(h->tensors[0]), compare_offsets);
    TESS_TRY(check_tensors(path, h, &end));
    uint64_t present = size - 8 - n;
    TESS_CHECK(end <= present, TESS_E_FORMAT,
               "%s: the tensors take %" PRIu64 " bytes but only %" PRIu64
               " are there: the file is truncated, fetch it again (MetadataIncompleteBuffer)",
               path, end, present);
    TESS_CHECK(end == present, TESS_E_FORMAT,
               "%s: %" PRIu64 " bytes follow the last tensor: the file was tampered with or written by a broken tool "
               "(MetadataIncompleteBuffer)",
               path, present - end);
    for (int i = 0; i < h->n_tensors; i++)
        h->tensors[i].offset += 8 + n;
    return TESS_OK;
}

tess_status tess_st_header_parse(tess_mem *mem, const char *path, const uint8_t *data, size_t size,
                                 tess_st_header *header)
{
    *header = (tess_st_header){.mem = mem};
    tess_status status = parse(path, data, size, header);
    if (status != TESS_OK)
        tess_st_header_free(header);
    return status;
}

void tess_st_header_free(tess_st_header *header)
{
    json_decref(header->json);
    tess_mem_free(header->mem, header->tensors);
    *header = (tess_st_header){0};
}

const char *tess_st_metadata(const tess_st_header *header, const char *key)
{
    return json_string_value(json_object_get(json_object_get(header->json, "__metadata__"), key));
}
