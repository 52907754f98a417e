#include "plan/search/search_layout.h"

#include <string.h>

#include "base/text/text.h"
#include "parallel/pipeline/pipeline.h"
#include "plan/search/search_axes.h"
#include "tessera/fsdp.h"

void tess_search_configure(const tess_search_layout *l, tess_config *config)
{
    tess_parallelism_section *p = &config->parallelism;
    for (int axis = 0; axis < TESS_AXES; axis++)
        *tess_axis_degree(p, axis) = l->degree[axis];
    p->expert_parallel_degree = l->degree[TESS_SEARCH_EP];
    tess_search_axes_configure(l, config);
}

bool tess_search_equal(const tess_search_layout *a, const tess_search_layout *b)
{
    bool equal = memcmp(a->degree, b->degree, sizeof(a->degree)) == 0;
    for (int axis = 0; axis < TESS_SEARCH_AXES; axis++)
        equal =
            equal && tess_search_value_of(a, (tess_search_axis)axis) == tess_search_value_of(b, (tess_search_axis)axis);
    return equal;
}

size_t tess_search_describe(const tess_search_layout *l, char *text, size_t size)
{
    static const struct {
        tess_search_axis axis;
        const char *text;
    } told[] = {{TESS_SEARCH_RECOMPUTE, "recomputation"},
                {TESS_SEARCH_OFFLOAD, "offload"},
                {TESS_SEARCH_PRECISION, "precision"}};
    size_t at = 0;
    for (int axis = TESS_AXES - 1; axis >= 0; axis--) {
        if (l->degree[axis] == 1)
            continue;
        at = tess_text_add(text, size, at, "%s%s %d", at > 0 ? " x " : "", tess_axis_name(axis), l->degree[axis]);
        if (axis == TESS_AXIS_PP)
            at = tess_text_add(text, size, at, " (%s)",
                               l->schedule >= 0 ? tess_search_axis_value_name(TESS_SEARCH_SCHEDULE, l->schedule)
                                                : "any schedule");
        if (axis == TESS_AXIS_CP)
            at = tess_text_add(text, size, at, " (%s)", tess_search_axis_value_name(TESS_SEARCH_METHOD, l->method));
    }
    if (at == 0)
        at = tess_text_add(text, size, at, "one rank");
    if (l->degree[TESS_SEARCH_EP] > 1)
        at = tess_text_add(text, size, at, ", ep %d", l->degree[TESS_SEARCH_EP]);
    at = tess_text_add(text, size, at, ", %s%s, micro %lld", tess_strategy_name((tess_strategy)l->strategy),
                       l->reshard == 0 ? " kept gathered" : "", (long long)l->micro);
    if (l->degree[TESS_AXIS_TP] > 1 && l->sequence == 0)
        at = tess_text_add(text, size, at, ", without sp");
    for (size_t i = 0; i < sizeof(told) / sizeof(told[0]); i++)
        if (tess_search_value_of(l, told[i].axis) > 0)
            at = tess_text_add(text, size, at, ", %s %s", told[i].text,
                               tess_search_axis_value_name(told[i].axis, tess_search_value_of(l, told[i].axis)));
    return at;
}
