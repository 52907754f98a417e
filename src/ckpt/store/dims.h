/* Converts shapes and boxes to and from JSON: lists of integers, one for each dimension. */
#ifndef TESS_CKPT_STORE_DIMS_H
#define TESS_CKPT_STORE_DIMS_H

#include <jansson.h>

#include "tessera/types.h"

json_t *tess_dims_to_json(int n_dims, const int64_t *dim);

/* Reads a list of integers. `of` names the owner of the list in messages. TESS_E_FORMAT: it is not a list of at most
 * TESS_MAX_DIMS integers. */
tess_status tess_dims_from_json(const json_t *object, const char *key, const char *of, int64_t dim[TESS_MAX_DIMS],
                                int *n_dims);

#endif
