/* The order of a rank's computations in each kind of schedule, without messages. */
#ifndef TESS_PARALLEL_PIPELINE_PIPELINE_ORDERS_IMPL_H
#define TESS_PARALLEL_PIPELINE_PIPELINE_ORDERS_IMPL_H

#include "parallel/pipeline/pipeline.h"

typedef struct pipeline_order {
    const tess_pipeline_schedule *schedule;
    tess_pipeline_action *actions; /* (3 * chunks * micros) only op, chunk, micro and cell are set */
    int n;
    int weights; /* the BI whose BW comes next is at or after this action */
    int next[TESS_PIPELINE_BW + 1][TESS_PIPELINE_MAX_CHUNKS]; /* next micro-batch of each computation */
} pipeline_order;

/* Writes the computations of `rank` into an order whose `schedule` and `actions` are set and whose rest is 0. */
void pipeline_order_fill(pipeline_order *order, int rank);

/* A schedule's order as text (pipeline_csv.c). */
typedef struct pipeline_csv {
    const char *text; /* (size) */
    size_t size;
    const char *name; /* name of the file in messages */
} pipeline_csv;

/* Finds the next row, which is a line with more than separators and quotes. *at: where the search begins, and the end
 * of the row's line. Returns NULL if there is none. */
const char *pipeline_csv_next(const pipeline_csv *csv, const char **at);

/* Fills in the order from the row of `rank`. TESS_E_INVALID: the message names the row and the cell */
tess_status pipeline_csv_row(const pipeline_csv *csv, int rank, pipeline_order *order);

/* Builds the lists of all ranks. csv NULL: the order is that of shape->kind. */
tess_status pipeline_build_from(tess_mem *mem, const pipeline_csv *csv, const tess_pipeline_schedule *shape,
                                tess_pipeline_schedule *schedule);

#endif
