/* Writes metrics.jsonl and the TensorBoard files of a run. Only rank 0 has them. */
#ifndef TESS_TRAIN_METRICS_H
#define TESS_TRAIN_METRICS_H

#include "base/text/text.h"
#include "train/tensorboard.h"
#include "train/train.h"

typedef struct tess_metrics tess_metrics;

/* Opens <dump_folder>/metrics.jsonl for appending after `step`. Removes lines of later steps, which will run again.
 * If `step` is 0, starts a new file. */
tess_status tess_metrics_open(tess_mem *mem, const tess_config *config, int64_t step, tess_metrics **metrics);
/* Opens another file of lines in that folder in the same way, without TensorBoard files. */
tess_status tess_metrics_open_lines(tess_mem *mem, const tess_config *config, const char *name, int64_t step,
                                    tess_metrics **metrics);
/* Whether the file already has a line of that kind for `step`: of the step, its validation or its other numbers. */
bool tess_metrics_has_step(const tess_metrics *metrics, int64_t step);
bool tess_metrics_has_validation(const tess_metrics *metrics, int64_t step);
/* Writes the line of a step. If it cannot be written (TESS_E_NO_SPACE, TESS_E_IO), it waits in memory and is written
 * before the next line once there is room. TensorBoard's records wait in the same way. Lines are never cut. */
tess_status tess_metrics_step(tess_metrics *metrics, const tess_step_report *report);
tess_status tess_metrics_validation(tess_metrics *metrics, const tess_validation_report *report);
/* Writes the line {"step": step, `members`}. `members` is JSON: "\"a\": 1, \"b\": 2"; errors as above. */
tess_status tess_metrics_members(tess_metrics *metrics, int64_t step, const char *members);
/* Returns the TensorBoard files, which belong to the metrics; NULL: they are off. */
tess_tensorboard *tess_metrics_board(const tess_metrics *metrics);
/* Writes a line with other numbers of a step; errors as above. */
tess_status tess_metrics_add(tess_metrics *metrics, int64_t step, const tess_metric *values, int n);
/* Writes {"name": {"params": 1, ...}} for each array: bytes of each pool at a step. */
typedef struct tess_pool_numbers {
    const char *name;
    int64_t bytes[TESS_POOL_COUNT];
} tess_pool_numbers;

tess_status tess_metrics_pools(tess_metrics *metrics, int64_t step, const tess_pool_numbers *numbers, int n);
/* Begins a line of other content, {"step": N, and returns the buffer that takes its members. The second ends and writes
 * it; errors as above. */
tess_buffer *tess_metrics_begin_line(tess_metrics *metrics, int64_t step);
tess_status tess_metrics_end_line(tess_metrics *metrics);
/* Writes the lines that wait. */
tess_status tess_metrics_flush(tess_metrics *metrics);

typedef struct tess_metrics_backlog {
    int64_t n_lines; /* number of lines that wait */
    int64_t n_lost;  /* number of lines lost so far because too many were waiting */
} tess_metrics_backlog;

tess_metrics_backlog tess_metrics_waiting(const tess_metrics *metrics);

/* News for the user about lines that cannot be written. text "": there is none. */
typedef struct tess_metrics_news {
    bool is_warning;
    char text[700];
} tess_metrics_news;

/* Takes the status of a write at `step`, and the error with it. Returns news when lines begin to wait for a full disk,
 * and when they are written again. A full disk loses no lines while memory can hold them, and never ends the run. */
tess_metrics_news tess_metrics_see(tess_metrics *metrics, int64_t step, tess_status written);
/* Call it before the metrics are closed: returns a warning about lines that are lost with them. */
tess_metrics_news tess_metrics_see_end(const tess_metrics *metrics, const char *why);
/* Whether the newest line could not be written. */
bool tess_metrics_is_behind(const tess_metrics *metrics);
/* Closes the file. Lines that still wait are lost. */
void tess_metrics_close(tess_metrics **metrics);

#endif
