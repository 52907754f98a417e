/* The texts of a plan: what the files say about themselves. */
#ifndef TESS_CKPT_SAFETENSORS_LAYOUT_IMPL_H
#define TESS_CKPT_SAFETENSORS_LAYOUT_IMPL_H

#include "base/text/text.h"
#include "ckpt/safetensors/safetensors.h"

/* Appends the header of a file, its 8 bytes of length and its padding included. */
tess_status tess_st_plan_header(const tess_st_plan *plan, const tess_st_tensor *tensors, int file, tess_buffer *out);
/* Appends the index of a sharded model. */
tess_status tess_st_plan_index(tess_mem *mem, const tess_st_plan *plan, const tess_st_tensor *tensors,
                               tess_buffer *out);

#endif
