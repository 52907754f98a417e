/* Definitions that the writers of this folder share. */
#ifndef TESS_CKPT_FORMATS_EXPORT_IMPL_H
#define TESS_CKPT_FORMATS_EXPORT_IMPL_H

#include "base/text/text.h"
#include "ckpt/formats/export_catalog.h"
#include "ckpt/formats/zip_impl.h"

/* ---- export_names.c: interprets a source's names ---- */
enum { EXPORT_NAME = 4096 };

/* The place where a source keeps its model. All prefixes are without the words of module wrappers
 * (tess_export_create). */
typedef struct export_place {
    char model[EXPORT_NAME]; /* prefix of the model's names: "model.", "app.model.", "" */
    /* Prefix of the optimizer's names: "app." if the model's is "app.model."; otherwise "" */
    char around[EXPORT_NAME];
    const tess_param **params; /* (n_params) sorted by name without "model." and "transformer."; owned */
    int n_params;              /* 0: not known */
} export_place;

/* Finds the model's place in a source. `model` may be NULL. TESS_E_INVALID: two places contain the whole model. */
tess_status export_find_place(const tess_catalog *catalog, const tess_model *model, export_place *place);

/* Finds the dicts around the model in a checkpoint's root, by their usual keys: "app" and "model" give "app.model.".
 * `enter` returns whether the dict at `depth` (0: the root) contains a dict with that key, which becomes the dict of
 * the next depth. */
void export_find_dicts(void *self, bool (*enter)(void *self, int depth, const char *key), char *prefix, size_t size);

typedef enum export_kind { EXPORT_MODEL, EXPORT_MOMENT, EXPORT_STEP, EXPORT_OTHER } export_kind;

typedef struct export_name {
    export_kind kind;
    char name[EXPORT_NAME]; /* the model's own name of the parameter */
    const char *suffix;     /* the last part of a moment's name: ".exp_avg" */
} export_name;

void export_read_name(const char *name, const export_place *place, export_name *read);
/* Formats the name in the set `names`. False: that set does not have it. */
bool export_write_name(const export_name *name, const char *whole, tess_names names, char *text, size_t size);

/* ---- export_settings.c: an optimizer's settings, stored as members "optimizer.param_groups.<parameter>.<key>" of
 * meta, the form in which PyTorch's get_optimizer_state_dict flattens them ---- */
/* Adds the settings of a parameter that Tessera's trainer states, where meta has none. Adds nothing if `settings` is
 * NULL or incomplete. */
tess_status export_describe_settings(json_t *meta, const json_t *settings, const char *parameter, bool decays);
/* Renames the source's settings, which may be inside any dicts of `meta`, to these names. Handles flattened settings,
 * and lists of groups that name their parameters. Groups that number their parameters become
 * "optimizer.param_groups.0.lr", as PyTorch writes them. */
tess_status export_move_settings(json_t *meta, const export_place *place);

/* ---- export_stream.c: writes boxes of tensors into archives, block by block ---- */
typedef struct export_stream {
    const tess_export *out;
    const tess_write_options *options;
    uint64_t done, all; /* bytes written, and bytes of all tensors */
    uint8_t *block;
    size_t block_bytes;
} export_stream;

void export_stream_begin(const tess_export *out, const tess_write_options *options, export_stream *stream);
tess_status export_stream_box(export_stream *stream, const tess_export_tensor *tensor, const tess_box *box,
                              zip_writer *writer);

/* ---- torch_put.c: archives in the format of torch.save ---- */
/* Appends a row-major tensor to a pickle. Its values are the archive's record "archive/data/<key>". TESS_E_UNSUPPORTED:
 * PyTorch does not have the dtype. */
tess_status torch_put_tensor(tess_buffer *out, const char *dtype, int element_bytes, int n_dims, const int64_t *dim,
                             const char *key);

/* Write the records before and after the tensors' records. After a failure, drop the writer's entries. */
tess_status torch_begin_archive(output *out, zip_writer *writer, const tess_buffer *pickle);
tess_status torch_end_archive(zip_writer *writer);

#endif
