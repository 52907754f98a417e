/* Readings from the system: memory, open files, disk, load. Each takes less than a millisecond, except on disks that do
 * not answer: a network file system may block tess_health_read_disk indefinitely. `root` is put before "/proc": ""
 * except in tests. What cannot be read stays unknown. Thread-safe. */
#ifndef TESS_CONTROL_HEALTH_FACTS_H
#define TESS_CONTROL_HEALTH_FACTS_H

#include "control/health/health.h"

tess_health_reading tess_health_read_memory(const char *root);
/* Memory in use of `pid`'s tightest control group, without file copies that the system could drop at once. */
tess_health_reading tess_health_read_group(int pid);
/* The one-minute load average over the cores that this process may use. */
tess_health_reading tess_health_read_load(const char *root);

/* The largest share of its open-file limit that any of the processes `pids` (n; <= 0: none) uses; .rank is its index in
 * `pids`. The reading's own limit is nine tenths of that process's limit. */
tess_health_reading tess_health_read_files(const char *root, const int *pids, int n);

/* Free bytes and files of the file system of `folder`, or of its nearest existing parent. The disk's own limit is room
 * for two more checkpoints as large as the newest one in `folder` ("step-..."); without a checkpoint there is no limit.
 */
void tess_health_read_disk(const char *folder, tess_health_reading *bytes, tess_health_reading *files);

#endif
