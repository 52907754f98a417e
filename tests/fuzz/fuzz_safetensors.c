/* Any bytes as a safetensors file: refused with a message, or read without touching a byte outside. */
#include <stdlib.h>
#include <string.h>

#include "ckpt/safetensors/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_tensor(const tess_st_reader *reader, const tess_st_tensor *tensor)
{
    float values[256];
    if (tess_st_find(reader, tensor->name) != tensor)
        abort();
    volatile uint8_t sum = 0;
    for (size_t i = 0; i < tensor->bytes; i++)
        sum = (uint8_t)(sum + tensor->data[i]);
    int64_t rows = tensor->n_dims > 0 ? tensor->dim[0] : 1;
    if (tensor->bytes <= sizeof(values) / 2)
        (void)tess_st_read_rows(tensor, 0, rows, values);
    (void)tess_st_read_rows(tensor, rows, 1, values);
}

static void open_bytes(const uint8_t *data, size_t size)
{
    tess_mem *mem;
    tess_st_reader *reader;
    if (tess_mem_create(&mem) != TESS_OK)
        return;
    if (tess_st_open_memory(mem, "fuzz", data, size, &reader) == TESS_OK) {
        for (int i = 0; i < tess_st_count(reader); i++)
            read_tensor(reader, tess_st_tensor_at(reader, i));
        (void)tess_st_metadata(reader, "format");
        tess_st_close(&reader);
    } else if (tess_error_message()[0] == '\0') {
        abort();
    }
    if (tess_mem_destroy(&mem) != 0)
        abort();
}

/* As it is, and with a header length that leads to the last '}': otherwise few mutations would get past it. */
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
