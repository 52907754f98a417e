/* tess_dtensor: a global tensor of which every rank of a mesh holds a box.
 *
 * A tess_spec describes, for each axis of the mesh, what ranks that differ on it hold: the same elements, chunks of
 * one dimension, or addends of a sum. The spec determines every rank's box (tess_spec_box). Chunks are those of
 * torch.chunk, so placements and boxes are those of PyTorch's DTensor, including uneven and empty shards.
 *
 * Source: PyTorch's DTensor, https://docs.pytorch.org/docs/stable/distributed.tensor.html. */
#ifndef TESSERA_DTENSOR_H
#define TESSERA_DTENSOR_H

#include "tessera/mesh.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum tess_place_kind {
    TESS_REPLICATE, /* all ranks of the axis hold the same elements */
    TESS_SHARD,     /* each rank holds its chunk of dimension `dim` (tess_shard_rows) */
    TESS_PARTIAL    /* each rank holds an addend: the value is their sum */
} tess_place_kind;

typedef struct tess_place {
    tess_place_kind kind;
    int dim; /* the dimension that TESS_SHARD cuts */
} tess_place;

typedef struct tess_spec {
    tess_shape shape; /* shape of the whole tensor */
    int n_axes;       /* number of axes of the mesh */
    tess_place place[TESS_MESH_MAX_AXES];
    /* If several axes cut one dimension, the axis with the lowest `order` cuts first; among equals, the one with the
     * lowest number. The next axis cuts the chunks of the first, and so on. All 0 is PyTorch's order. */
    uint8_t order[TESS_MESH_MAX_AXES];
} tess_spec;

/* Checks a spec. TESS_E_INVALID: an invalid shape, another number of axes than `mesh` has, an unknown placement, or
 * a dimension that the tensor does not have. The message names the axis. */
TESS_API tess_status tess_spec_check(const tess_spec *spec, const tess_mesh *mesh);

/* Returns the box of the rank at coordinates `at` in a mesh of `sizes` (one of each per axis). Pure function. */
TESS_API tess_box tess_spec_box(const tess_spec *spec, const int *sizes, const int *at);

/* Writes the placements, such as "[Shard(0), Replicate]". Returns text. */
TESS_API const char *tess_spec_format(const tess_spec *spec, char *text, size_t size);

/* ---- Moves of a change of placements ---- */
typedef enum tess_move_kind {
    TESS_MOVE_SLICE,          /* R -> S: each rank keeps its chunk */
    TESS_MOVE_PAD,            /* R or S -> P: elements of other ranks become zeros */
    TESS_MOVE_GATHER,         /* S -> R: all-gather */
    TESS_MOVE_REDUCE,         /* P -> R: all-reduce */
    TESS_MOVE_REDUCE_SCATTER, /* P -> S: reduce-scatter */
    TESS_MOVE_EXCHANGE        /* S -> S of another dimension: all-to-all */
} tess_move_kind;

/* One collective (or none) along one axis. */
typedef struct tess_move {
    tess_move_kind kind;
    int axis;
    tess_place from, to;
    /* Elements that this rank receives from others. Of N elements over W ranks, the average is N (W-1)/W for a
     * gather or a reduce-scatter, twice that for a reduce, N (W-1)/W^2 for an exchange, and 0 otherwise */
    int64_t received;
} tess_move;

enum { TESS_MAX_MOVES = 2 * TESS_MESH_MAX_AXES };

/* Lists the moves from one spec to another of the same shape, in order, as seen by the rank at `at`. Returns their
 * number, at most TESS_MAX_MOVES. If several axes cut one dimension, they are gathered from the last cut back to the
 * first one that changes. Pure function. */
TESS_API int tess_spec_moves(const tess_spec *from, const tess_spec *to, const int *sizes, const int *at,
                             tess_move moves[TESS_MAX_MOVES]);

TESS_API const char *tess_move_name(tess_move_kind kind); /* "all_gather" */

/* ---- Tensors ---- */
typedef struct tess_dtensor tess_dtensor;

/* All calls from here to tess_dtensor_check are collective over the mesh, except destroy and the functions that only
 * return a property. Every rank passes the same arguments; only data differs. The mesh is borrowed and must outlive
 * its tensors; data is copied. Memory is counted in TESS_POOL_MISC. Errors: TESS_E_INVALID, TESS_E_NOMEM, and those
 * of collectives. Only one thread at a time may use the tensors of a mesh. */

/* Creates a tensor of zeros. */
TESS_API tess_status tess_dtensor_create(tess_mesh *mesh, const tess_spec *spec, tess_dtype dtype, tess_dtensor **out);

/* Creates a tensor from each rank's part: elements `local` of shape `shape`. `place` has one entry per axis of the
 * mesh. The global shape is inferred.
 * TESS_E_INVALID on all ranks: the local shapes are not the chunks of one tensor; the message names the rank, its
 * shape and the expected shape */
TESS_API tess_status tess_dtensor_from_local(tess_mesh *mesh, const tess_shape *shape, const tess_place *place,
                                             tess_dtype dtype, const void *local, tess_dtensor **out);

