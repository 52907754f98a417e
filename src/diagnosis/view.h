/* Sorts a history by teams: the collectives of each member, in the order of the team's sequence. Messages are left
 * out. */
#ifndef TESS_DIAGNOSIS_VIEW_H
#define TESS_DIAGNOSIS_VIEW_H

#include "diagnosis/history.h"

typedef struct tess_member_view {
    int rank;                    /* rank of the job; -1: not known */
    const tess_record **records; /* ascending by sequence, without duplicates */
    size_t n_records;
} tess_member_view;

typedef struct tess_team_view {
    const tess_team_history *team;
    tess_member_view *members; /* (team->n_ranks) */
} tess_team_view;

typedef struct tess_view {
    const tess_history *history;
    tess_team_view *teams; /* (history->n_teams), in ascending order of hash */
    size_t n_teams;
    tess_member_view *all_members; /* members of all teams, team by team */
    const tess_record **all_records;
} tess_view;

/* Builds the view, which borrows the history. Operations of a rank after its first failure are left out, because
 * they belong to its error handling. Free view->teams with tess_mem_drop. */
tess_status tess_view_create(const tess_history *history, tess_view *view);

const tess_team_view *tess_view_team(const tess_view *view, uint64_t hash); /* returns NULL if it is not known */
/* returns NULL if the rank is not a member */
const tess_member_view *tess_view_member(const tess_team_view *team, int rank);
/* returns NULL if there is none */
const tess_record *tess_member_at(const tess_member_view *member, uint64_t sequence);
const tess_record *tess_member_newest(const tess_member_view *member); /* returns NULL if there are no records */

/* Whether a member without a record of `sequence` had not come there yet. Returns false if the record may be lost. */
bool tess_member_is_behind(const tess_view *view, const tess_member_view *member, uint64_t sequence);

/* Converts a time of the rank to the reader's clock. */
uint64_t tess_rank_time(const tess_history *history, int rank, uint64_t time_ns);

#endif
