/* A tensor of any size, a bounded number of elements at a time: boxes that follow one another row by row, each a run of
 * the row-major tensor. */
#ifndef TESS_CKPT_TOOLS_SLICES_H
#define TESS_CKPT_TOOLS_SLICES_H

#include "ckpt/catalog/catalog.h"

typedef struct tess_slices {
    int n_dims;
    tess_box whole;
    int cut;       /* the dimension that slices are ranges of; of those before it they have one element */
    int64_t most;  /* elements of dimension `cut` in one slice */
    int64_t left;  /* elements behind this slice */
    int64_t first; /* its first element, counted row by row from the first of `whole` */
    int64_t n;     /* its elements */
    tess_box box;  /* where it is */
} tess_slices;

/* Slices of the box `whole` of at most `most` elements (at least 1). The first call of tess_slices_next makes the first
 * one; it returns false behind the last. A scalar has one slice, a tensor without elements none. */
void tess_slices_begin(tess_slices *slices, int n_dims, const tess_box *whole, int64_t most);
bool tess_slices_next(tess_slices *slices);

#endif
