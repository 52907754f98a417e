/* The axes of `tessera mesh --mesh`: what is accepted makes a layout whose ranks and coordinates agree. */
#include "mesh/mesh_layout.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = strndup((const char *)data, size);
    tess_axis_list axes;
    tess_mesh_layout layout;
    int product;
    if (tess_axis_list_parse(text, &axes) == TESS_OK && tess_axis_list_product(&axes, &product) == TESS_OK &&
        tess_mesh_layout_fit(axes.axis, axes.n, product, &layout) == TESS_OK) {
        int at[TESS_MESH_MAX_AXES];
        tess_mesh_layout_coordinates(&layout, layout.size - 1, at);
        if (tess_mesh_layout_rank(&layout, at) != layout.size - 1)
            abort();
    }
    free(text);
    return 0;
}
