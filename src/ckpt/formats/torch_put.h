/* Archives as torch.save makes them. */
#ifndef TESS_CKPT_FORMATS_TORCH_PUT_H
#define TESS_CKPT_FORMATS_TORCH_PUT_H

#include "base/text/text.h"
#include "ckpt/formats/torch_impl.h"

/* Appends to a pickle: a row-major tensor whose values are the record "archive/data/<key>". TESS_E_UNSUPPORTED: a dtype
 * that PyTorch does not have. */
tess_status torch_put_tensor(tess_buffer *out, const char *dtype, int element_bytes, int n_dims, const int64_t *dim,
                             const char *key);

/* The records in front of the tensors' and behind them. After a failure: zip_writer_drop. */
tess_status torch_begin_archive(output *out, zip_writer *writer, const tess_buffer *pickle);
tess_status torch_end_archive(zip_writer *writer);

#endif
