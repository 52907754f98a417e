/* Whole matrices for optimizers that need them (optim/muon.c). The ranks of the shard team and of "tp" have parts of
 * the same parameters. They assemble one whole matrix for each rank at the same time, and get back their parts of
 * the results. Each replica does this by itself, so a step needs no rank of another replica. */
#include "base/mem/dry_mem.h"
#include "parallel/fsdp/fsdp_impl.h"
#include "base/mem/scoped.h"

/* Number of elements and offset of each rank of the team. */
typedef struct matrix_parcels {
    size_t *parts, *part_at; /* elements that this rank sends or gets of each rank's matrix */
    size_t *rows, *row_at;   /* elements of this rank's own matrix: the rows of each rank's part */
} matrix_parcels;

static tess_status alloc_parcels(const tess_fsdp *fsdp, matrix_parcels *p)
{
    size_t n = (size_t)tess_team_size(fsdp->topology.matrix_team);
    TESS_TRY(TESS_NEW(fsdp->place.mem, 4 * n, "matrices", &p->parts));
    p->part_at = p->parts + n;
    p->rows = p->part_at + n;
    p->row_at = p->rows + n;
    return TESS_OK;
}

/* The place of rank `r` of the team. */
static void find_rank(const tess_fsdp *fsdp, int r, int *shard, int *tp)
{
    int at[TESS_MESH_MAX_AXES];
    *shard = r;
    *tp = 0;
    if (fsdp->topology.matrix_mesh == NULL)
        return;
    (void)tess_mesh_coordinates(fsdp->topology.matrix_mesh, r, at);
    *shard = at[tess_mesh_axis(fsdp->topology.matrix_mesh, "dp_shard")];
    *tp = at[tess_mesh_axis(fsdp->topology.matrix_mesh, "tp")];
}

/* Returns whether this rank contributes the parameter. If all tp ranks have the same values, only the first one
 * contributes. */
static bool gives(const tess_fsdp_param *p, int tp)
{
    return p->tp.kind == TESS_SHARD || tp == 0;
}

/* Returns the number of elements in the parts of lower tp ranks. */
static size_t part_begin(const tess_fsdp *fsdp, const tess_fsdp_param *p, int tp)
{
    size_t n = 0;
    for (int t = 0; t < tp && p->tp.kind == TESS_SHARD; t++) {
        const tess_box part = tess_fsdp_part(fsdp, p, t);
        n += (size_t)tess_box_count(p->shape.n_dims, &part);
    }
    return n;
}

/* `own`: the owners send their parts to the matrix. Otherwise the matrix is sent to all ranks that hold a part of
 * it. */
static void describe_parcels(const tess_fsdp *fsdp, const tess_matrix_turn *turn, bool own, matrix_parcels *p)
{
    const tess_shares shares = tess_shares_equal(fsdp->families[0]->teams.n_shards);
    int me = tess_team_rank(fsdp->topology.matrix_team), n = tess_team_size(fsdp->topology.matrix_team);
    for (int r = 0; r < n; r++) {
        int shard, tp;
        p->parts[r] = p->part_at[r] = p->rows[r] = p->row_at[r] = 0;
        find_rank(fsdp, r, &shard, &tp);
        if (r < turn->n) {
            const tess_fsdp_param *param = tess_fsdp_param_at(fsdp, turn->which[r]);
            const tess_box *box = own ? &param->own : &param->held;
            p->parts[r] = !own || gives(param, fsdp->topology.tp) ? (size_t)(box->size[0] * param->row) : 0;
            p->part_at[r] =
                (size_t)(turn->part[r] - turn->part[0] + (box->begin[0] - param->held.begin[0]) * param->row);
        }
        if (me >= turn->n)
            continue;
        const tess_fsdp_param *mine = tess_fsdp_param_at(fsdp, turn->which[me]);
        const tess_box part = tess_fsdp_part(fsdp, mine, tp);
        int64_t begin = 0, n_rows = part.size[0], row = tess_box_count(mine->shape.n_dims, &part) / (n_rows + !n_rows);
        if (own || !fsdp->families[0]->facts.replicated)
            tess_shares_rows(&shares, part.size[0], shard, &begin, &n_rows);
        p->rows[r] = !own || gives(mine, tp) ? (size_t)(n_rows * row) : 0;
        p->row_at[r] = part_begin(fsdp, mine, tp) + (size_t)(begin * row);
    }
}

