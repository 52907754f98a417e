/* Reads figures from the system: memory, open files, disk and load. Each takes less than a millisecond, except on
 * disks that do not answer: a network file system may block tess_health_read_disk forever. `root` is put before
 * "/proc"; it is "" except in tests. A value that cannot be read remains unknown. Thread-safe. */
#ifndef TESS_HEALTH_FACTS_H
#define TESS_HEALTH_FACTS_H

#include "health/health_rules.h"

tess_health_reading tess_health_read_memory(const char *root);
/* Reads the memory that `pid`'s most restricted control group uses, without cached files that the system could drop
 * at once. */
tess_health_reading tess_health_read_group(int pid);
/* Reads the one-minute load average divided by the number of cores that this process may use. */
tess_health_reading tess_health_read_load(const char *root);

/* Reads the largest share of its open-file limit that any of the processes `pids` (n; <= 0: none) uses. .rank is the
 * index of that process in `pids`, and .limit is nine tenths of its limit. */
tess_health_reading tess_health_read_files(const char *root, const int *pids, int n);

/* Reads the free bytes and files of the file system of `folder`, or of its nearest existing parent. .limit is the
 * room for two more checkpoints as large as the newest one in `folder` ("step-..."); without a checkpoint there is
 * none. */
void tess_health_read_disk(const char *folder, tess_health_reading *bytes, tess_health_reading *files);

#endif
