/* Describes the memory that a run will take as a table: a row for each rank, a column for each pool. */
#ifndef TESS_PLAN_MEMORY_TABLE_H
#define TESS_PLAN_MEMORY_TABLE_H

#include "base/report/form.h"
#include "plan/memory_need.h"

/* The text of the member "memory" of a report: the table, and a line for each pool that explains its content. */
extern const char tess_memory_form[];

/* Adds the memory of `n_ranks` ranks on one host to a report, as its member "memory". `task` is what
 * ranks have in addition to training (NULL: nothing). `config` is checked as for training; its model's file is read and
 * checked here. TESS_E_INVALID: the same errors as in tessera train */
tess_status tess_memory_describe(tess_mem *mem, const tess_dry_task *task, const tess_config *config, int n_ranks,
                                 json_t *report);

#endif
