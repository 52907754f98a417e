/* Names the first tensor of a pass with a value that is not finite. Who finds such a result runs the pass again with
 * this watch. */
#ifndef TESS_NN_BAD_TENSOR_H
#define TESS_NN_BAD_TENSOR_H

#include "nn/model.h"

typedef struct tess_bad_tensor {
    const tess_model *model; /* set by the caller */
    /* "nan first comes in router probabilities of 'model.layers.1' (row 3, column 5)"; "": all that was seen is finite
     */
    char text[TESS_PARAM_NAME_SIZE + 160];
} tess_bad_tensor;

/* Returns a watch that writes to `bad`. */
tess_watch tess_bad_tensor_watch(tess_bad_tensor *bad);

#endif
