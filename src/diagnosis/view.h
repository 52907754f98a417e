/* A history by teams: what each member did in a team, in the order of the team's numbers. Messages are not in it. */
#ifndef TESS_DIAGNOSIS_VIEW_H
#define TESS_DIAGNOSIS_VIEW_H

#include "diagnosis/history.h"

/* What one member did in the team. */
typedef struct tess_member_view {
    int rank;                    /* of the job; -1: not known */
    const tess_record **records; /* ascending sequence, none twice */
    size_t n_records;
} tess_member_view;

typedef struct tess_team_view {
    const tess_team_history *team;
    tess_member_view *members; /* (team->n_ranks) */
} tess_team_view;

typedef struct tess_view {
    const tess_history *history;
    tess_team_view *teams; /* (history->n_teams), ascending hash */
    size_t n_teams;
    tess_member_view *all_members; /* of all teams, one after the other */
    const tess_record **all_records;
} tess_view;

/* The view borrows the history. What a rank did after an operation of it had failed is left out: it is what error
 * handling does, and no evidence. */
tess_status tess_view_create(const tess_history *history, tess_view *view);
void tess_view_free(tess_view *view);

const tess_team_view *tess_view_team(const tess_view *view, uint64_t hash);           /* NULL: not known */
const tess_member_view *tess_view_member(const tess_team_view *team, int rank);       /* NULL: is none */
const tess_record *tess_member_at(const tess_member_view *member, uint64_t sequence); /* NULL: not there */
const tess_record *tess_member_newest(const tess_member_view *member);                /* NULL: no records */

/* True when the records of the rank say where it was in the team at `sequence`, although it has none of it: it had not
 * come there yet. False when its newest records were lost. */
bool tess_member_is_behind(const tess_view *view, const tess_member_view *member, uint64_t sequence);

/* A time of the rank on the reader's clock. */
uint64_t tess_rank_time(const tess_history *history, int rank, uint64_t time_ns);

#endif
