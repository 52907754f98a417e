/* Archives of torch.save: a zip with a pickle and the storages of its tensors. Shared by the formats built on them. */
#ifndef TESS_CKPT_FORMATS_TORCH_IMPL_H
#define TESS_CKPT_FORMATS_TORCH_IMPL_H

#include "base/os/os.h"
#include "base/pickle/pickle.h"
#include "ckpt/catalog/catalog.h"
#include "ckpt/formats/zip_impl.h"

/* ---- torch_file.c: an archive, opened */
typedef struct torch_file {
    tess_mem *mem;
    const char *path;     /* borrowed */
    tess_mapping mapping; /* of a file that was opened whole */
    uint64_t base;        /* where the archive begins in its file */
    zip archive;
    char prefix[256]; /* of its entries: "archive/" */
    tess_pickle *pickle;
    const tess_pickle_value *root;
} torch_file;

/* An archive that is a part of a file: data[0, size) lies at `base` of it. */
tess_status torch_open_slice(tess_mem *mem, const char *path, const uint8_t *data, size_t size, uint64_t base,
                             torch_file *file);
tess_status torch_open_file(tess_mem *mem, const char *path, torch_file *file);
void torch_close(torch_file *file);
/* That its first bytes are those of a zip archive, or of what torch.save wrote before it wrote zip archives. */
bool torch_looks_like_archive(const char *path);

/* ---- torch_tensor.c: values of the pickle that are tensors */
typedef struct torch_tensor {
    char dtype[12]; /* as the catalog has it */
    int element_bytes;
    int n_dims;
    int64_t dim[TESS_CATALOG_DIMS], stride[TESS_CATALOG_DIMS]; /* strides in elements */
    const zip_entry *record;
    int64_t first; /* element of the record at which it begins */
} torch_tensor;

/* A tensor, a parameter, or a view of one; DTensor and ShardedTensor are not. */
bool torch_is_tensor(const tess_pickle_value *value);
tess_status torch_read_tensor(const torch_file *file, const tess_pickle_value *value, torch_tensor *tensor);
/* The piece that holds box `begin`, +tensor's dims of a larger tensor. */
void torch_piece(const torch_file *file, const torch_tensor *tensor, int catalog_file, int rank, const int64_t *begin,
                 tess_catalog_piece *piece);
/* The checksum of a tensor's record, when its piece is a part of it and has none (otherwise nothing). */
tess_status torch_add_range(tess_catalog *catalog, const torch_file *file, const torch_tensor *tensor, int catalog_file,
                            int rank);

/* ---- torch_dtype.c */
/* "F32" of "torch.float32", of "torch.FloatStorage"; NULL: not known. */
const char *torch_dtype(const char *name, int *element_bytes);
const char *torch_storage_dtype(const char *storage, int *element_bytes);
/* "torch.float32" of "F32", and "FloatStorage" (NULL: an untyped one); false: PyTorch has none. */
bool torch_dtype_names(const char *dtype, const char **name, const char **storage);

/* ---- torch_values.c: what is no tensor */
/* A tuple or list of whole numbers, or a torch.Size of one. */
tess_status torch_read_ints(const tess_pickle_value *value, int64_t *out, int room, int *n);
bool torch_read_int(const tess_pickle_value *value, int64_t *out);
/* Attribute of an object: its state is a dict, or a pair of None and a dict. */
const tess_pickle_value *torch_attribute(const tess_pickle_value *object, const char *key);
/* A key of a dict as text: texts, integers, bools; false: any other. */
bool torch_key(const tess_pickle_value *value, char *text, size_t size);

/* ---- torch_json.c */
/* As JSON: what JSON has no word for becomes text, objects {"object": name, ..}; tensors become null. `left` bounds how
 * many values (and how much text) are made, over several calls. */
json_t *torch_to_json(const tess_pickle_value *value, int *left);

/* ---- torch_parts.c: tensors of which a file holds a part */
typedef struct torch_part_visitor {
    void *self;
    /* `begin`: where `local` lies in the tensor of n_dims dimensions `dim`. */
    tess_status (*part)(void *self, int n_dims, const int64_t *dim, const torch_tensor *local, const int64_t *begin);
} torch_part_visitor;

/* DTensor, ShardedTensor. */
bool torch_is_sharded(const tess_pickle_value *value);
/* Visits the parts that this file answers for: of copies that several ranks hold, the first rank's alone. */
tess_status torch_read_parts(const torch_file *file, const tess_pickle_value *value, const torch_part_visitor *visitor);

/* ---- torch_walk.c: everything of a nested value into a catalog */
enum { TORCH_NAME = 4096, TORCH_VALUES = 1 << 24, TORCH_META_VALUES = 1 << 18 };

typedef struct torch_walk {
    tess_catalog *catalog;
    const torch_file *file;
    int catalog_file;
    int rank;      /* of the file, -1: it stands alone. Whole tensors that a lower rank has given are passed over. */
    int left;      /* values that may yet be looked at: TORCH_VALUES */
    int left_meta; /* values that may yet be made: TORCH_META_VALUES */
    char name[TORCH_NAME]; /* of the value at hand: work space */
} torch_walk;

/* Tensors get dotted names behind `prefix` ("" or "optimizer."), what is none goes to the object `meta` (NULL: is left
 * out). */
tess_status torch_walk_value(torch_walk *walk, const char *prefix, const tess_pickle_value *value, json_t *meta);
/* The dict of a checkpoint that holds the model, with a dot: "model."; "" when names stand alone. */
const char *torch_model_prefix(const tess_pickle_value *root);

/* ---- torch_ranks.c: a folder with one file a rank */
typedef struct torch_rank_file {
    char name[256];
    int group;         /* equal for files that differ in the rank alone */
    int rank, n_ranks; /* n_ranks: as the name says, 0: it does not */
    size_t stem;       /* bytes of the name before "rank" */
} torch_rank_file;

/* By group, then rank; complete, or TESS_E_NOT_FOUND names the file that is missing. None at all is fine. */
tess_status torch_list_ranks(tess_mem *mem, const char *folder, torch_rank_file **files, size_t *n);
bool torch_holds_ranks(const char *folder);

/* ---- torch_model.c: pytorch_model.bin, or its shards */
int torch_count_model_files(const char *folder); /* 0: none */
tess_status torch_model_file(const char *folder, int i, int n, char *path, size_t size);

#endif
