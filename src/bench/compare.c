#include "bench/compare.h"

#include <math.h>
#include <string.h>

enum { MAX_REPORT_BYTES = 16 << 20, NAME_WIDTH = 46 };

/* ---- Reading ---- */

static tess_status check_column(const json_t *column, const char *path)
{
    const char *key = NULL, *better = NULL, *unit = NULL;
    TESS_CHECK(json_is_object(column), TESS_E_FORMAT, "%s: 'columns' holds something that is no object", path);
    TESS_TRY(tess_json_get_string(column, "key", path, &key));
    TESS_TRY(tess_json_get_string(column, "better", path, &better));
    TESS_TRY(tess_json_get_string(column, "unit", path, &unit));
    TESS_CHECK(key != NULL && better != NULL && unit != NULL, TESS_E_FORMAT,
               "%s: a column lacks 'key', 'unit' or 'better'", path);
    TESS_CHECK(strcmp(better, "lower") == 0 || strcmp(better, "higher") == 0 || strcmp(better, "neither") == 0,
               TESS_E_FORMAT, "%s: column '%s': 'better' is '%.40s': expected lower, higher or neither", path, key,
               better);
    return TESS_OK;
}

static tess_status check_row(const json_t *row, const json_t *columns, const char *path)
{
    const char *name = NULL;
    size_t i;
    json_t *column;
    TESS_CHECK(json_is_object(row), TESS_E_FORMAT, "%s: 'rows' holds something that is no object", path);
    TESS_TRY(tess_json_get_string(row, "name", path, &name));
    TESS_CHECK(name != NULL, TESS_E_FORMAT, "%s: a row lacks 'name'", path);
    json_array_foreach (columns, i, column) {
        double value;
        TESS_TRY_CTX(tess_json_get_double(row, json_string_value(json_object_get(column, "key")), path, &value),
                     "row '%.80s'", name);
    }
    return TESS_OK;
}

static tess_status check_table(const json_t *table, const char *path)
{
    const json_t *columns = json_object_get(table, "columns"), *rows = json_object_get(table, "rows");
    size_t i;
    json_t *item;
    TESS_CHECK(json_is_array(columns), TESS_E_FORMAT, "%s: a table lacks the array 'columns'", path);
    TESS_CHECK(json_is_array(rows), TESS_E_FORMAT, "%s: a table lacks the array 'rows'", path);
    json_array_foreach (columns, i, item)
        TESS_TRY(check_column(item, path));
    json_array_foreach (rows, i, item)
        TESS_TRY(check_row(item, columns, path));
    return TESS_OK;
}

static tess_status check_report(const json_t *report, const char *bench, const char *path)
{
    const char *of = NULL;
    size_t i;
    json_t *table;
    TESS_CHECK(json_is_object(report), TESS_E_FORMAT, "%s: not a report of tessera bench: no object", path);
    TESS_TRY(tess_json_get_string(report, "bench", path, &of));
    TESS_CHECK(of != NULL, TESS_E_FORMAT, "%s: not a report of tessera bench: no 'bench'", path);
    TESS_CHECK(strcmp(of, bench) == 0, TESS_E_INVALID, "%s: a report of `tessera bench %.40s`; this is bench %s", path,
               of, bench);
    const json_t *tables = json_object_get(report, "tables");
    TESS_CHECK(json_is_array(tables), TESS_E_FORMAT, "%s: no array 'tables'", path);
    json_array_foreach (tables, i, table)
        TESS_TRY(check_table(table, path));
    return TESS_OK;
}

tess_status tess_bench_compare_load(const char *path, const char *bench, json_t **old)
{
    json_auto_t *report = NULL;
    TESS_TRY(tess_json_load(path, MAX_REPORT_BYTES, &report));
    TESS_TRY(check_report(report, bench, path));
    *old = TESS_GIVE(report);
    return TESS_OK;
}

/* ---- Comparing ---- */

/* Returns the report's rows as an object, by name. */
static json_t *rows_by_name(const json_t *report)
{
    size_t t, r;
    json_t *rows = json_object(), *table, *row;
    json_array_foreach (json_object_get(report, "tables"), t, table)
        json_array_foreach (json_object_get(table, "rows"), r, row)
            json_object_set(rows, json_string_value(json_object_get(row, "name")), row);
    return rows;
}

/* Returns the first column with a better side in which both rows have a positive number, or NULL if there is none. */
static const json_t *common_measure(const json_t *columns, const json_t *old, const json_t *new)
{
    size_t i;
    json_t *column;
    json_array_foreach (columns, i, column) {
        const char *key = json_string_value(json_object_get(column, "key"));
        if (strcmp(json_string_value(json_object_get(column, "better")), "neither") != 0 &&
            json_number_value(json_object_get(old, key)) > 0 && json_number_value(json_object_get(new, key)) > 0)
            return column;
    }
    return NULL;
}

tess_status tess_bench_compare(const json_t *old, const json_t *new, double tolerance, FILE *out,
                               tess_bench_comparison *result)
{
    const char *name, *slowest = NULL;
    double least_speed = INFINITY;
    size_t t, r;
    json_auto_t *old_rows = rows_by_name(old), *new_rows = rows_by_name(new);
    json_t *table, *row;
    *result = (tess_bench_comparison){0};
    fprintf(out, "\n%-*s %12s %12s %-8s %7s\n", NAME_WIDTH, "against the older report", "old", "new", "", "speed");
    json_array_foreach (json_object_get(new, "tables"), t, table)
        json_array_foreach (json_object_get(table, "rows"), r, row) {
            name = json_string_value(json_object_get(row, "name"));
            const json_t *old_row = json_object_get(old_rows, name), *columns = json_object_get(table, "columns");
            const json_t *column = old_row != NULL ? common_measure(columns, old_row, row) : NULL;
            if (column == NULL)
                continue;
            const char *key = json_string_value(json_object_get(column, "key"));
            double before = json_number_value(json_object_get(old_row, key));
            double now = json_number_value(json_object_get(row, key));
            bool lower = strcmp(json_string_value(json_object_get(column, "better")), "lower") == 0;
            double speed = lower ? before / now : now / before;
            bool slower = speed * (1 + tolerance) < 1;
            fprintf(out, "%-*s %12.5g %12.5g %-8s %6.2fx%s\n", NAME_WIDTH, name, before, now,
                    json_string_value(json_object_get(column, "unit")), speed, slower ? "  slower" : "");
            result->n_rows++;
            result->n_slower += slower;
            slowest = speed < least_speed ? name : slowest;
            least_speed = fmin(least_speed, speed);
        }
    json_object_foreach (old_rows, name, row)
        result->n_missing += json_object_get(new_rows, name) == NULL;
    TESS_CHECK(result->n_rows > 0, TESS_E_INVALID, "the older report and this one have no row in common");
    fprintf(out, "%d of %d rows slower by more than %g%%; the slowest is '%s' at %.2fx", result->n_slower,
            result->n_rows, tolerance * 100, slowest, least_speed);
    if (result->n_missing > 0)
        fprintf(out, "; %d rows of the older report were not measured", result->n_missing);
    fputc('\n', out);
    return TESS_OK;
}
