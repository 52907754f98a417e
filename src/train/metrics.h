/* metrics.jsonl and TensorBoard files of a run, on rank 0. */
#ifndef TESS_TRAIN_METRICS_H
#define TESS_TRAIN_METRICS_H

#include "train/train.h"

typedef struct tess_metrics tess_metrics;

/* Opens <dump_folder>/metrics.jsonl for appending after `step` (later lines, of steps that will run again, are removed;
 * 0 starts a new file). */
tess_status tess_metrics_open(tess_mem *mem, const tess_config *config, int64_t step, tess_metrics **metrics);
/* Whether the file has a line of `step`, or of its validation, already. */
bool tess_metrics_has_step(const tess_metrics *metrics, int64_t step);
bool tess_metrics_has_validation(const tess_metrics *metrics, int64_t step);
/* What cannot be written (TESS_E_NO_SPACE, TESS_E_IO) is lost, and nothing else: later lines are whole. */
tess_status tess_metrics_step(tess_metrics *metrics, const tess_step_report *report);
tess_status tess_metrics_validation(tess_metrics *metrics, const tess_validation_report *report);
void tess_metrics_close(tess_metrics **metrics);

#endif
