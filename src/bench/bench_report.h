/* The report of a bench: facts about the machine, then tables with named rows and named numbers. Each row is printed
 * at once. The whole report is also a JSON document, so that a later run can be compared with it. */
#ifndef TESS_BENCH_BENCH_REPORT_H
#define TESS_BENCH_BENCH_REPORT_H

#include <stdio.h>

#include "base/text/json.h"
#include "tessera/memory.h"

typedef struct tess_bench_report tess_bench_report;

enum { TESS_BENCH_MAX_COLUMNS = 16 };

/* Creates a report. `bench` is the name of the bench ("kernels"). The tables are printed to `out` (borrowed). */
tess_status tess_bench_report_create(tess_mem *mem, const char *bench, FILE *out, tess_bench_report **report);
void tess_bench_report_destroy(tess_bench_report **report);

/* Adds a line such as "cpu: Xeon ..." to the header. Call it before the first table. */
tess_status tess_bench_report_fact(tess_bench_report *report, const char *key, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Begins a table, which is printed with its first row. The columns are described as "<time[ms], >rate[GB/s], runs":
 * "<" where a lower value is better, ">" where a higher one is, the key, and the unit if there is one. A key is unique
 * in its table, and not "name". Two runs are compared by the first column in which a row has a value, and of which a
 * better side is known. */
tess_status tess_bench_report_table(tess_bench_report *report, const char *title, const char *columns);

/* Adds a row to the newest table. values[i] belongs to column i; NAN: there is no value. `name` must be unique in
 * the report, because runs are compared by it. */
tess_status tess_bench_report_row(tess_bench_report *report, const char *name, const double *values);

int tess_bench_report_rows(const tess_bench_report *report); /* returns the number of rows in all tables */

/* Returns the document: {"tessera", "bench", "date", "machine": {fact: text}, "tables": [{"title", "columns":
 * [{"key", "unit", "better"}], "rows": [{"name", key: number or null ...}]}]}. Borrowed from the report. */
const json_t *tess_bench_report_json(const tess_bench_report *report);

/* Writes the document to `out`, or, if `path` is not NULL, atomically to that file. */
tess_status tess_bench_report_write(const tess_bench_report *report, FILE *out, const char *path);

#endif
