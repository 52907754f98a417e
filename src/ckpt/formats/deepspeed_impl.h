/* DeepSpeed's ZeRO checkpoints: which files there are, and which elements of which parameter lie in flat tensors. */
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
    ds_file *model, *optim; /* by rank */
    size_t n_model, n_optim, model_room, optim_room;
} ds_files;

/* The files of the folder, or of the step that its `latest` names. TESS_E_UNSUPPORTED: tensor or pipeline parallel. */
tess_status ds_list(tess_mem *mem, const char *path, ds_files *files);
void ds_files_free(ds_files *files);

/* ---- deepspeed_flat.c */
typedef struct ds_param {
    const char *name; /* borrowed from the pickle */
    int group, n_dims;
    int64_t dim[TESS_CATALOG_DIMS], count;
    int64_t offset; /* of its first element in the group's flat vector */
} ds_param;

/* The parameters of all groups, in the order in which they lie in flat vectors. */
typedef struct ds_params {
    tess_mem *mem;
    size_t n, room;
    int n_groups;
    ds_param *params;
    const char **names; /* (n) sorted, for ds_has_name */
} ds_params;

/* `shapes`: a list of dicts, one a group, or one dict. Appends. */
tess_status ds_add_shapes(ds_params *params, const tess_pickle_value *shapes);
tess_status ds_sort_names(ds_params *params); /* once all are there */
bool ds_has_name(const ds_params *params, const char *name);
void ds_params_free(ds_params *params);
/* Elements of a group's parameters. */
int64_t ds_group_count(const ds_params *params, int group);

/* A flat tensor of a rank's file: elements [begin, + its own) of what. */
typedef struct ds_flat {
    tess_catalog *catalog;
    const torch_file *file;
    int catalog_file;
    int rank, n_ranks; /* n_ranks 0: `begin` counts in the group's vector (ZeRO 1 and 2); */
    int group;         /*   else in what this rank holds of all parameters, one after the other (ZeRO 3) */
    int64_t begin;
    const char *prefix, *suffix; /* of the tensors' names: "optimizer." and ".exp_avg" */
    torch_tensor tensor;
} ds_flat;

tess_status ds_add_flat(const ds_flat *flat, const ds_params *params);
/* The flat tensor is a rank's part of this parameter alone (ZeRO 3). */
tess_status ds_add_part(const ds_flat *flat, const ds_param *param);

#endif
