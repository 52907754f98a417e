#include "parallel/tensor/tensor_points.h"

#include "base/mem/scoped.h"
#include "comm/box_move.h"

struct tess_tensor {
    tess_mem *mem;
    tess_team *team;
    tess_box_room *room;
    int rank, degree;
    tess_box *boxes; /* (2, degree) what each rank holds, and what it wants */
    uint64_t received;
};

static void find_boxes(const tess_cut cuts[2], int degree, tess_box *boxes)
{
    for (int r = 0; r < degree; r++)
        for (int d = 0; d < 2; d++)
            tess_cut_range(cuts[d], degree, r, &boxes[r].begin[d], &boxes[r].size[d]);
}

static tess_status move(tess_tensor *t, const tess_exchange *x)
{
    const tess_box_move m = {.n_dims = 2,
                             .element = x->element,
                             .had = t->boxes,
                             .gets = t->boxes + t->degree,
                             .in = x->mine,
                             .out = x->into,
                             .in_pitch = x->ld,
                             .out_pitch = x->into_ld};
    size_t received = 0;
    find_boxes(x->held, t->degree, t->boxes);
    find_boxes(x->wanted, t->degree, t->boxes + t->degree);
    tess_team_label(t->team, x->what, -1);
    tess_status status = tess_move_boxes(t->team, t->room, &m, &received);
    tess_team_label(t->team, NULL, -1);
    t->received += received;
    return status;
}

static tess_status exchange(void *self, const tess_exchange *x)
{
    TESS_TRY_CTX(move(self, x), "exchange of '%s'", x->what);
    return TESS_OK;
}

tess_points tess_tensor_points(tess_tensor *t)
{
    return (tess_points){t, t->rank, t->degree, exchange};
}

uint64_t tess_tensor_received(const tess_tensor *t)
{
    return t->received;
}

tess_status tess_tensor_create(tess_mem *mem, tess_team *team, tess_stream *stream, size_t most, tess_tensor **out)
{
    TESS_AUTO(tess_tensor_destroy) tess_tensor *t = NULL;
    const int degree = tess_team_size(team);
    *out = NULL;
    TESS_TRY(TESS_NEW(mem, 1, "points", &t));
    *t = (tess_tensor){.mem = mem, .team = team, .rank = tess_team_rank(team), .degree = degree};
    TESS_TRY(TESS_PART(t, 2 * (size_t)degree, "points", &t->boxes));
    TESS_TRY(tess_box_room_create(team, stream, most, &t->room));
    *out = TESS_GIVE(t);
    return TESS_OK;
}

size_t tess_tensor_device_bytes(const tess_team *team, size_t most)
{
    return tess_box_room_device_bytes(team, most);
}

void tess_tensor_destroy(tess_tensor **handle)
{
    tess_tensor *t = *handle;
    if (t == NULL)
        return;
    tess_box_room_destroy(&t->room);
    tess_mem_drop(handle);
}
