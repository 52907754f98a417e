#include "base/core/unknown_variables.h"

#include <stdio.h>
#include <string.h>

#include "base/core/options.h"

#define OURS "TESSERA_"

/* Returns the most similar of the TESSERA_ names that users set; NULL: none is similar. */
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
