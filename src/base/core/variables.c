#include "base/core/variables.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/options.h"

#define OURS "TESSERA_"

const tess_variable_row tess_variables[TESS_VARIABLE_COUNT] = {
#define X(row, name, setter, does, fallback, values) [row] = {name, TESS_SET_BY_##setter, does, fallback, values},
    TESS_VARIABLE_LIST(X)
#undef X
};

const char *tess_variable_name(tess_variable variable)
{
    return tess_variables[variable].name;
}

const char *tess_variable_value(tess_variable variable)
{
    return variable != TESS_VARIABLE_NONE ? getenv(tess_variables[variable].name) : NULL;
}

const char *tess_variable_value_named(const char *name)
{
    return getenv(name);
}

/* The nearest of our names that people set; NULL: none is near. */
static const char *find_near(const char *name)
{
    const char *names[TESS_VARIABLE_COUNT];
    int n = 0;
    for (int v = 0; v < TESS_VARIABLE_COUNT; v++)
        if (tess_variables[v].setter == TESS_SET_BY_USER && strncmp(tess_variables[v].name, OURS, strlen(OURS)) == 0)
            names[n++] = tess_variables[v].name + strlen(OURS);
    const char *near = tess_options_nearest(name + strlen(OURS), names, n);
    return near != NULL ? near - strlen(OURS) : NULL;
}

static bool is_listed(const char *name)
{
    for (int v = 0; v < TESS_VARIABLE_COUNT; v++)
        if (strcmp(tess_variables[v].name, name) == 0)
            return true;
    return false;
}

bool tess_variable_unknown(char *const *environment, int *at, char name[TESS_VARIABLE_NAME], const char **near)
{
    for (; environment[*at] != NULL; ++*at) {
        const char *entry = environment[*at];
        if (strncmp(entry, OURS, strlen(OURS)) != 0)
            continue;
        snprintf(name, TESS_VARIABLE_NAME, "%.*s", (int)strcspn(entry, "="), entry);
        if (is_listed(name))
            continue;
        *near = find_near(name);
        ++*at;
        return true;
    }
    return false;
}
