/* Finds the rank whose addend made a sum NaN or infinite.
 *
 * The addends of gradients are gone after the sum, because their memory is reused. So the reduction checks each
 * result when it is computed, and reads the addends again only if the result is bad. */
#ifndef TESS_COMM_BAD_ADDEND_H
#define TESS_COMM_BAD_ADDEND_H

#include "tessera/comm.h"

typedef struct tess_bad_addend {
    const tess_piece *pieces; /* pieces passed by the reduction's caller; NULL: no bad addend was found */
    size_t piece, row, column;
    uint64_t sequence; /* number of the reduction in its team */
    /* number of bad values and of all values of this addend, in the run of the piece that was added at once */
    size_t n_bad, n_all;
    double value;
    int rank;    /* lowest rank (of the job) with a bad addend */
    int n_ranks; /* number of ranks with a bad addend at this place */
} tess_bad_addend;

/* Returns the first bad addend in this rank's part of the team's tess_reduce_scatter_pieces calls since
 * tess_team_forget_bad_addend. Addends of other hosts are not checked, nor finite addends whose sum overflows. Only
 * the thread that uses the team may call it. */
const tess_bad_addend *tess_team_bad_addend(const tess_team *team);
void tess_team_forget_bad_addend(tess_team *team);

#endif
