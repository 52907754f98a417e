/* The order of a run's ranks: which rank is at which place of its mesh (parallelism.rank_order and
 * parallelism.inside_hosts). A pure object: no I/O, no teams. Places are numbered row-major, as in tess_coordinates. */
#ifndef TESS_MESH_RANK_ORDER_H
#define TESS_MESH_RANK_ORDER_H

#include "mesh/axes.h"

/* The ranks first, first + step, first + 2 step, ... */
typedef struct tess_rank_range {
    int first, step, n;
} tess_rank_range;

typedef struct tess_rank_order {
    bool by_number;                         /* the user gives no order */
    int n;                                  /* number of ranges; 0: ranks are numbered along the axes */
    tess_rank_range ranges[TESS_LIST_SIZE]; /* (n) the ranks by place */
    int degree[TESS_AXES];
    int stride[TESS_AXES]; /* difference between the numbers of neighbours along each axis; not used with ranges */
} tess_rank_order;

/* Reads parallelism.rank_order, once the degrees are set.
 * TESS_E_INVALID: a word is no range and no axis, a rank is missing, outside of the run or listed twice, rank 0 is not
 * the first, or an axis is missing; the message says what to write */
tess_status tess_rank_order_read(const tess_parallelism_section *parallelism, tess_rank_order *order);
/* Returns the rank at a place. */
int tess_rank_order_at(const tess_rank_order *order, int place);

/* Writes the rank at each place, with the axis parallelism.inside_hosts on one host. hosts (world) are the hosts of
 * the ranks; NULL: all are on one. *ordered: some rank is not at the place of its number.
 * TESS_E_INVALID: as tess_rank_order_read; or the axis crosses hosts in an order that the user gives, or in any */
tess_status tess_rank_order_fill(const tess_parallelism_section *parallelism, int *hosts, int *ranks, bool *ordered);

/* Defined in mesh_order.c. Makes a team of the same ranks that numbers them by place. ranks (size of the team) has the
 * rank at each place. Collective. Errors are those of tess_mesh_create_ranks. */
tess_status tess_rank_order_team(tess_team *team, const int *ranks, tess_team **ordered);

#endif
