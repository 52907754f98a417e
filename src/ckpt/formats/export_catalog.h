/* Exports a checkpoint to other formats: selects its tensors, translates their names and dtypes, and writes them.
 *
 * Tessera uses the names "model.<name>" and "optimizer.<name>.exp_avg"; torchtitan uses "<name>" and
 * "optimizer.state.<name>.exp_avg"; a bare model has only "<name>":
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
 * All of these names are recognised in a source, also inside dicts ("app.model.X") and with the words of wrappers
 * ("module.X", "_orig_mod.X", "layers.0._fsdp_wrapped_module.w"), which are removed. Other names stay unchanged.
 * TESS_NAMES_BARE leaves them out, and all state of optimizers. Names of layers are not translated between families of
 * models. */
#ifndef TESS_CKPT_FORMATS_EXPORT_CATALOG_H
#define TESS_CKPT_FORMATS_EXPORT_CATALOG_H

#include "ckpt/catalog/catalog.h"
#include "nn/model.h"

typedef enum tess_names { TESS_NAMES_SAME, TESS_NAMES_TESSERA, TESS_NAMES_TORCHTITAN, TESS_NAMES_BARE } tess_names;

typedef struct tess_export_tensor {
    char *name;
    const tess_catalog_tensor *source; /* NULL: a scalar that the export adds, stored in `value` */
    char dtype[12];                    /* dtype in the export */
    int element_bytes;
    int n_dims;
    int64_t dim[TESS_CATALOG_DIMS];
    uint8_t value[8];
} tess_export_tensor;

typedef struct tess_export {
    tess_mem *mem;
    const tess_catalog *catalog; /* borrowed */
    int n_tensors;
    tess_export_tensor *tensors; /* sorted by name */
    json_t *meta;                /* an object; empty if only the model is exported */
    int64_t step;                /* -1: the source does not state it */
    char model_prefix[256];      /* prefix of the model's names in the export: "model.", or "" */
} tess_export;

typedef struct tess_export_options {
    tess_names names;
    const char *weights_dtype; /* dtype of the model's floating-point tensors: "F32", "BF16", "F16"; NULL: unchanged */
    bool model_only;           /* TESS_NAMES_BARE implies it */
    /* NULL: not known. Otherwise its parameters are found under any prefix and with the names of a base model
     * ("h.0.w"), and get their own names. It is not checked that all parameters are there. */
    const tess_model *model;
} tess_export_options;

/* Selects and names the tensors of an export. `catalog` must outlive the export. TESS_E_INVALID: two tensors would get
 * the same name, two prefixes contain the whole model, or no such dtype. */
tess_status tess_export_create(const tess_catalog *catalog, const tess_export_options *options, tess_export **out);
void tess_export_destroy(tess_export **out);                                          /* NULL is fine */
const tess_export_tensor *tess_export_find(const tess_export *out, const char *name); /* NULL: none */

/* Reads the box of a tensor in the export's dtype (rounded to nearest even), row-major. Thread-safe. */
tess_status tess_export_read(const tess_export *out, const tess_export_tensor *tensor, const tess_box *box, void *dst);
/* Whether the name belongs to the state of an optimizer, or to a buffer of old files that no model needs. */
bool tess_export_is_no_weight(const char *name);
uint64_t tess_export_bytes(const tess_export *out); /* bytes of all tensors */

/* Returns the step of a checkpoint of any format; -1: not stated. Looks in this order:
 * - meta's "step", "global_step", "global_steps" or "iteration", at the top or in "meta" or "train_state"
 * - the scalar tensor train_state.step
 * - the largest of the optimizer's scalars optimizer.state.X.step */
int64_t tess_export_find_step(const tess_catalog *catalog);

/* ---- Writers ---- */
/* One process writes, with about 10 MiB of memory for tensors of any size; only a packed piece needs memory for all of
 * it. After a failure (TESS_E_NO_SPACE: the disk is full) the written files are removed. */
typedef struct tess_write_options {
    /* Number of files of a DCP folder. 0: one for each rank of the source, with that rank's pieces. 1: whole tensors.
     * n: tensors are cut into n parts along dimension 0, as FSDP2 cuts them. */
    int n_files;
    const tess_catalog_visitor *visitor; /* may be NULL; `progress` receives the bytes done and the bytes in all */
} tess_write_options;

/* Writes a folder for torch.distributed.checkpoint.load. .metadata is written last, with fsync and rename, so an
 * unfinished folder has none. Members of meta become objects with dotted names. TESS_E_INVALID: the folder already
 * contains a checkpoint. */
tess_status tess_dcp_write(const tess_export *out, const char *folder, const tess_write_options *options);

/* Writes the same as tess_dcp_write to FOLDER/iter_%07d, and then the number of the iteration to
 * latest_checkpointed_iteration.txt. TESS_E_INVALID: the export's step is unknown. */
tess_status tess_megatron_write(const tess_export *out, const char *folder, const tess_write_options *options);

/* Writes a file in the format of torch.save: {name: tensor} and, if it is not empty, "meta". An old file stays until
 * the new one is complete. */
tess_status tess_torch_write(const tess_export *out, const char *path, const tess_write_options *options);

#endif
