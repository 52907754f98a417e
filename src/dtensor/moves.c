/* Plans a change of placements as a list of collectives, each along one axis. */
#include "dtensor/dtensor_impl.h"

const char *tess_move_name(tess_move_kind kind)
{
    static const char *const names[] = {[TESS_MOVE_SLICE] = "slice",
                                        [TESS_MOVE_PAD] = "pad",
                                        [TESS_MOVE_GATHER] = "all_gather",
                                        [TESS_MOVE_REDUCE] = "all_reduce",
                                        [TESS_MOVE_REDUCE_SCATTER] = "reduce_scatter",
                                        [TESS_MOVE_EXCHANGE] = "all_to_all"};
    return (unsigned)kind <= TESS_MOVE_EXCHANGE ? names[kind] : "unknown";
}

/* The state of a plan. A dimension is cut by a stack of axes. Axes at the same position of the stack before and
 * after the change stay. The other axes of the old stack are removed from the top down, and the new ones are added
 * in their order. */
typedef struct planner {
    const tess_spec *to;
    tess_spec now;
    const int *sizes, *at;
} planner;

static bool same_place(tess_place a, tess_place b)
{
    return place_is(a, b.kind, b.dim);
}

/* Whether `axis` is already in its final place: all axes that cut its dimension before it are those of the target. */
static bool stays(const planner *p, int axis)
{
    tess_place place = p->now.place[axis];
    if (!same_place(place, p->to->place[axis]))
        return false;
    if (place.kind != TESS_SHARD)
        return true;
    int now[TESS_MESH_MAX_AXES], to[TESS_MESH_MAX_AXES];
    int n_now = spec_stack(&p->now, place.dim, now), n_to = spec_stack(p->to, place.dim, to);
    for (int i = 0; i < n_now && i < n_to && now[i] == to[i]; i++)
        if (now[i] == axis)
            return true;
    return false;
}

static bool is_last_cut(const planner *p, int axis)
{
    int stack[TESS_MESH_MAX_AXES], n = spec_stack(&p->now, p->now.place[axis].dim, stack);
    return stack[n - 1] == axis;
}

/* Whether `axis` may cut its target's dimension now: it is the next axis of the target's stack. */
static bool may_cut(const planner *p, int axis)
{
    tess_place place = p->to->place[axis];
    if (place.kind != TESS_SHARD || place_is(p->now.place[axis], TESS_SHARD, place.dim))
        return false;
    int now[TESS_MESH_MAX_AXES], to[TESS_MESH_MAX_AXES];
    int n_now = spec_stack(&p->now, place.dim, now), n_to = spec_stack(p->to, place.dim, to);
    for (int i = 0; i < n_now; i++)
        if (i >= n_to || now[i] != to[i])
            return false;
    return n_now < n_to && to[n_now] == axis;
}

/* Finds a move of one axis. `gathers` also allows moves that free an axis without bringing it to its target. */
static bool find_move(const planner *p, int axis, bool gathers, tess_move *move)
{
    tess_place from = p->now.place[axis], to = p->to->place[axis];
    if (stays(p, axis) || (from.kind == TESS_SHARD && !is_last_cut(p, axis)))
        return false;
    *move = (tess_move){.axis = axis, .from = from, .to = to};
    if (to.kind == TESS_SHARD && may_cut(p, axis)) {
        move->kind = from.kind == TESS_SHARD     ? TESS_MOVE_EXCHANGE
                     : from.kind == TESS_PARTIAL ? TESS_MOVE_REDUCE_SCATTER
                                                 : TESS_MOVE_SLICE;
        return true;
    }
    if (to.kind == TESS_PARTIAL) { /* it was a shard or a replica */
        move->kind = TESS_MOVE_PAD;
        return true;
    }
    if (from.kind == TESS_REPLICATE || !gathers)
        return false;
    move->kind = from.kind == TESS_SHARD ? TESS_MOVE_GATHER : TESS_MOVE_REDUCE;
    move->to = (tess_place){.kind = TESS_REPLICATE};
    return from.kind == TESS_SHARD || to.kind == TESS_REPLICATE;
}

tess_spec spec_after(const tess_spec *spec, const tess_move *move)
{
    tess_spec after = *spec;
    int stack[TESS_MESH_MAX_AXES];
    after.place[move->axis] = (tess_place){.kind = TESS_REPLICATE};
    if (move->to.kind == TESS_SHARD) {
        int n = spec_stack(&after, move->to.dim, stack);
        after.order[move->axis] = n > 0 ? (uint8_t)(after.order[stack[n - 1]] + 1) : 0;
    }
    after.place[move->axis] = move->to;
    return after;
}

static int64_t count_received(const planner *p, const tess_spec *after, const tess_move *move)
{
    int n_dims = p->to->shape.n_dims;
    tess_box had = tess_spec_box(&p->now, p->sizes, p->at), gets = tess_spec_box(after, p->sizes, p->at), kept;
    int64_t others = p->sizes[move->axis] - 1, n = tess_box_count(n_dims, &gets);
    switch (move->kind) {
    case TESS_MOVE_GATHER:
    case TESS_MOVE_EXCHANGE:
        return tess_box_meet(n_dims, &had, &gets, &kept) ? n - tess_box_count(n_dims, &kept) : n;
    case TESS_MOVE_REDUCE_SCATTER:
        return n * others;
    case TESS_MOVE_REDUCE:
        return 2 * n * others / (others + 1);
    default:
        return 0;
    }
}

int tess_spec_moves(const tess_spec *from, const tess_spec *to, const int *sizes, const int *at,
                    tess_move moves[TESS_MAX_MOVES])
{
    planner p = {.to = to, .now = *from, .sizes = sizes, .at = at};
    for (int d = 0; d < from->shape.n_dims; d++) { /* number the cuts 0, 1, ..., so that later ones can follow */
        int stack[TESS_MESH_MAX_AXES], n = spec_stack(from, d, stack);
        for (int i = 0; i < n; i++)
            p.now.order[stack[i]] = (uint8_t)i;
    }
    int n_moves = 0;
    for (bool found = true; found;) {
        found = false;
        /* First come moves that make a rank's part smaller, and moves that finish an axis at once. */
        for (int gathers = 0; gathers <= 1 && !found; gathers++)
            for (int a = from->n_axes - 1; a >= 0 && !found; a--)
                found = find_move(&p, a, gathers == 1, &moves[n_moves]);
        if (found) {
            tess_spec after = spec_after(&p.now, &moves[n_moves]);
            moves[n_moves].received = count_received(&p, &after, &moves[n_moves]);
            p.now = after;
            n_moves++;
        }
    }
    return n_moves;
}
