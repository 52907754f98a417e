#include "base/core/variables.h"

#include <stdlib.h>

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
