/* Shared by the calls of tessera/ckpt.h. */
#ifndef TESS_EMBED_EMBED_IMPL_H
#define TESS_EMBED_EMBED_IMPL_H

#include <jansson.h>

#include "ckpt/store/tensor.h"
#include "tessera/ckpt.h"

/* ---- embed_tensors.c: the tensors of a tess_checkpoint_state as those of src/ckpt */
typedef struct embed_tensors {
    tess_mem *mem;
    tess_ckpt_tensor *items; /* first the state's own, then those of its fsdp */
    int n;
} embed_tensors;

/* Collective. Each element that several ranks hold is primary on one. All ranks return the same status; afterwards call
 * embed_tensors_free. */
tess_status embed_tensors_list(tess_runtime *runtime, const tess_checkpoint_state *state, embed_tensors *list);
void embed_tensors_free(embed_tensors *list);

/* ---- embed_checkpoint.c */
/* *meta becomes the object that the text says, a new reference; NULL: `text` is NULL. Collective, as the list. */
tess_status embed_meta_parse(tess_runtime *runtime, const char *text, json_t **meta);

#endif
