/* Sums that came out as no number, and who gave them what was none.
 *
 * Gradients are gone once they are summed: their memory is used again. So whoever adds them looks at each result on its
 * way, and in the bad case only at what it was made of. */
#ifndef TESS_COMM_BAD_ADDEND_H
#define TESS_COMM_BAD_ADDEND_H

#include "tessera/comm.h"

typedef struct tess_bad_addend {
    const tess_piece *pieces; /* as the caller of the reduction named them; NULL: nothing was found */
    size_t piece, row, column;
    uint64_t sequence;   /* of the reduction in its team */
    size_t n_bad, n_all; /* of this addend, among the values of the piece that were added here at a time */
    double value;
    int rank;    /* of the job: the first whose addend it was */
    int n_ranks; /* how many ranks had no number there */
} tess_bad_addend;

/* The first that this rank has added up in tess_reduce_scatter_pieces of the team since tess_team_forget_bad_addend.
 * Nothing is found of ranks on other hosts, and nothing when finite addends came to too large a sum. For the thread
 * that uses the team. */
const tess_bad_addend *tess_team_bad_addend(const tess_team *team);
void tess_team_forget_bad_addend(tess_team *team);

#endif
