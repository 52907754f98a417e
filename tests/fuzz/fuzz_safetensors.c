/* Any bytes as a safetensors file: refused with a message, or read without touching a byte outside. */
#include <stdlib.h>
#include <string.h>

#include "ckpt/safetensors/safetensors_impl.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_tensor(const tess_st_tensor *tensor, const uint8_t *data)
{
    float values[256];
    volatile uint8_t sum = 0;
    for (size_t i = 0; i < tensor->bytes; i++)
        sum = (uint8_t)(sum + data[tensor->offset + i]);
    if (tess_st_dtype_is_float(tensor->dtype_text) && tensor->bytes <= sizeof(values) / 2)
        tess_st_decode(tensor->dtype_text, data + tensor->offset,
                       (int64_t)tensor->bytes / tess_st_dtype_bytes(tensor->dtype_text), values);
}

/* Joins blocks and scales of MXFP4 in a catalog. */
static void join(tess_mem *mem, const tess_st_header *header, size_t size)
{
    TESS_AUTO(tess_catalog_destroy) tess_catalog *catalog = NULL;
    tess_st_halves halves = {.scope = {.mem = mem}};
    int file;
    if (tess_catalog_create(mem, "safetensors", "fuzz", &catalog) != TESS_OK ||
        tess_catalog_add_file(catalog, "fuzz", size, &file) != TESS_OK)
        abort();
    for (int i = 0; i < header->n_tensors; i++)
        if (tess_st_is_half(&header->tensors[i]) && tess_st_add_half(&halves, &header->tensors[i], file) != TESS_OK)
            abort();
    if (tess_st_join_halves(&halves, catalog) == TESS_OK)
        (void)tess_catalog_finish(catalog);
    tess_scope_end(&halves.scope);
}

static void open_bytes(const uint8_t *data, size_t size)
{
    tess_mem *mem;
    tess_st_header header;
    if (tess_mem_create(&mem) != TESS_OK)
        return;
    if (tess_st_header_parse(mem, "fuzz", data, size, &header) == TESS_OK) {
        for (int i = 0; i < header.n_tensors; i++)
            read_tensor(&header.tensors[i], data);
        (void)tess_st_metadata(&header, "format");
        join(mem, &header, size);
        tess_st_header_free(&header);
    } else if (tess_error_message()[0] == '\0') {
        abort();
    }
    if (tess_mem_destroy(&mem) != 0)
        abort();
}

/* Reads the input as it is, and with a header length that leads to the last '}': otherwise few mutations would get past
 * it. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    open_bytes(data, size);
    size_t end = size;
    while (end > 8 && data[end - 1] != '}')
        end--;
    if (end <= 8)
        return 0;
    uint8_t *copy = malloc(size);
    if (copy == NULL)
        return 0;
    memcpy(copy, data, size);
    for (int i = 0; i < 8; i++)
        copy[i] = (uint8_t)((end - 8) >> 8 * i);
    open_bytes(copy, size);
    free(copy);
    return 0;
}
