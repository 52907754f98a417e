#include "plan/search/search_conditions.h"

#include <string.h>

#include "mesh/mesh_layout.h"
#include "plan/search/search_axes.h"

static const char *degree_name(int degree)
{
    return degree == TESS_SEARCH_EP ? "ep" : tess_axis_name(degree);
}

static tess_status take_condition(char *text, tess_search_conditions *c)
{
    const char *names[TESS_SEARCH_SETTINGS];
    char *value = strchr(text, '=');
    int chosen = 0;
    TESS_CHECK(value != NULL, TESS_E_INVALID, "'%.60s' is no condition: write words such as tp=8,strategy=full", text);
    *value++ = '\0';
    for (int d = 0; d < TESS_SEARCH_DEGREES; d++)
        names[d] = degree_name(d);
    for (int axis = 0; axis < TESS_SEARCH_AXES; axis++)
        names[TESS_SEARCH_DEGREES + axis] = tess_search_axis_word((tess_search_axis)axis);
    TESS_TRY(tess_options_choose("condition", text, names, TESS_SEARCH_SETTINGS, &chosen));
    TESS_CHECK(c->n < TESS_SEARCH_CONDITIONS, TESS_E_INVALID, "more than %d conditions", TESS_SEARCH_CONDITIONS);
    tess_search_condition *last = &c->all[c->n++];
    last->setting = chosen;
    if (chosen < TESS_SEARCH_DEGREES)
        TESS_TRY_CTX(tess_options_int(value, 1, TESS_MESH_MOST_RANKS, &last->value), "condition %s", text);
    else
        TESS_TRY_CTX(tess_search_axis_parse((tess_search_axis)(chosen - TESS_SEARCH_DEGREES), value, &last->value),
                     "condition %s", text);
    return TESS_OK;
}

tess_status tess_search_conditions_parse(const char *text, tess_search_conditions *c)
{
    char copy[512], *rest = NULL;
    *c = (tess_search_conditions){0};
    if (text == NULL)
        return TESS_OK;
    TESS_CHECK(strlen(text) < sizeof(copy), TESS_E_INVALID, "the conditions are longer than %zu bytes", sizeof(copy));
    memcpy(copy, text, strlen(text) + 1);
    for (char *word = strtok_r(copy, ",", &rest); word != NULL; word = strtok_r(NULL, ",", &rest))
        TESS_TRY(take_condition(word, c));
    return TESS_OK;
}

static int64_t setting_of(const tess_search_layout *l, int setting)
{
    return setting < TESS_SEARCH_DEGREES ? l->degree[setting]
                                         : tess_search_value_of(l, (tess_search_axis)(setting - TESS_SEARCH_DEGREES));
}

bool tess_search_names(const tess_search_conditions *c, tess_search_axis axis)
{
    for (int i = 0; i < c->n; i++)
        if (c->all[i].setting == TESS_SEARCH_DEGREES + (int)axis)
            return true;
    return false;
}

int64_t tess_search_asked_value(const tess_search_conditions *c, tess_search_axis axis, int64_t otherwise)
{
    for (int i = 0; i < c->n; i++)
        if (c->all[i].setting == TESS_SEARCH_DEGREES + (int)axis)
            return c->all[i].value;
    return otherwise;
}

bool tess_search_is_asked_for(const tess_search_conditions *c, const tess_search_layout *l)
{
    for (int i = 0; i < c->n; i++) {
        const int64_t value = setting_of(l, c->all[i].setting);
        bool found = value == TESS_SEARCH_OPEN;
        for (int k = 0; k < c->n && !found; k++)
            found = c->all[k].setting == c->all[i].setting && c->all[k].value == value;
        if (!found)
            return false;
    }
    return true;
}
