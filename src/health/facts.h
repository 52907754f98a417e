/* The readings that the system gives: memory, open files, disk, load. Each looks once, in less than a millisecond but
 * for disks that do not answer: a network file system may let tess_health_read_disk wait for as long as it likes.
 * `root` stands before "/proc": "" but in tests. What cannot be read stays unknown. Thread-safe. */
#ifndef TESS_HEALTH_FACTS_H
#define TESS_HEALTH_FACTS_H

#include "health/health.h"

tess_health_reading tess_health_read_memory(const char *root);
/* The tightest control group that `pid` is in, without what the system could drop at once (copies of files). */
tess_health_reading tess_health_read_group(int pid);
/* The average of a minute over cores that this process may run on. */
tess_health_reading tess_health_read_load(const char *root);

/* Of the processes `pids` (n; <= 0: none) that with most, as a share of what it may have: .rank is its place in `pids`.
 * The reading's own limit is nine tenths of what that process may open. */
tess_health_reading tess_health_read_files(const char *root, const int *pids, int n);

/* Free bytes and files of the file system of `folder`, or of the nearest folder above it that is there. The disk's own
 * limit is room for two more checkpoints as large as the newest one in `folder` ("step-..."), none when there is none.
 */
void tess_health_read_disk(const char *folder, tess_health_reading *bytes, tess_health_reading *files);

#endif
