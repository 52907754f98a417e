/* The teams of a tess_fsdp: which ranks hold which parts of the parameters. A pure description, without memory of
 * parameters; it is used by all other files of this folder.
 *
 * The data ranks are those of the mesh's axes "dp_replicate" and "dp_shard", in this order. Units of parameters belong
 * to families. A family is divided into shards: n_shards consecutive data ranks hold its parameters once, and the
 * groups of n_shards ranks are its replicas. So the number of a data rank is replica * n_shards + shard in every
 * family, and all families sum the same micro-batches in the same order.
 *
 * A family of experts has other parameters on each of `parts` neighbouring data ranks, and on each rank of "tp". The
 * rank that has an expert computes its gradient from the micro-batches of all of them. There the number of a data rank
 * is (replica * n_shards + shard) * parts + part, and its gradient is the sum over `parts` micro-batches. */
#ifndef TESS_PARALLEL_FSDP_FSDP_TOPOLOGY_H
#define TESS_PARALLEL_FSDP_FSDP_TOPOLOGY_H

#include "tessera/dtensor.h"

typedef struct tess_fsdp_topology {
    tess_mesh *mesh;        /* borrowed */
    tess_mesh *data_mesh;   /* slice over both data axes, when both are there */
    tess_mesh *model_mesh;  /* slice over these and "tp", when it is there */
    tess_mesh *matrix_mesh; /* slice over "dp_shard" and "tp", once an optimizer needs it and both are there */
    tess_team *data_team;
    tess_team *tp_team;         /* NULL: one rank */
    tess_team *model_team;      /* all ranks that hold parts of these parameters */
    tess_team *norm_team;       /* the model team, and the ranks that have other parameters of the same model */
    tess_team *matrix_team;     /* ranks that have parts of the same replica's matrices; NULL: no optimizer needs it */
    int n_shards, n_data, data; /* size of the axis "dp_shard", number of data ranks, number of this one */
    int n_tp, tp;
    int ranks_a_host; /* number of consecutive ranks that count as a host; 0: the teams know their hosts */
} tess_fsdp_topology;

/* The teams of a family of units. */
typedef struct tess_fsdp_teams {
    tess_team *shard_team;
    tess_team *replicate_team; /* NULL: one replica */
    tess_team *copies_team;    /* ranks with the same shard, over replicas and "tp"; NULL: one of these has one rank */
    tess_team *same_team;      /* apart: all ranks with the same parameters; NULL: the shard team */
    tess_team *group_team;     /* the ranks that gather each other's stashes; NULL: there are no stashes */
    tess_team *made[3];        /* the teams above that are not the mesh's */
    int n_shards, shard, n_replicas, replica;
    int parts;  /* neighbouring data ranks with different parameters, whose micro-batches each of them sums; else 1 */
    bool apart; /* the ranks of "tp" have different parameters, too */
} tess_fsdp_teams;

/* Finds the teams of all families. After a failure, call `close`. Collective over the mesh. */
tess_status tess_fsdp_topology_open(tess_mesh *mesh, tess_fsdp_topology *topology);
void tess_fsdp_topology_close(tess_fsdp_topology *topology);

/* Finds the teams of a family. parts: 0: the ranks of "tp" and all data ranks have the same parameters. After a
 * failure, call `close`. Collective over the mesh.
 * TESS_E_INVALID: n_shards times `parts` does not divide the number of data ranks, or `parts` is no power of two */
tess_status tess_fsdp_teams_open(const tess_fsdp_topology *topology, int n_shards, int parts, tess_fsdp_teams *teams);
void tess_fsdp_teams_close(tess_fsdp_teams *teams);

/* Whether `group` consecutive ranks of `team`, counted from its first rank, are ever on several hosts. */
bool tess_fsdp_spans_hosts(const tess_fsdp_topology *topology, const tess_team *team, int group);

#endif
