/* Any bytes as the .metadata of a distributed checkpoint: refused with a message, or items and tensors that can be
 * looked at; files lie below the folder. */
#include <stdlib.h>
#include <string.h>

#include "ckpt/formats/dcp_impl.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void look(const dcp_metadata *metadata)
{
    const char *dtype;
    int n_dims;
    int64_t dim[TESS_CATALOG_DIMS];
    for (size_t i = 0; i < metadata->tensors.n; i++)
        if (dcp_is_tensor(metadata->tensors.keys[i].value) &&
            dcp_read_tensor(metadata->tensors.keys[i].value, &dtype, &n_dims, dim) == TESS_OK &&
            (n_dims < 0 || n_dims > TESS_CATALOG_DIMS || dtype == NULL))
            abort();
    for (size_t i = 0; i < metadata->n_items; i++) {
        const dcp_item *item = &metadata->items[i];
        if (item->file[0] == '/' || strstr(item->file, "../") == item->file || item->name == NULL)
            abort();
        (void)dcp_find(&metadata->tensors, item->name);
        (void)dcp_find(&metadata->paths, item->name);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static tess_mem *mem;
    dcp_metadata metadata;
    if (mem == NULL && tess_mem_create(&mem) != TESS_OK)
        abort();
    if (dcp_metadata_parse(mem, "fuzz", data, size, &metadata) == TESS_OK) {
        look(&metadata);
        dcp_metadata_free(&metadata);
    } else if (tess_error_message()[0] == '\0') {
        abort();
    }
    if (tess_mem_stats(mem, TESS_POOL_MISC).n_blocks != 0)
        abort();
    return 0;
}
