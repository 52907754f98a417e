/* Questions about blocks: the linear maps of one, how they read parameters, and the width of streams. */
#include "nn/layers/block_part.h"

int tess_block_maps(const tess_block *block, const tess_linear *maps[TESS_MAX_MAPS])
{
    int n = 0;
    for (int i = 0; i < block->n_parts; i++)
        for (int j = 0; j < block->parts[i]->n_maps; j++)
            maps[n++] = (const tess_linear *)(const void *)((const char *)block + block->parts[i]->maps[j]);
    return n;
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
