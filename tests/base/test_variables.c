/* The list of variables of the environment, and names that are not in it. */
#include <stdlib.h>
#include <string.h>

#include "base/core/unknown_variables.h"
#include "support/test.h"

static void each_row_is_whole_and_each_name_is_there_once(void)
{
    for (int v = 0; v < TESS_VARIABLE_COUNT; v++) {
        const tess_variable_row *row = &tess_variables[v];
        EXPECT(row->name != NULL && row->name[0] != '\0' && strlen(row->name) < TESS_VARIABLE_NAME);
        EXPECT(row->does[0] != '\0');
        for (int other = 0; other < v; other++)
            EXPECT(strcmp(row->name, tess_variables[other].name) != 0);
        if (strncmp(row->name, "TESSERA_", 8) == 0)
            EXPECT(row->fallback[0] != '\0'); /* docs and `doctor env` show it */
    }
}

static void a_value_is_read_by_its_row(void)
{
    setenv("TESSERA_IFNAME", "eth7", 1);
    unsetenv("TESSERA_HOST");
    EXPECT_TEXT(tess_variable_value(TESS_VAR_IFNAME), "eth7");
    EXPECT(tess_variable_value(TESS_VAR_HOST) == NULL);
    EXPECT(tess_variable_value(TESS_VARIABLE_NONE) == NULL);
    EXPECT_TEXT(tess_variable_name(TESS_VAR_TORCH_RANK), "RANK");
}

static void names_that_nobody_reads_are_found_with_a_similar_one(void)
{
    char *environment[] = {"HOME=/root",          "TESSERA_DEVCE=cpu", "TESSERA_CPU=ref", "TESSERA_RANK=0",
                           "TESSERA_WARP_CORE=7", "TESSERAE=1",        "TESSERA_RANKS=2", NULL};
    char name[TESS_VARIABLE_NAME];
    const char *near;
    int at = 0;
    EXPECT(tess_variable_unknown(environment, &at, name, &near));
    EXPECT_TEXT(name, "TESSERA_DEVCE");
    EXPECT_TEXT(near, "TESSERA_DEVICE");
    EXPECT(tess_variable_unknown(environment, &at, name, &near));
    EXPECT_TEXT(name, "TESSERA_WARP_CORE");
    EXPECT(near == NULL);
    EXPECT(tess_variable_unknown(environment, &at, name, &near));
    EXPECT_TEXT(name, "TESSERA_RANKS"); /* nobody is led to set what a launcher sets */
    EXPECT(near == NULL || strcmp(near, "TESSERA_RANK") != 0);
    EXPECT(!tess_variable_unknown(environment, &at, name, &near));
}

static const test_case cases[] = {
    CASE(each_row_is_whole_and_each_name_is_there_once),
    CASE(a_value_is_read_by_its_row),
    CASE(names_that_nobody_reads_are_found_with_a_similar_one),
};
TEST_MAIN(cases)
