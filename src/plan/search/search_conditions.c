#include "plan/search/search_conditions.h"

#include <string.h>

#include "mesh/mesh_layout.h"
#include "parallel/pipeline/pipeline.h"
#include "tessera/fsdp.h"

enum { N_STRATEGIES = TESS_STRATEGY_HYBRID + 1 };

/* A setting that conditions may name. */
typedef struct search_word {
    const char *name;
    int64_t (*value)(const tess_search_layout *l);
    tess_status (*parse)(const char *text, int64_t *value);
} search_word;

static int64_t strategy_of(const tess_search_layout *l)
{
    return l->strategy;
}
static int64_t schedule_of(const tess_search_layout *l)
{
    return l->schedule;
}
static int64_t method_of(const tess_search_layout *l)
{
    return l->method;
}
static int64_t micro_of(const tess_search_layout *l)
{
    return l->micro;
}

static tess_status parse_number(const char *text, int64_t *value)
{
    return tess_options_int(text, 1, TESS_MESH_MOST_RANKS, value);
}

static tess_status parse_strategy(const char *text, int64_t *value)
{
    const char *names[N_STRATEGIES];
    int chosen = 0;
    for (int s = 0; s < N_STRATEGIES; s++)
        names[s] = tess_strategy_name((tess_strategy)s);
    TESS_TRY(tess_options_choose("strategy", text, names, N_STRATEGIES, &chosen));
    *value = chosen;
    return TESS_OK;
}

static tess_status parse_schedule(const char *text, int64_t *value)
{
    tess_pipeline_kind kind;
    TESS_TRY(tess_pipeline_kind_parse(text, &kind));
    *value = (int64_t)kind;
    return TESS_OK;
}

static tess_status parse_method(const char *text, int64_t *value)
{
    const char *names[TESS_CONTEXT_METHODS];
    int chosen = 0;
    for (int m = 0; m < TESS_CONTEXT_METHODS; m++)
        names[m] = tess_context_method_name(m);
    TESS_TRY(tess_options_choose("method", text, names, TESS_CONTEXT_METHODS, &chosen));
    *value = chosen;
    return TESS_OK;
}

static const search_word words[] = {{"strategy", strategy_of, parse_strategy},
                                    {"schedule", schedule_of, parse_schedule},
                                    {"method", method_of, parse_method},
                                    {"micro", micro_of, parse_number}};
enum { N_WORDS = sizeof(words) / sizeof(words[0]) };

static const char *degree_name(int degree)
{
    return degree == TESS_SEARCH_EP ? "ep" : tess_axis_name(degree);
}

static tess_status take_condition(char *text, tess_search_conditions *c)
{
    const char *names[TESS_SEARCH_DEGREES + N_WORDS];
    char *value = strchr(text, '=');
    int chosen = 0;
    TESS_CHECK(value != NULL, TESS_E_INVALID, "'%.60s' is no condition: write words such as tp=8,strategy=full", text);
    *value++ = '\0';
    for (int d = 0; d < TESS_SEARCH_DEGREES; d++)
        names[d] = degree_name(d);
    for (int w = 0; w < N_WORDS; w++)
        names[TESS_SEARCH_DEGREES + w] = words[w].name;
    TESS_TRY(tess_options_choose("condition", text, names, TESS_SEARCH_DEGREES + N_WORDS, &chosen));
    TESS_CHECK(c->n < TESS_SEARCH_CONDITIONS, TESS_E_INVALID, "more than %d conditions", TESS_SEARCH_CONDITIONS);
    tess_search_condition *last = &c->all[c->n++];
    last->setting = chosen;
    return chosen < TESS_SEARCH_DEGREES ? parse_number(value, &last->value)
                                        : words[chosen - TESS_SEARCH_DEGREES].parse(value, &last->value);
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
    return setting < TESS_SEARCH_DEGREES ? l->degree[setting] : words[setting - TESS_SEARCH_DEGREES].value(l);
}

int64_t tess_search_asked_value(const tess_search_conditions *c, const char *word, int64_t otherwise)
{
    for (int i = 0; i < c->n; i++)
        if (c->all[i].setting >= TESS_SEARCH_DEGREES &&
            strcmp(words[c->all[i].setting - TESS_SEARCH_DEGREES].name, word) == 0)
            return c->all[i].value;
    return otherwise;
}

bool tess_search_is_asked_for(const tess_search_conditions *c, const tess_search_layout *l)
{
    for (int i = 0; i < c->n; i++) {
        bool found = false;
        for (int k = 0; k < c->n && !found; k++)
            found = c->all[k].setting == c->all[i].setting && c->all[k].value == setting_of(l, c->all[k].setting);
        if (!found)
            return false;
    }
    return true;
}
