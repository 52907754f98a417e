/* Functions of an optimizer for other modules of the library, in addition to its public contract. */
#ifndef TESS_OPTIM_OPTIM_INTERNAL_H
#define TESS_OPTIM_OPTIM_INTERNAL_H

#include "device/stream.h"
#include "job/persist/persist.h"
#include "tessera/optim.h"

/* Register the owner of the optimizer's spans, and ask later whether the state belongs to that owner's parameters. */
void tess_optimizer_set_owner(tess_optimizer *optimizer, const void *owner);
bool tess_optimizer_is_of(const tess_optimizer *optimizer, const void *owner);

/* The matrices that ranks compute at the same time: rank i of the exchange computes the i-th. */
typedef struct optim_turn {
    const int *which; /* (n) numbers of their spans */
    int n;
    float *const *part; /* (n) this rank's elements of each */
    float *whole;       /* the whole matrix that this rank computes, if there is one */
    float *room;        /* work space of the same size, for the exchange */
} optim_turn;

/* How ranks that have parts of the same matrices exchange them. gather fills `whole` from all ranks' parts; scatter
 * fills all ranks' parts from it. Collective; all ranks make the calls of a step in the same order. */
typedef struct optim_exchange {
    void *self;
    int n_ranks, rank; /* 1 and 0: this rank has every span whole */
    tess_status (*gather)(void *self, const optim_turn *turn);
    tess_status (*scatter)(void *self, const optim_turn *turn);
} optim_exchange;

/* The place where an optimizer runs.
 * is_private: its state ends with the process, even if a store (base/mem/named.h) keeps the state of another
 * optimizer
 * exchange: copied; its self is borrowed until destroy
 * stream: updates run on it, and the state is memory of its device; borrowed until destroy; NULL: the optimizer
 * creates a stream of the host */
typedef struct optim_place {
    bool is_private;
    optim_exchange exchange;
    tess_stream *stream;
} optim_place;
tess_status tess_optimizer_create_at(tess_mem *mem, const tess_span *spans, int n_spans,
                                     const tess_optimizer_options *options, const optim_place *place,
                                     tess_optimizer **optimizer);

/* Whether a step communicates with other ranks. Then all of them call it, including ranks that have already
 * completed it: their journal leaves their weights and state unchanged. */
bool tess_optimizer_meets(const tess_optimizer *optimizer);

/* Checks that the state can be in a device's memory. TESS_E_UNSUPPORTED: it cannot, because no kernel of the device
 * updates it; the message names the options that can. */
tess_status tess_optimizer_check_device(const tess_optimizer_options *options);

/* Returns all of the state, in the memory of its device, and its number of bytes. */
void *tess_optimizer_memory(const tess_optimizer *optimizer, size_t *bytes);
/* Makes tess_optimizer_states return addresses in `copy` (borrowed), the host's copy of that memory. */
void tess_optimizer_show(tess_optimizer *optimizer, void *copy);

/* A callback during an update with a journal. It is called before ("shard") and after ("shard-done") each span that
 * has elements. These spans are numbered from 0; Muon's count twice, once for the momentum and once for the weights. */
typedef void (*tess_optimizer_observer)(void *self, const char *moment, int64_t number);
void tess_optimizer_set_observer(tess_optimizer *optimizer, tess_optimizer_observer observer, void *self);

#endif
