/* The tuning table: its choices, and which files are refused. */
#include "comm/hosts/choice.h"

#include <string.h>
#include <unistd.h>

#include "base/os/os.h"
#include "support/test.h"

static tess_tuning *parse(const char *text)
{
    tess_tuning *tuning = NULL;
    EXPECT_OK(tess_tuning_parse(test_mem(), text, strlen(text), "t.json", &tuning));
    return tuning;
}

static void refuse(const char *text, const char *message)
{
    tess_tuning *tuning = NULL;
    EXPECT_FAILS(tess_tuning_parse(test_mem(), text, strlen(text), "t.json", &tuning), TESS_E_FORMAT, message);
    EXPECT(tuning == NULL);
}

static void expect_choice(const tess_tuning *tuning, int kind, uint64_t bytes, int way, size_t round_bytes)
{
    tess_hosts_choice choice = tess_hosts_choose(tuning, kind, bytes);
    EXPECT_INT(choice.way, way);
    EXPECT_INT((int64_t)choice.round_bytes, (int64_t)round_bytes);
}

static const char sample[] = "{\"tessera_tuning\": 1, \"machine\": \"any\", \"operations\": {"
                             "\"all_gather\": [{\"up_to_bytes\": 65536, \"way\": \"leaders\", \"round_bytes\": 65536},"
                             "{\"up_to_bytes\": 1000000, \"way\": \"striped\", \"round_bytes\": 262144, \"us\": 12.5},"
                             "{\"up_to_bytes\": null, \"way\": \"striped\", \"round_bytes\": 4194304}],"
                             "\"broadcast\": [{\"up_to_bytes\": null, \"way\": \"leaders\", \"round_bytes\": 4096}]}}";

static void a_size_goes_by_the_first_row_that_holds_it(void)
{
    tess_tuning *tuning = parse(sample);
    expect_choice(tuning, TESS_TRACE_ALL_GATHER, 0, HOSTS_LEADERS, 65536);
    expect_choice(tuning, TESS_TRACE_ALL_GATHER, 65536, HOSTS_LEADERS, 65536);
    expect_choice(tuning, TESS_TRACE_ALL_GATHER, 65537, HOSTS_STRIPED, 262144);
    expect_choice(tuning, TESS_TRACE_ALL_GATHER, 1000001, HOSTS_STRIPED, 4194304);
    expect_choice(tuning, TESS_TRACE_ALL_GATHER, UINT64_MAX, HOSTS_STRIPED, 4194304);
    expect_choice(tuning, TESS_TRACE_BROADCAST, 1, HOSTS_LEADERS, 4096);
    tess_tuning_free(&tuning);
}

static void without_rows_nothing_changes(void)
{
    tess_tuning *tuning = parse(sample);
    expect_choice(NULL, TESS_TRACE_ALL_GATHER, 1, HOSTS_STRIPED, HOSTS_PLAIN_ROUND_BYTES);
    expect_choice(tuning, TESS_TRACE_ALL_REDUCE, 1, HOSTS_STRIPED, HOSTS_PLAIN_ROUND_BYTES);
    expect_choice(tuning, TESS_TRACE_BARRIER, 1, HOSTS_STRIPED, HOSTS_PLAIN_ROUND_BYTES);
    expect_choice(tuning, -1, 1, HOSTS_STRIPED, HOSTS_PLAIN_ROUND_BYTES);
    expect_choice(tuning, 1 << 20, 1, HOSTS_STRIPED, HOSTS_PLAIN_ROUND_BYTES);
    tess_tuning_free(&tuning);
}

static void one_choice_holds_for_all(void)
{
    tess_tuning *tuning;
    EXPECT_OK(tess_tuning_of(test_mem(), (tess_hosts_choice){HOSTS_LEADERS, 1 << 20}, &tuning));
    expect_choice(tuning, TESS_TRACE_ALL_REDUCE, 1, HOSTS_LEADERS, 1 << 20);
    expect_choice(tuning, TESS_TRACE_REDUCE_SCATTER_PIECES, UINT64_MAX, HOSTS_LEADERS, 1 << 20);
    expect_choice(tuning, TESS_TRACE_ALL_TO_ALL, 1, HOSTS_STRIPED, HOSTS_PLAIN_ROUND_BYTES);
    tess_tuning_free(&tuning);
    EXPECT_FAILS(tess_tuning_of(test_mem(), (tess_hosts_choice){HOSTS_WAYS, 1 << 20}, &tuning), TESS_E_INVALID, "way");
}

