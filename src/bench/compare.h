/* Was an older run faster? Rows of two reports of one bench, matched by name, their measures as a ratio. */
#ifndef TESS_BENCH_COMPARE_H
#define TESS_BENCH_COMPARE_H

#include "bench/bench_report.h"

/* Reads a report that `tess_bench_report_write` wrote and checks that it is one, of `bench`. *old: json_decref it.
 * TESS_E_NOT_FOUND, TESS_E_FORMAT (the message names the file and the key), TESS_E_INVALID: of another bench. */
tess_status tess_bench_compare_load(const char *path, const char *bench, json_t **old);

typedef struct tess_bench_comparison {
    int n_rows;    /* in both */
    int n_slower;  /* of them, by more than the tolerance */
    int n_missing; /* only in the old report */
} tess_bench_comparison;

/* Prints old, new and speed (above 1: the new one is faster) of every row that both have, and what came of it in a last
 * line. `tolerance` 0.1 lets a time grow and a rate fall to 1.1 times and 1/1.1. TESS_E_INVALID: no row in common. */
tess_status tess_bench_compare(const json_t *old, const json_t *new, double tolerance, FILE *out,
                               tess_bench_comparison *result);

#endif
