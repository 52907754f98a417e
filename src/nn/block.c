/* Questions about blocks: the linear maps of one, how they read parameters, and the width of streams. */
#include "nn/layers/block_part.h"

const tess_linear *tess_block_map(const tess_block *block, int i)
{
    for (int p = 0; p < block->n_parts; i -= block->parts[p++].part->n_maps) { /* i counts from this part on */
        const tess_placed_part *at = &block->parts[p];
        if (i < at->part->n_maps)
            return (const void *)((const char *)at->own + at->part->maps[i]);
        const tess_linear *map = at->part->map != NULL ? at->part->map(at->own, &i) : NULL;
        if (map != NULL)
            return map;
    }
    return NULL;
}

const void *tess_block_find(const tess_block *block, const tess_part *part)
{
    for (int i = 0; i < block->n_parts; i++)
        if (block->parts[i].part == part)
            return block->parts[i].own;
    return NULL;
}

bool tess_block_owns_rows(const tess_block *block, int weight)
{
    const tess_linear *map;
    bool reads = false, owns = true;
    for (int i = 0; (map = tess_block_map(block, i)) != NULL; i++) {
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
