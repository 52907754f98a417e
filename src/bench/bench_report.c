#include "bench/bench_report.h"

#include <stdarg.h>
#include <string.h>
#include <time.h>

#include "base/os/os.h"
#include "base/report/form.h"

struct tess_bench_report {
    tess_mem *mem;
    FILE *out;
    json_t *document, *machine, *tables;
    json_t *names; /* names of all rows, as an object name -> true */
    json_t *table; /* newest table, if it has a row; owned by the document */
    json_t *next;  /* newest table, if it has no row yet */
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
    json_decref(r->next);
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

/* Prints a text with cells, such as a row of a table. Takes over the members. */
static tess_status print(const tess_bench_report *r, const char *text, json_t *members)
{
    TESS_AUTO(tess_buffer_free) tess_buffer line = {.mem = r->mem};
    json_auto_t *owned = members;
    TESS_TRY(tess_form_print(&line, (const tess_form_part[]){{.text = text}, {NULL, NULL}}, TESS_FORM_WIDTH, owned));
    fputs(line.data, r->out);
    fflush(r->out);
    return TESS_OK;
}

tess_status tess_bench_report_table(tess_bench_report *r, const char *title, const char *columns)
{
    json_t *list = json_array();
    for (const char *at = columns; *at != '\0'; at += strspn(at, ", ")) {
        char key[32] = "", unit[32] = "";
        const char *better = *at == '<' ? "lower" : *at == '>' ? "higher" : "neither";
        at += strspn(at, "<>");
        (void)sscanf(at, "%31[^,[][%31[^]]", key, unit);
        json_array_append_new(list, json_pack("{s:s, s:s, s:s}", "key", key, "unit", unit, "better", better));
        at += strcspn(at, ",");
    }
    json_decref(r->next);
    r->next = json_pack("{s:s, s:o, s:[]}", "title", title, "columns", list, "rows");
    r->table = NULL;
    TESS_CHECK(json_array_size(list) <= TESS_BENCH_MAX_COLUMNS, TESS_E_INTERNAL,
               "bench report: table '%s' has %zu columns; at most %d fit", title, json_array_size(list),
               TESS_BENCH_MAX_COLUMNS);
    return r->next != NULL ? TESS_OK : no_memory();
}

/* Adds the table to the document and prints its head, before its first row. */
static tess_status begin_table(tess_bench_report *r)
{
    json_t *table = r->next;
    r->next = NULL;
    if (json_array_append_new(r->tables, table) != 0)
        return no_memory();
    r->table = table;
    return print(r,
                 "\n{title:-46}{*columns} {key:9}{/}\n"
                 "                                              {*columns} {unit:9}{/}\n",
                 json_incref(r->table));
}

tess_status tess_bench_report_row(tess_bench_report *r, const char *name, const double *values)
{
    TESS_CHECK(r->table != NULL || r->next != NULL, TESS_E_INTERNAL, "bench report: row '%s' comes before any table",
               name);
    TESS_CHECK(json_object_get(r->names, name) == NULL, TESS_E_INTERNAL, "bench report: two rows are called '%s'",
               name);
    if (r->table == NULL)
        TESS_TRY(begin_table(r));
    size_t i;
    json_t *column, *row = json_pack("{s:s}", "name", name), *list = json_array();
    json_array_foreach (json_object_get(r->table, "columns"), i, column) {
        json_array_append_new(list, tess_json_number(values[i]));
        json_object_set(row, json_string_value(json_object_get(column, "key")), json_array_get(list, i));
    }
    TESS_TRY(print(r, "{name:-46}{*values} {:9m}{/}\n", json_pack("{s:s, s:o}", "name", name, "values", list)));
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
