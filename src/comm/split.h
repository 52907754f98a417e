/* Splits of teams whose outcome every rank can compute. */
#ifndef TESS_COMM_SPLIT_H
#define TESS_COMM_SPLIT_H

#include "tessera/comm.h"

/* The place of a rank in a split: color and key of tess_team_split. */
typedef struct tess_split_place {
    int32_t color, key;
} tess_split_place;

/* Returns the place of team rank `rank`. Pure: every rank gets the same answer. */
typedef tess_split_place (*tess_split_fn)(const void *context, int rank);

/* tess_team_split with the color and key that `place` gives each rank. A dry rank (comm/dry/dry_runtime.h) has no peers
 * to ask for theirs, so it can split teams only in this way. Collective over `parent`. */
tess_status tess_team_split_by(tess_team *parent, tess_split_fn place, const void *context, const char *name,
                               tess_team **team);

#endif
