/* Archives of torch.save: a zip with a pickle and the storages of its tensors. Shared by the formats that contain such
 * archives. */
#ifndef TESS_CKPT_FORMATS_TORCH_IMPL_H
#define TESS_CKPT_FORMATS_TORCH_IMPL_H

#include "base/os/os.h"
#include "base/pickle/pickle.h"
#include "ckpt/catalog/catalog.h"
#include "ckpt/formats/zip_impl.h"

/* ---- common.c */
/* Ends an opener: finishes the catalog. After a failure (`status`, or of finishing) destroys and nulls it. */
tess_status formats_finish(tess_catalog **catalog, tess_status status);

/* ---- torch_file.c: an open archive */
typedef struct torch_file {
    tess_mem *mem;
    const char *path;     /* borrowed */
    tess_mapping mapping; /* mapping of a file that was opened whole */
    uint64_t base;        /* the archive's offset in its file */
    zip archive;
    char prefix[256]; /* prefix of its entries: "archive/" */
    tess_pickle *pickle;
    const tess_pickle_value *root;
} torch_file;

/* Opens an archive inside a file, and checks the CRC of every record but those of storages: data[0, size) lies at
 * offset `base`. */
tess_status torch_open_slice(tess_mem *mem, const char *path, const uint8_t *data, size_t size, uint64_t base,
                             torch_file *file);
tess_status torch_open_file(tess_mem *mem, const char *path, torch_file *file);
void torch_close(torch_file *file);
/* Checks the CRC of every storage, or of every other record. */
tess_status torch_check_records(const torch_file *file, bool storages);
/* Whether the file begins as a zip archive, or as what torch.save wrote before it wrote zip archives. */
bool torch_looks_like_archive(const char *path);

/* ---- torch_tensor.c: values of the pickle that are tensors */
typedef struct torch_tensor {
    char dtype[12]; /* dtype in the catalog */
    int element_bytes;
    int n_dims;
    int64_t dim[TESS_CATALOG_DIMS], stride[TESS_CATALOG_DIMS]; /* strides in elements */
    const zip_entry *record;
    int64_t first; /* its first element in the record */
} torch_tensor;

/* Whether the value is a tensor, a parameter, or a view of one; DTensor and ShardedTensor are not. */
bool torch_is_tensor(const tess_pickle_value *value);
tess_status torch_read_tensor(const torch_file *file, const tess_pickle_value *value, torch_tensor *tensor);

/* The source of pieces, and the catalog that they go to. */
typedef struct torch_source {
    tess_catalog *catalog;
    const torch_file *file;
    int catalog_file; /* the file's number in the catalog */
    int rank;         /* rank that wrote the file; -1: not known */
} torch_source;

/* Adds the checksum of every storage of the file: for pieces that are parts of one, and those that no tensor uses. */
tess_status torch_add_ranges(const torch_source *from);
/* The tensor as a piece of box `box` of a larger tensor; NULL: as the whole tensor. */
tess_catalog_piece torch_piece(const torch_source *from, const torch_tensor *tensor, const tess_box *box);
/* Adds that piece to tensor `number` of the catalog. */
tess_status torch_add_piece(const torch_source *from, const torch_tensor *tensor, const tess_box *box, int number);

/* ---- torch_dtype.c */
typedef struct torch_dtype {
    const char *catalog; /* "F32" */
    const char *name;    /* "torch.float32" */
    const char *storage; /* "torch.FloatStorage"; NULL: an untyped one */
    int bytes;
} torch_dtype;

typedef enum torch_dtype_key { TORCH_BY_CATALOG, TORCH_BY_NAME, TORCH_BY_STORAGE } torch_dtype_key;
const torch_dtype *torch_find_dtype(torch_dtype_key key, const char *text); /* NULL: unknown */

/* ---- torch_values.c: values that are not tensors */
/* Reads a tuple or list of integers, or a torch.Size. */
tess_status torch_read_ints(const tess_pickle_value *value, int64_t *out, int room, int *n);
bool torch_read_int(const tess_pickle_value *value, int64_t *out);
/* An attribute of an object, whose state is a dict, or a pair of None and a dict. NULL: none. */
const tess_pickle_value *torch_attribute(const tess_pickle_value *object, const char *key);
/* Formats a key of a dict: text, integer or bool; false: any other. */
bool torch_key(const tess_pickle_value *value, char *text, size_t size);

/* ---- torch_parts.c: tensors of which a file holds a part */
typedef struct torch_part_visitor {
    void *self;
    /* `local` is `box` of a tensor of n_dims dimensions `dim`. */
    tess_status (*part)(void *self, int n_dims, const int64_t *dim, const torch_tensor *local, const tess_box *box);
} torch_part_visitor;

/* DTensor, ShardedTensor. */
bool torch_is_sharded(const tess_pickle_value *value);
/* Visits the parts in this file. Of copies on several ranks, only the first rank's is visited. */
tess_status torch_read_parts(const torch_file *file, const tess_pickle_value *value, const torch_part_visitor *visitor);

/* ---- torch_walk.c: nested values */
/* Converts to JSON. Values that JSON does not have become text, objects {"object": name, ..}, tensors null. `left`
 * bounds how many values (and how much text) are made, over several calls. */
json_t *torch_to_json(const tess_pickle_value *value, int *left);

/* The attributes of a torch.nn.Module that was pickled whole: a dict. NULL: the value is something else. */
const tess_pickle_value *torch_module(const tess_pickle_value *value);

enum { TORCH_NAME = 4096, TORCH_VALUES = 1 << 24, TORCH_META_VALUES = 1 << 18 };

typedef struct torch_walk {
    torch_source from;     /* rank -1: the file stands alone. Tensors that a lower rank has given whole are skipped. */
    int left;              /* values that may still be visited: TORCH_VALUES */
    int left_meta;         /* values that may still be made: TORCH_META_VALUES */
    char name[TORCH_NAME]; /* name of the current value */
} torch_walk;

/* Tensors get dotted names after `prefix` ("" or "optimizer."); other values go to the object `meta` (NULL: are left
 * out). Of a module its state_dict is visited. */
tess_status torch_walk_value(torch_walk *walk, const char *prefix, const tess_pickle_value *value, json_t *meta);

#endif
