/* Implements the exchanges (nn/points.h) of ranks that divide the experts of layers: rows of tokens move between them
 * in one all-to-all. */
#ifndef TESS_PARALLEL_EXPERT_EXPERT_POINTS_H
#define TESS_PARALLEL_EXPERT_EXPERT_POINTS_H

#include "nn/points.h"
#include "tessera/comm.h"

typedef struct tess_expert_team tess_expert_team;

/* Divides `parent` into teams of `degree` consecutive ranks. Rows are memory of the host, or of the device that the
 * runtime knows (comm/device_windows.h). Collective over `parent`, as
 * destroy is. */
tess_status tess_expert_team_create(tess_team *parent, int degree, tess_expert_team **team);
void tess_expert_team_destroy(tess_expert_team **team);

/* Returns the interface for the executor, valid until destroy. It fails as collectives do. */
tess_expert_points tess_expert_team_points(tess_expert_team *team);

/* Returns the bytes that this rank has received from others. */
uint64_t tess_expert_team_received(const tess_expert_team *team);

#endif
