/* Conditions on layouts, such as "tp=8,strategy=full". */
#ifndef TESS_PLAN_SEARCH_CONDITIONS_H
#define TESS_PLAN_SEARCH_CONDITIONS_H

#include "plan/search/search_axes.h"

enum { TESS_SEARCH_CONDITIONS = 16, TESS_SEARCH_SETTINGS = TESS_SEARCH_DEGREES + TESS_SEARCH_AXES };

/* A value that a setting may have. Conditions with the same setting allow each of their values. */
typedef struct tess_search_condition {
    int setting; /* a degree, or TESS_SEARCH_DEGREES + a tess_search_axis */
    int64_t value;
} tess_search_condition;

typedef struct tess_search_conditions {
    tess_search_condition all[TESS_SEARCH_CONDITIONS];
    int n;
} tess_search_conditions;

/* Reads conditions, separated by commas. NULL: there are none.
 * TESS_E_INVALID: a word is no condition; the message names it and the nearest one */
tess_status tess_search_conditions_parse(const char *text, tess_search_conditions *conditions);
bool tess_search_names(const tess_search_conditions *conditions, tess_search_axis axis);
/* Returns the first value that the conditions name for a setting; without one, `otherwise`. */
int64_t tess_search_asked_value(const tess_search_conditions *conditions, tess_search_axis axis, int64_t otherwise);
/* Whether the layout, or some of a family, may be one that the conditions ask for. */
bool tess_search_is_asked_for(const tess_search_conditions *conditions, const tess_search_layout *layout);

#endif
