/* One safetensors file: the reference reader's rules in its order, then lookup by name. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/safetensors/safetensors_impl.h"

tess_status tess_st_reader_create(tess_mem *mem, const char *path, tess_st_reader **reader)
{
    tess_st_reader *r;
    size_t n = strlen(path) + 1;
    TESS_TRY(tess_mem_alloc(mem, TESS_POOL_MISC, sizeof(*r), "safetensors reader", (void **)&r));
    r->mem = mem;
    tess_status status = tess_mem_alloc(mem, TESS_POOL_MISC, n, "safetensors path", (void **)&r->path);
    if (status != TESS_OK) {
        tess_mem_free(mem, r);
        return status;
    }
    memcpy(r->path, path, n);
    *reader = r;
    return TESS_OK;
}

void tess_st_close(tess_st_reader **reader)
{
    if (reader == NULL || *reader == NULL)
        return;
    tess_st_reader *r = *reader;
    *reader = NULL;
    for (int i = 0; i < r->n_shards; i++)
        tess_st_close(&r->shards[i]);
    tess_mem_free(r->mem, r->shards);
    tess_mem_free(r->mem, r->tensors);
    tess_mem_free(r->mem, r->keys);
    tess_mem_free(r->mem, r->metadata_keys);
    tess_st_header_free(&r->header);
    tess_os_unmap(&r->mapping);
    tess_mem_free(r->mem, r->path);
    tess_mem_free(r->mem, r);
}

/* Names are unique among tensors and, apart from them, among metadata keys: the format says so, and two readers that
 * choose differently would see two different models. */
tess_status tess_st_reader_index(tess_st_reader *r)
{
    size_t n = (size_t)r->n_tensors;
    TESS_TRY(
        tess_mem_alloc_array(r->mem, TESS_POOL_MISC, n, sizeof(r->keys[0]), "safetensors names", (void **)&r->keys));
    for (size_t i = 0; i < n; i++)
        tess_st_key_set(&r->keys[i], r->tensors[i].name, (int)i);
    tess_st_keys_sort(r->keys, n);
    const char *twice = tess_st_keys_duplicate(r->keys, n);
    TESS_CHECK(twice == NULL, TESS_E_FORMAT,
               "%s: tensor '%s' is listed twice (InvalidHeaderDeserialization): the file was written by a broken tool",
               r->path, twice);
    return TESS_OK;
}

static tess_status index_metadata(tess_st_reader *r)
{
    const tess_st_header *h = &r->header;
    TESS_TRY(tess_mem_alloc_array(r->mem, TESS_POOL_MISC, h->n_pairs, sizeof(r->metadata_keys[0]),
                                  "safetensors metadata", (void **)&r->metadata_keys));
    for (size_t i = 0; i < h->n_pairs; i++)
        tess_st_key_set(&r->metadata_keys[i], h->text + h->pairs[i].key, (int)i);
    tess_st_keys_sort(r->metadata_keys, h->n_pairs);
    const char *twice = tess_st_keys_duplicate(r->metadata_keys, h->n_pairs);
    TESS_CHECK(twice == NULL, TESS_E_FORMAT,
               "%s: key '%s' of __metadata__ is given twice (InvalidHeaderDeserialization)", r->path, twice);
    return TESS_OK;
}

static int compare_offsets(const void *a, const void *b)
{
    const tess_st_raw *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    if (x->end != y->end)
        return x->end < y->end ? -1 : 1;
    return x->name < y->name ? -1 : x->name > y->name; /* equal only when both are empty: the header's order */
}

/* Writers put tensors in this order already. */
static void sort_by_offset(tess_st_header *h)
{
    size_t sorted = 1;
    while (sorted < h->n_raws && compare_offsets(&h->raws[sorted - 1], &h->raws[sorted]) <= 0)
        sorted++;
    if (sorted < h->n_raws)
        qsort(h->raws, h->n_raws, sizeof(h->raws[0]), compare_offsets);
}

/* Bytes that shape and dtype ask for. */
static tess_status tensor_bytes(const char *path, const char *name, const tess_st_raw *raw, uint64_t *bytes)
{
    uint64_t bits = 1;
    bool overflow = false;
    for (int d = 0; d < raw->n_dims; d++)
        overflow |= __builtin_mul_overflow(bits, raw->dim[d], &bits) || raw->dim[d] > INT64_MAX;
    overflow |= __builtin_mul_overflow(bits, (uint64_t)tess_st_dtype_bits(raw->dtype), &bits);
    TESS_CHECK(!overflow, TESS_E_FORMAT,
               "%s: tensor '%s': its shape and dtype %s are larger than any memory: the header is damaged or hostile "
               "(ValidationOverflow)",
               path, name, tess_st_dtype_text(raw->dtype));
    TESS_CHECK(bits % 8 == 0, TESS_E_FORMAT,
               "%s: tensor '%s': %llu bits of %s do not fill whole bytes (MisalignedSlice)", path, name,
               (unsigned long long)bits, tess_st_dtype_text(raw->dtype));
    *bytes = bits / 8;
    return TESS_OK;
}

