/* Pickles of any protocol: parsed, and walked as far as the graph allows. */
#include <stdlib.h>

#include "base/pickle/pickle.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile size_t sink;

/* Every way down, until there have been enough of them. */
static void walk(const tess_pickle_value *value, int *left)
{
    if (value == NULL || --*left < 0)
        return;
    if (value->kind == TESS_PICKLE_OBJECT) {
        const tess_pickle_object *object = value->object;
        const tess_pickle_value *parts[] = {object->args, object->named, object->state, object->list, object->dict};
        for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
            walk(parts[i], left);
    } else if (value->kind >= TESS_PICKLE_LIST && value->kind != TESS_PICKLE_NAME) {
        for (size_t i = 0; i < value->n; i++)
            walk(value->items[i], left);
    } else if (value->kind >= TESS_PICKLE_BYTES || value->kind == TESS_PICKLE_BIG) {
        for (size_t i = 0; i <= value->n; i++)
            sink += (uint8_t)value->text[i];
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static tess_mem *mem;
    if (mem == NULL && tess_mem_create(&mem) != TESS_OK)
        abort();
    tess_pickle *pickle;
    if (tess_pickle_parse(mem, data, size, "input", NULL, &pickle) == TESS_OK) {
        int left = 10000;
        walk(tess_pickle_root(pickle), &left);
        sink += tess_pickle_get(tess_pickle_root(pickle), "none") != NULL;
        tess_pickle_destroy(&pickle);
    }
    if (tess_mem_stats(mem, TESS_POOL_MISC).n_blocks != 0)
        abort();
    return 0;
}
