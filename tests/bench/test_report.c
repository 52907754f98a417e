/* Reports of benches: tables, JSON, and comparisons with older reports. */
#include <math.h>
#include <stdlib.h>

#include "base/os/os.h"
#include "bench/compare.h"
#include "bench/bench_report.h"
#include "support/test.h"

static const char columns[] = "share[%], <time[ms], >rate[GB/s]";

static FILE *sink(void)
{
    FILE *file = tmpfile();
    EXPECT(file != NULL);
    return file;
}

/* The text printed to `file`, NUL-terminated in a static buffer. */
static const char *printed(FILE *file)
{
    static char text[1 << 14];
    rewind(file);
    text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
    return text;
}

/* Rows "copy" (a time, a rate) and "scan" (a rate alone). */
static tess_bench_report *make(FILE *out, double copy_ms, double scan_rate)
{
    tess_bench_report *report;
    EXPECT_OK(tess_bench_report_create(test_mem(), "demo", out, &report));
    EXPECT_OK(tess_bench_report_fact(report, "cpu", "%d cores", 2));
    EXPECT_OK(tess_bench_report_table(report, "memory", columns));
    EXPECT_OK(tess_bench_report_row(report, "copy", (double[]){50, copy_ms, 8}));
    EXPECT_OK(tess_bench_report_row(report, "scan", (double[]){50, NAN, scan_rate}));
    return report;
}

static const char *path_of(const char *name)
{
    static char path[1024];
    EXPECT_OK(tess_os_join(path, sizeof(path), test_folder(), name));
    return path;
}

static void rows_and_facts_come_back_from_the_file(void)
{
    FILE *out = sink();
    json_t *old;
    tess_bench_report *report = make(out, 1.5, 20);
    EXPECT_OK(tess_bench_report_write(report, NULL, path_of("report.json")));
    EXPECT_OK(tess_bench_compare_load(path_of("report.json"), "demo", &old));
    EXPECT(json_equal(old, tess_bench_report_json(report)));
    EXPECT_TEXT(json_string_value(json_object_get(json_object_get(old, "machine"), "cpu")), "2 cores");
    const json_t *table = json_array_get(json_object_get(old, "tables"), 0);
    const json_t *scan = json_array_get(json_object_get(table, "rows"), 1);
    EXPECT(json_is_null(json_object_get(scan, "time")));
    EXPECT(json_number_value(json_object_get(scan, "rate")) == 20);
    EXPECT_INT(tess_bench_report_rows(report), 2);
    EXPECT_CONTAINS(printed(out), "copy ");
    EXPECT_CONTAINS(printed(out), "1.500");
    json_decref(old);
    tess_bench_report_destroy(&report);
}

static void a_row_comes_once_and_in_a_table(void)
{
    FILE *out = sink();
    tess_bench_report *report;
    EXPECT_OK(tess_bench_report_create(test_mem(), "demo", out, &report));
    EXPECT_FAILS(tess_bench_report_row(report, "copy", (double[]){1, 1, 1}), TESS_E_INTERNAL, "before any table");
    EXPECT_OK(tess_bench_report_table(report, "empty", columns));
    EXPECT_OK(tess_bench_report_table(report, "memory", columns));
    EXPECT_OK(tess_bench_report_row(report, "copy", (double[]){1, 1, 1}));
    EXPECT_FAILS(tess_bench_report_row(report, "copy", (double[]){1, 1, 1}), TESS_E_INTERNAL, "'copy'");
    EXPECT_INT(json_array_size(json_object_get(tess_bench_report_json(report), "tables")), 1);
    tess_bench_report_destroy(&report);
}

/* Times old -> new as given, the rate of "scan" as given; how many rows are slower at 10%. */
static int slower(double old_ms, double new_ms, double old_rate, double new_rate)
{
    FILE *out = sink();
    tess_bench_comparison result;
    tess_bench_report *old = make(out, old_ms, old_rate), *new = make(out, new_ms, new_rate);
    EXPECT_OK(tess_bench_compare(tess_bench_report_json(old), tess_bench_report_json(new), 0.1, out, &result));
    EXPECT_INT(result.n_rows, 2);
    EXPECT_INT(result.n_missing, 0);
    tess_bench_report_destroy(&old);
    tess_bench_report_destroy(&new);
    return result.n_slower;
}

static void a_longer_time_and_a_lower_rate_are_slower(void)
{
    EXPECT_INT(slower(1, 1, 20, 20), 0);
    EXPECT_INT(slower(1, 1.09, 20, 18.5), 0);
    EXPECT_INT(slower(1, 1.11, 20, 20), 1);
    EXPECT_INT(slower(1, 1, 20, 18), 1);
    EXPECT_INT(slower(1, 3, 20, 10), 2);
    EXPECT_INT(slower(3, 1, 10, 20), 0);
}

