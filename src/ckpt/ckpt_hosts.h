/* Which ranks see the same files whatever is mounted where: those of one host. */
#ifndef TESS_CKPT_CKPT_HOSTS_H
#define TESS_CKPT_CKPT_HOSTS_H

#include "tessera/comm.h"

enum { TESS_CKPT_HOST_NAME = 64, TESS_CKPT_HOST_TEXT = 128 };

typedef struct tess_ckpt_hosts {
    tess_mem *mem;
    tess_team *all;                     /* borrowed */
    tess_team *mine;                    /* the ranks of this host; `all` itself when there is one host */
    int n, host;                        /* how many, and this rank's: numbered by their first ranks in `all` */
    int *of_rank;                       /* (size of `all`) */
    int *first, *last;                  /* (n) ranks of a host; they follow one another */
    char (*names)[TESS_CKPT_HOST_NAME]; /* (n) */
} tess_ckpt_hosts;

/* Collective over `all`; every rank says which host it is on. TESS_E_INVALID: a host's ranks do not follow one another.
 * `all` must outlive the result. */
tess_status tess_ckpt_hosts_create(tess_mem *mem, tess_team *all, int number, const char *name,
                                   tess_ckpt_hosts **hosts);
/* Collective when there are several hosts. */
void tess_ckpt_hosts_destroy(tess_ckpt_hosts **hosts);

/* Whether this rank speaks for its host. */
bool tess_ckpt_hosts_is_first(const tess_ckpt_hosts *hosts);

/* "host h2 (ranks 2-3)"; returns `text`. */
const char *tess_ckpt_hosts_format(const tess_ckpt_hosts *hosts, int host, char text[TESS_CKPT_HOST_TEXT]);

#endif
