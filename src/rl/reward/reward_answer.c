/* Parses the answers of external graders. */
#include "rl/reward/reward_impl.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/text/json.h"

enum { SNIPPET = 60 };

static tess_status add_part(reward_answer *answer, const char *name, const json_t *number)
{
    char text[36];
    reward_snippet(name, strlen(name), 31, text);
    TESS_CHECK(json_is_number(number), TESS_E_FORMAT, "the reward '%s' is no number", text);
    TESS_CHECK(answer->n_parts < TESS_REWARD_PARTS, TESS_E_FORMAT, "more than %d rewards in one answer",
               TESS_REWARD_PARTS);
    tess_reward_part *part = &answer->part[answer->n_parts++];
    snprintf(part->name, sizeof(part->name), "%s", text);
    part->value = json_number_value(number);
    answer->value += part->value;
    TESS_CHECK(isfinite(answer->value), TESS_E_FORMAT, "its rewards have no finite sum");
    return TESS_OK;
}

static tess_status reward_answer_of(const json_t *reward, const char *name, reward_answer *answer)
{
    *answer = (reward_answer){.is_null = json_is_null(reward)};
    if (answer->is_null)
        return TESS_OK;
    if (!json_is_object(reward))
        return add_part(answer, name, reward);
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)reward, key, value)
        TESS_TRY(add_part(answer, key, value));
    TESS_CHECK(answer->n_parts > 0, TESS_E_FORMAT, "the reward is an empty object");
    return TESS_OK;
}

/* JSON has no NaN or infinity, but Python writes them. */
static tess_status parse(const char *text, size_t size, json_t **json)
{
    char snippet[SNIPPET + 4];
    tess_status status = tess_json_parse(text, size, "its answer", false, json);
    if (status == TESS_E_FORMAT)
        TESS_FAIL(status, "its answer is not JSON (which knows finite numbers alone): '%s'",
                  reward_snippet(text, size, SNIPPET, snippet));
    return status;
}

static tess_status parse_line(const json_t *json, const char *name, uint64_t *id, reward_answer *answer)
{
    const json_t *number = json_object_get(json, "id"), *reward = json_object_get(json, "reward");
    TESS_CHECK(json_is_integer(number) && reward != NULL, TESS_E_FORMAT,
               "its answer is not {\"id\": integer, \"reward\": ...}");
    *id = (uint64_t)json_integer_value(number);
    return reward_answer_of(reward, name, answer);
}

static tess_status quoting(tess_status status, const char *text, size_t size)
{
    char snippet[SNIPPET + 4], message[256];
    if (status == TESS_OK)
        return status;
    snprintf(message, sizeof(message), "%s", tess_error_message());
    return TESS_FAIL(status, "%s: '%s'", message, reward_snippet(text, size, SNIPPET, snippet));
}

tess_status reward_answer_parse(const char *line, size_t size, const char *name, uint64_t *id, reward_answer *answer)
{
    json_t *json;
    TESS_TRY(parse(line, size, &json));
    tess_status status = quoting(parse_line(json, name, id, answer), line, size);
    json_decref(json);
    return status;
}

static const json_t *reward_in(const json_t *body)
{
    const json_t *reward = json_object_get(body, "reward");
    return reward != NULL ? reward : body;
}

tess_status reward_body_parse(const char *body, size_t size, const char *name, reward_answer *answer)
{
    char snippet[SNIPPET + 4];
    json_error_t error;
    json_t *json = json_loadb(body, size, JSON_DECODE_ANY, &error);
    TESS_CHECK(json != NULL, TESS_E_FORMAT, "its answer is not JSON (which knows finite numbers alone): '%s'",
               reward_snippet(body, size, SNIPPET, snippet));
    tess_status status = quoting(reward_answer_of(reward_in(json), name, answer), body, size);
    json_decref(json);
    return status;
}
