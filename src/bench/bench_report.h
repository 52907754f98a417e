/* What a bench measured: facts about the machine, then tables of named rows with named numbers. A row is printed for
 * people as soon as it is there; all of it is one JSON document for machines, which a later run compares itself with.
 */
#ifndef TESS_BENCH_BENCH_REPORT_H
#define TESS_BENCH_BENCH_REPORT_H

#include <stdio.h>

#include "base/text/json.h"
#include "tessera/memory.h"

typedef struct tess_bench_report tess_bench_report;

typedef enum tess_bench_better { TESS_BENCH_NEITHER, TESS_BENCH_LOWER, TESS_BENCH_HIGHER } tess_bench_better;

/* A row's measure, by which runs are compared, is its first column that has a better side and a value. */
typedef struct tess_bench_column {
    const char *key;  /* "time": unique in its table, not "name" */
    const char *unit; /* "ms", "GB/s", "%"; "": a plain number or a ratio */
    tess_bench_better better;
} tess_bench_column;

enum { TESS_BENCH_MAX_COLUMNS = 16 };

/* `bench` names what is measured ("kernels"). `out` is where tables for people go (borrowed). */
tess_status tess_bench_report_create(tess_mem *mem, const char *bench, FILE *out, tess_bench_report **report);
void tess_bench_report_destroy(tess_bench_report **report);

/* A line of the header: "cpu: Xeon ...". Before the first table. */
tess_status tess_bench_report_fact(tess_bench_report *report, const char *key, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Starts a table: rows that follow have these columns. It shows once it has a row. The texts of
 * `columns` are borrowed until the next table. */
tess_status tess_bench_report_table(tess_bench_report *report, const char *title, const tess_bench_column *columns,
                                    int n_columns);

/* A row of the newest table: values[i] belongs to column i, NAN where there is none. `name` is unique in the report: it
 * is the key by which runs are compared. */
tess_status tess_bench_report_row(tess_bench_report *report, const char *name, const double *values);

int tess_bench_report_rows(const tess_bench_report *report); /* of all tables */

/* The document: {"tessera", "bench", "date", "machine": {fact: text}, "tables": [{"title", "columns": [{"key", "unit",
 * "better"}], "rows": [{"name", key: number or null ...}]}]}. Borrowed from the report. */
const json_t *tess_bench_report_json(const tess_bench_report *report);

/* Writes it to `out`, or to the file `path` (atomically) when `path` is not NULL. */
tess_status tess_bench_report_write(const tess_bench_report *report, FILE *out, const char *path);

#endif
