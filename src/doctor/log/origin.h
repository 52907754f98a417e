/* Who says a line, and when: what launchers and loggers put in front of it. */
#ifndef TESS_DOCTOR_LOG_ORIGIN_H
#define TESS_DOCTOR_LOG_ORIGIN_H

#include <stdbool.h>
#include <stddef.h>

enum { LOG_MOST_RANKS = 1 << 16, LOG_HEAD = 160 };

/* The rank in front of a line: "[rank6]:", "[PG ID 1 PG GUID 1 Rank 6]", "[default6]:", "[1,6]<stderr>:" (Open MPI),
 * "6: " (srun -l), "[6] " (mpiexec -prepend-rank). -1: none. */
int log_rank_of_line(const char *line, size_t size);
/* "rank 6" in the words of a line. -1: none. */
int log_rank_in_words(const char *line, size_t size);
/* "rank6.log", "rank-00006", ".../attempt_0/6/stderr.log" (torchrun). -1: none. */
int log_rank_of_path(const char *path);
/* Whether something like 13:20:49 stands within the first LOG_HEAD bytes. */
bool log_has_time(const char *line, size_t size);
/* Seconds since the year's beginning of a time within the first LOG_HEAD bytes, whatever its zone: "[E717 13:20:49.40",
 * "2024-07-17 13:20:49,407", "Jul 17 13:20:49", "07/17/2024 13:20:49". Negative: none. */
double log_time_of_line(const char *line, size_t size);

#endif
