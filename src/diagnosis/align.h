/* Compares the requests of an odd rank with those of the majority from their first difference on. Finds out whether
 * the rank skipped operations, added some, swapped two, or made another request. */
#ifndef TESS_DIAGNOSIS_ALIGN_H
#define TESS_DIAGNOSIS_ALIGN_H

#include "diagnosis/view.h"

/* The requests of the majority of a team. Requests after their newest one are predicted: they continue as they did
 * after the last place with the same past, because steps resemble each other. */
typedef struct tess_course {
    const tess_team_view *team;
    const bool *right; /* (members) whether the member belongs to the majority */
    uint64_t at;       /* place where the odd rank differs */
    uint64_t like;     /* earlier place with the same past; `at`: there is none */
} tess_course;

typedef enum tess_slip { TESS_SLIP_OTHER, TESS_SLIP_SKIPPED, TESS_SLIP_EXTRA, TESS_SLIP_SWAPPED } tess_slip;

/* Builds the course of a team. Looks for an earlier place with the same requests at `at` and before it. */
tess_course tess_course_find(const tess_team_view *team, const bool *right, uint64_t at);
/* Returns the request at `at` that the requests before it predict, or NULL if they predict none. */
const tess_record *tess_course_predict(const tess_team_view *team, const bool *right, uint64_t at);

/* Returns how `odd`, whose request at course->at differs, left the course. *n: by how many operations. */
tess_slip tess_course_slip(const tess_course *course, const tess_member_view *odd, int *n);

/* Does the same for ranks that part between two teams, where requests cannot be compared. Other ranks wait for
 * `rank` in `due`, but it called `got` (one of its records). The rank's earlier behaviour after the same operations,
 * over all its teams, shows whether it skipped `due` or made one call too many. TESS_SLIP_OTHER: it shows neither.
 * *n: by how many operations. */
tess_slip tess_habit_slip(const tess_history *history, int rank, const tess_record *due, const tess_record *got,
                          int *n);

#endif