static void what_is_written_reads_back(void)
{
    const tess_tuning_fact facts[] = {{"date", "2026-01-01"}, {"machine", "\"quoted\" \\ \n"}};
    tess_tuning *tuning = parse(sample), *again, *other;
    EXPECT_INT(chdir(test_folder()), 0);
    EXPECT_OK(tess_tuning_write(tuning, facts, 2, "t.json"));
    EXPECT_OK(tess_tuning_load(test_mem(), "t.json", &again));
    expect_choice(again, TESS_TRACE_ALL_GATHER, 65537, HOSTS_STRIPED, 262144);
    EXPECT(tess_tuning_hash(again) == tess_tuning_hash(tuning) && tess_tuning_hash(tuning) != 0);
    EXPECT(tess_tuning_hash(NULL) == 0);
    EXPECT_OK(tess_tuning_of(test_mem(), (tess_hosts_choice){HOSTS_STRIPED, 4096}, &other));
    EXPECT(tess_tuning_hash(other) != tess_tuning_hash(tuning));
    tess_tuning_free(&other);
    tess_tuning_free(&again);
    tess_tuning_free(&tuning);
    EXPECT(tuning == NULL);
    EXPECT_FAILS(tess_tuning_load(test_mem(), "none.json", &tuning), TESS_E_NOT_FOUND, "none.json");
}

static void a_table_that_ends_is_not_written(void)
{
    tess_tuning *tuning;
    EXPECT_OK(tess_tuning_create(test_mem(), &tuning));
    EXPECT_OK(tess_tuning_add(tuning, TESS_TRACE_BROADCAST, 4096, (tess_hosts_choice){HOSTS_STRIPED, 65536}));
    EXPECT_FAILS(tess_tuning_write(tuning, NULL, 0, "t.json"), TESS_E_INVALID, "broadcast ends at 4096 bytes");
    tess_tuning_free(&tuning);
}

#define ONE(operation, rows) "{\"tessera_tuning\": 1, \"operations\": {\"" operation "\": " rows "}}"
#define ROW(bound, way, round) "{\"up_to_bytes\": " bound ", \"way\": " way ", \"round_bytes\": " round "}"

static void errors_name_file_and_row(void)
{
    refuse("", "t.json: not valid JSON");
    refuse("[]", "t.json: no tuning table");
    refuse("{}", "'tessera_tuning' is 0, this Tessera reads 1");
    refuse("{\"tessera_tuning\": 2}", "'tessera_tuning' is 2");
    refuse("{\"tessera_tuning\": 1}", "'operations' is no object");
    refuse(ONE("all_gatter", "[]"), "'all_gatter' is none of all_gather");
    refuse(ONE("all_to_all", "[]"), "'all_to_all' is none of");
    refuse(ONE("all_gather", "[]"), "1 to 32 rows, not 0");
    refuse(ONE("all_gather", "[7]"), "t.json: all_gather, row 1: a row is an object");
    refuse(ONE("all_gather", "[{\"way\": \"striped\"}]"), "'up_to_bytes' is missing");
    refuse(ONE("all_gather", "[" ROW("0", "\"striped\"", "65536") "]"), "'up_to_bytes' is 0");
    refuse(ONE("all_gather", "[" ROW("9", "\"striped\"", "65536") "]"), "of the last row must be null");
    refuse(ONE("all_gather", "[" ROW("null", "\"striped\"", "65536") "," ROW("null", "\"striped\"", "65536") "]"),
           "row 1: 'up_to_bytes' is null, and rows follow");
    refuse(ONE("all_gather", "[" ROW("9", "\"striped\"", "65536") "," ROW("9", "\"striped\"", "65536") "," ROW(
                                 "null", "\"striped\"", "65536") "]"),
           "all_gather, row 2: up_to_bytes is 9 after 9: bounds must grow");
    refuse(ONE("all_gather", "[" ROW("null", "\"strip\"", "65536") "]"), "row 1: 'way' is 'strip'");
    refuse(ONE("all_gather", "[" ROW("null", "3", "65536") "]"), "row 1: 'way' is an integer");
    refuse(ONE("all_gather", "[" ROW("null", "\"striped\"", "null") "]"), "'round_bytes' is missing");
    refuse(ONE("all_gather", "[" ROW("null", "\"striped\"", "-5") "]"), "'round_bytes' is negative");
    refuse(ONE("all_gather", "[" ROW("null", "\"striped\"", "4095") "]"), "row 1: round_bytes is 4095: from 4096");
    refuse(ONE("all_gather", "[" ROW("null", "\"striped\"", "8388609") "]"), "to 8388608");
}

static void rows_are_bounded(void)
{
    static char text[8192];
    size_t at = (size_t)snprintf(text, sizeof(text), "{\"tessera_tuning\": 1, \"operations\": {\"broadcast\": [");
    for (int i = 1; i <= TUNING_ROWS; i++)
        at += (size_t)snprintf(text + at, sizeof(text) - at,
                               "{\"up_to_bytes\": %d, \"way\": \"striped\", \"round_bytes\": 4096},", i);
    snprintf(text + at, sizeof(text) - at, "{\"up_to_bytes\": null, \"way\": \"striped\", \"round_bytes\": 4096}]}}");
    refuse(text, "1 to 32 rows, not 33");
}

static const test_case cases[] = {
    CASE(a_size_goes_by_the_first_row_that_holds_it),
    CASE(without_rows_nothing_changes),
    CASE(one_choice_holds_for_all),
    CASE(what_is_written_reads_back),
    CASE(a_table_that_ends_is_not_written),
    CASE(errors_name_file_and_row),
    CASE(rows_are_bounded),
};
TEST_MAIN(cases)
