#include "mesh/rank_order.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "mesh/coordinates.h"
#include "mesh/mesh_layout.h"

/* ---- The order of axes ---- */
/* Numbers ranks along the axes that `word` names: one, or all that divide micro-batches ("dp"). */
static tess_status add_axes(const char *word, tess_rank_order *order, int *stride)
{
    bool found = false;
    for (int axis = TESS_AXES - 1; axis >= 0; axis--) {
        const bool all = strcmp(word, "dp") == 0 && tess_axis_kind_of(axis) == TESS_AXIS_OF_BATCH;
        if (!all && strcmp(word, tess_axis_name(axis)) != 0)
            continue;
        TESS_CHECK(order->stride[axis] == 0, TESS_E_INVALID, "axis '%s' is named twice", tess_axis_name(axis));
        order->stride[axis] = *stride;
        *stride *= order->degree[axis];
        found = true;
    }
    TESS_CHECK(found, TESS_E_INVALID,
               "'%s' is no axis: write an order such as tp-dp-pp, the fastest axis first, or ranks such as 0,2,1,3",
               word);
    return TESS_OK;
}

static tess_status read_axes(const char *text, tess_rank_order *order)
{
    char words[TESS_TEXT_SIZE], *rest = words;
    int stride = 1;
    snprintf(words, sizeof(words), "%s", text);
    for (char *word = strtok_r(words, "-", &rest); word != NULL; word = strtok_r(NULL, "-", &rest))
        TESS_TRY(add_axes(word, order, &stride));
    for (int axis = 0; axis < TESS_AXES; axis++)
        TESS_CHECK(order->stride[axis] > 0 || order->degree[axis] == 1, TESS_E_INVALID,
                   "'%s' leaves out the axis %s of %d ranks: add it", text, tess_axis_name(axis), order->degree[axis]);
    return TESS_OK;
}

/* ---- Ranges ---- */
static tess_status read_range(const char *text, int world, tess_rank_range *range)
{
    int first, last, step = 1, n = 0;
    bool is_range = sscanf(text, "%9d%n", &first, &n) == 1;
    last = first;
    if (is_range && text[n] == '-' && sscanf(text, "%9d-%9d%n", &first, &last, &n) == 2 && text[n] == ':')
        is_range = sscanf(text, "%9d-%9d:%9d%n", &first, &last, &step, &n) == 3;
    TESS_CHECK(is_range && text[n] == '\0' && first >= 0 && last >= first && step >= 1, TESS_E_INVALID,
               "'%s' is no rank: write numbers, ranges such as 0-3, or 0-6:2 for every second one", text);
    TESS_CHECK(last < world, TESS_E_INVALID, "'%s' has rank %d, but the ranks that train are 0 to %d", text, last,
               world - 1);
    *range = (tess_rank_range){first, step, (last - first) / step + 1};
    return TESS_OK;
}

static bool has_rank(const tess_rank_range *range, int rank)
{
    const int past = rank - range->first;
    return past >= 0 && past % range->step == 0 && past / range->step < range->n;
}

/* Checks that each rank is listed once, and rank 0 first. */
static tess_status check_ranges(const tess_rank_order *order, int world)
{
    for (int rank = 0; rank < world; rank++) {
        int n = 0;
        for (int i = 0; i < order->n; i++)
            n += has_rank(&order->ranges[i], rank);
        TESS_CHECK(n == 1, TESS_E_INVALID, "rank %d is listed %d times: list each of 0 to %d once", rank, n, world - 1);
    }
    TESS_CHECK(order->ranges[0].first == 0, TESS_E_INVALID,
               "rank %d is the first: begin with rank 0, which reports and writes for all", order->ranges[0].first);
    return TESS_OK;
}

static tess_status read_order(const tess_text_list *list, tess_rank_order *order)
{
    const int world = tess_coordinates_by(order->degree, 0).world;
    for (int axis = 0; axis < TESS_AXES && order->by_number; axis++)
        order->stride[axis] = tess_axis_stride(order->degree, axis);
    if (list->n == 1 && isalpha((unsigned char)list->item[0][0]))
        return read_axes(list->item[0], order);
    for (; order->n < list->n; order->n++)
        TESS_TRY(read_range(list->item[order->n], world, &order->ranges[order->n]));
    return order->n > 0 ? check_ranges(order, world) : TESS_OK;
}

tess_status tess_rank_order_read(const tess_parallelism_section *parallelism, tess_rank_order *order)
{
    *order = (tess_rank_order){.by_number = parallelism->rank_order.n == 0};
    tess_axes_degrees(parallelism, order->degree);
    TESS_TRY_CTX(read_order(&parallelism->rank_order, order), "parallelism.rank_order");
    return TESS_OK;
}

int tess_rank_order_at(const tess_rank_order *order, int place)
{
    int rank = 0, i = 0;
    const tess_coordinates at = tess_coordinates_by(order->degree, place);
    for (int axis = 0; axis < TESS_AXES && order->n == 0; axis++)
        rank += at.place[axis] * order->stride[axis];
    for (; i < order->n && place >= order->ranges[i].n; i++)
        place -= order->ranges[i].n;
    return i < order->n ? order->ranges[i].first + place * order->ranges[i].step : rank;
}

/* ---- Hosts ---- */
/* Moves the ranks of each group of the axis to one host, unless they are. */
static tess_status keep_inside(const tess_rank_order *order, int axis, int world, int *hosts, int *ranks)
{
    tess_axis axes[TESS_AXES];
    tess_mesh_layout layout;
    for (int a = 0; a < TESS_AXES; a++)
        axes[a] = (tess_axis){tess_axis_name(a), order->degree[a]};
    TESS_TRY(tess_mesh_layout_fit(axes, TESS_AXES, world, &layout));
    layout.hosts = hosts;
    layout.ranks = ranks;
    if (!tess_mesh_layout_crosses(&layout, axis))
        return TESS_OK;
    TESS_CHECK(order->by_number, TESS_E_INVALID,
               "groups of %s cross hosts in the order of parallelism.rank_order: leave that out, or list the ranks of "
               "each group on one host",
               axes[axis].name);
    layout.ranks = NULL;
    return tess_mesh_layout_inside(&layout, axis, ranks);
}

tess_status tess_rank_order_fill(const tess_parallelism_section *parallelism, int *hosts, int *ranks, bool *ordered)
{
    tess_rank_order order;
    const int world = tess_coordinates_of(parallelism, 0).world, inside = parallelism->inside_hosts - 1;
    TESS_TRY(tess_rank_order_read(parallelism, &order));
    for (int place = 0; place < world; place++)
        ranks[place] = tess_rank_order_at(&order, place);
    if (inside >= 0 && hosts != NULL)
        TESS_TRY_CTX(keep_inside(&order, inside, world, hosts, ranks), "parallelism.inside_hosts=%s",
                     tess_axis_name(inside));
    *ordered = false;
    for (int place = 0; place < world; place++)
        *ordered |= ranks[place] != place;
    return TESS_OK;
}
