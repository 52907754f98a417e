/* The functions of an optimizer for other modules of the library, besides its public contract. */
#ifndef TESS_OPTIM_OPTIM_INTERNAL_H
#define TESS_OPTIM_OPTIM_INTERNAL_H

#include "device/stream.h"
#include "job/persist/persist.h"
#include "tessera/optim.h"

/* Calls the products that Muon takes of a matrix (rows, columns) on a device that computes nothing (dry_device.h),
 * which is how much work space they ask for. */
tess_status tess_muon_ask(tess_stream *stream, int64_t rows, int64_t columns);

/* The owner of the optimizer's spans registers here, and can ask later whether the state belongs to its parameters. */
void tess_optimizer_set_owner(tess_optimizer *optimizer, const void *owner);
bool tess_optimizer_is_of(const tess_optimizer *optimizer, const void *owner);

/* Matrices whose turn it is: rank i of the exchange computes on the i-th. */
typedef struct optim_turn {
    const int *which; /* (n) spans */
    int n;
    float *const *part; /* (n) this rank's elements of each */
    float *whole;       /* the matrix of this rank's number, if there is one */
    float *room;        /* room of the same size, for the exchange to use */
} optim_turn;

/* How ranks that have parts of the same matrices put them together: gather fills `whole` from all ranks' parts, scatter
 * fills their parts from it. Collective, in the order of calls of a step. */
typedef struct optim_exchange {
    void *self;
    int n_ranks, rank; /* 1 and 0: every span is whole */
    tess_status (*gather)(void *self, const optim_turn *turn);
    tess_status (*scatter)(void *self, const optim_turn *turn);
} optim_exchange;

/* The surroundings of an optimizer. Private state ends with the process, even if a store (base/mem/named.h) keeps the
 * state of another optimizer. The exchange is copied; its self is borrowed until destroy, as is the stream. Updates run
 * on the stream, and state is memory of its device. NULL: the optimizer makes a stream of the host. */
typedef struct optim_place {
    bool is_private;
    optim_exchange exchange;
    tess_stream *stream;
} optim_place;
tess_status tess_optimizer_create_at(tess_mem *mem, const tess_span *spans, int n_spans,
                                     const tess_optimizer_options *options, const optim_place *place,
                                     tess_optimizer **optimizer);

/* True if a step meets other ranks. Then all of them call it, also those that have done it: its journal leaves their
 * weights and state alone. */
bool tess_optimizer_meets(const tess_optimizer *optimizer);

/* tess_optimizer_states of a tensor that this rank has nothing of: without data. */
int tess_optimizer_describe(const tess_optimizer *optimizer, const tess_shape *shape, bool hidden,
                            tess_optimizer_state *states);

/* Returns what create takes from the optimizer pool: state and, with Muon, work space. `state`: the state alone, which
 * may be on disk. A span counts as trainable where `param` is not NULL; it is not read. */
tess_status tess_optimizer_bytes(tess_mem *mem, const tess_span *spans, int n_spans,
                                 const tess_optimizer_options *options, int n_ranks, size_t *bytes, size_t *state);

/* TESS_E_UNSUPPORTED: a device's memory cannot have the state, because no row of the device updates it; the message
 * names what can. */
tess_status tess_optimizer_check_device(const tess_optimizer_options *options);

/* All of the state, as it lies in the memory of its device, and how much it is. */
void *tess_optimizer_memory(const tess_optimizer *optimizer, size_t *bytes);
/* tess_optimizer_states gives places in `copy` (borrowed), the host's copy of that memory. */
void tess_optimizer_show(tess_optimizer *optimizer, void *copy);

/* Called during an update with a journal: before ("shard") and after ("shard-done") each span that has elements; these
 * spans are numbered from 0, and Muon's count once for the momentum and once for the weights. */
typedef void (*tess_optimizer_observer)(void *self, const char *moment, int64_t number);
void tess_optimizer_set_observer(tess_optimizer *optimizer, tess_optimizer_observer observer, void *self);

#endif
