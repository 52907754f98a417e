/* Teams of ranks and their collectives.
 *
 * Every collective is asynchronous: it returns a tess_work, for which the caller must wait (or which it must
 * cancel). If `work` is NULL, the call itself waits. Until then the buffers belong to the operation.
 *
 * Every rank of the team must call the same operations in the same order with matching arguments. Each call carries
 * a fingerprint (team, sequence number, operation, dtype, counts, reduce-op, root, tag), which is compared between
 * the ranks.
 *
 * Sums are a binary tree over the team's ranks (neighbours first: ((0+1)+(2+3))+...), in float32 for the 16-bit
 * types. So the bits depend only on the data and the number of ranks.
 *
 * If some ranks swap two operations with equal fingerprints, different labels (tess_team_label) always reveal it.
 * Without labels, the call sites reveal it once their order is known: all ranks have called from these sites
 * together, and the next site has always been the same one. The order is unknown in a first step, at branches that
 * depend on the rank or on data, and inside a wrapper or a foreign-function interface: there a swap is not detected.
 *
 * Errors of every collective. After the last four the team is broken: further calls return the same error.
 *   TESS_E_INVALID: a bad argument; only the caller receives it
 *   TESS_E_MISMATCH: the ranks' calls differ; the message names ranks and calls
 *   TESS_E_PEER_LOST: a rank died or left the job; the message names the rank, its signal or exit code, and its last
 *     operation
 *   TESS_E_TIMEOUT: the message names the ranks that did not call
 *   TESS_E_CANCELLED: a rank cancelled an operation; the message names the rank
 *
 * A rank has at most 15 collectives of a team in flight: the next call first waits for the oldest one. A team is not
 * thread-safe; different teams may be used from different threads. */
#ifndef TESSERA_COMM_H
#define TESSERA_COMM_H

#include "tessera/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tess_work tess_work;

TESS_API int tess_team_rank(const tess_team *team); /* this rank's number inside the team */
TESS_API int tess_team_size(const tess_team *team);
TESS_API int tess_team_global_rank(const tess_team *team, int team_rank);
TESS_API int tess_team_host(const tess_team *team, int team_rank); /* number of the host on which a team rank runs */
TESS_API bool tess_team_is_local(const tess_team *team);           /* whether all ranks are on one host */
TESS_API const char *tess_team_name(const tess_team *team);
TESS_API tess_runtime *tess_team_runtime(const tess_team *team);
TESS_API void tess_team_set_timeout(tess_team *team, double seconds);

/* Labels this rank's next operations on the team with a word of up to nine letters and a number from 0 (-1: none), such
 * as "layers", 12. A longer word is cut, and messages show that. The label is part of the fingerprint: operations that
 * differ only in it get TESS_E_MISMATCH. Messages include it. NULL (the default) removes it. Costs one store. */
TESS_API void tess_team_label(tess_team *team, const char *word, int64_t number);

/* Splits `parent`. Ranks that pass the same `color` (>= 0) form a team, ordered by `key`, then by parent rank. Color
 * -1 returns NULL. `name` is for messages ("dp_shard"). Collective over `parent`. */
TESS_API tess_status tess_team_split(tess_team *parent, int color, int key, const char *name, tess_team **team);
TESS_API void tess_team_destroy(tess_team **team);

/* out = concatenation of in_r over ranks r (n elements each). `in` may be this rank's block of `out`; otherwise the
 * buffers may not overlap. */
TESS_API tess_status tess_all_gather(tess_team *team, const void *in, void *out, size_t n, tess_dtype dtype,
                                     tess_work **work);

/* out (n) = op over ranks r of in_r[rank * n + i]; in holds size * n elements. The buffers may not overlap. */
TESS_API tess_status tess_reduce_scatter(tess_team *team, const void *in, void *out, size_t n, tess_dtype dtype,
                                         tess_op op, tess_work **work);

/* out (n) = op over ranks of in (n); in == out is allowed. */
TESS_API tess_status tess_all_reduce(tess_team *team, const void *in, void *out, size_t n, tess_dtype dtype, tess_op op,
                                     tess_work **work);

TESS_API tess_status tess_broadcast(tess_team *team, void *buffer, size_t n, tess_dtype dtype, int root,
                                    tess_work **work);

