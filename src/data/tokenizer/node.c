/* Reads members and steps of tokenizer.json, with the names that messages use. */
#include <stdio.h>
#include <string.h>

#include "data/tokenizer/tokenizer_impl.h"

tess_node tess_node_member(const tess_node *node, const char *key)
{
    tess_node member = {.json = json_object_get(node->json, key)};
    snprintf(member.what, sizeof(member.what), "%.200s: %.48s", node->what, key);
    return member;
}

static tess_status read_steps(tess_mem *mem, const tess_node *node, const char *list, int depth, tess_step_reader read,
                              void *into)
{
    const char *type = json_string_value(json_object_get(node->json, "type"));
    TESS_CHECK(type != NULL, TESS_E_FORMAT, "%s: expected an object with a string 'type'", node->what);
    if (strcmp(type, "Sequence") != 0)
        return read(mem, node, type, into);
    TESS_CHECK(depth < 4, TESS_E_UNSUPPORTED, "%s: sequences nested more than 4 deep", node->what);
    const json_t *items = json_object_get(node->json, list);
    TESS_CHECK(json_is_array(items), TESS_E_FORMAT, "%s: a Sequence without a list '%s'", node->what, list);
    for (size_t i = 0; i < json_array_size(items); i++) {
        tess_node item = {.json = json_array_get(items, i)};
        snprintf(item.what, sizeof(item.what), "%.200s: %.24s[%zu]", node->what, list, i);
        TESS_TRY(read_steps(mem, &item, list, depth + 1, read, into));
    }
    return TESS_OK;
}

tess_status tess_node_steps(tess_mem *mem, const tess_node *node, const char *list, tess_step_reader read, void *into)
{
    return node->json == NULL || json_is_null(node->json) ? TESS_OK : read_steps(mem, node, list, 0, read, into);
}

tess_status tess_node_flag(const tess_node *node, const char *key, bool *value)
{
    const json_t *member = json_object_get(node->json, key);
    TESS_CHECK(member == NULL || json_is_boolean(member), TESS_E_FORMAT, "%s: '%s' is not true or false", node->what,
               key);
    if (member != NULL)
        *value = json_is_true(member);
    return TESS_OK;
}

tess_status tess_node_text(const tess_node *node, const char *key, tess_buffer *text)
{
    const json_t *value = json_object_get(node->json, key);
    TESS_CHECK(json_is_string(value), TESS_E_FORMAT, "%s: expected a string '%s'", node->what, key);
    text->size = 0;
    return tess_buffer_append(text, json_string_value(value), json_string_length(value));
}

tess_status tess_node_pattern(tess_mem *mem, const tess_node *node, tess_buffer *literal, tess_regex **regex)
{
    tess_node pattern = tess_node_member(node, "pattern");
    const json_t *value = json_object_get(pattern.json, "Regex");
    if (json_is_string(value))
        return tess_oniguruma_create(mem, json_string_value(value), json_string_length(value), pattern.what, regex);
    TESS_CHECK(json_is_string(json_object_get(pattern.json, "String")), TESS_E_FORMAT,
               "%s: expected {\"String\": ...} or {\"Regex\": ...}", pattern.what);
    return tess_node_text(&pattern, "String", literal);
}
