/* training.local_batch_size=auto: chooses the number of rows for the memory of this host (plan/batch_choice.h). A
 * launcher chooses before it starts ranks. Ranks that something else has started choose together. */
#ifndef TESS_TRAIN_AUTO_BATCH_H
#define TESS_TRAIN_AUTO_BATCH_H

#include "train/task.h"

/* Sets an open training.local_batch_size for n_ranks ranks of this host, and reports it.
 * TESS_E_INVALID: not even the smallest micro-batch fits, or the memory is not known; the message says what is missing,
 * and what would fit. */
tess_status tess_train_choose_batch(tess_mem *mem, const tess_task_kind *kind, int n_ranks,
                                    const tess_reporter *reporter, tess_config *config);

/* Does the same for the ranks of a job. Rank 0 chooses, for the host that has least memory. Collective over all ranks
 * of the runtime. */
tess_status tess_trainer_choose_batch(tess_trainer *trainer);

#endif
