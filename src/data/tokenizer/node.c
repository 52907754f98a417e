/* Walking tokenizer.json: members and items with the names that messages use. */
#include <stdio.h>
#include <string.h>

#include "data/tokenizer/tokenizer_impl.h"

tess_status tess_node_type(const tess_node *node, const char **type)
{
    *type = json_string_value(json_object_get(node->json, "type"));
    TESS_CHECK(*type != NULL, TESS_E_FORMAT, "%s: expected an object with a string 'type'", node->what);
    return TESS_OK;
}

tess_node tess_node_member(const tess_node *node, const char *key)
{
    tess_node member = {.json = json_object_get(node->json, key)};
    snprintf(member.what, sizeof(member.what), "%.200s: %.48s", node->what, key);
    return member;
}

tess_node tess_node_item(const tess_node *node, const char *list, size_t index)
{
    tess_node item = {.json = json_array_get(json_object_get(node->json, list), index)};
    snprintf(item.what, sizeof(item.what), "%.200s: %.24s[%zu]", node->what, list, index);
    return item;
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
        return tess_regex_create(mem, json_string_value(value), json_string_length(value), pattern.what, regex);
    TESS_CHECK(json_is_string(json_object_get(pattern.json, "String")), TESS_E_FORMAT,
               "%s: expected {\"String\": ...} or {\"Regex\": ...}", pattern.what);
    return tess_node_text(&pattern, "String", literal);
}
