/* Places for ranks: each alone on one host; in a job of several, those of a host together. One where ranks keep failing
 * is left out while the rest is enough to go on with; it is tried again after a while. Ranks are numbered over the
 * places in use, ascending. */
#ifndef TESS_RECOVER_SLOTS_H
#define TESS_RECOVER_SLOTS_H

#include "tessera/types.h"

enum {
    TESS_SLOTS_MAX = 512,
    TESS_SLOT_NAME_BYTES = 64,
    TESS_SLOT_FAILURES = 2 /* of one place, without a return to service in between, that get it left out */
};

/* Whether the configuration can run on so many ranks. */
typedef struct tess_worlds {
    bool (*admits)(const void *self, int n_ranks);
    const void *self;
} tess_worlds;

typedef struct tess_slots {
    int n, min;                          /* places there are; fewest ranks to go on with */
    int n_ranks;                         /* now */
    int n_groups, group[TESS_SLOTS_MAX]; /* of places that are left out together; what follows is by group */
    char host[TESS_SLOTS_MAX][TESS_SLOT_NAME_BYTES]; /* "": a place alone */
    int n_failures[TESS_SLOTS_MAX];
    double out_since_s[TESS_SLOTS_MAX]; /* < 0: in service */
    bool answers[TESS_SLOTS_MAX]; /* of a host that is out: it has been reached since; without that it stays out */
} tess_slots;

/* `n_ranks` start now; places from there to `max` are out of service since now_s. min 0: n_ranks; max 0: n_ranks. */
void tess_slots_begin(tess_slots *slots, int n_ranks, int min, int max, double now_s);

/* The same for several hosts: begins without any, then one after the other is added. min: fewest ranks to go on with,
 * 0: all. */
void tess_slots_begin_hosts(tess_slots *slots, int min);
void tess_slots_add_host(tess_slots *slots, const char *host, int n_ranks);

/* Which group the place of `rank` belongs to: that of `host` where there is such a host. -1: not known. */
int tess_slots_group_of(const tess_slots *slots, int rank, const char *host);
/* Ranks that run now on the places of a group. */
int tess_slots_ranks_of(const tess_slots *slots, int group);

/* A rank of `group` has failed for a reason that may lie in its place. True: the group is left out and slots->n_ranks
 * is the new number of ranks, the largest that places in service and the configuration admit. */
bool tess_slots_fail(tess_slots *slots, int group, const tess_worlds *worlds, double now_s);

/* A host that is out for retry_s or longer and is not known to answer, as a group; -1: none. */
int tess_slots_to_ask(const tess_slots *slots, double retry_s, double now_s);
/* It was asked. One that does not answer is out since now. */
void tess_slots_asked(tess_slots *slots, int group, bool answers, double now_s);

/* The number of ranks that there could be if all places that are out for retry_s or longer, and answer, came back. */
int tess_slots_possible(const tess_slots *slots, const tess_worlds *worlds, double retry_s, double now_s);
/* They come back: sets slots->n_ranks. */
void tess_slots_return(tess_slots *slots, const tess_worlds *worlds, double retry_s, double now_s);

#endif
