/* Not private: what the library's own engine sets and asks of tess_fsdp besides the public contract (tessera/fsdp.h).
 */
#ifndef TESS_PARALLEL_FSDP_FSDP_ENGINE_H
#define TESS_PARALLEL_FSDP_FSDP_ENGINE_H

#include "base/os/phase_clock.h"
#include "device/stream.h"
#include "job/persist/persist.h"
#include "tessera/fsdp.h"

/* Conversions, additions, norms and updates run on `stream` (borrowed until destroy) instead of a stream of fsdp's own,
 * which has the runtime's threads. If the stream belongs to a device that is not the host, its memory has the shards,
 * and parameters and gradients of units are memory of that device, in the order of `stream`. Call before materialize.
 * The bits do not depend on it. */
void tess_fsdp_set_stream(tess_fsdp *fsdp, tess_stream *stream);

/* grad_norm covers the parameters of all ranks of `team` (borrowed until destroy), which holds whole data axes; other
 * parameters are in the tess_fsdps of other ranks. Call before materialize. Unless set: of this mesh's data axes. */
void tess_fsdp_set_norm_team(tess_fsdp *fsdp, tess_team *team);

/* Weights, sums and moments end with the process, even where there is a store (base/mem/named.h): it has those of
 * another tess_fsdp. Call before materialize. */
void tess_fsdp_set_private(tess_fsdp *fsdp);

/* Whether units read the master weights in place: then nothing is gathered, and nothing can be gathered as fp8. Known
 * once offload is set. */
bool tess_fsdp_reads_masters(const tess_fsdp *fsdp);

/* Whether a parameter is gathered as fp8 codes. */
bool tess_fsdp_is_coded(const tess_fsdp *fsdp, int index);

/* The elements of a narrow parameter's shard (tess_param_desc.narrow), in param dtype; NULL: it is not narrow,
 * or this rank has nothing of its unit. */
void *tess_fsdp_narrow(const tess_fsdp *fsdp, int index);
/* The size of that memory in bytes. */
size_t tess_fsdp_narrow_bytes(const tess_fsdp *fsdp, int index);

/* The part of the parameters' memory that holds own rows in the form in which they are gathered: codes, and narrow
 * parameters. */
size_t tess_fsdp_codes_bytes(const tess_fsdp *fsdp);

/* Bits 1 << tess_pool: which of TESS_POOL_PARAMS, GRADS and OPTIMIZER the memory of this rank has on disk
 * (base/mem/named.h). Call before the first unit. The bits of results do not depend on it. */
void tess_fsdp_set_offload(tess_fsdp *fsdp, unsigned pools);
/* Bytes of them that hooks and updates should find room for in memory: the unit in use, the next and the last. Call
 * after the last unit. */
size_t tess_fsdp_resident_bytes(const tess_fsdp *fsdp, int64_t n_micro_batches, int n_tensors);
/* The bytes of them that one hook, or the update of `n_tensors` tensors, uses at once: memory holds these whatever its
 * bound. */
size_t tess_fsdp_least_resident(const tess_fsdp *fsdp, int64_t n_micro_batches, int n_tensors);

/* ---- Shards in the memory of a device: what the host has of them ----
 * tess_fsdp_shard and tess_optimizer_states give the host's copy of master weights and moments, as they are. All of
 * these do nothing where the host has the shards. */
/* Copies to the device what the caller has changed in these copies. tess_fsdp_params_changed does that, too. */
tess_status tess_fsdp_upload(tess_fsdp *fsdp);
/* tess_shard.grad is a copy on the host from here on, until the next step; before, it is memory of the device. And what
 * the caller has changed there goes back. */
tess_status tess_fsdp_see_gradients(tess_fsdp *fsdp);
tess_status tess_fsdp_upload_gradients(tess_fsdp *fsdp);
/* Begins to copy weights and moments, which are those of `step`, into the memory that outlives the process, next to
 * those of the step before, which stay valid; nothing where there is no such memory. kept: waits until they are there.
 * The next keep overwrites those of the step before: no rank may need them any more. */
tess_status tess_fsdp_keep(tess_fsdp *fsdp, int64_t step);
tess_status tess_fsdp_kept(tess_fsdp *fsdp);
/* Weights and moments are those of `step`, which a predecessor of this process has kept. */
tess_status tess_fsdp_take_up(tess_fsdp *fsdp, int64_t step);

/* Restores the finished gradients of a step of n_micro_batches, over all ranks, that a predecessor of this process had
 * summed: it had reached the end of step_end. Weights and sums lie in named memory (base/mem/named.h), which must
 * outlive a process. Not collective. */
tess_status tess_fsdp_find_gradients(tess_fsdp *fsdp, int64_t n_micro_batches);

/* Brings the master weights of parameter `index` from the rank of `team` that owns them to the one that has a copy
 * (tess_param_desc.elsewhere), whose shards have the same boxes. Call it between steps, after weights have changed.
 * The receiver's call is collective, and has an update's effect on gathered copies. */
