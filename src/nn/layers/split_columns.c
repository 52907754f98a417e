/* Exchanges and copies columns of a matrix between ranks that share a layer (points.h). Every rank has all rows. */
#include "nn/layers/layers.h"

tess_status tess_split_gather(const tess_layer_call *c, tess_cut columns, size_t element, const void *mine, void *into,
                              int64_t into_ld)
{
    tess_cut rows = {c->T, 0};
    int64_t begin, n;
    tess_own_range(c, columns, &begin, &n);
    return tess_meet(c, "columns", element, (tess_matrix_box){rows, columns, mine, n},
                     (tess_matrix_box){rows, {columns.size, 0}, into, into_ld});
}

tess_status tess_split_own(const tess_layer_call *c, tess_cut columns, const void *whole, void *mine)
{
    int64_t begin, n, element = (int64_t)tess_dtype_size(c->dtype);
    tess_own_range(c, columns, &begin, &n);
    return tess_layer_copy_rows(c, element, c->T, n, tess_at(c, whole, begin), columns.size, mine, n);
}

tess_status tess_split_gather_gradient(const tess_layer_call *c, tess_cut columns, float *mine, int64_t n_rows,
                                       int64_t ld)
{
    tess_cut rows = {n_rows, 0};
    int64_t begin, n;
    tess_own_range(c, columns, &begin, &n);
    return tess_meet(c, "gradient", sizeof(float), (tess_matrix_box){rows, columns, mine, ld},
                     (tess_matrix_box){rows, {columns.size, 0}, mine - begin, ld});
}
