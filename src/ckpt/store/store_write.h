/* Writes checkpoints without collective calls: any process can do so, from parts that it wrote or received. This is the
 * format of `<dir>/step-%08d/`:
 *
 *     rank-%05d.data   what one writer wrote: pieces, each at a multiple of 4096
 *     manifest.json    the tensors, and the position of each of their pieces
 *     commit.json      written last: the manifest's size and checksum
 *
 *     manifest.json    {"format": 3, "step": 1000, "version": "...", "world_size": 4, "files": {...}, "tensors": {...},
 *                      "meta": {...}, "host": {...}}
 *       files          {"rank-00000.data": 8192, ...}: with their sizes in bytes
 *       tensors        {"model.layers.0.w": {"dtype": "F32", "shape": [13, 5], "pieces": [...]}, ...}: dtypes are those
 *                      of safetensors; names are "model.<name>", "optimizer.<name>.exp_avg", ".exp_avg_sq"
 *       pieces         {"file": "rank-00000.data", "offset": 4096, "stored": 180, "bytes": 180, "codec": "none" or
 *                      "zstd", "xxh3": "0123456789abcdef", "begin": [4, 0], "size": [9, 5], "rank": 0}: the box [begin,
 *                      begin + size) of the tensor, row-major, `bytes` long, packed into `stored` bytes with that
 *                      XXH3-64. Boxes of a tensor do not overlap and cover it (in a host's part: some of it)
 *       meta           the caller's own object; absent if not given
 *       host           only in a host's part: {"number": 0, "of": ["host h1 (ranks 0-1)", ...]}
 *     commit.json      {"format": 3, "step": 1000, "manifest_bytes": 812, "manifest_xxh3": "0123456789abcdef"}
 *
 * A checkpoint is complete or does not exist: it is written as `step-%08d.tmp` and renamed at the end. If there is an
 * older one of the same step, the two exchange names. If the file system cannot exchange names, the older one is first
 * renamed to `step-%08d.old`, and counts under that name until the new one has its final name. io.h and
 * inject/save_points.h list every call. */
#ifndef TESS_CKPT_STORE_STORE_WRITE_H
#define TESS_CKPT_STORE_STORE_WRITE_H

#include <jansson.h>

#include "ckpt/catalog/catalog.h"
#include "ckpt/ckpt_hosts.h"
#include "ckpt/store/io.h"
#include "ckpt/store/tensor.h"

enum { TESS_STORE_FORMAT = 3, TESS_CKPT_PATH = 4096, TESS_STORE_PIECE_BYTES = 64 << 20 };

#define TESS_STORE_MANIFEST "manifest.json"
#define TESS_STORE_MARKER "commit.json"

typedef struct tess_store_options {
    tess_codec codec;  /* NONE or ZSTD; a piece that does not shrink is stored unpacked */
    bool direct;       /* bypass the page cache where the file system can */
    const tess_io *io; /* NULL: no hooks */
    /* tess_ckpt_save: the hosts, if `dir` is a separate folder on each; NULL: one folder for all */
    const tess_ckpt_hosts *hosts;
} tess_store_options;

/* Formats "<dir>/step-00000012<suffix>". TESS_E_INVALID: the path is too long, or the step is negative. */
tess_status tess_ckpt_folder(const char *dir, int64_t step, const char *suffix, char path[TESS_CKPT_PATH]);
/* Splits "DIR/step-00000012" into "DIR" and the step. Any other path is a DIR: trailing slashes are removed, and the
 * step is -1. TESS_E_INVALID: the path is too long. */
tess_status tess_ckpt_split_path(const char *path, char dir[TESS_CKPT_PATH], int64_t *step);
/* Finds the checkpoint of a step. If the save that was to replace it was killed, it may have its retired name. `io` may
 * be NULL. TESS_E_NOT_FOUND: there is none. Other errors: unknown. */
tess_status tess_ckpt_find(const tess_io *io, const char *dir, int64_t step, char path[TESS_CKPT_PATH]);

/* ---- Parts: what one writer wrote ---- */
/* A piece that is being written to a file. It receives its bytes in order. */
typedef struct tess_store_sink tess_store_sink;
tess_status tess_store_put(tess_store_sink *sink, const void *data, size_t size);

/* A box of a tensor to write. If it is empty, the tensor is only listed. */
typedef struct tess_store_piece {
    const char *name;  /* name in the checkpoint */
    const char *dtype; /* stored dtype: "F32" */
    bool rounds;       /* `data` is F32, stored as BF16 */
    int n_dims;
    int64_t dim[TESS_CATALOG_DIMS]; /* sizes of the whole tensor */
    tess_box box;                   /* box of tess_shape_atleast_1d */
    int rank;                       /* rank that has the box */
    const void *data;               /* the elements of `held`, row-major; NULL: `read` provides them */
    tess_box held;                  /* a box that contains `box` */
    /* Puts the elements of a part of `box` into the sink. */
    tess_status (*read)(void *self, const struct tess_store_piece *piece, const tess_box *part, tess_store_sink *sink);
    void *self;
} tess_store_piece;

