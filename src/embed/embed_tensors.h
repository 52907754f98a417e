/* The tensors of a tess_checkpoint_state as those of src/ckpt. */
#ifndef TESS_EMBED_EMBED_TENSORS_H
#define TESS_EMBED_EMBED_TENSORS_H

#include "ckpt/store/tensor.h"
#include "tessera/ckpt.h"

typedef struct embed_tensors {
    tess_mem *mem;
    tess_ckpt_tensor *items; /* first the state's own, then those of its fsdp */
    int n;
} embed_tensors;

/* Collective. Each element that several ranks hold is primary on one. All ranks return the same status; afterwards call
 * embed_tensors_free. */
tess_status embed_tensors_list(tess_runtime *runtime, const tess_checkpoint_state *state, embed_tensors *list);
void embed_tensors_free(embed_tensors *list);

#endif
