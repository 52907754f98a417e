/* Formats the changes of a round as JSON. */
#include "control/health/alert.h"

static json_t *check_to_json(const tess_health *health, int check)
{
    char text[TESS_HEALTH_TEXT_BYTES];
    const tess_health_reading *last = &health->last[check];
    tess_health_describe((tess_health_check)check, last, text, sizeof(text));
    json_t *object = json_pack("{s:b, s:f, s:f, s:s}", "failing", (int)health->failing[check], "value", last->value,
                               "limit", last->limit, "text", text);
    if (last->rank >= 0)
        json_object_set_new(object, "rank", json_integer(last->rank));
    return object;
}

json_t *tess_health_to_json(const tess_health *health, const tess_health_change *change)
{
    json_t *checks = json_object();
    for (int i = 0; i < TESS_HEALTH_CHECK_COUNT; i++)
        if (health->failing[i] || change->ended[i])
            json_object_set_new(checks, tess_health_check_name((tess_health_check)i), check_to_json(health, i));
    return json_pack("{s:s, s:I, s:o}", "was", tess_health_state_name(change->was), "failures",
                     (json_int_t)health->failures, "checks", checks);
}
