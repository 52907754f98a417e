/* metrics.jsonl and TensorBoard files of a run, on rank 0. */
#ifndef TESS_TRAIN_METRICS_H
#define TESS_TRAIN_METRICS_H

#include "train/train.h"

typedef struct tess_metrics tess_metrics;

/* Opens <dump_folder>/metrics.jsonl to append after `step`. Removes later lines, whose steps will run again. 0 starts a
 * new file. */
tess_status tess_metrics_open(tess_mem *mem, const tess_config *config, int64_t step, tess_metrics **metrics);
/* The same of another file of lines in that folder, without TensorBoard. */
tess_status tess_metrics_open_lines(tess_mem *mem, const tess_config *config, const char *name, int64_t step,
                                    tess_metrics **metrics);
/* Whether the file already has a line for `step`, or for its validation or other numbers. */
bool tess_metrics_has_step(const tess_metrics *metrics, int64_t step);
bool tess_metrics_has_validation(const tess_metrics *metrics, int64_t step);
/* A line that cannot be written (TESS_E_NO_SPACE, TESS_E_IO) waits in memory, and is written before the next one once
 * there is room; so do TensorBoard's records. Lines are whole. */
tess_status tess_metrics_step(tess_metrics *metrics, const tess_step_report *report);
tess_status tess_metrics_validation(tess_metrics *metrics, const tess_validation_report *report);
/* A line of other numbers of a step, likewise. */
tess_status tess_metrics_add(tess_metrics *metrics, int64_t step, const tess_metric *values, int n);
/* "name": {"params": 1, ...} for each array: bytes by pool of a step. */
typedef struct tess_pool_numbers {
    const char *name;
    int64_t bytes[TESS_POOL_COUNT];
} tess_pool_numbers;

tess_status tess_metrics_pools(tess_metrics *metrics, int64_t step, const tess_pool_numbers *numbers, int n);
/* Writes what waits. */
tess_status tess_metrics_flush(tess_metrics *metrics);

typedef struct tess_metrics_backlog {
    int64_t n_lines; /* lines that wait */
    int64_t n_lost;  /* lines lost so far: more were waiting than memory is given to */
} tess_metrics_backlog;

tess_metrics_backlog tess_metrics_waiting(const tess_metrics *metrics);
/* Closes the file. Lines that still wait are lost. */
void tess_metrics_close(tess_metrics **metrics);

#endif
