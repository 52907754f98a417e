/* Exports: which tensors of a checkpoint are written, their names and dtypes; and the writers of other formats.
 *
 * Names. Tessera has "model.<name>" and "optimizer.<name>.exp_avg"; torchtitan has "<name>" and
 * "optimizer.state.<name>.exp_avg"; a bare model has "<name>" alone:
 *
 *   TESS_NAMES_TESSERA      TESS_NAMES_TORCHTITAN         TESS_NAMES_BARE (model only)
 *   model.X                 X                             X
 *   optimizer.X.exp_avg     optimizer.state.X.exp_avg     -
 *   optimizer.X.exp_avg_sq  optimizer.state.X.exp_avg_sq  -
 *   (meta: step)            optimizer.state.X.step        -
 *   (meta: step)            train_state.step              -
 *   (meta: n_tokens)        train_state.ntokens_seen      -
 *   (meta: optimizer)       optimizer.param_groups.X.lr, .betas, ..  -
 *
 * Each of them is recognised in a source, also in dicts around it ("app.model.X") and with the words of wrappers
 * ("module.X", "_orig_mod.X", "layers.0._fsdp_wrapped_module.w"), which are left out. Other names stay as they are, and
 * are left out of TESS_NAMES_BARE, as is all state of optimizers. The names of layers are not translated between
 * families of models. */
#ifndef TESS_CKPT_FORMATS_EXPORT_CATALOG_H
#define TESS_CKPT_FORMATS_EXPORT_CATALOG_H

#include "ckpt/catalog/catalog.h"
#include "nn/model.h"

typedef enum tess_names { TESS_NAMES_SAME, TESS_NAMES_TESSERA, TESS_NAMES_TORCHTITAN, TESS_NAMES_BARE } tess_names;

typedef struct tess_export_tensor {
    char *name;
    const tess_catalog_tensor *source; /* NULL: a scalar made here, `value` */
    char dtype[12];                    /* dtype that is written */
    int element_bytes;
    int n_dims;
    int64_t dim[TESS_CATALOG_DIMS];
    uint8_t value[8];
} tess_export_tensor;

typedef struct tess_export {
    tess_mem *mem;
    const tess_catalog *catalog; /* borrowed */
    int n_tensors;
    tess_export_tensor *tensors; /* by name */
    json_t *meta;                /* an object; empty for a model alone */
    int64_t step;                /* -1: the source does not state it */
    char model_prefix[256];      /* prefix of the model's names: "model.", or "" */
} tess_export;

typedef struct tess_export_options {
    tess_names names;
    const char
        *weights_dtype;      /* dtype of floating-point tensors of the model: "F32", "BF16", "F16"; NULL: as they are */
    bool model_only;         /* TESS_NAMES_BARE implies it */
    const tess_model *model; /* NULL: not known. Its parameters are found under any prefix and with the names of a
                                base model ("h.0.w"), and get their own names; nothing says that all are there */
} tess_export_options;

/* TESS_E_INVALID: two tensors would get one name, two prefixes hold the whole model, no such dtype. `catalog` must
 * outlive the export. */
tess_status tess_export_create(const tess_catalog *catalog, const tess_export_options *options, tess_export **out);
void tess_export_destroy(tess_export **out);                                          /* NULL is fine */
const tess_export_tensor *tess_export_find(const tess_export *out, const char *name); /* NULL: none */

/* Reads the box of a tensor in the export's dtype (rounded to nearest even), row-major. Thread-safe. */
tess_status tess_export_read(const tess_export *out, const tess_export_tensor *tensor, const tess_box *box, void *dst);
/* Whether it is a name that only the state of an optimizer has, or a buffer of old files that no model needs. */
bool tess_export_is_no_weight(const char *name);
uint64_t tess_export_bytes(const tess_export *out); /* bytes of all tensors */

/* The step of a checkpoint of any format: meta's "step", "global_step", "global_steps" or "iteration", at the top or in
 * "meta" or "train_state", or a scalar tensor train_state.step, or the most that the optimizer's scalars state
 * (optimizer.state.X.step); -1: not stated. */
int64_t tess_export_find_step(const tess_catalog *catalog);

/* ---- Writers ---- */
/* One process writes with some 10 MiB of memory, whatever the size of tensors (packed pieces: one as a whole). After a
 * failure (TESS_E_NO_SPACE: the disk is full) what was written is removed. */
typedef struct tess_write_options {
    int n_files; /* files of a DCP folder. 0: one for each rank of the source, with its pieces; n: tensors are cut into
                    n parts along dimension 0, as FSDP2 cuts them; 1: whole tensors */
    const tess_catalog_visitor *visitor; /* may be NULL; `progress` gets the bytes done and the bytes in all */
} tess_write_options;

/* Writes a folder for torch.distributed.checkpoint.load. .metadata is written last, with fsync and rename: an
 * unfinished folder has none. Members of meta become objects with dotted names. TESS_E_INVALID: the folder holds a
 * checkpoint already. */
tess_status tess_dcp_write(const tess_export *out, const char *folder, const tess_write_options *options);

/* Writes the same to FOLDER/iter_%07d, which latest_checkpointed_iteration.txt then names. TESS_E_INVALID: the export's
 * step is unknown. */
tess_status tess_megatron_write(const tess_export *out, const char *folder, const tess_write_options *options);

/* Writes a file of torch.save: {name: tensor} and, if it is not empty, "meta". An old file stays until the new one is
 * complete. */
tess_status tess_torch_write(const tess_export *out, const char *path, const tess_write_options *options);

#endif