tess_status tess_fsdp_send_weights(tess_fsdp *fsdp, int index, tess_team *team, int to, uint32_t tag);
tess_status tess_fsdp_receive_weights(tess_fsdp *fsdp, int index, tess_team *team, int from, uint32_t tag);

/* Frees the gathered copies that training does not need, after units were held all at once. Collective, between steps.
 */
tess_status tess_fsdp_trim(tess_fsdp *fsdp);

/* Gathers, reductions and waits switch `clock` (borrowed until destroy) and back. Call before the first step. A call
 * that fails leaves the clock in its phase: phases are reported for successful steps only. */
void tess_fsdp_set_clock(tess_fsdp *fsdp, tess_phase_clock *clock);

/* The elements of a shard's box, and of one of its rows. */
int64_t tess_shard_count(const tess_shard *shard);
int64_t tess_shard_row(const tess_shard *shard);

/* The ranks that hold the same rows of parameter `index` as this one, and its optimizer state, bit for bit: replicas,
 * and ranks of the axis "tp" if it does not cut the parameter. NULL: this rank is the only one. */
tess_team *tess_fsdp_holders(const tess_fsdp *fsdp, int index);

/* Compares the gathered copy of parameter `index` with the rounded master weights, in the rows that this rank writes.
 * *at: the first element that differs; -1: none, or no copy is in use. Call between steps. */
tess_status tess_fsdp_copy_differs(tess_fsdp *fsdp, int index, int64_t *at);

/* A gradient of one rank that was not finite. */
typedef struct tess_fsdp_bad_gradient {
    const char *param; /* lives as long as the fsdp */
    int rank,
        n_ranks;   /* first rank of the job whose gradient was not finite at this place, and the number of such ranks */
    int micro;     /* their local micro-batch */
    int64_t order; /* number among all reductions, the same on all ranks of a replica */
    int64_t row, column;     /* place in the whole parameter */
    int64_t n_bad, n_values; /* counts of that rank, over the rows of the parameter that this rank sums at a time */
    double value;
} tess_fsdp_bad_gradient;

/* The first of the newest step, among the rows that this rank sums. False: all were finite, or it cannot be known (no
 * peers, peers on other hosts, finite gradients whose sum is too large). */
bool tess_fsdp_find_bad_gradient(const tess_fsdp *fsdp, tess_fsdp_bad_gradient *bad);

/* ---- How much memory a tess_fsdp will take ---- */
/* One that is nobody's: units can be added to it, as to that of a rank with shard `shard` (0 has the most rows), at
 * place `tp` of n_tp, and its bytes counted; nothing else. ranks_a_host: consecutive ranks that share gathered copies.
 */
tess_status tess_fsdp_plan_create(tess_mem *mem, const tess_fsdp_policy *policy, int n_shards, int shard,
                                  int n_replicas, int n_tp, int tp, int ranks_a_host, tess_fsdp **fsdp);

typedef struct tess_fsdp_bytes {
    size_t params, grads, optimizer; /* bytes of this rank; optimizer: state and work space */
    size_t on_disk[TESS_POOL_COUNT]; /* further bytes, of tess_fsdp_set_offload's pools */
    size_t windows;                  /* windows of gradients; in the comm pool, as are the copies */
    size_t copies;                   /* gathered parameters: once for those of n_sharing ranks on a host */
    int n_sharing;                   /* consecutive ranks of the shard team: all, or a group of reshard_after_forward */
    size_t stashes;                  /* this rank's parts of copies, kept until backward; in the comm pool */
    size_t held;                     /* further bytes if all units are held at once */
} tess_fsdp_bytes;

/* The bytes at the peak of a step of n_micro_batches over all ranks. open_unit: the unit whose backward is open while
 * others' run (a tied embedding); -1: none. */
tess_status tess_fsdp_plan_bytes(tess_fsdp *fsdp, const tess_optimizer_options *optimizer, int64_t n_micro_batches,
                                 int open_unit, tess_fsdp_bytes *bytes);

/* Elements of this rank. */
typedef struct tess_fsdp_counts {
    double held;            /* parameters that train */
    double primary, frozen; /* parameters that it saves: those that train, and those that do not */
} tess_fsdp_counts;

tess_fsdp_counts tess_fsdp_plan_counts(const tess_fsdp *fsdp);

/* The cost of its units on one host. It is an upper bound: a copy that is still there is not gathered again. */
typedef struct tess_fsdp_unit_costs {
    int64_t n_units;
    int64_t largest_bytes;       /* bytes of a unit's gathered parameters */
    int64_t gathers, reductions; /* collectives of a micro-batch */
} tess_fsdp_unit_costs;

tess_fsdp_unit_costs tess_fsdp_plan_units(const tess_fsdp *fsdp);

/* The bytes that this rank has moved so far. */
typedef struct tess_fsdp_traffic {
    uint64_t gathered_bytes; /* read and written by it to gather parameters */
    uint64_t reduced_bytes;  /* read and written by it to sum gradients */
    int64_t hidden_ns; /* time that ranks in lockstep would have waited for peers, less the time that this one did */
} tess_fsdp_traffic;

tess_fsdp_traffic tess_fsdp_get_traffic(const tess_fsdp *fsdp);

#endif
