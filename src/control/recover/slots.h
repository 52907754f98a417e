/* Manages the places where ranks run. On one host, each place is a separate group; in a job of several hosts, the
 * places of a host form a group. A group whose ranks keep failing is left out while enough places remain, and is
 * tried again after a while. Ranks are numbered over the places in use, in ascending order. */
#ifndef TESS_CONTROL_RECOVER_SLOTS_H
#define TESS_CONTROL_RECOVER_SLOTS_H

#include <stdbool.h>

#include "tessera/status.h"

enum {
    TESS_SLOT_NAME_BYTES = 64,
    /* number of failures after which a group is left out, unless it returned to service in between */
    TESS_SLOT_FAILURES = 2
};

/* Says whether the configuration can run on a number of ranks. */
typedef struct tess_worlds {
    bool (*admits)(const void *self, int n_ranks);
    const void *self;
} tess_worlds;

/* Places that are left out together. */
typedef struct tess_slot_group {
    char host[TESS_SLOT_NAME_BYTES]; /* "": the group is a single place */
    int n_failures;
    double out_since_s; /* when it was left out; < 0: it is in service */
    bool answers;       /* the host is left out, but has answered since; without an answer it stays out */
} tess_slot_group;

typedef struct tess_slots {
    int n, min;  /* n: all places; min: fewest ranks to continue with */
    int n_ranks; /* number of ranks in use now */
    int n_groups;
    int *group; /* (n) group of each place */
    tess_slot_group *groups;
} tess_slots;

/* Starts with `n_ranks` places in use, and the further places up to `max` out of service since now_s. min or max 0:
 * n_ranks. Free with tess_slots_free. TESS_E_NOMEM. */
tess_status tess_slots_begin(tess_slots *slots, int n_ranks, int min, int max, double now_s);

/* Does the same for several hosts: starts without places; hosts are added afterwards. min: fewest ranks to continue
 * with; 0: all. */
void tess_slots_begin_hosts(tess_slots *slots, int min);
tess_status tess_slots_add_host(tess_slots *slots, const char *host, int n_ranks);
void tess_slots_free(tess_slots *slots);

/* Returns the group of `host` if there is such a host, else that of `rank`'s place. -1: not known. */
int tess_slots_group_of(const tess_slots *slots, int rank, const char *host);
/* Returns the number of ranks on the places of a group. */
int tess_slots_ranks_of(const tess_slots *slots, int group);

/* Records a failure of a rank of `group` that its place may have caused. Returns true if the group is left out.
 * slots->n_ranks is then the largest number of ranks that the configuration and the places in service allow. */
bool tess_slots_fail(tess_slots *slots, int group, const tess_worlds *worlds, double now_s);

/* Returns the largest number of ranks, at least `least`, that can continue if one group in service is left out; 0:
 * none. */
int tess_slots_after_loss(const tess_slots *slots, const tess_worlds *worlds, int least);

/* Returns the group of a host that has been out for at least retry_s and has not answered; -1: none. */
int tess_slots_to_ask(const tess_slots *slots, double retry_s, double now_s);
/* Stores whether a host answered. If not, it counts as left out from now on. */
void tess_slots_asked(tess_slots *slots, int group, bool answers, double now_s);

/* Returns the number of ranks that are possible if all groups that have been out for at least retry_s, and answer,
 * came back. */
int tess_slots_possible(const tess_slots *slots, const tess_worlds *worlds, double retry_s, double now_s);
/* Puts these groups back into service, and sets slots->n_ranks. */
void tess_slots_return(tess_slots *slots, const tess_worlds *worlds, double retry_s, double now_s);

#endif
