#include "parallel/expert/expert_points.h"

#include "base/mem/scoped.h"
#include "comm/split.h"

struct tess_expert_team {
    tess_team *team;
    size_t *bytes; /* (4, degree) what each rank gets and gives, in bytes, and where it lies */
    uint64_t received;
};

static tess_split_place place_of(const void *degree, int rank)
{
    return (tess_split_place){.color = rank / *(const int *)degree};
}

tess_status tess_expert_team_create(tess_team *parent, int degree, tess_expert_team **out)
{
    TESS_AUTO(tess_expert_team_destroy) tess_expert_team *t = NULL;
    *out = NULL;
    TESS_TRY(TESS_NEW(tess_runtime_mem(tess_team_runtime(parent)), 1, "experts", &t));
    *t = (tess_expert_team){0};
    TESS_TRY(TESS_PART(t, 4 * (size_t)degree, "experts", &t->bytes));
    TESS_TRY(tess_team_split_by(parent, place_of, &degree, "experts", &t->team));
    *out = TESS_GIVE(t);
    return TESS_OK;
}

void tess_expert_team_destroy(tess_expert_team **handle)
{
    if (*handle == NULL)
        return;
    tess_team_destroy(&(*handle)->team);
    tess_mem_drop(handle);
}

static tess_status counts(void *self, const int32_t *mine, int32_t *theirs, int64_t n)
{
    const tess_expert_team *t = self;
    tess_team_label(t->team, "counts", -1);
    tess_status status = tess_all_to_all(t->team, mine, theirs, (size_t)n, TESS_I32, NULL);
    tess_team_label(t->team, NULL, -1);
    TESS_TRY_CTX(status, "numbers of tokens for each expert");
    return TESS_OK;
}

static tess_status rows(void *self, const tess_row_exchange *x)
{
    tess_expert_team *t = self;
    const int n = tess_team_size(t->team), me = tess_team_rank(t->team);
    size_t *in = t->bytes, *in_at = in + n, *out = in_at + n, *out_at = out + n;
    for (int r = 0; r < n; r++) {
        in[r] = x->in_rows[r] * x->row_bytes;
        in_at[r] = x->in_at[r] * x->row_bytes;
        out[r] = x->out_rows[r] * x->row_bytes;
        out_at[r] = x->out_at[r] * x->row_bytes;
        t->received += r != me ? out[r] : 0;
    }
    tess_team_label(t->team, x->what, -1);
    tess_status status = tess_all_to_all_v(t->team, x->in, in, in_at, x->out, out, out_at, TESS_U8, NULL);
    tess_team_label(t->team, NULL, -1);
    TESS_TRY_CTX(status, "rows of '%s'", x->what);
    return TESS_OK;
}

tess_expert_points tess_expert_team_points(tess_expert_team *t)
{
    return (tess_expert_points){t, tess_team_rank(t->team), tess_team_size(t->team), counts, rows};
}

uint64_t tess_expert_team_received(const tess_expert_team *t)
{
    return t->received;
}
