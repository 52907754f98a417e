/* Questions about blocks: the linear maps of one, how they read parameters, and the width of streams. */
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

int64_t tess_model_width(const tess_model *model)
{
    int64_t width = 0;
    for (int unit = 0; unit < model->n_units; unit++)
        width = model->blocks[unit].hidden_size > width ? model->blocks[unit].hidden_size : width;
    return width;
}
