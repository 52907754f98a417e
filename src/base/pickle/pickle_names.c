/* Names of classes and functions in a pickle. They become inert data, and a caller can refuse names that it does not
 * expect. */
#include <string.h>

#include "base/pickle/pickle_impl.h"
#include "base/text/text.h"

static bool is_allowed(const tess_pickle_options *options, const char *name)
{
    if (!options->only_names)
        return true;
    for (const char *const *pattern = options->names; pattern != NULL && *pattern != NULL; pattern++) {
        size_t n = strlen(*pattern);
        bool is_prefix = n >= 2 && strcmp(*pattern + n - 2, ".*") == 0;
        if (is_prefix ? strncmp(*pattern, name, n - 1) == 0 : strcmp(*pattern, name) == 0)
            return true;
    }
    return false;
}

tess_status pickle_make_name(tess_pickle *pickle, const char *module, size_t n_module, const char *name, size_t n_name,
                             tess_pickle_value **value)
{
    void *memory;
    size_t n = n_module + 1 + n_name;
    TESS_CHECK(memchr(module, '\0', n_module) == NULL && memchr(name, '\0', n_name) == NULL, TESS_E_FORMAT,
               "a name with a NUL in it");
    TESS_TRY(pickle_make(pickle, TESS_PICKLE_NAME, value));
    TESS_TRY(pickle_alloc(pickle, n + 1, &memory));
    char *text = memory;
    memcpy(text, module, n_module);
    text[n_module] = '.';
    memcpy(text + n_module + 1, name, n_name);
    text[n] = '\0';
    (*value)->text = text;
    (*value)->n = n;
    TESS_CHECK(is_allowed(pickle->options, text), TESS_E_UNSUPPORTED,
               "it names '%.200s', which has no place in such a file", text);
    return TESS_OK;
}

static bool is_kind(const tess_pickle_value *args, size_t index, tess_pickle_kind kind)
{
    return args->n > index && args->items[index]->kind == kind;
}

/* Carries out one known call. Leaves *value unchanged if the arguments are not the expected ones. */
typedef tess_status (*call_fn)(tess_pickle *pickle, tess_pickle_value *args, tess_pickle_value **value);

/* encode(text of code points below 256, "latin1"): the way in which protocols before 3 write bytes */
static tess_status call_encode(tess_pickle *pickle, tess_pickle_value *args, tess_pickle_value **value)
{
    if (args->n != 2 || !is_kind(args, 0, TESS_PICKLE_TEXT) || !is_kind(args, 1, TESS_PICKLE_TEXT) ||
        strcmp(args->items[1]->text, "latin1") != 0)
        return TESS_OK;
    void *memory;
    const tess_pickle_value *text = args->items[0];
    TESS_TRY(pickle_alloc(pickle, text->n + 1, &memory));
    uint8_t *out = memory;
    size_t n = 0;
    for (size_t i = 0; i < text->n;) {
        uint32_t code_point = 0;
        i += (size_t)tess_utf8_decode((const uint8_t *)text->text + i, text->n - i, &code_point);
        TESS_CHECK(code_point < 256, TESS_E_FORMAT, "code point %u is not Latin-1", code_point);
        out[n++] = (uint8_t)code_point;
    }
    return pickle_make_string(pickle, TESS_PICKLE_BYTES, out, n, value);
}

static tess_status call_bytes(tess_pickle *pickle, tess_pickle_value *args, tess_pickle_value **value)
{
    if (args->n == 0)
        return pickle_make_string(pickle, TESS_PICKLE_BYTES, "", 0, value);
    if (args->n == 1 && is_kind(args, 0, TESS_PICKLE_BYTES))
        *value = args->items[0];
    return TESS_OK;
}

static tess_status call_set(tess_pickle *pickle, tess_pickle_value *args, tess_pickle_value **value)
{
    if (args->n > 1 || (args->n == 1 && !is_kind(args, 0, TESS_PICKLE_LIST)))
        return TESS_OK;
    TESS_TRY(pickle_make(pickle, TESS_PICKLE_SET, value));
    return args->n == 0 ? TESS_OK : pickle_append(pickle, *value, args->items[0]->items, args->items[0]->n);
}

