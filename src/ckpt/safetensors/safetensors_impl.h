/* Shared by the files of this folder. */
#ifndef TESS_CKPT_SAFETENSORS_SAFETENSORS_IMPL_H
#define TESS_CKPT_SAFETENSORS_SAFETENSORS_IMPL_H

#include "base/os/os.h"
#include "base/text/text.h"
#include "ckpt/safetensors/safetensors.h"

enum { TESS_ST_MAX_HEADER = 100000000, TESS_ST_MAX_DIMS = 8 };

/* ---- dtype.c */
int tess_st_dtype_number(const char *text); /* ascending, as in the reference's enum; -1: no such dtype */
int tess_st_dtype_bits(const char *text);   /* 0: no such dtype */

/* ---- safetensors_layout.c: the texts of a plan */
/* Appends the header of a file, with its 8 bytes of length and its padding. */
tess_status tess_st_plan_header(const tess_st_plan *plan, const tess_st_tensor *tensors, int file, tess_buffer *out);
/* Appends the index of a sharded model. */
tess_status tess_st_plan_index(tess_mem *mem, const tess_st_plan *plan, const tess_st_tensor *tensors,
                               tess_buffer *out);

#endif
