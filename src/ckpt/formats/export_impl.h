/* Shared by the writers of this folder. */
#ifndef TESS_CKPT_FORMATS_EXPORT_IMPL_H
#define TESS_CKPT_FORMATS_EXPORT_IMPL_H

#include "base/text/text.h"
#include "ckpt/formats/export_catalog.h"
#include "ckpt/formats/zip_impl.h"

/* ---- export_names.c: the meaning of a source's name */
typedef enum export_kind { EXPORT_MODEL, EXPORT_MOMENT, EXPORT_STEP, EXPORT_OTHER } export_kind;

typedef struct export_name {
    export_kind kind;
    const char *name; /* of the parameter: `n` bytes of the source's name */
    size_t n;
    const char *suffix; /* of moments: ".exp_avg" */
} export_name;

/* `model_prefix`: of the model's names in the source. */
export_name export_read_name(const char *name, const char *model_prefix);
/* Formats the name in another set of names. False: that set does not have it. */
bool export_write_name(const export_name *name, const char *whole, tess_names names, char *text, size_t size);
const char *export_model_prefix(const tess_catalog *catalog);

/* ---- export_stream.c: writes boxes of tensors into archives, block by block */
typedef struct export_stream {
    const tess_export *out;
    const tess_write_options *options;
    uint64_t done, all; /* bytes, of all tensors */
    uint8_t *block;
    size_t block_bytes;
} export_stream;

void export_stream_begin(const tess_export *out, const tess_write_options *options, export_stream *stream);
tess_status export_stream_box(export_stream *stream, const tess_export_tensor *tensor, const tess_box *box,
                              zip_writer *writer);
void export_stream_end(export_stream *stream);

/* ---- torch_put.c: archives as torch.save makes them */
/* Appends a row-major tensor to a pickle; its values are the record "archive/data/<key>". TESS_E_UNSUPPORTED: PyTorch
 * does not have the dtype. */
tess_status torch_put_tensor(tess_buffer *out, const char *dtype, int element_bytes, int n_dims, const int64_t *dim,
                             const char *key);

/* Write the records before and after those of the tensors. After a failure, call zip_writer_drop. */
tess_status torch_begin_archive(output *out, zip_writer *writer, const tess_buffer *pickle);
tess_status torch_end_archive(zip_writer *writer);

#endif
