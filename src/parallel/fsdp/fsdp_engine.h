/* The interface between the library's own engine and tess_fsdp, in addition to the public contract (tessera/fsdp.h). */
#ifndef TESS_PARALLEL_FSDP_FSDP_ENGINE_H
#define TESS_PARALLEL_FSDP_FSDP_ENGINE_H

#include "base/os/phase_clock.h"
#include "device/stream.h"
#include "job/persist/persist.h"
#include "tessera/fsdp.h"

/* Conversions, additions, norms and updates run on `stream` (borrowed until destroy) instead of a stream of fsdp's
 * own, which has the runtime's threads. If the stream belongs to a device other than the host, shards, parameters
 * and gradients are in that device's memory and follow the order of `stream`. Call before materialize. The bits of
 * results do not depend on it. */
void tess_fsdp_set_stream(tess_fsdp *fsdp, tess_stream *stream);

/* Makes grad_norm cover the parameters of all ranks of `team` (borrowed until destroy), because ranks of a pipeline
 * hold other parameters in a tess_fsdp of their own. `team` contains whole data axes. Default: the ranks of this
 * mesh's data axes. Call before materialize. */
void tess_fsdp_set_norm_team(tess_fsdp *fsdp, tess_team *team);

/* Weights, sums and moments end with the process even if there is a store (base/mem/named.h), because the store
 * holds the state of another tess_fsdp. Call before materialize. */
void tess_fsdp_set_private(tess_fsdp *fsdp);

/* Whether units read the master weights in place. If so, nothing is gathered, and nothing can be gathered as fp8.
 * Known once offload is set. */
bool tess_fsdp_reads_masters(const tess_fsdp *fsdp);

/* Whether a parameter is gathered as fp8 codes. */
bool tess_fsdp_is_coded(const tess_fsdp *fsdp, int index);

/* The elements of a narrow parameter's shard (tess_param_desc.narrow), in param dtype; NULL: it is not narrow,
 * or this rank has nothing of its unit. */
void *tess_fsdp_narrow(const tess_fsdp *fsdp, int index);
/* The size of that memory in bytes. */
size_t tess_fsdp_narrow_bytes(const tess_fsdp *fsdp, int index);

/* The bytes of this rank's own rows in the form in which they are gathered: fp8 codes and narrow parameters. They
 * are part of the parameters' memory. */
size_t tess_fsdp_codes_bytes(const tess_fsdp *fsdp);

/* Sets the pools of this rank that are kept on disk (base/mem/named.h), as bits 1 << tess_pool: TESS_POOL_PARAMS,
 * GRADS and OPTIMIZER. Call before the first unit. The bits of results do not depend on it. */
void tess_fsdp_set_offload(tess_fsdp *fsdp, unsigned pools);
/* Bytes of these pools that should fit in memory for hooks and updates: the unit in use, the next one and the last
 * one. Call after the last unit. */
size_t tess_fsdp_resident_bytes(const tess_fsdp *fsdp, int64_t n_micro_batches, int n_tensors);
/* Bytes of these pools that one hook, or the update of `n_tensors` tensors, uses at the same time. Memory must hold
 * these whatever its limit is. */
size_t tess_fsdp_least_resident(const tess_fsdp *fsdp, int64_t n_micro_batches, int n_tensors);

/* ---- Shards in the memory of a device, and the host's copies of them ---- tess_fsdp_shard and
 * tess_optimizer_states return the host's copies of master weights and moments without updating them. If the shards
 * are on the host, the functions of this section do nothing. */
/* Copies to the device what the caller has changed in these copies. tess_fsdp_params_changed does it, too. */
tess_status tess_fsdp_upload(tess_fsdp *fsdp);
/* Copies the finished gradients to the host: until the next step tess_shard.grad is that copy instead of device
 * memory. The second function copies back what the caller has changed there. */
tess_status tess_fsdp_see_gradients(tess_fsdp *fsdp);
tess_status tess_fsdp_upload_gradients(tess_fsdp *fsdp);
/* Begins to copy weights and moments, which are those of `step`, into the memory that outlives the process, next to
 * those of the step before, which stay valid; nothing where there is no such memory. kept: waits until they are there.
 * The next keep overwrites those of the step before: no rank may need them any more. */
tess_status tess_fsdp_keep(tess_fsdp *fsdp, int64_t step);
tess_status tess_fsdp_kept(tess_fsdp *fsdp);
/* Restores the weights and moments of `step` that a predecessor of this process has kept. */
tess_status tess_fsdp_take_up(tess_fsdp *fsdp, int64_t step);

/* Restores the finished gradients of a step of n_micro_batches over all ranks. A predecessor of this process had
 * summed them, that is, it had completed step_end. Weights and sums lie in named memory (base/mem/named.h), which
 * must outlive a process. Not collective. */
