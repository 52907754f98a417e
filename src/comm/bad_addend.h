/* Finds the rank whose addend made a sum NaN or infinite.
 *
 * Gradients are gone once they are summed: their memory is reused. So the reduction checks each result as it is made,
 * and reads the addends again only when the result is bad. */
#ifndef TESS_COMM_BAD_ADDEND_H
#define TESS_COMM_BAD_ADDEND_H

#include "tessera/comm.h"

typedef struct tess_bad_addend {
    const tess_piece *pieces; /* pieces of the reduction's caller; NULL: nothing was found */
    size_t piece, row, column;
    uint64_t sequence;   /* number of the reduction in its team */
    size_t n_bad, n_all; /* bad and all values of this addend, in the run of the piece that was added at once */
    double value;
    int rank;    /* first rank (of the job) with a bad addend */
    int n_ranks; /* ranks with a bad addend there */
} tess_bad_addend;

/* The first bad addend in this rank's part of tess_reduce_scatter_pieces of the team since tess_team_forget_bad_addend.
 * It does not cover ranks on other hosts, nor finite addends whose sum overflows. For the thread that uses the team. */
const tess_bad_addend *tess_team_bad_addend(const tess_team *team);
void tess_team_forget_bad_addend(tess_team *team);

#endif
