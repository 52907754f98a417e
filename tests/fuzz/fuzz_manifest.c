/* Any bytes as the manifest of a checkpoint: refused with a message, or a catalog that holds together. Its files are
 * not there: what is read of them fails, and touches nothing outside. */
#include <stdlib.h>

#include "base/text/json.h"
#include "ckpt/store/read.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { LARGEST = 1 << 12 };

static void look_at(const tess_catalog *c)
{
    static uint8_t values[4 * LARGEST];
    if (tess_catalog_check(c) == TESS_OK && c->n_pieces > 0)
        abort();
    for (int i = 0; i < c->n_tensors; i++) {
        const tess_catalog_tensor *t = &c->tensors[i];
        tess_box whole = tess_catalog_whole(t);
        if (tess_catalog_find(c, t->name) != t)
            abort();
        if (tess_catalog_tensor_bytes(t) <= LARGEST && t->n_pieces > 0 &&
            tess_catalog_read(c, t, &whole, values) == TESS_OK)
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tess_mem *mem;
    tess_catalog *catalog;
    json_t *manifest;
    if (tess_json_parse((const char *)data, size, "fuzz", true, &manifest) != TESS_OK)
        return 0;
    if (tess_mem_create(&mem) != TESS_OK)
        abort();
    if (tess_store_catalog(mem, "/nowhere", manifest, &catalog) == TESS_OK)
        look_at(catalog);
    else if (catalog != NULL || tess_error_message()[0] == '\0')
        abort();
    tess_catalog_destroy(&catalog);
    json_decref(manifest);
    if (tess_mem_destroy(&mem) != 0)
        abort();
    return 0;
}
