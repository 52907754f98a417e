#include <stdlib.h>
#include <string.h>

#include "base/core/rng.h"
#include "ckpt/safetensors/safetensors_impl.h"

static int compare(const void *a, const void *b)
{
    const tess_st_key *x = a, *y = b;
    if (x->hash != y->hash)
        return x->hash < y->hash ? -1 : 1;
    return strcmp(x->name, y->name);
}

void tess_st_key_set(tess_st_key *key, const char *name, int value)
{
    *key = (tess_st_key){.hash = tess_hash_text(name), .name = name, .value = value};
}

void tess_st_keys_sort(tess_st_key *keys, size_t n)
{
    if (n > 1)
        qsort(keys, n, sizeof(keys[0]), compare);
}

const char *tess_st_keys_duplicate(const tess_st_key *keys, size_t n)
{
    for (size_t i = 1; i < n; i++)
        if (compare(&keys[i - 1], &keys[i]) == 0)
            return keys[i].name;
    return NULL;
}

const tess_st_key *tess_st_keys_find(const tess_st_key *keys, size_t n, const char *name)
{
    tess_st_key wanted;
    tess_st_key_set(&wanted, name, 0);
    return n == 0 ? NULL : bsearch(&wanted, keys, n, sizeof(keys[0]), compare);
}
