/* The memory that a run will take, as a table for people: a row a rank, a column a pool. */
#ifndef TESS_TRAIN_MEMORY_TABLE_H
#define TESS_TRAIN_MEMORY_TABLE_H

#include "base/text/text.h"
#include "train/task.h"

/* Appends the table of `n_ranks` ranks on one host that do a task of `kind`, and a line a pool that says what it holds.
 * `config` as it was loaded; it is checked as for training, the model's file with it, and its open values are set.
 * TESS_E_INVALID: what tessera train would say. */
tess_status tess_memory_table(tess_mem *mem, const tess_task_kind *kind, tess_config *config, int n_ranks,
                              tess_buffer *text);

#endif
