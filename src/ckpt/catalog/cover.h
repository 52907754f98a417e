/* Finds elements that are in two boxes, and elements of a box that are in none. */
#ifndef TESS_CKPT_CATALOG_COVER_H
#define TESS_CKPT_CATALOG_COVER_H

#include "ckpt/catalog/catalog.h"

/* Finds two pieces of a tensor that have elements in common. *a = -1: there are none. TESS_E_UNSUPPORTED: too many
 * pieces to compare. */
tess_status tess_boxes_overlap(tess_mem *mem, int n_dims, const tess_catalog_piece *pieces, int n, int *a, int *b);
/* Finds the first element of `box`, row by row, that is in no piece. The pieces must not overlap. */
tess_status tess_boxes_first_missing(tess_mem *mem, int n_dims, const tess_catalog_piece *pieces, int n,
                                     const tess_box *box, bool *missing, int64_t at[TESS_CATALOG_DIMS]);

#endif