/* Sends block r of `in`, n elements, to rank r. The buffers may not overlap. */
TESS_API tess_status tess_all_to_all(tess_team *team, const void *in, void *out, size_t n, tess_dtype dtype,
                                     tess_work **work);

/* all_to_all with blocks of different sizes. Sends in_counts[r] elements from in + in_offsets[r] to rank r, whose
 * out_counts must agree. Offsets are in elements. The four arrays (one entry per rank of the team) are borrowed
 * until the work completes. */
TESS_API tess_status tess_all_to_all_v(tess_team *team, const void *in, const size_t *in_counts,
                                       const size_t *in_offsets, void *out, const size_t *out_counts,
                                       const size_t *out_offsets, tess_dtype dtype, tess_work **work);

/* gather: root's `out` receives the concatenation; other ranks pass NULL. Root's `in` may be its own block of `out`.
 * scatter: the reverse. Root's `in` and `out` may not overlap. */
TESS_API tess_status tess_gather(tess_team *team, const void *in, void *out, size_t n, tess_dtype dtype, int root,
                                 tess_work **work);
TESS_API tess_status tess_scatter(tess_team *team, const void *in, void *out, size_t n, tess_dtype dtype, int root,
                                  tess_work **work);

/* Point to point. Messages with the same (sender, receiver, tag) arrive in order. */
TESS_API tess_status tess_send(tess_team *team, const void *in, size_t n, tess_dtype dtype, int to, uint32_t tag,
                               tess_work **work);
TESS_API tess_status tess_recv(tess_team *team, void *out, size_t n, tess_dtype dtype, int from, uint32_t tag,
                               tess_work **work);

TESS_API tess_status tess_barrier(tess_team *team, tess_work **work);

/* ---- Coalesced forms for sharded parameters ----
 * A piece is one tensor inside a buffer: `n_rows` rows of `row` elements, from element `offset` on. Rank r owns the
 * rows that tess_shard_rows(n_rows, size, r) returns. A rank's shard is its own rows of all pieces, packed in order.
 * `shard_offset` is the start of the piece in the shard, in elements. */
typedef struct tess_piece {
    size_t offset; /* start of the whole tensor, in elements of the full buffer */
    size_t n_rows;
    size_t row;
    size_t shard_offset; /* start of this rank's rows, in elements of the shard */
} tess_piece;

/* full[piece rows of r] = shard_r, converted from `in_dtype` (F32, or the same) to `out_dtype`. If `full` is memory
 * from tess_shared_alloc, every rank writes only the rows that it owns, and nothing is copied. The call itself
 * writes them, so no rank may still read the old content when any rank calls. The pieces are borrowed until the work
 * completes. */
TESS_API tess_status tess_all_gather_pieces(tess_team *team, const void *shard, tess_dtype in_dtype, void *full,
                                            tess_dtype out_dtype, const tess_piece *pieces, size_t n_pieces,
                                            tess_work **work);

/* shard[rows of this rank] (+)= sum of full_r[the same rows] over ranks r, in the order of the tree and in float32.
 * With `accumulate` the old shard is added last: shard = tree + shard. `full` (F32 or BF16) is fastest in memory
 * from tess_window_alloc, which peers read in place. It may be written again once the work is complete on this rank. */
TESS_API tess_status tess_reduce_scatter_pieces(tess_team *team, const void *full, tess_dtype in_dtype, float *shard,
                                                const tess_piece *pieces, size_t n_pieces, bool accumulate,
                                                tess_work **work);

/* ---- Work handles ---- */
/* Waits until the operation is complete, then frees the handle and nulls it. timeout_s <= 0: the team's deadline. */
TESS_API tess_status tess_work_wait(tess_work **work, double timeout_s);
/* Whether tess_work_wait would return at once. */
TESS_API bool tess_work_done(tess_work *work);
/* Cancels the operation. From then on the team is broken. In a job over several hosts, all of this rank's teams that
 * span hosts are broken, too: MPI cannot cancel messages in flight, and is not called again. */
TESS_API void tess_work_cancel(tess_work **work);

#ifdef __cplusplus
}
#endif

#endif
