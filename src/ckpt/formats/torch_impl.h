/* Archives of torch.save: a zip file with a pickle and the storages of its tensors. Several formats contain such
 * archives and share this code. */
#ifndef TESS_CKPT_FORMATS_TORCH_IMPL_H
#define TESS_CKPT_FORMATS_TORCH_IMPL_H

#include "base/os/os.h"
#include "base/pickle/pickle.h"
#include "ckpt/catalog/catalog.h"
#include "ckpt/formats/zip_impl.h"

/* ---- common.c */
/* Ends an opener: finishes the catalog. After a failure (`status`, or in finishing) destroys the catalog and nulls the
 * handle. */
tess_status formats_finish(tess_catalog **catalog, tess_status status);

/* ---- torch_file.c: an open archive */
typedef struct torch_file {
    tess_mem *mem;
    const char *path;     /* borrowed */
    tess_mapping mapping; /* the file's mapping, if the whole file was opened */
    uint64_t base;        /* offset of the archive in its file */
    zip archive;
    char prefix[256]; /* prefix of the archive's entries: "archive/" */
    tess_pickle *pickle;
    const tess_pickle_value *root;
} torch_file;

/* Opens an archive inside a file: data[0, size) is at offset `base`. Checks the CRC of every record except storages. */
tess_status torch_open_slice(tess_mem *mem, const char *path, const uint8_t *data, size_t size, uint64_t base,
                             torch_file *file);
tess_status torch_open_file(tess_mem *mem, const char *path, torch_file *file);
void torch_close(torch_file *file);
/* Checks the CRC of every storage (`storages`), or of every other record. */
tess_status torch_check_records(const torch_file *file, bool storages);
/* Whether the file begins like a zip archive, or like a file that torch.save wrote before it used zip archives. */
bool torch_looks_like_archive(const char *path);

/* ---- torch_tensor.c: the values of the pickle that are tensors ---- */
typedef struct torch_tensor {
    char dtype[12]; /* dtype in the catalog */
    int element_bytes;
    int n_dims;
    int64_t dim[TESS_CATALOG_DIMS], stride[TESS_CATALOG_DIMS]; /* strides in elements */
    const zip_entry *record;
    int64_t first; /* index of the tensor's first element in the record */
} torch_tensor;

/* Whether the value is a tensor, a parameter, or a view of one. False for DTensor and ShardedTensor. */
bool torch_is_tensor(const tess_pickle_value *value);
tess_status torch_read_tensor(const torch_file *file, const tess_pickle_value *value, torch_tensor *tensor);

/* The file that pieces are read from, and the catalog that they are added to. */
typedef struct torch_source {
    tess_catalog *catalog;
    const torch_file *file;
    int catalog_file; /* index of the file in the catalog */
    int rank;         /* rank that wrote the file; -1: not known */
} torch_source;

/* Adds the checksum of every storage of the file. It covers pieces that are only part of a storage, and storages that
 * no tensor uses. */
tess_status torch_add_ranges(const torch_source *from);
/* Describes the tensor as a piece: box `box` of a larger tensor, or the whole tensor if `box` is NULL. */
tess_catalog_piece torch_piece(const torch_source *from, const torch_tensor *tensor, const tess_box *box);
/* Adds that piece to tensor `number` of the catalog. */
tess_status torch_add_piece(const torch_source *from, const torch_tensor *tensor, const tess_box *box, int number);

/* ---- torch_dtype.c */
typedef struct torch_dtype {
    const char *catalog; /* "F32" */
    const char *name;    /* "torch.float32" */
    const char *storage; /* "torch.FloatStorage"; NULL: only untyped storages */
    int bytes;
} torch_dtype;

typedef enum torch_dtype_key { TORCH_BY_CATALOG, TORCH_BY_NAME, TORCH_BY_STORAGE } torch_dtype_key;
const torch_dtype *torch_find_dtype(torch_dtype_key key, const char *text); /* NULL: unknown */

/* ---- torch_values.c: the values that are not tensors ---- */
/* Reads a tuple or list of integers, or a torch.Size. */
tess_status torch_read_ints(const tess_pickle_value *value, int64_t *out, int room, int *n);
bool torch_read_int(const tess_pickle_value *value, int64_t *out);
/* Returns an attribute of an object. The object's state must be a dict, or a pair of None and a dict. NULL: there is no
 * such attribute. */
const tess_pickle_value *torch_attribute(const tess_pickle_value *object, const char *key);
/* Formats a key of a dict: text, integer or bool. False: another kind of key. */
bool torch_key(const tess_pickle_value *value, char *text, size_t size);

/* ---- torch_parts.c: tensors of which a file holds only a part ---- */
typedef struct torch_part_visitor {
    void *self;
    /* Called for each part: `local` is the box `box` of a tensor of n_dims dimensions `dim`. */
    tess_status (*part)(void *self, int n_dims, const int64_t *dim, const torch_tensor *local, const tess_box *box);
} torch_part_visitor;

/* Whether the value is a DTensor or a ShardedTensor. */
bool torch_is_sharded(const tess_pickle_value *value);
/* Visits the parts that this file holds. If several ranks hold copies, only the first rank's copy is visited. */
tess_status torch_read_parts(const torch_file *file, const tess_pickle_value *value, const torch_part_visitor *visitor);

/* ---- torch_walk.c: nested values */
/* Converts a value to JSON. Values that JSON lacks become text, objects become {"object": name, ..}, tensors become
 * null. `left` bounds how many values (and how much text) may be created; it counts down over several calls. */
json_t *torch_to_json(const tess_pickle_value *value, int *left);

/* Returns the attributes of a torch.nn.Module that was pickled as a whole: a dict. NULL: the value is not such a
 * module. */
const tess_pickle_value *torch_module(const tess_pickle_value *value);

enum { TORCH_NAME = 4096, TORCH_VALUES = 1 << 24, TORCH_META_VALUES = 1 << 18 };

typedef struct torch_walk {
    /* Rank -1: the file stands alone; otherwise tensors that a lower rank has provided whole are skipped */
    torch_source from;
    int left;              /* number of values that may still be visited: TORCH_VALUES at first */
    int left_meta;         /* number of JSON values that may still be created: TORCH_META_VALUES at first */
    char name[TORCH_NAME]; /* name of the current value */
} torch_walk;

/* Walks through nested values. Tensors get dotted names after `prefix` ("" or "optimizer."); other values are added to
 * the object `meta` (NULL: they are left out). For a module its state_dict is visited. */
tess_status torch_walk_value(torch_walk *walk, const char *prefix, const tess_pickle_value *value, json_t *meta);

#endif
