/* Whole matrices for optimizers that need them (optim/muon.c): the ranks of the shard team put the rows that they own
 * together, a matrix for each rank at the same time, and get back the rows that they hold. Replicas do the same beside
 * each other, so a step needs nobody of another replica. */
#include "parallel/fsdp/fsdp_impl.h"

static const tess_fsdp_param *param_of(const tess_fsdp *fsdp, int span)
{
    return &fsdp->params[span].unit->params[fsdp->params[span].index];
}

/* Elements and their place, of each rank of the team. */
typedef struct matrix_parcels {
    size_t *parts, *part_at; /* what this rank sends, or gets: of the matrix of each rank */
    size_t *rows, *row_at;   /* of its own matrix: the rows of each rank */
} matrix_parcels;

static tess_status alloc_parcels(const tess_fsdp *fsdp, matrix_parcels *p)
{
    size_t n = (size_t)fsdp->n_shards;
    TESS_TRY(tess_mem_alloc_array(fsdp->mem, TESS_POOL_MISC, 4 * n, sizeof(size_t), "matrices", (void **)&p->parts));
    p->part_at = p->parts + n;
    p->rows = p->part_at + n;
    p->row_at = p->rows + n;
    return TESS_OK;
}

/* own: rows go from their owners to the matrix; else from the matrix to all that hold them. */
static void describe_parcels(const tess_fsdp *fsdp, const optim_turn *turn, bool own, matrix_parcels *p)
{
    for (int r = 0; r < fsdp->n_shards; r++) {
        p->parts[r] = p->part_at[r] = p->rows[r] = p->row_at[r] = 0;
        if (r < turn->n) {
            const tess_fsdp_param *param = param_of(fsdp, turn->which[r]);
            const tess_box *box = own ? &param->own : &param->held;
            p->parts[r] = (size_t)(box->size[0] * param->row);
            p->part_at[r] =
                (size_t)(turn->part[r] - turn->part[0] + (box->begin[0] - param->held.begin[0]) * param->row);
        }
        if (fsdp->shard >= turn->n)
            continue;
        const tess_fsdp_param *mine = param_of(fsdp, turn->which[fsdp->shard]);
        int64_t begin = 0, n = mine->rows;
        if (own || !fsdp->replicated)
            tess_shard_rows(mine->rows, fsdp->n_shards, r, &begin, &n);
        p->rows[r] = (size_t)(n * mine->row);
        p->row_at[r] = (size_t)(begin * mine->row);
    }
}

static tess_status gather(void *self, const optim_turn *turn)
{
    tess_fsdp *fsdp = self;
    matrix_parcels p;
    TESS_TRY(alloc_parcels(fsdp, &p));
    describe_parcels(fsdp, turn, true, &p);
    tess_team_label(fsdp->shard_team, "matrices", -1);
    tess_status status = tess_all_to_all_v(fsdp->shard_team, turn->part[0], p.parts, p.part_at, turn->whole, p.rows,
                                           p.row_at, TESS_F32, NULL);
    tess_team_label(fsdp->shard_team, NULL, -1);
    tess_mem_free(fsdp->mem, p.parts);
    return status;
}

static tess_status scatter(void *self, const optim_turn *turn)
{
    tess_fsdp *fsdp = self;
    matrix_parcels p;
    TESS_TRY(alloc_parcels(fsdp, &p));
    describe_parcels(fsdp, turn, false, &p);
    tess_team_label(fsdp->shard_team, "matrices", -1);
    tess_status status = tess_all_to_all_v(fsdp->shard_team, turn->whole, p.rows, p.row_at, turn->part[0], p.parts,
                                           p.part_at, TESS_F32, NULL);
    tess_team_label(fsdp->shard_team, NULL, -1);
    tess_mem_free(fsdp->mem, p.parts);
    return status;
}

optim_exchange tess_fsdp_exchange_matrices(tess_fsdp *fsdp)
{
    return (optim_exchange){fsdp, fsdp->n_shards, fsdp->shard, gather, scatter};
}

tess_status tess_fsdp_check_matrices(const tess_fsdp *fsdp, const tess_optimizer_options *options)
{
    for (int i = 0; i < fsdp->n_params && options->kind == TESS_MUON; i++) {
        const tess_fsdp_param *p = param_of(fsdp, i);
        TESS_CHECK(fsdp->n_tp == 1 || !p->hidden || p->tp.kind != TESS_SHARD, TESS_E_UNSUPPORTED,
                   "muon needs whole matrices, and ranks that share layers have parts of '%s': use adamw, or "
                   "parallelism.tensor_parallel_degree=1",
                   p->name);
    }
    return TESS_OK;
}
