#include "parallel/fsdp/fsdp_topology.h"

#include "comm/split.h"

static tess_status find_data_team(tess_fsdp_topology *t)
{
    static const char *const names[] = {"dp_replicate", "dp_shard"};
    int shard_axis = tess_mesh_axis(t->mesh, "dp_shard"), replicate_axis = tess_mesh_axis(t->mesh, "dp_replicate");
    TESS_CHECK(shard_axis >= 0, TESS_E_INVALID, "fsdp: the mesh has no axis \"dp_shard\"");
    TESS_CHECK(
        replicate_axis < shard_axis, TESS_E_INVALID,
        "fsdp: the mesh has \"dp_replicate\" after \"dp_shard\"; put it before, the shard axis is the inner one");
    t->data_team = tess_mesh_team(t->mesh, "dp_shard");
    t->n_shards = t->n_data = tess_mesh_axis_size(t->mesh, shard_axis);
    t->data = tess_mesh_coordinate(t->mesh, shard_axis);
    if (replicate_axis < 0 || tess_mesh_axis_size(t->mesh, replicate_axis) == 1)
        return TESS_OK;
    t->data += tess_mesh_coordinate(t->mesh, replicate_axis) * t->n_shards;
    t->n_data *= tess_mesh_axis_size(t->mesh, replicate_axis);
    TESS_TRY_CTX(tess_mesh_slice(t->mesh, names, 2, &t->data_mesh), "fsdp: team of all data ranks");
    t->data_team = tess_mesh_all(t->data_mesh);
    return TESS_OK;
}

/* Each rank of the axis "tp" has a part of the same parameters. */
static tess_status find_model_team(tess_fsdp_topology *t)
{
    static const char *const names[] = {"dp_shard", "tp", "dp_replicate"};
    int axis = tess_mesh_axis(t->mesh, "tp");
    t->model_team = t->data_team;
    t->n_tp = 1;
    if (axis < 0 || tess_mesh_axis_size(t->mesh, axis) == 1)
        return TESS_OK;
    t->tp_team = tess_mesh_team(t->mesh, "tp");
    t->n_tp = tess_mesh_axis_size(t->mesh, axis);
    t->tp = tess_mesh_coordinate(t->mesh, axis);
    TESS_TRY_CTX(tess_mesh_slice(t->mesh, names, t->data_mesh != NULL ? 3 : 2, &t->model_mesh),
                 "fsdp: team of all ranks of the model");
    t->model_team = tess_mesh_all(t->model_mesh);
    return TESS_OK;
}

tess_status tess_fsdp_topology_open(tess_mesh *mesh, tess_fsdp_topology *topology)
{
    *topology = (tess_fsdp_topology){.mesh = mesh};
    TESS_TRY(find_data_team(topology));
    TESS_TRY(find_model_team(topology));
    topology->norm_team = topology->model_team;
    return TESS_OK;
}

void tess_fsdp_topology_close(tess_fsdp_topology *topology)
{
    tess_mesh_destroy(&topology->data_mesh);
    tess_mesh_destroy(&topology->model_mesh);
    tess_mesh_destroy(&topology->matrix_mesh);
}

/* ---- Families ---- */
typedef struct division {
    const tess_fsdp_topology *topology;
    int n_shards, parts;
} division;

static tess_split_place replica_of(const void *d, int data)
{
    const division *by = d;
    return (tess_split_place){.color = data / by->parts / by->n_shards * by->parts + data % by->parts};
}

static tess_split_place shard_of(const void *d, int data)
{
    const division *by = d;
    return (tess_split_place){.color = data % (by->n_shards * by->parts)};
}

static tess_split_place part_of(const void *d, int data)
{
    return (tess_split_place){.color = data % ((const division *)d)->parts};
}

/* Returns the shard of a rank of the model team. */
static tess_split_place shard_of_model_rank(const void *d, int rank)
{
    const tess_fsdp_topology *t = ((const division *)d)->topology;
    int at[TESS_MESH_MAX_AXES], replicate = tess_mesh_axis(t->model_mesh, "dp_replicate");
    (void)tess_mesh_coordinates(t->model_mesh, rank, at);
    int data = at[tess_mesh_axis(t->model_mesh, "dp_shard")];
    return shard_of(d, data + (replicate >= 0 ? at[replicate] * t->n_shards : 0));
}

/* The mesh has the teams of the shard axis; other teams are made. */
static tess_status find_teams(const division *d, tess_fsdp_teams *teams)
{
    const tess_fsdp_topology *t = d->topology;
    if (d->n_shards == t->n_shards && d->parts == 1) {
        teams->shard_team = tess_mesh_team(t->mesh, "dp_shard");
        teams->replicate_team = teams->n_replicas > 1 ? tess_mesh_team(t->mesh, "dp_replicate") : NULL;
    } else {
        TESS_TRY(tess_team_split_by(t->data_team, replica_of, d, "shards", &teams->made[0]));
        if (teams->n_replicas > 1)
            TESS_TRY(tess_team_split_by(t->data_team, shard_of, d, "replicas", &teams->made[1]));
        teams->shard_team = teams->made[0];
        teams->replicate_team = teams->made[1];
    }
    if (teams->n_replicas > 1 && t->n_tp > 1 && !teams->apart)
        TESS_TRY(tess_team_split_by(t->model_team, shard_of_model_rank, d, "copies", &teams->made[2]));
    if (teams->n_replicas > 1 && teams->apart)
        TESS_TRY(tess_team_split_by(t->data_team, part_of, d, "same", &teams->made[2]));
    teams->copies_team = teams->apart ? NULL : teams->made[2];
    teams->same_team = teams->apart ? teams->made[2] : NULL;
    return TESS_OK;
}

tess_status tess_fsdp_teams_open(const tess_fsdp_topology *topology, int n_shards, int parts, tess_fsdp_teams *teams)
{
    const division d = {topology, n_shards, parts > 0 ? parts : 1};
    TESS_CHECK((d.parts & (d.parts - 1)) == 0 && topology->n_data % d.parts == 0, TESS_E_INVALID,
               "fsdp: a family of units with %d parts; choose a power of two that divides the %d data ranks", d.parts,
               topology->n_data);
    const int n = topology->n_data / d.parts, place = topology->data / d.parts;
    TESS_CHECK(n_shards >= 1 && n % n_shards == 0, TESS_E_INVALID,
               "fsdp: a family of units in %d shards; choose a number that divides the %d data ranks", n_shards, n);
    *teams = (tess_fsdp_teams){.n_shards = n_shards,
                               .shard = place % n_shards,
                               .n_replicas = n / n_shards,
                               .replica = place / n_shards,
                               .parts = d.parts,
                               .apart = parts > 0};
    TESS_TRY_CTX(find_teams(&d, teams), "fsdp: teams of %d shards", n_shards);
    return TESS_OK;
}

void tess_fsdp_teams_close(tess_fsdp_teams *teams)
{
    tess_team_destroy(&teams->group_team);
    for (int i = 0; i < 3; i++)
        tess_team_destroy(&teams->made[i]);
}

/* ---- Hosts ---- */
static int host_of(const tess_fsdp_topology *topology, const tess_team *team, int rank)
{
    return topology->ranks_a_host > 0 ? tess_team_global_rank(team, rank) / topology->ranks_a_host
                                      : tess_team_host(team, rank);
}

bool tess_fsdp_spans_hosts(const tess_fsdp_topology *topology, const tess_team *team, int group)
{
    for (int rank = 1; rank < tess_team_size(team); rank++)
        if (rank % group > 0 && host_of(topology, team, rank) != host_of(topology, team, rank - 1))
            return true;
    return false;
}