/* OrderedDict(), or OrderedDict([[key, value], ...]) */
static tess_status call_ordered_dict(tess_pickle *pickle, tess_pickle_value *args, tess_pickle_value **value)
{
    if (args->n > 1 || (args->n == 1 && !is_kind(args, 0, TESS_PICKLE_LIST)))
        return TESS_OK;
    TESS_TRY(pickle_make(pickle, TESS_PICKLE_DICT, value));
    for (size_t i = 0; args->n == 1 && i < args->items[0]->n; i++) {
        const tess_pickle_value *pair = args->items[0]->items[i];
        TESS_CHECK((pair->kind == TESS_PICKLE_LIST || pair->kind == TESS_PICKLE_TUPLE) && pair->n == 2, TESS_E_FORMAT,
                   "item %zu of an OrderedDict is not a pair", i);
        TESS_TRY(pickle_append(pickle, *value, pair->items, 2));
    }
    return TESS_OK;
}

/* _reconstructor(class, base, the base's value): the way in which protocols before 2 write objects */
static tess_status call_reconstructor(tess_pickle *pickle, tess_pickle_value *args, tess_pickle_value **value)
{
    if (args->n != 3 || !is_kind(args, 0, TESS_PICKLE_NAME))
        return TESS_OK;
    tess_pickle_value *base = args->items[2], *none;
    TESS_TRY(pickle_make(pickle, TESS_PICKLE_TUPLE, &none));
    TESS_TRY(pickle_make_object(pickle, args->items[0]->text, none, value));
    if (base->kind == TESS_PICKLE_LIST)
        (*value)->object->list = base;
    else if (base->kind == TESS_PICKLE_DICT)
        (*value)->object->dict = base;
    else if (base->kind != TESS_PICKLE_NONE)
        return pickle_append(pickle, none, &base, 1);
    return TESS_OK;
}

/* getattr(class, name): the way in which protocols before 4 name a member that is defined inside of a class */
static tess_status call_getattr(tess_pickle *pickle, tess_pickle_value *args, tess_pickle_value **value)
{
    if (args->n != 2 || !is_kind(args, 0, TESS_PICKLE_NAME) || !is_kind(args, 1, TESS_PICKLE_TEXT))
        return TESS_OK;
    const tess_pickle_value *class = args->items[0], *name = args->items[1];
    return pickle_make_name(pickle, class->text, class->n, name->text, name->n, value);
}

static call_fn find_call(const char *name)
{
    static const struct {
        const char *name;
        call_fn call;
    } calls[] = {
        {"_codecs.encode", call_encode},
        {"__builtin__.bytes", call_bytes},
        {"builtins.bytes", call_bytes},
        {"__builtin__.bytearray", call_bytes},
        {"builtins.bytearray", call_bytes},
        {"__builtin__.set", call_set},
        {"builtins.set", call_set},
        {"__builtin__.frozenset", call_set},
        {"builtins.frozenset", call_set},
        {"__builtin__.getattr", call_getattr},
        {"builtins.getattr", call_getattr},
        {"collections.OrderedDict", call_ordered_dict},
        {"copy_reg._reconstructor", call_reconstructor},
        {"copyreg._reconstructor", call_reconstructor},
    };
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
        if (strcmp(calls[i].name, name) == 0)
            return calls[i].call;
    return NULL;
}

tess_status pickle_call(tess_pickle *pickle, tess_pickle_value *callee, tess_pickle_value *args,
                        tess_pickle_value **value)
{
    TESS_CHECK(callee->kind == TESS_PICKLE_NAME, TESS_E_FORMAT, "it calls %s", tess_pickle_kind_name(callee->kind));
    TESS_CHECK(args->kind == TESS_PICKLE_TUPLE, TESS_E_FORMAT, "arguments are %s: expected a tuple",
               tess_pickle_kind_name(args->kind));
    call_fn call = find_call(callee->text);
    *value = NULL;
    if (call != NULL)
        TESS_TRY(call(pickle, args, value));
    return *value != NULL ? TESS_OK : pickle_make_object(pickle, callee->text, args, value);
}
