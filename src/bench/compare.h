/* Compares two reports of the same bench: rows with the same name, by the ratio of their values. */
#ifndef TESS_BENCH_COMPARE_H
#define TESS_BENCH_COMPARE_H

#include "bench/bench_report.h"

/* Reads a file that tess_bench_report_write wrote, and checks that it is a report of `bench`. The caller owns the
 * reference *old. TESS_E_NOT_FOUND; TESS_E_FORMAT: the message names the file and the key; TESS_E_INVALID: it is a
 * report of another bench. */
tess_status tess_bench_compare_load(const char *path, const char *bench, json_t **old);

typedef struct tess_bench_comparison {
    int n_rows;    /* number of rows in both reports */
    int n_slower;  /* number of rows that are slower by more than the tolerance */
    int n_missing; /* number of rows that are only in the old report */
} tess_bench_comparison;

/* Prints old, new and speed (above 1: the new one is faster) for every common row, then a summary. `tolerance` 0.1
 * allows 1.1 times the time, or 1/1.1 of the rate. TESS_E_INVALID: there is no common row. */
tess_status tess_bench_compare(const json_t *old, const json_t *new, double tolerance, FILE *out,
                               tess_bench_comparison *result);

#endif