/* Creates <dir> and an empty <dir>/step-%08d.tmp, after removing what killed saves left of that step. `folder` becomes
 * the path of the latter. */
tess_status tess_store_begin(const tess_io *io, const char *dir, int64_t step, char folder[TESS_CKPT_PATH]);

/* Writes <folder>/<file>: reserves space, writes the pieces, and syncs. Pieces are split at rows into at most
 * TESS_STORE_PIECE_BYTES, with at least one row each. *part becomes a new reference to {"files", "tensors"} as in the
 * manifest. `options` NULL: all zero. Threads may write different files at the same time if they share no `io`.
 * TESS_E_NO_SPACE, TESS_E_IO, TESS_E_NOMEM; the file may remain. */
tess_status tess_store_write_part(tess_mem *mem, const tess_store_options *options, const char *folder,
                                  const char *file, const tess_store_piece *pieces, int n, json_t **part);

/* ---- Commit: one process ---- */
typedef struct tess_store_facts {
    const json_t *meta; /* borrowed; may be NULL */
    int world_size;
    const json_t *host; /* borrowed: these are one host's parts, for its own folder; NULL: all parts */
} tess_store_facts;

/* Returns a new reference for facts.host; NULL: no memory. */
json_t *tess_store_describe_host(const tess_ckpt_hosts *hosts);

/* Writes manifest and marker for all parts, then gives the checkpoint its name. It replaces one of the same step.
 * TESS_E_INVALID: rows are missing (the message names the tensor). After a failure, call tess_store_abandon; older
 * checkpoints are untouched. */
tess_status tess_store_commit(const tess_io *io, const char *dir, int64_t step, json_t *const *parts, int n_parts,
                              const tess_store_facts *facts);
/* The two halves of tess_store_commit, for checkpoints that consist of several folders: none is shown before all are
 * sealed. */
tess_status tess_store_seal(const tess_io *io, const char *dir, int64_t step, json_t *const *parts, int n_parts,
                            const tess_store_facts *facts);
tess_status tess_store_show(const tess_io *io, const char *dir, int64_t step);

/* Cleans up after a failure: tries to remove <dir>/step-%08d.tmp. Returns `status`, and preserves its message. */
tess_status tess_store_abandon(const tess_io *io, const char *dir, int64_t step, tess_status status);

/* ---- Saving: one writer in any process, alone or with others ---- */
/* The content of a rank's file, rank-%05d.data. */
typedef struct tess_store_file {
    int rank, n;
    const tess_store_piece *pieces; /* (n) */
    const tess_io *io;              /* used instead of options->io */
} tess_store_file;

/* Callbacks that synchronise the writers of one checkpoint. */
typedef struct tess_store_peers {
    void *self;
    /* The first writer tells the others whether it has created the folder (`made`); they wait for it. */
    tess_status (*begin)(void *self, const char *folder, tess_status made);
    /* Every writer passes its part, or its failure (`made`). On the first writer `part` receives the parts of all. */
    tess_status (*collect)(void *self, tess_status made, json_t *part);
    /* Agrees on one status; NULL: only the first writer waits for the commit. */
    tess_status (*agree)(void *self, tess_status status);
} tess_store_peers;

typedef struct tess_store_writer {
    tess_mem *mem;
    const char *dir;
    int64_t step;
    const tess_store_options *options;
    tess_store_facts facts;
    const tess_store_file *files;  /* (n_files) the files to write */
    int n_files, n_threads;        /* number of threads that write the files */
    bool first;                    /* this writer creates the folder and commits what all wrote */
    bool reads_back;               /* this writer verifies its files before the commit */
    const tess_store_peers *peers; /* NULL: no other writers */
    uint64_t bytes;                /* out: total bytes of its files */
} tess_store_writer;

/* Saves a checkpoint: begins, writes the files, collects the parts and commits them. After a failure only an older
 * checkpoint of the step remains, unless only the last sync failed (the message says so). No folder is shown before all
 * writers that agree have sealed theirs. */
tess_status tess_store_save(tess_store_writer *writer);

/* ---- Looking ---- */
enum { TESS_STORE_ANY_STEP = -1 };

/* Checks the marker, the manifest's size and checksum, format and step, and that every file has its size. *manifest
 * becomes a new reference. `folder` comes from tess_ckpt_folder, or was renamed (TESS_STORE_ANY_STEP).
 *   TESS_E_NOT_FOUND         no such folder
 *   TESS_E_FORMAT            not complete, or damaged
 *   TESS_E_UNSUPPORTED       an older or newer format
 *   TESS_E_IO, TESS_E_NOMEM  it cannot be looked at now; its state is unknown */
tess_status tess_store_open_manifest(const char *folder, int64_t step, json_t **manifest);

#endif
