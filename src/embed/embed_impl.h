/* Declarations shared by the files that implement tessera/ckpt.h. */
#ifndef TESS_EMBED_EMBED_IMPL_H
#define TESS_EMBED_EMBED_IMPL_H

#include <jansson.h>

#include "ckpt/store/tensor.h"
#include "tessera/ckpt.h"

/* ---- embed_tensors.c: converts the tensors of a tess_checkpoint_state to those of src/ckpt */
typedef struct embed_tensors {
    tess_mem *mem;
    tess_ckpt_tensor *items; /* the state's own tensors, then those of its fsdp */
    int n;
} embed_tensors;

/* Lists the tensors. If several ranks hold an element, it is primary on exactly one of them. Returns the same status
 * on all ranks; the caller must call embed_tensors_free in any case. Collective. */
tess_status embed_tensors_list(tess_runtime *runtime, const tess_checkpoint_state *state, embed_tensors *list);
void embed_tensors_free(embed_tensors *list);

/* ---- embed_checkpoint.c */
/* Parses `text` as a JSON object into *meta, a new reference. If `text` is NULL, sets *meta to NULL. Collective. */
tess_status embed_meta_parse(tess_runtime *runtime, const char *text, json_t **meta);

#endif