/* Creates a tensor from the whole tensor, which only the mesh's first rank must have (other ranks may pass NULL). On
 * an axis with TESS_PARTIAL, the first rank gets the values and the others get zeros. */
TESS_API tess_status tess_dtensor_distribute(tess_mesh *mesh, const tess_spec *spec, tess_dtype dtype, const void *full,
                                             tess_dtensor **out);

TESS_API void tess_dtensor_destroy(tess_dtensor **tensor);

/* Returns the elements of this rank's box, row-major. They belong to the tensor, and may be written. */
TESS_API void *tess_dtensor_local(tess_dtensor *tensor);
TESS_API const tess_box *tess_dtensor_box(const tess_dtensor *tensor);
TESS_API const tess_spec *tess_dtensor_spec(const tess_dtensor *tensor);
TESS_API tess_dtype tess_dtensor_dtype(const tess_dtensor *tensor);

/* Reports what a redistribution has done. */
typedef struct tess_redistribution {
    int n_moves;
    tess_move moves[TESS_MAX_MOVES];
    /* Bytes that this rank received from others, counted from the collectives' arguments */
    size_t bytes[TESS_MAX_MOVES];
    double seconds[TESS_MAX_MOVES];
} tess_redistribution;

/* Creates a tensor with the same values and other placements (`to` has the same shape). Sums are those of
 * tess_all_reduce; float16 and bfloat16 are rounded once for each axis. `report` may be NULL. */
TESS_API tess_status tess_dtensor_redistribute(const tess_dtensor *tensor, const tess_spec *to,
                                               tess_redistribution *report, tess_dtensor **out);

/* Writes the whole tensor to `full` on every rank. */
TESS_API tess_status tess_dtensor_full(const tess_dtensor *tensor, void *full);

/* out (m, n) = a (m, k) b (k, n), float32 or bfloat16. For each axis it chooses the cheapest of these placements,
 *     S(0) R -> S(0)    R S(1) -> S(1)    S(1) S(0) -> P    R R -> R    P R -> P    R P -> P
 * and redistributes the operands to it. Without S(1) S(0) and P the bits are those of one rank. */
TESS_API tess_status tess_dtensor_matmul(const tess_dtensor *a, const tess_dtensor *b, tess_dtensor **out);

/* out (n, m) = the transpose of a (m, n). Its placements follow from those of a, so nothing is sent between ranks.
 * With it the gradients of c = a b are products, too; a redistribution gives them the operands' placements:
 *     da = dc transpose(b)    db = transpose(a) dc */
TESS_API tess_status tess_dtensor_transpose(const tess_dtensor *a, tess_dtensor **out);

/* out = a + b, and out = a * b, element by element, float32 or bfloat16, for operands of one shape. For each axis they
 * choose the cheapest of these placements:
 *     S(d) S(d) -> S(d)    R R -> R    and for a sum P P -> P, for a product P R -> P, R P -> P. */
TESS_API tess_status tess_dtensor_add(const tess_dtensor *a, const tess_dtensor *b, tess_dtensor **out);
TESS_API tess_status tess_dtensor_multiply(const tess_dtensor *a, const tess_dtensor *b, tess_dtensor **out);

/* ---- Functions for one rank's part ---- */
/* A function that reads this rank's part of the operands (tess_dtensor_local, tess_dtensor_box) and writes this
 * rank's part of `out`, whose elements are 0 before. The operands are copies, which it may change. */
typedef tess_status (*tess_local_fn)(void *context, tess_dtensor *const *in, int n_in, tess_dtensor *out);

/* Redistributes operands in[i] (1 to 16 of them) to placements in_place[i] (one entry per axis of the mesh, order
 * 0), and calls `fn` on every rank. *out is the tensor of spec `to` that `fn` has written. All operands must be on
 * one mesh. If `fn` fails on one rank, all ranks fail with its status. Source: PyTorch's local_map. */
TESS_API tess_status tess_dtensor_map(const tess_dtensor *const *in, const tess_place *const *in_place, int n_in,
                                      tess_local_fn fn, void *context, const tess_spec *to, tess_dtype dtype,
                                      tess_dtensor **out);

/* ---- Inspection ---- */
/* Checks that replicas are equal. TESS_E_MISMATCH on all ranks: ranks that should hold the same elements differ in a
 * bit; the message names the first two of them. */
TESS_API tess_status tess_dtensor_check(const tess_dtensor *tensor);

/* Writes as text which rank holds which part:
 *     [1024, 512] float32, [Shard(0), Replicate] over mesh 2 x 2 (dp, cp), 1.00 MiB a rank
 *       rank 0 (0, 0)  [0, 512) x [0, 512)     ##########..........
 * The bar shows the dimension that is cut first. Returns the length, like snprintf. Not collective. */
TESS_API int tess_dtensor_format(const tess_dtensor *tensor, char *text, size_t size);

#ifdef __cplusplus
}
#endif

#endif
