/* The report of a bench: facts about the machine, then tables of named rows with named numbers. Each row is printed at
 * once; the whole is also a JSON document, with which a later run compares itself. */
#ifndef TESS_BENCH_BENCH_REPORT_H
#define TESS_BENCH_BENCH_REPORT_H

#include <stdio.h>

#include "base/text/json.h"
#include "tessera/memory.h"

typedef struct tess_bench_report tess_bench_report;

typedef enum tess_bench_better { TESS_BENCH_NEITHER, TESS_BENCH_LOWER, TESS_BENCH_HIGHER } tess_bench_better;

/* Runs are compared by a row's first column that has a better side and a value. */
typedef struct tess_bench_column {
    const char *key;  /* "time": unique in its table, not "name" */
    const char *unit; /* "ms", "GB/s", "%"; "": a plain number or a ratio */
    tess_bench_better better;
} tess_bench_column;

enum { TESS_BENCH_MAX_COLUMNS = 16 };

/* `bench` is its name ("kernels"). The tables are printed to `out` (borrowed). */
tess_status tess_bench_report_create(tess_mem *mem, const char *bench, FILE *out, tess_bench_report **report);
void tess_bench_report_destroy(tess_bench_report **report);

/* Adds a line to the header: "cpu: Xeon ...". Call it before the first table. */
tess_status tess_bench_report_fact(tess_bench_report *report, const char *key, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Starts a table, which is printed with its first row. Borrows the texts of `columns` until the next table. */
tess_status tess_bench_report_table(tess_bench_report *report, const char *title, const tess_bench_column *columns,
                                    int n_columns);

/* Adds a row to the newest table: values[i] for column i, NAN: none. `name` is unique in the report: runs are compared
 * by it. */
tess_status tess_bench_report_row(tess_bench_report *report, const char *name, const double *values);

int tess_bench_report_rows(const tess_bench_report *report); /* rows of all tables */

/* The document: {"tessera", "bench", "date", "machine": {fact: text}, "tables": [{"title", "columns": [{"key", "unit",
 * "better"}], "rows": [{"name", key: number or null ...}]}]}. Borrowed from the report. */
const json_t *tess_bench_report_json(const tess_bench_report *report);

/* Writes the document to `out`, or to the file `path` (atomically) when that is not NULL. */
tess_status tess_bench_report_write(const tess_bench_report *report, FILE *out, const char *path);

#endif
