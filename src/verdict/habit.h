/* What one rank is used to do, over all its teams: for ranks that part between two teams, where no two requests meet.
 */
#ifndef TESS_VERDICT_HABIT_H
#define TESS_VERDICT_HABIT_H

#include "verdict/align.h"

/* Others wait for `rank` in `due`, but it went to `got` (one of its records). By what it did after the same operations
 * before: did it skip `due`, or do one too many? TESS_SLIP_OTHER: the past does not tell. *n: by how many. */
tess_slip tess_habit_slip(const tess_history *history, int rank, const tess_record *due, const tess_record *got,
                          int *n);

#endif
