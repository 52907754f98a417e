/* Two sequences of requests, of the ranks that are right and of one that is not, laid beside each other from the place
 * at which they part: did the odd rank leave something out, put something in, swap two, or ask for something else? */
#ifndef TESS_DIAGNOSIS_ALIGN_H
#define TESS_DIAGNOSIS_ALIGN_H

#include "diagnosis/view.h"

/* What the right ranks did in a team, and would do next: behind their newest operation the sequence goes on as it did
 * after the last place that looked the same (a step is like the one before it). */
typedef struct tess_course {
    const tess_team_view *team;
    const bool *right; /* (members) who is right */
    uint64_t at;       /* the place in question */
    uint64_t like;     /* an earlier place with the same past; `at` itself: there is none */
} tess_course;

typedef enum tess_slip { TESS_SLIP_OTHER, TESS_SLIP_SKIPPED, TESS_SLIP_EXTRA, TESS_SLIP_SWAPPED } tess_slip;

/* The earlier place is found by what is asked for at `at` and before. */
tess_course tess_course_find(const tess_team_view *team, const bool *right, uint64_t at);
/* The earlier place is found by what came before `at` alone: what would be next, whoever is right. */
const tess_record *tess_course_foretell(const tess_team_view *team, const bool *right, uint64_t at);

/* How `odd`, whose request at course->at differs, left the course; *n says by how many operations. */
tess_slip tess_course_slip(const tess_course *course, const tess_member_view *odd, int *n);

/* What one rank is used to do, over all its teams: for ranks that part between two teams, where no two requests meet.
 * Others wait for `rank` in `due`, but it went to `got` (one of its records). By what it did after the same operations
 * before: did it skip `due`, or do one too many? TESS_SLIP_OTHER: the past does not tell. *n: by how many. */
tess_slip tess_habit_slip(const tess_history *history, int rank, const tess_record *due, const tess_record *got,
                          int *n);

#endif
