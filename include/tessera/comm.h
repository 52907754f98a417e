/* Teams of ranks and their collectives.
 *
 * Every collective is asynchronous: it returns a tess_work that the caller must wait on (or cancel); a NULL `work`
 * argument means "wait here". Buffers belong to the operation until then. Every rank of the team must call the same
 * operations in the same order with matching arguments; each call carries a fingerprint (team, sequence number,
 * operation, dtype, counts, reduce-op, root, tag) that is checked when ranks meet. Sums are a binary tree over the
 * team's ranks (neighbours first: ((0+1)+(2+3))+...), in float32 for the 16-bit types, so the bits depend on nothing
 * but the data and the number of ranks.
 *
 * Some ranks may swap two operations with equal fingerprints. Different labels (tess_team_label) always reveal this.
 * Without labels the call sites reveal it once the order is known: all ranks have called from these sites together, and
 * after the site before them always from the same next one. No order is known in a first step, at branches that depend
 * on the rank or on data, and behind one wrapper or foreign-function interface: there a swap goes unnoticed.
 *
 * Errors of every collective: TESS_E_INVALID (bad argument, on the caller alone), TESS_E_MISMATCH (the ranks'
 * calls differ; the message names ranks and calls), TESS_E_PEER_LOST (a rank died or left the job; the message names
 * the rank, its signal or exit code, and its last operation), TESS_E_TIMEOUT (the message names the ranks that did not
 * come), TESS_E_CANCELLED (a rank gave up an operation; the message names the rank). After the last four the team is
 * broken: further calls return the same error. A rank has at most 15 collectives of a team in flight: the next call
 * first waits for the oldest. Not thread-safe per team; distinct teams may be used from distinct threads. */
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
TESS_API int tess_team_host(const tess_team *team, int team_rank); /* number of the host that a team rank runs on */
TESS_API bool tess_team_is_local(const tess_team *team);           /* all ranks are on one host */
TESS_API const char *tess_team_name(const tess_team *team);
TESS_API tess_runtime *tess_team_runtime(const tess_team *team);
TESS_API void tess_team_set_timeout(tess_team *team, double seconds);

/* Labels this rank's next operations on the team with a word of up to nine letters and a number from 0 (-1: none), such
 * as "layers", 12. A longer word is cut, and messages show that. The label is part of the fingerprint: operations that
 * differ only in it get TESS_E_MISMATCH. Messages include it. NULL (the default) removes it. Costs one store. */
TESS_API void tess_team_label(tess_team *team, const char *word, int64_t number);

/* Splits `parent`: ranks that pass the same `color` (>= 0) form a team, ordered by `key`, then by parent rank; color -1
 * gets NULL. Collective over `parent`. `name` is for messages ("dp_shard"). */
TESS_API tess_status tess_team_split(tess_team *parent, int color, int key, const char *name, tess_team **team);
TESS_API void tess_team_destroy(tess_team **team);

/* out = concatenation over ranks r of in_r (n elements each). `in` may be this rank's block of `out`; otherwise
 * the buffers may not overlap. */
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

/* Block r of `in` goes to rank r, n elements each. The buffers may not overlap. */
TESS_API tess_status tess_all_to_all(tess_team *team, const void *in, void *out, size_t n, tess_dtype dtype,
                                     tess_work **work);

/* Uneven all_to_all: in_counts[r] elements from in + in_offsets[r] go to rank r, whose out_counts must agree. Offsets
 * are in elements.
 * The four arrays (size of the team each) are borrowed until the work completes. */
TESS_API tess_status tess_all_to_all_v(tess_team *team, const void *in, const size_t *in_counts,
                                       const size_t *in_offsets, void *out, const size_t *out_counts,
                                       const size_t *out_offsets, tess_dtype dtype, tess_work **work);

/* gather: root's `out` gets the concatenation; other ranks pass NULL. Root's `in` may be its own block of `out`.
 * scatter: the reverse. Root's `in` and `out` may not overlap. */
TESS_API tess_status tess_gather(tess_team *team, const void *in, void *out, size_t n, tess_dtype dtype, int root,
                                 tess_work **work);
TESS_API tess_status tess_scatter(tess_team *team, const void *in, void *out, size_t n, tess_dtype dtype, int root,
                                  tess_work **work);

/* Point to point. Messages arrive in order per (sender, receiver, tag). */
TESS_API tess_status tess_send(tess_team *team, const void *in, size_t n, tess_dtype dtype, int to, uint32_t tag,
                               tess_work **work);
TESS_API tess_status tess_recv(tess_team *team, void *out, size_t n, tess_dtype dtype, int from, uint32_t tag,
                               tess_work **work);

TESS_API tess_status tess_barrier(tess_team *team, tess_work **work);

/* ---- Coalesced forms for sharded parameters ----
 * A piece is one tensor inside a buffer: `n_rows` rows of `row` elements from element `offset` on, of which rank r owns
 * the rows that tess_shard_rows(n_rows, size, r) says. A rank's own rows of all pieces, packed one after the other in
 * order, are its shard (`shard_offset` is where this piece begins in it, in elements). */
typedef struct tess_piece {
    size_t offset; /* beginning of the whole tensor, in elements of the full buffer */
    size_t n_rows;
    size_t row;
    size_t shard_offset; /* beginning of this rank's rows, in elements of the shard */
} tess_piece;

/* full[piece rows of r] = shard_r, converted from `in_dtype` (F32, or the same) to `out_dtype`.
 * When `full` is memory from tess_shared_alloc, every rank writes only the rows that it owns and nothing is copied. The
 * call itself writes them: no rank may still read the old content when any rank calls. The pieces are borrowed until
 * the work completes. */
TESS_API tess_status tess_all_gather_pieces(tess_team *team, const void *shard, tess_dtype in_dtype, void *full,
                                            tess_dtype out_dtype, const tess_piece *pieces, size_t n_pieces,
                                            tess_work **work);

/* shard[rows of this rank] (+)= sum over ranks r, as the tree, of full_r[the same rows], in float32.
 * With `accumulate` the old shard is added last: shard = tree + shard. `full` (F32 or BF16) is fastest in memory
 * from tess_window_alloc, which peers read in place. It may be written again once the work is complete on this rank. */
TESS_API tess_status tess_reduce_scatter_pieces(tess_team *team, const void *full, tess_dtype in_dtype, float *shard,
                                                const tess_piece *pieces, size_t n_pieces, bool accumulate,
                                                tess_work **work);

/* ---- Work handles ---- */
/* Waits until the operation is complete, frees the handle and nulls it; timeout_s <= 0 takes the team's deadline. */
TESS_API tess_status tess_work_wait(tess_work **work, double timeout_s);
/* True when tess_work_wait would return at once. */
TESS_API bool tess_work_done(tess_work *work);
/* Cancels the operation. The team is broken from then on. In a job over several hosts, all of this rank's teams that
 * span hosts break too: MPI cannot take back messages in flight, and is not called again. */
TESS_API void tess_work_cancel(tess_work **work);

#ifdef __cplusplus
}
#endif

#endif