static void the_last_line_names_the_slowest_row_and_what_is_missing(void)
{
    FILE *out = sink(), *text = sink();
    tess_bench_comparison result;
    tess_bench_report *old = make(out, 1, 20), *new;
    EXPECT_OK(tess_bench_report_row(old, "gone", (double[]){1, 1, 1}));
    new = make(out, 1.5, 20);
    EXPECT_OK(tess_bench_compare(tess_bench_report_json(old), tess_bench_report_json(new), 0.1, text, &result));
    EXPECT_INT(result.n_missing, 1);
    EXPECT_CONTAINS(printed(text), "1 of 2 rows slower by more than 10%; the slowest is 'copy' at 0.67x; 1 rows of");
    tess_bench_report_destroy(&old);
    tess_bench_report_destroy(&new);
}

static void reports_without_a_common_row_are_not_compared(void)
{
    FILE *out = sink();
    tess_bench_comparison result;
    tess_bench_report *old = make(out, 1, 20), *new;
    EXPECT_OK(tess_bench_report_create(test_mem(), "demo", out, &new));
    EXPECT_OK(tess_bench_report_table(new, "memory", columns));
    EXPECT_OK(tess_bench_report_row(new, "other", (double[]){1, 1, 1}));
    EXPECT_FAILS(tess_bench_compare(tess_bench_report_json(old), tess_bench_report_json(new), 0.1, out, &result),
                 TESS_E_INVALID, "no row in common");
    tess_bench_report_destroy(&old);
    tess_bench_report_destroy(&new);
}

static void refuse(const char *text, tess_status status, const char *needle)
{
    json_t *old;
    const char *path = path_of("bad.json");
    EXPECT_OK(tess_os_write_atomic(path, text, strlen(text)));
    EXPECT_FAILS(tess_bench_compare_load(path, "demo", &old), status, needle);
    EXPECT_FAILS(tess_bench_compare_load(path, "demo", &old), status, "bad.json");
}

static void what_is_no_report_is_refused_by_file_and_key(void)
{
    json_t *old;
    EXPECT_FAILS(tess_bench_compare_load(path_of("none.json"), "demo", &old), TESS_E_NOT_FOUND, "none.json");
    refuse("{", TESS_E_FORMAT, "not valid JSON");
    refuse("[]", TESS_E_FORMAT, "no object");
    refuse("{}", TESS_E_FORMAT, "no 'bench'");
    refuse("{\"bench\": 3}", TESS_E_FORMAT, "'bench' is an integer");
    refuse("{\"bench\": \"comm\", \"tables\": []}", TESS_E_INVALID, "`tessera bench comm`");
    refuse("{\"bench\": \"demo\"}", TESS_E_FORMAT, "'tables'");
    refuse("{\"bench\": \"demo\", \"tables\": [{\"rows\": []}]}", TESS_E_FORMAT, "'columns'");
    refuse("{\"bench\": \"demo\", \"tables\": [{\"columns\": []}]}", TESS_E_FORMAT, "'rows'");
    refuse("{\"bench\": \"demo\", \"tables\": [{\"columns\": [{\"key\": \"t\"}], \"rows\": []}]}", TESS_E_FORMAT,
           "'better'");
    refuse(
        "{\"bench\": \"demo\", \"tables\": [{\"columns\": [{\"key\": \"t\", \"unit\": \"s\", \"better\": \"more\"}], "
        "\"rows\": []}]}",
        TESS_E_FORMAT, "'more'");
    refuse(
        "{\"bench\": \"demo\", \"tables\": [{\"columns\": [{\"key\": \"t\", \"unit\": \"s\", \"better\": \"lower\"}], "
        "\"rows\": [{\"t\": 1}]}]}",
        TESS_E_FORMAT, "'name'");
    refuse(
        "{\"bench\": \"demo\", \"tables\": [{\"columns\": [{\"key\": \"t\", \"unit\": \"s\", \"better\": \"lower\"}], "
        "\"rows\": [{\"name\": \"copy\", \"t\": \"fast\"}]}]}",
        TESS_E_FORMAT, "'t' is a string");
}

static const test_case cases[] = {
    CASE(rows_and_facts_come_back_from_the_file),        CASE(a_row_comes_once_and_in_a_table),
    CASE(a_longer_time_and_a_lower_rate_are_slower),     CASE(the_last_line_names_the_slowest_row_and_what_is_missing),
    CASE(reports_without_a_common_row_are_not_compared), CASE(what_is_no_report_is_refused_by_file_and_key),
};
TEST_MAIN(cases)
