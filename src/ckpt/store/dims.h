/* Shapes and boxes in JSON: lists of integers, one for each dimension. */
#ifndef TESS_CKPT_STORE_DIMS_H
#define TESS_CKPT_STORE_DIMS_H

#include <jansson.h>

#include "tessera/types.h"

json_t *tess_dims_to_json(int n_dims, const int64_t *dim);

/* TESS_E_FORMAT: no list of at most TESS_MAX_DIMS integers. `of`: the owner of the list, for messages. */
tess_status tess_dims_from_json(const json_t *object, const char *key, const char *of, int64_t dim[TESS_MAX_DIMS],
                                int *n_dims);

#endif
