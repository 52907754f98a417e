/* Places for ranks: on one host each place is a group of its own; over several hosts a host's places form a group. A
 * group whose ranks keep failing is left out while enough places remain; it is tried again after a while. Ranks are
 * numbered over the places in use, ascending. */
#ifndef TESS_CONTROL_RECOVER_SLOTS_H
#define TESS_CONTROL_RECOVER_SLOTS_H

#include <stdbool.h>

#include "tessera/status.h"

enum {
    TESS_SLOT_NAME_BYTES = 64,
    TESS_SLOT_FAILURES = 2 /* failures without a return to service in between after which a group is left out */
};

/* Tells whether the configuration can run on a number of ranks. */
typedef struct tess_worlds {
    bool (*admits)(const void *self, int n_ranks);
    const void *self;
} tess_worlds;

/* Places that are left out together. */
typedef struct tess_slot_group {
    char host[TESS_SLOT_NAME_BYTES]; /* "": a single place */
    int n_failures;
    double out_since_s; /* < 0: in service */
    bool answers;       /* a host that is out was reached since; otherwise it stays out */
} tess_slot_group;

typedef struct tess_slots {
    int n, min;  /* all places; fewest ranks to go on with */
    int n_ranks; /* ranks in use now */
    int n_groups;
    int *group; /* (n) number of each place's group */
    tess_slot_group *groups;
} tess_slots;

/* Starts with `n_ranks` places in use and those up to `max` out of service since now_s. min or max 0: n_ranks. Free
 * with tess_slots_free. TESS_E_NOMEM. */
tess_status tess_slots_begin(tess_slots *slots, int n_ranks, int min, int max, double now_s);

/* The same for several hosts: starts without any, then hosts are added. min: fewest ranks to go on with, 0: all. */
void tess_slots_begin_hosts(tess_slots *slots, int min);
tess_status tess_slots_add_host(tess_slots *slots, const char *host, int n_ranks);
void tess_slots_free(tess_slots *slots);

/* The group of `host` if there is such a host, else that of `rank`'s place. -1: not known. */
int tess_slots_group_of(const tess_slots *slots, int rank, const char *host);
/* Number of ranks on the places of a group. */
int tess_slots_ranks_of(const tess_slots *slots, int group);

/* Records a failure of a rank of `group` that its place may have caused. True: the group is left out, and
 * slots->n_ranks is the new number of ranks, the largest that the configuration and the places in service allow. */
bool tess_slots_fail(tess_slots *slots, int group, const tess_worlds *worlds, double now_s);

/* Returns the largest number of ranks, `least` or more, that can go on when one group in service is left out; 0: none.
 */
int tess_slots_after_loss(const tess_slots *slots, const tess_worlds *worlds, int least);

/* The group of a host that is out for retry_s or longer and not known to answer; -1: none. */
int tess_slots_to_ask(const tess_slots *slots, double retry_s, double now_s);
/* Stores a host's answer. One that does not answer is out since now. */
void tess_slots_asked(tess_slots *slots, int group, bool answers, double now_s);

/* The number of ranks possible if all groups that are out for retry_s or longer, and answer, came back. */
int tess_slots_possible(const tess_slots *slots, const tess_worlds *worlds, double retry_s, double now_s);
/* Puts them back into service: sets slots->n_ranks. */
void tess_slots_return(tess_slots *slots, const tess_worlds *worlds, double retry_s, double now_s);

#endif
