/* Counts of what a rank's operations move: a row for each name, and one for all that find no room. */
#include <string.h>

#include "job/traffic.h"
#include "support/test.h"

static void teams_of_one_name_share_a_row(void)
{
    tess_traffic_row rows[JOB_TRAFFIC];
    tess_traffic copy;
    memset(rows, 0, sizeof(rows));
    EXPECT_INT(tess_traffic_row_of(rows, "world"), 0);
    EXPECT_INT(tess_traffic_row_of(rows, "dp"), 1);
    EXPECT_INT(tess_traffic_row_of(rows, "world"), 0);
    tess_traffic_moved(&rows[1], 100, 7);
    tess_traffic_moved(&rows[1], 20, 1);
    tess_traffic_waited(&rows[1], 5);
    tess_traffic_copy(&rows[1], &copy);
    EXPECT_TEXT(copy.name, "dp");
    EXPECT_INT(copy.n, 2);
    EXPECT_INT(copy.bytes, 120);
    EXPECT_INT(copy.moving_ns, 8);
    EXPECT_INT(copy.waited_ns, 5);
    tess_traffic_copy(&rows[2], &copy);
    EXPECT_TEXT(copy.name, "");
}

static void names_beyond_the_rows_share_the_last_one(void)
{
    tess_traffic_row rows[JOB_TRAFFIC];
    tess_traffic copy;
    char name[80];
    memset(rows, 0, sizeof(rows));
    for (int i = 0; i < 2 * JOB_TRAFFIC; i++) {
        snprintf(name, sizeof(name), "axis %d", i);
        EXPECT_INT(tess_traffic_row_of(rows, name), i < JOB_TRAFFIC - 1 ? i : JOB_TRAFFIC - 1);
    }
    tess_traffic_copy(&rows[JOB_TRAFFIC - 1], &copy);
    EXPECT_TEXT(copy.name, "others");
}

static void long_and_empty_names_are_names(void)
{
    tess_traffic_row rows[JOB_TRAFFIC];
    tess_traffic copy;
    char name[80];
    memset(rows, 0, sizeof(rows));
    memset(name, 'x', sizeof(name));
    name[sizeof(name) - 1] = '\0';
    EXPECT_INT(tess_traffic_row_of(rows, name), 0);
    EXPECT_INT(tess_traffic_row_of(rows, name), 0);
    EXPECT_INT(tess_traffic_row_of(rows, ""), 1);
    EXPECT_INT(tess_traffic_row_of(rows, ""), 1);
    tess_traffic_copy(&rows[0], &copy);
    EXPECT_INT(strlen(copy.name), JOB_TRAFFIC_NAME - 1);
    tess_traffic_copy(&rows[1], &copy);
    EXPECT_TEXT(copy.name, "team");
}

static const test_case cases[] = {CASE(teams_of_one_name_share_a_row), CASE(names_beyond_the_rows_share_the_last_one),
                                  CASE(long_and_empty_names_are_names)};
TEST_MAIN(cases)