/* Sorted by offset, every tensor must begin where the one before ended: no holes, no overlap, nothing hidden. */
static tess_status check_tensors(tess_st_reader *r, uint64_t *end)
{
    const tess_st_header *h = &r->header;
    *end = 0;
    for (size_t i = 0; i < h->n_raws; i++) {
        const tess_st_raw *raw = &h->raws[i];
        const char *name = h->text + raw->name;
        uint64_t bytes = 0;
        TESS_CHECK(
            raw->begin == *end && raw->end >= raw->begin, TESS_E_FORMAT,
            "%s: tensor '%s': data_offsets [%llu, %llu] %s (InvalidOffset): the file was written by a broken tool",
            r->path, name, (unsigned long long)raw->begin, (unsigned long long)raw->end,
            raw->end < raw->begin ? "end before they begin"
            : raw->begin > *end   ? "leave a hole before them"
                                  : "overlap the tensor before");
        *end = raw->end;
        TESS_TRY(tensor_bytes(r->path, name, raw, &bytes));
        TESS_CHECK(
            raw->end - raw->begin == bytes, TESS_E_FORMAT,
            "%s: tensor '%s': shape and dtype %s need %llu bytes but data_offsets span %llu (TensorInvalidInfo): the "
            "file was written by a broken tool",
            r->path, name, tess_st_dtype_text(raw->dtype), (unsigned long long)bytes,
            (unsigned long long)(raw->end - raw->begin));
    }
    return TESS_OK;
}

static tess_status fill_tensors(tess_st_reader *r, const uint8_t *data)
{
    const tess_st_header *h = &r->header;
    TESS_TRY(tess_mem_alloc_array(r->mem, TESS_POOL_MISC, h->n_raws, sizeof(r->tensors[0]), "safetensors tensors",
                                  (void **)&r->tensors));
    r->n_tensors = (int)h->n_raws;
    for (size_t i = 0; i < h->n_raws; i++) {
        const tess_st_raw *raw = &h->raws[i];
        tess_st_tensor *t = &r->tensors[i];
        *t = (tess_st_tensor){.name = h->text + raw->name,
                              .n_dims = raw->n_dims,
                              .data = data + raw->begin,
                              .bytes = raw->end - raw->begin,
                              .file = r->path};
        snprintf(t->dtype_text, sizeof(t->dtype_text), "%s", tess_st_dtype_text(raw->dtype));
        for (int d = 0; d < raw->n_dims; d++)
            t->dim[d] = (int64_t)raw->dim[d];
    }
    return TESS_OK;
}

static tess_status read_header(tess_st_reader *r, const uint8_t *data, size_t size)
{
    TESS_CHECK(
        size >= 8, TESS_E_FORMAT,
        "%s: %zu bytes are fewer than any safetensors file has: it is truncated, or something else (HeaderTooSmall)",
        r->path, size);
    uint64_t n = 0, end;
    for (int i = 7; i >= 0; i--)
        n = n << 8 | data[i];
    TESS_CHECK(n <= TESS_ST_MAX_HEADER, TESS_E_FORMAT,
               "%s: the header claims %llu bytes, more than the %d allowed: not a safetensors file? (HeaderTooLarge)",
               r->path, (unsigned long long)n, TESS_ST_MAX_HEADER);
    TESS_CHECK(n <= size - 8, TESS_E_FORMAT,
               "%s: the header claims %llu bytes but only %zu follow: the file is truncated, fetch it again "
               "(InvalidHeaderLength)",
               r->path, (unsigned long long)n, size - 8);
    TESS_TRY(tess_st_header_parse(r->mem, r->path, data + 8, n, &r->header));
    sort_by_offset(&r->header);
    TESS_TRY(check_tensors(r, &end));
    uint64_t present = size - 8 - n;
    TESS_CHECK(end <= present, TESS_E_FORMAT,
               "%s: the tensors take %llu bytes but only %llu are there: the file is truncated, fetch it again "
               "(MetadataIncompleteBuffer)",
               r->path, (unsigned long long)end, (unsigned long long)present);
    TESS_CHECK(end == present, TESS_E_FORMAT,
               "%s: %llu bytes follow the last tensor: the file was tampered with or written by a broken tool "
               "(MetadataIncompleteBuffer)",
               r->path, (unsigned long long)(present - end));
    TESS_TRY(fill_tensors(r, data + 8 + n));
    TESS_TRY(tess_st_reader_index(r));
    return index_metadata(r);
}

tess_status tess_st_open_memory(tess_mem *mem, const char *path, const uint8_t *data, size_t size,
                                tess_st_reader **reader)
{
    *reader = NULL;
    tess_st_reader *r;
    TESS_TRY(tess_st_reader_create(mem, path, &r));
    tess_status status = read_header(r, data, size);
    if (status != TESS_OK)
        tess_st_close(&r);
    *reader = r;
    return status;
}

tess_status tess_st_open_file(tess_mem *mem, const char *path, tess_st_reader **reader)
{
    *reader = NULL;
    tess_mapping mapping;
    TESS_TRY(tess_os_map(path, &mapping));
    tess_status status = tess_st_open_memory(mem, path, mapping.data, mapping.size, reader);
    if (status != TESS_OK)
        tess_os_unmap(&mapping);
    else
        (*reader)->mapping = mapping;
    return status;
}

int tess_st_count(const tess_st_reader *reader)
{
    return reader->n_tensors;
}

const tess_st_tensor *tess_st_tensor_at(const tess_st_reader *reader, int index)
{
    return index >= 0 && index < reader->n_tensors ? &reader->tensors[index] : NULL;
}

const tess_st_tensor *tess_st_find(const tess_st_reader *reader, const char *name)
{
    const tess_st_key *key = tess_st_keys_find(reader->keys, (size_t)reader->n_tensors, name);
    return key == NULL ? NULL : &reader->tensors[key->value];
}

const char *tess_st_metadata(const tess_st_reader *reader, const char *key)
{
    const tess_st_reader *first = reader->n_shards > 0 ? reader->shards[0] : reader;
    const tess_st_key *found = tess_st_keys_find(first->metadata_keys, first->header.n_pairs, key);
    return found == NULL ? NULL : first->header.text + first->header.pairs[found->value].value;
}
