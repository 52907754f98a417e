/* DeepSpeed's ZeRO checkpoints: their files, and the positions of parameters in flat tensors. */
#ifndef TESS_CKPT_FORMATS_DEEPSPEED_IMPL_H
#define TESS_CKPT_FORMATS_DEEPSPEED_IMPL_H

#include "ckpt/formats/torch_impl.h"

enum { DS_PATH = 4096 };

/* ---- deepspeed_files.c */
typedef struct ds_file {
    char name[256];
    int rank;
} ds_file;

typedef struct ds_files {
    tess_mem *mem;
    char folder[DS_PATH];
    ds_file *model, *optim; /* sorted by rank */
    size_t n_model, n_optim, model_room, optim_room;
} ds_files;

/* Lists the files of the folder, or of the step that its `latest` names. TESS_E_UNSUPPORTED: the checkpoint uses tensor
 * or pipeline parallelism. Free `files` with ds_files_free, also after a failure. */
tess_status ds_list(tess_mem *mem, const char *path, ds_files *files);
void ds_files_free(ds_files *files);

/* ---- deepspeed_flat.c */
typedef struct ds_param {
    const char *name; /* borrowed from the pickle */
    int group, n_dims;
    int64_t dim[TESS_CATALOG_DIMS], count;
    int64_t offset; /* offset of its first element in the group's flat vector */
} ds_param;

/* The parameters of all groups, in the order of the flat vectors. */
typedef struct ds_params {
    tess_mem *mem;
    size_t n, room;
    int n_groups;
    ds_param *params;
    json_t *names; /* an object with the names as keys */
} ds_params;

/* Appends the parameters of root[key]: a list with one dict per group, or one dict. Python's None counts as absent:
 * DeepSpeed writes it if no parameter is frozen, or if frozen ones are excluded. */
tess_status ds_add_shapes(ds_params *params, const tess_pickle_value *root, const char *key);
void ds_params_free(ds_params *params);
/* Returns the number of elements of all parameters of a group. */
int64_t ds_group_count(const ds_params *params, int group);

/* A flat tensor of a rank's file. Its elements are numbers [begin, begin + size) of
 *   n_ranks 0: the vector of its group (ZeRO 1 and 2)
 *   otherwise: the rank's parts of all parameters, one after the other (ZeRO 3) */
typedef struct ds_flat {
    torch_source from;
    int n_ranks, group;
    int64_t begin;
    const char *prefix, *suffix; /* parts of the tensors' names: "optimizer." and ".exp_avg" */
    torch_tensor tensor;
} ds_flat;

tess_status ds_add_flat(const ds_flat *flat, const ds_params *params);
/* Adds a flat tensor that consists only of the rank's part of this parameter (ZeRO 3). */
tess_status ds_add_part(const ds_flat *flat, const ds_param *param);

#endif
