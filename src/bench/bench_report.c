#include "bench/bench_report.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>
#include <time.h>

#include "base/os/os.h"

enum { NAME_WIDTH = 46, VALUE_WIDTH = 9 };

struct tess_bench_report {
    tess_mem *mem;
    FILE *out;
    json_t *document, *machine, *tables;
    json_t *names; /* names of all rows, as an object name -> true */
    json_t *table; /* newest table that has a row; owned by the document */
    char title[128];
    tess_bench_column columns[TESS_BENCH_MAX_COLUMNS];
    int n_columns;
};

static tess_status no_memory(void)
{
    return TESS_FAIL(TESS_E_NOMEM, "bench report: out of memory");
}

void tess_bench_report_destroy(tess_bench_report **report)
{
    tess_bench_report *r = *report;
    if (r == NULL)
        return;
    json_decref(r->document);
    json_decref(r->names);
    tess_mem_free(r->mem, r);
    *report = NULL;
}

tess_status tess_bench_report_create(tess_mem *mem, const char *bench, FILE *out, tess_bench_report **report)
{
    char date[32];
    tess_bench_report *r;
    time_t now = time(NULL);
    struct tm utc;
    strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
    TESS_TRY(TESS_NEW(mem, 1, "bench report", &r));
    r->mem = mem;
    r->out = out;
    r->names = json_object();
    r->document = json_pack("{s:s, s:s, s:s, s:{}, s:[]}", "tessera", TESS_VERSION, "bench", bench, "date", date,
                            "machine", "tables");
    if (r->names == NULL || r->document == NULL) {
        tess_bench_report_destroy(&r);
        return no_memory();
    }
    r->machine = json_object_get(r->document, "machine");
    r->tables = json_object_get(r->document, "tables");
    fprintf(out, "tessera %s bench %s, %s\n", TESS_VERSION, bench, date);
    *report = r;
    return TESS_OK;
}

tess_status tess_bench_report_fact(tess_bench_report *r, const char *key, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (json_object_set_new(r->machine, key, json_string(text)) != 0)
        return no_memory();
    fprintf(r->out, "%-8s %s\n", key, text);
    return TESS_OK;
}

static const char *better_text(tess_bench_better better)
{
    return better == TESS_BENCH_LOWER ? "lower" : better == TESS_BENCH_HIGHER ? "higher" : "neither";
}

static void print_head(const tess_bench_report *r)
{
    fprintf(r->out, "\n%-*s", NAME_WIDTH, r->title);
    for (int i = 0; i < r->n_columns; i++)
        fprintf(r->out, " %*s", VALUE_WIDTH, r->columns[i].key);
    fprintf(r->out, "\n%-*s", NAME_WIDTH, "");
    for (int i = 0; i < r->n_columns; i++)
        fprintf(r->out, " %*s", VALUE_WIDTH, r->columns[i].unit);
    fputc('\n', r->out);
}

tess_status tess_bench_report_table(tess_bench_report *r, const char *title, const tess_bench_column *columns,
                                    int n_columns)
{
    TESS_CHECK(n_columns >= 1 && n_columns <= TESS_BENCH_MAX_COLUMNS, TESS_E_INTERNAL,
               "bench report: table '%s' has %d columns; at most %d fit", title, n_columns, TESS_BENCH_MAX_COLUMNS);
    memcpy(r->columns, columns, sizeof(columns[0]) * (size_t)n_columns);
    r->n_columns = n_columns;
    snprintf(r->title, sizeof(r->title), "%s", title);
    r->table = NULL;
    return TESS_OK;
}

/* Prints the head of the table, before its first row. */
static tess_status begin_table(tess_bench_report *r)
{
    json_t *columns = json_array();
    for (int i = 0; i < r->n_columns; i++)
        json_array_append_new(columns, json_pack("{s:s, s:s, s:s}", "key", r->columns[i].key, "unit",
                                                 r->columns[i].unit, "better", better_text(r->columns[i].better)));
    r->table = json_pack("{s:s, s:o, s:[]}", "title", r->title, "columns", columns, "rows");
    if (json_array_append_new(r->tables, r->table) != 0) {
        r->table = NULL;
        return no_memory();
    }
    print_head(r);
    return TESS_OK;
}

/* Prints a value with four significant digits; integers have no decimals. */
static void print_value(FILE *out, double value)
{
    double size = fabs(value);
    bool whole = size >= 1000 || (value == floor(value) && size >= 1);
    if (!isfinite(value))
        fprintf(out, " %*s", VALUE_WIDTH, "-");
    else if (value != 0 && fabs(value) < 0.001)
        fprintf(out, " %*.2e", VALUE_WIDTH, value);
    else
        fprintf(out, " %*.*f", VALUE_WIDTH, whole ? 0 : size >= 100 ? 1 : size >= 10 ? 2 : 3, value);
}

tess_status tess_bench_report_row(tess_bench_report *r, const char *name, const double *values)
{
    TESS_CHECK(r->n_columns > 0, TESS_E_INTERNAL, "bench report: row '%s' comes before any table", name);
    TESS_CHECK(json_object_get(r->names, name) == NULL, TESS_E_INTERNAL, "bench report: two rows are called '%s'",
               name);
    if (r->table == NULL)
        TESS_TRY(begin_table(r));
    json_t *row = json_pack("{s:s}", "name", name);
    fprintf(r->out, "%-*s", NAME_WIDTH, name);
    for (int i = 0; i < r->n_columns; i++) {
        json_object_set_new(row, r->columns[i].key, tess_json_number(values[i]));
        print_value(r->out, values[i]);
    }
    fputc('\n', r->out);
    fflush(r->out);
    if (json_object_set_new(r->names, name, json_true()) != 0 ||
        json_array_append_new(json_object_get(r->table, "rows"), row) != 0)
        return no_memory();
    return TESS_OK;
}

int tess_bench_report_rows(const tess_bench_report *r)
{
    return (int)json_object_size(r->names);
}

const json_t *tess_bench_report_json(const tess_bench_report *r)
{
    return r->document;
}

tess_status tess_bench_report_write(const tess_bench_report *r, FILE *out, const char *path)
{
    const size_t flags = JSON_INDENT(1) | JSON_REAL_PRECISION(9);
    json_incref(r->document);
    return path != NULL ? tess_json_write(r->document, flags, path) : tess_json_put(r->document, flags, out);
}