tess_status tess_fsdp_find_gradients(tess_fsdp *fsdp, int64_t n_micro_batches);

/* Brings the master weights of parameter `index` from the rank of `team` that owns them to the one that has a copy
 * (tess_param_desc.elsewhere), whose shards have the same boxes. Call it between steps, after weights have changed.
 * The receiver's call is collective, and has an update's effect on gathered copies. */
tess_status tess_fsdp_send_weights(tess_fsdp *fsdp, int index, tess_team *team, int to, uint32_t tag);
tess_status tess_fsdp_receive_weights(tess_fsdp *fsdp, int index, tess_team *team, int from, uint32_t tag);

/* Frees the gathered copies that training does not need, after units were held all at once. Collective, between steps.
 */
tess_status tess_fsdp_trim(tess_fsdp *fsdp);

/* Gathers, reductions and waits switch the phase of `clock` (borrowed until destroy) and restore it afterwards. Call
 * before the first step. A call that fails leaves the clock in its phase, because phases are reported for successful
 * steps only. */
void tess_fsdp_set_clock(tess_fsdp *fsdp, tess_phase_clock *clock);

/* Returns the number of elements of a shard's box, and of one of its rows. */
int64_t tess_shard_count(const tess_shard *shard);
int64_t tess_shard_row(const tess_shard *shard);

/* Returns the team of ranks that hold the same rows of parameter `index` and the same optimizer state as this one,
 * bit for bit: replicas, and ranks of the axis "tp" if that axis does not split the parameter. NULL: only this rank
 * holds them. */
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

/* Finds the first gradient of the newest step that was not finite, among the rows that this rank sums. False: all
 * were finite, or the rank cannot be known (no peers, peers on other hosts, finite gradients whose sum overflows). */
bool tess_fsdp_find_bad_gradient(const tess_fsdp *fsdp, tess_fsdp_bad_gradient *bad);

/* ---- How much memory a tess_fsdp will take ---- */
/* Creates a plan: a tess_fsdp without ranks or weights. Its units can be added and its bytes counted, as for the
 * rank with shard `shard` (0 has the most rows) at position `tp` of n_tp; every other call is invalid. ranks_a_host:
 * number of consecutive ranks that share gathered copies. */
tess_status tess_fsdp_plan_create(tess_mem *mem, const tess_fsdp_policy *policy, int n_shards, int shard,
                                  int n_replicas, int n_tp, int tp, int ranks_a_host, tess_fsdp **fsdp);

typedef struct tess_fsdp_bytes {
    size_t params, grads, optimizer; /* bytes of this rank; optimizer: state and work space */
    size_t on_disk[TESS_POOL_COUNT]; /* further bytes, of tess_fsdp_set_offload's pools */
    size_t windows;                  /* windows of gradients; in the comm pool, as are the copies */
    size_t copies;                   /* gathered parameters; n_sharing ranks of a host share them */
    int n_sharing; /* number of consecutive ranks of the shard team: all of them, or a group of reshard_after_forward */
    size_t stashes; /* this rank's parts of copies, kept until backward; in the comm pool */
    size_t held;    /* further bytes if all units are held at once */
} tess_fsdp_bytes;

/* Returns the bytes at the peak of a step of n_micro_batches (counted over all ranks). open_unit: the unit whose
 * backward is open while others' run (a tied embedding); -1: none. */
tess_status tess_fsdp_plan_bytes(tess_fsdp *fsdp, const tess_optimizer_options *optimizer, int64_t n_micro_batches,
                                 int open_unit, tess_fsdp_bytes *bytes);

/* Elements of this rank. */
typedef struct tess_fsdp_counts {
    double held;            /* parameters that train */
    double primary, frozen; /* parameters that this rank saves: trainable ones, and frozen ones */
} tess_fsdp_counts;

tess_fsdp_counts tess_fsdp_plan_counts(const tess_fsdp *fsdp);

/* Returns the communication of the plan's units on one host. It is an upper bound, because a copy that is still
 * valid is not gathered again. */
typedef struct tess_fsdp_unit_costs {
    int64_t n_units;
    int64_t largest_bytes;       /* bytes of a unit's gathered parameters */
    int64_t gathers, reductions; /* collectives of a micro-batch */
} tess_fsdp_unit_costs;

tess_fsdp_unit_costs tess_fsdp_plan_units(const tess_fsdp *fsdp);

/* The bytes that this rank has moved so far. */
typedef struct tess_fsdp_traffic {
    uint64_t gathered_bytes; /* bytes that this rank reads and writes to gather parameters */
    uint64_t reduced_bytes;  /* bytes that this rank reads and writes to sum gradients */
    int64_t
        hidden_ns; /* time that ranks in lockstep would have waited for peers, minus the time that this rank waited */
} tess_fsdp_traffic;

tess_fsdp_traffic tess_fsdp_get_traffic(const tess_fsdp *fsdp);

#endif
