/* Converts the tensors of a tess_checkpoint_state (tessera/ckpt.h) to those of src/ckpt. */
#ifndef TESS_EMBED_EMBED_TENSORS_H
#define TESS_EMBED_EMBED_TENSORS_H

#include "ckpt/store/tensor.h"
#include "tessera/ckpt.h"

typedef struct embed_tensors {
    tess_mem *mem;
    tess_ckpt_tensor *items; /* the state's own tensors, then those of its fsdp */
    int n;
} embed_tensors;

/* Lists the tensors. If several ranks hold an element, it is primary on exactly one of them. Returns the same status
 * on all ranks; the caller must call embed_tensors_free in any case. Collective.
 * TESS_E_MISMATCH: ranks pass different numbers of own tensors */
tess_status embed_tensors_list(tess_runtime *runtime, const tess_checkpoint_state *state, embed_tensors *list);
void embed_tensors_free(embed_tensors *list);

#endif
