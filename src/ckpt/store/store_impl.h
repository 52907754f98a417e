/* What saving, looking and loading have in common. */
#ifndef TESS_CKPT_STORE_IMPL_H
#define TESS_CKPT_STORE_IMPL_H

#include "base/os/os.h"
#include "ckpt/store/store.h"
#include "ckpt/store/write.h"

#define TESS_CKPT_TEMPORARY ".tmp"

/* ---- commit.c */
enum { TESS_STORE_MARKER_BYTES = 256 };
/* The marker's text; returns its length. */
size_t tess_store_format_marker(int64_t step, size_t bytes, uint64_t xxh3, char text[TESS_STORE_MARKER_BYTES]);

/* ---- tensor.c */
/* Every tensor's primary rows lie inside the rows held, and those inside the shape. */
tess_status tess_ckpt_check_tensors(const tess_ckpt_tensor *tensors, int n_tensors);
/* This rank's rows of a tensor that it writes. */
const float *tess_ckpt_primary_data(const tess_ckpt_tensor *tensor);

#endif
