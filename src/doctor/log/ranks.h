/* Ranks of a survey, counted and named. */
#ifndef TESS_DOCTOR_LOG_RANKS_H
#define TESS_DOCTOR_LOG_RANKS_H

#include "doctor/log/log.h"

/* Which ranks a text is to name. */
typedef bool (*log_rank_fn)(const void *context, int rank);

/* "rank 3", "ranks 0-2,4-7"; cut with "..." where `size` is small. Returns text. */
const char *log_name_ranks(log_rank_fn is_in, const void *context, int n_ranks, char *text, size_t size);
int log_count_ranks(log_rank_fn is_in, const void *context, int n_ranks);

#endif
