/* Conditions on layouts, such as "tp=8,strategy=full". */
#ifndef TESS_PLAN_SEARCH_CONDITIONS_H
#define TESS_PLAN_SEARCH_CONDITIONS_H

#include "plan/search/search_layout.h"

enum { TESS_SEARCH_CONDITIONS = 16 };

/* A value that a setting may have. Conditions with the same setting allow each of their values. */
typedef struct tess_search_condition {
    int setting; /* a degree, or TESS_SEARCH_DEGREES + the number of a word */
    int64_t value;
} tess_search_condition;

typedef struct tess_search_conditions {
    tess_search_condition all[TESS_SEARCH_CONDITIONS];
    int n;
} tess_search_conditions;

/* Reads conditions, separated by commas. NULL: there are none.
 * TESS_E_INVALID: a word is no condition; the message names it and the nearest one */
tess_status tess_search_conditions_parse(const char *text, tess_search_conditions *conditions);
/* Returns the first value that the conditions name for a word; without one, `otherwise`. */
int64_t tess_search_asked_value(const tess_search_conditions *conditions, const char *word, int64_t otherwise);
bool tess_search_is_asked_for(const tess_search_conditions *conditions, const tess_search_layout *layout);

#endif
