/* Groups the ranks of a team by host. Ranks of one host see the same files; ranks of other hosts may not. */
#ifndef TESS_CKPT_CKPT_HOSTS_H
#define TESS_CKPT_CKPT_HOSTS_H

#include "tessera/comm.h"

enum { TESS_CKPT_HOST_NAME = 64, TESS_CKPT_HOST_TEXT = 128 };

typedef struct tess_ckpt_hosts {
    tess_mem *mem;
    tess_team *all;  /* borrowed */
    tess_team *mine; /* the ranks of this host; `all` itself if there is only one host */
    /* Number of hosts, and number of this rank's host; hosts are in the order of their ranks */
    int n, host;
    int *of_rank;                       /* (size of `all`) host of each rank */
    int *first, *last;                  /* (n) first and last rank of each host */
    char (*names)[TESS_CKPT_HOST_NAME]; /* (n) names of the hosts */
} tess_ckpt_hosts;

/* Finds the hosts of a team's ranks. Collective over `all`, which must outlive the result. Every rank passes the number
 * and the name of its host. TESS_E_INVALID: the ranks of a host are not consecutive. */
tess_status tess_ckpt_hosts_create(tess_mem *mem, tess_team *all, int number, const char *name,
                                   tess_ckpt_hosts **hosts);
/* Collective if there are several hosts. */
void tess_ckpt_hosts_destroy(tess_ckpt_hosts **hosts);

/* Whether this rank is the first of its host. */
bool tess_ckpt_hosts_is_first(const tess_ckpt_hosts *hosts);

/* Formats "host h2 (ranks 2-3)". Returns `text`. */
const char *tess_ckpt_hosts_format(const tess_ckpt_hosts *hosts, int host, char text[TESS_CKPT_HOST_TEXT]);

#endif
