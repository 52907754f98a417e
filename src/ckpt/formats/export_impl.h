/* Shared by the writers of this folder. */
#ifndef TESS_CKPT_FORMATS_EXPORT_IMPL_H
#define TESS_CKPT_FORMATS_EXPORT_IMPL_H

#include "base/text/text.h"
#include "ckpt/formats/export_catalog.h"
#include "ckpt/formats/zip_impl.h"

/* ---- export_names.c: the meaning of a source's names */
enum { EXPORT_NAME = 4096 };

/* The place where a source keeps its model. Wrappers of modules are left out of all prefixes (tess_export_create). */
typedef struct export_place {
    char model[EXPORT_NAME];   /* before the model's names: "model.", "app.model.", "" */
    char around[EXPORT_NAME];  /* before those of the optimizer: "app." of the second, else "" */
    const tess_param **params; /* (n_params) by name, without "model." and "transformer."; owned */
    int n_params;              /* 0: not known */
} export_place;

/* Finds it. `model` may be NULL. TESS_E_INVALID: two places hold the whole model. */
tess_status export_find_place(const tess_catalog *catalog, const tess_model *model, export_place *place);
void export_free_place(tess_mem *mem, export_place *place);

/* Finds the dicts that a checkpoint's root has around the model, by their usual keys: "app" and "model" give
 * "app.model.". `enter`: whether the dict at `depth` (0: the root) has a dict of that key; it becomes the next depth's.
 */
void export_find_dicts(void *self, bool (*enter)(void *self, int depth, const char *key), char *prefix, size_t size);

typedef enum export_kind { EXPORT_MODEL, EXPORT_MOMENT, EXPORT_STEP, EXPORT_OTHER } export_kind;

typedef struct export_name {
    export_kind kind;
    char name[EXPORT_NAME]; /* the model's own name of the parameter */
    const char *suffix;     /* end of a moment's name: ".exp_avg" */
} export_name;

void export_read_name(const char *name, const export_place *place, export_name *read);
/* Formats the name in another set of names. False: that set does not have it. */
bool export_write_name(const export_name *name, const char *whole, tess_names names, char *text, size_t size);

/* ---- export_settings.c: an optimizer's settings, members "optimizer.param_groups.<parameter>.<key>" of meta, as
 * PyTorch's get_optimizer_state_dict flattens them */
/* Adds those that Tessera's trainer states of its optimizer, where none are. `settings`: NULL or incomplete: nothing is
 * added. */
tess_status export_describe_settings(json_t *meta, const json_t *settings, const char *parameter, bool decays);
/* Gives those of a source, which `meta` has in any dicts, these names: flattened ones, and lists of groups that name
 * their parameters. Groups that number them get "optimizer.param_groups.0.lr", as PyTorch writes them. */
tess_status export_move_settings(json_t *meta, const export_place *place);

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