/* Copies between the matrix and the parts of the tp ranks, which follow each other in `parts`. */
static void copy_parts(const tess_fsdp *fsdp, const tess_fsdp_param *p, float *parts, float *whole, bool to_whole)
{
    const tess_box all = tess_box_whole(&p->shape);
    for (int t = 0; t < fsdp->topology.n_tp; t++) {
        const tess_box part = tess_fsdp_part(fsdp, p, t);
        float *at = parts + part_begin(fsdp, p, t);
        if (to_whole)
            tess_box_copy(p->shape.n_dims, sizeof(float), &part, &part, at, &all, whole);
        else
            tess_box_copy(p->shape.n_dims, sizeof(float), &part, &all, whole, &part, at);
    }
}

/* Returns this rank's matrix if several ranks have columns of it. NULL: its columns are whole, or this rank has no
 * matrix, or a dry one, of which no part is copied. */
static const tess_fsdp_param *cut_matrix(const tess_fsdp *fsdp, const tess_matrix_turn *turn)
{
    int me = tess_team_rank(fsdp->topology.matrix_team);
    const tess_fsdp_param *p = me < turn->n ? tess_fsdp_param_at(fsdp, turn->which[me]) : NULL;
    return p != NULL && tess_fsdp_cuts_rows(fsdp, p) && !tess_mem_is_dry(fsdp->place.mem) ? p : NULL;
}

static tess_status gather(void *self, const tess_matrix_turn *turn)
{
    tess_fsdp *fsdp = self;
    const tess_fsdp_param *cut = cut_matrix(fsdp, turn);
    matrix_parcels p;
    TESS_TRY(alloc_parcels(fsdp, &p));
    describe_parcels(fsdp, turn, true, &p);
    tess_team_label(fsdp->topology.matrix_team, "matrices", -1);
    tess_status status = tess_all_to_all_v(fsdp->topology.matrix_team, turn->part[0], p.parts, p.part_at,
                                           cut != NULL ? turn->room : turn->whole, p.rows, p.row_at, TESS_F32, NULL);
    if (status == TESS_OK && cut != NULL)
        copy_parts(fsdp, cut, turn->room, turn->whole, true);
    tess_team_label(fsdp->topology.matrix_team, NULL, -1);
    tess_mem_free(fsdp->place.mem, p.parts);
    return status;
}

static tess_status scatter(void *self, const tess_matrix_turn *turn)
{
    tess_fsdp *fsdp = self;
    const tess_fsdp_param *cut = cut_matrix(fsdp, turn);
    matrix_parcels p;
    TESS_TRY(alloc_parcels(fsdp, &p));
    describe_parcels(fsdp, turn, false, &p);
    if (cut != NULL)
        copy_parts(fsdp, cut, turn->room, turn->whole, false);
    tess_team_label(fsdp->topology.matrix_team, "matrices", -1);
    tess_status status = tess_all_to_all_v(fsdp->topology.matrix_team, cut != NULL ? turn->room : turn->whole, p.rows,
                                           p.row_at, turn->part[0], p.parts, p.part_at, TESS_F32, NULL);
    tess_team_label(fsdp->topology.matrix_team, NULL, -1);
    tess_mem_free(fsdp->place.mem, p.parts);
    return status;
}

/* Creates the team once; only optimizers of matrices need it. */
static tess_status find_matrix_team(tess_fsdp *fsdp)
{
    static const char *const names[] = {"dp_shard", "tp"};
    if (fsdp->topology.matrix_team != NULL)
        return TESS_OK;
    if (fsdp->topology.n_tp > 1)
        TESS_TRY_CTX(tess_mesh_slice(fsdp->topology.mesh, names, 2, &fsdp->topology.matrix_mesh),
                     "fsdp: team for whole matrices");
    fsdp->topology.matrix_team = fsdp->topology.matrix_mesh != NULL ? tess_mesh_all(fsdp->topology.matrix_mesh)
                                                                    : fsdp->families[0]->teams.shard_team;
    return TESS_OK;
}

tess_status tess_fsdp_exchange_matrices(tess_fsdp *fsdp, const tess_optimizer_options *options,
                                        tess_matrix_exchange *exchange)
{
    *exchange = (tess_matrix_exchange){.n_ranks = 1};
    if (options->kind != TESS_MUON)
        return TESS_OK;
    TESS_CHECK(fsdp->n_families == 1, TESS_E_UNSUPPORTED, "fsdp: muon with units of several families");
    TESS_TRY(find_matrix_team(fsdp));
    *exchange = (tess_matrix_exchange){fsdp, tess_team_size(fsdp->topology.matrix_team),
                                       tess_team_rank(fsdp->topology.matrix_team), gather, scatter};
    return TESS_OK;
}
