/* The settings that a search of layouts varies, other than degrees, as rows of one table. Conditions, configurations,
 * descriptions and the search read the table. A new setting is one row here and its function that configures. */
#ifndef TESS_PLAN_SEARCH_AXES_H
#define TESS_PLAN_SEARCH_AXES_H

#include "plan/search/search_layout.h"

/* ROW(ID, WORD, FIELD): the word of conditions, and the member of tess_search_layout. */
#define TESS_SEARCH_AXIS_ROWS(ROW)         \
    ROW(STRATEGY, "strategy", strategy)    \
    ROW(SCHEDULE, "schedule", schedule)    \
    ROW(METHOD, "method", method)          \
    ROW(MICRO, "micro", micro)             \
    ROW(RESHARD, "reshard", reshard)       \
    ROW(SEQUENCE, "sp", sequence)          \
    ROW(PRECISION, "precision", precision) \
    ROW(RECOMPUTE, "recompute", recompute) \
    ROW(OFFLOAD, "offload", offload)
#define TESS_SEARCH_AXIS_ENUM(id, word, field) TESS_SEARCH_##id,
typedef enum tess_search_axis { TESS_SEARCH_AXIS_ROWS(TESS_SEARCH_AXIS_ENUM) TESS_SEARCH_AXES } tess_search_axis;
#undef TESS_SEARCH_AXIS_ENUM

/* The state that lies in the host's memory, or in offload.folder. Each has what the one before has, and more. */
enum { TESS_SEARCH_OFFLOAD_NONE, TESS_SEARCH_OFFLOAD_OPTIMIZER, TESS_SEARCH_OFFLOAD_GRADS, TESS_SEARCH_OFFLOAD_ALL };
/* TESS_SEARCH_AS_GIVEN: that of the configuration */
enum { TESS_SEARCH_AS_GIVEN, TESS_SEARCH_BF16, TESS_SEARCH_FP32, TESS_SEARCH_FP8 };

const char *tess_search_axis_word(tess_search_axis axis);
int64_t *tess_search_value(tess_search_layout *layout, tess_search_axis axis);
int64_t tess_search_value_of(const tess_search_layout *layout, tess_search_axis axis);
/* Returns how many values the setting has, from 0 on; 0: it is any positive number. */
int tess_search_axis_values(tess_search_axis axis);
const char *tess_search_axis_value_name(tess_search_axis axis, int64_t value);
/* Reads the name of a value. TESS_E_INVALID: there is none; the message has those that there are */
tess_status tess_search_axis_parse(tess_search_axis axis, const char *text, int64_t *value);
/* Writes all settings but the degrees. */
void tess_search_axes_configure(const tess_search_layout *layout, tess_config *config);
/* Whether layouts with these degrees differ in the setting: only then it has other values than that of the layout. A
 * setting that is enumerated, or that memory decides, never does. */
bool tess_search_axis_spreads(tess_search_axis axis, const tess_search_layout *layout);

#endif
