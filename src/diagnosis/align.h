/* Aligns the requests of an odd rank with those of the majority after the place where they part: did the rank skip
 * operations, add some, swap two, or make another request? */
#ifndef TESS_DIAGNOSIS_ALIGN_H
#define TESS_DIAGNOSIS_ALIGN_H

#include "diagnosis/view.h"

/* The requests of the majority of a team. After their newest one the course is predicted: it goes on as after the last
 * place with the same past, since a step is like the one before it. */
typedef struct tess_course {
    const tess_team_view *team;
    const bool *right; /* (members) of the majority */
    uint64_t at;       /* the place in question */
    uint64_t like;     /* an earlier place with the same past; `at`: none */
} tess_course;

typedef enum tess_slip { TESS_SLIP_OTHER, TESS_SLIP_SKIPPED, TESS_SLIP_EXTRA, TESS_SLIP_SWAPPED } tess_slip;

/* Finds the earlier place by the requests at `at` and before. */
tess_course tess_course_find(const tess_team_view *team, const bool *right, uint64_t at);
/* The request that the past before `at` predicts for `at`, NULL: none. */
const tess_record *tess_course_predict(const tess_team_view *team, const bool *right, uint64_t at);

/* How `odd`, whose request at course->at differs, left the course, and by how many operations (*n). */
tess_slip tess_course_slip(const tess_course *course, const tess_member_view *odd, int *n);

/* Serves ranks that part between two teams, where no two requests can be compared: others wait for `rank` in `due`, but
 * it called `got` (one of its records). What it did after the same operations before, over all its teams, shows whether
 * it skipped `due` or called one too many; TESS_SLIP_OTHER: neither. *n: by how many operations. */
tess_slip tess_habit_slip(const tess_history *history, int rank, const tess_record *due, const tess_record *got,
                          int *n);

#endif
