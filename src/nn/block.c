/* The linear maps of a block, and how they read its parameters. */
#include "nn/block.h"

#include <string.h>

int tess_block_maps(const tess_block *block, const tess_linear *maps[TESS_MAX_MAPS])
{
    const tess_linear *const all[TESS_MAX_MAPS] = {&block->q, &block->k,    &block->v,  &block->qkv,
                                                   &block->o, &block->gate, &block->up, &block->down};
    memcpy(maps, all, sizeof(all));
    return block->layer >= 0 ? TESS_MAX_MAPS : 0;
}

bool tess_block_owns_rows(const tess_block *block, int weight)
{
    const tess_linear *maps[TESS_MAX_MAPS];
    bool reads = false, owns = true;
    for (int i = 0; i < tess_block_maps(block, maps); i++) {
        const tess_linear *map = maps[i];
        if (map->weight != weight)
            continue;
        reads = true;
        owns = owns && map->offset == 0 && map->ld == (map->in_out ? map->n_out : map->n_in);
    }
    return reads && owns;
}
