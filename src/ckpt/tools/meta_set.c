/* Assigns a value to a nested key of a checkpoint's metadata. */
#include <stdio.h>
#include <string.h>

#include "base/core/options.h"
#include "ckpt/tools/edit.h"

enum { KEY_SIZE = 1024, MAX_NAMES = 256 };

static const char *type_name(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "a list";
    case JSON_STRING:
        return "a text";
    case JSON_INTEGER:
    case JSON_REAL:
        return "a number";
    case JSON_TRUE:
    case JSON_FALSE:
        return "true or false";
    default:
        return "null";
    }
}

static tess_status fail_unknown(const json_t *object, const char *key, const char *assignment)
{
    const char *names[MAX_NAMES], *name;
    char hint[TESS_HINT_BYTES];
    json_t *value;
    int n = 0;
    json_object_foreach ((json_t *)object, name, value)
        if (n < MAX_NAMES)
            names[n++] = name;
    return TESS_FAIL(TESS_E_INVALID, "%.200s: there is no key '%s'%s; --add makes a new one", assignment, key,
                     tess_options_hint("", key, names, n, "", hint));
}

/* Finds the object that contains the last part of the key. *last becomes that part. Splits `key` at its dots. */
static tess_status walk(json_t *meta, char *key, const char *assignment, bool may_add, json_t **object, char **last)
{
    *object = meta;
    *last = key;
    for (char *part = key, *dot;; part = dot + 1) {
        TESS_CHECK(json_is_object(*object), TESS_E_INVALID, "%.200s: what '%s' would be in is %s", assignment, part,
                   type_name(*object));
        dot = strchr(part, '.');
        *last = part;
        if (dot == NULL || json_object_get(*object, part) != NULL) /* the part may contain dots itself */
            return TESS_OK;
        *dot = '\0';
        json_t *inner = json_object_get(*object, part);
        if (inner == NULL && !may_add)
            return fail_unknown(*object, part, assignment);
        if (inner == NULL) {
            inner = json_object();
            TESS_CHECK(json_object_set_new(*object, part, inner) == 0, TESS_E_NOMEM, "%.200s", assignment);
        }
        *object = inner;
    }
}

tess_status tess_meta_set(json_t *meta, const char *assignment, bool may_add)
{
    char key[KEY_SIZE], *last = key;
    json_t *object;
    size_t n = strcspn(assignment, "=");
    TESS_CHECK(assignment[n] == '=' && n > 0 && n < sizeof(key), TESS_E_INVALID,
               "'%.200s': write key=value, with dots between the names of nested keys", assignment);
    snprintf(key, sizeof(key), "%.*s", (int)n, assignment);
    bool full = strncmp(key, "meta.", 5) == 0 && json_object_get(meta, "meta") == NULL;
    TESS_TRY(walk(meta, full ? key + 5 : key, assignment, may_add, &object, &last));
    const json_t *old = json_object_get(object, last);
    if (old == NULL && !may_add)
        return fail_unknown(object, last, assignment);
    json_auto_t *value = json_loads(assignment + n + 1, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, NULL);
    value = value != NULL ? value : json_string(assignment + n + 1);
    TESS_CHECK(value != NULL, TESS_E_INVALID, "%.200s: the value is no valid UTF-8", assignment);
    if (old != NULL && !json_is_null(old) && strcmp(type_name(old), type_name(value)) != 0)
        return TESS_FAIL(TESS_E_INVALID, "%.200s: the value there is %s, not %s", assignment, type_name(old),
                         type_name(value));
    else if (json_object_set(object, last, value) != 0)
        return TESS_FAIL(TESS_E_NOMEM, "%.200s", assignment);
    return TESS_OK;
}
