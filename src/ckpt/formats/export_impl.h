/* What the writers of this folder share. */
#ifndef TESS_CKPT_FORMATS_EXPORT_IMPL_H
#define TESS_CKPT_FORMATS_EXPORT_IMPL_H

#include "base/text/text.h"
#include "ckpt/formats/export_catalog.h"
#include "ckpt/formats/zip_impl.h"

/* ---- export_names.c: what a name of any source means */
typedef enum export_kind { EXPORT_MODEL, EXPORT_MOMENT, EXPORT_STEP, EXPORT_OTHER } export_kind;

typedef struct export_name {
    export_kind kind;
    const char *name; /* of the parameter, `n` bytes of the source's name */
    size_t n;
    const char *suffix; /* of moments: ".exp_avg" */
} export_name;

/* `model_prefix`: what the source puts in front of the model's names. */
export_name export_read_name(const char *name, const char *model_prefix);
/* The name in another set; false: it is not in that set. */
bool export_write_name(const export_name *name, const char *whole, tess_names names, char *text, size_t size);
const char *export_model_prefix(const tess_catalog *catalog);

/* ---- export_settings.c: "optimizer.param_groups.<name>.<key>" into meta, of a parameter that weight decay is for or
 * not. `settings`: the optimizer's as our trainer states them; NULL is fine. */
tess_status export_add_settings(json_t *meta, const json_t *settings, const export_name *name, bool decays);
/* Those that came from such a checkpoint, when it became one of ours. */
void export_keep_settings(json_t *meta, const json_t *settings);

/* ---- export_stream.c: data of a box as an entry of an archive, in blocks */
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

#endif
