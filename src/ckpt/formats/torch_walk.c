/* Walks through nested values of the pickle: adds tensors to a catalog, and converts other values to JSON. */
#include <math.h>
#include <string.h>

#include "ckpt/formats/torch_impl.h"

/* ---- Conversion to JSON ---- */
static json_t *items_to_json(const tess_pickle_value *value, int *left)
{
    json_t *array = json_array();
    for (size_t i = 0; *left > 0 && i < value->n; i++)
        json_array_append_new(array, torch_to_json(value->items[i], left));
    return array;
}

static json_t *dict_to_json(const tess_pickle_value *value, int *left)
{
    char key[1024];
    json_t *object = json_object();
    for (size_t i = 0; i + 1 < value->n && *left > 0; i += 2)
        if (torch_key(value->items[i], key, sizeof(key)))
            json_object_set_new(object, key, torch_to_json(value->items[i + 1], left));
    return object;
}

static void set_part(json_t *json, const char *key, const tess_pickle_value *part, int *left)
{
    if (part != NULL)
        json_object_set_new(json, key, torch_to_json(part, left));
}

static json_t *object_to_json(const tess_pickle_value *value, int *left)
{
    const tess_pickle_object *object = value->object;
    if (torch_is_tensor(value))
        return json_null();
    if (tess_pickle_is(value, "torch.Size"))
        return torch_to_json(tess_pickle_at(object->args, 0), left);
    json_t *json = json_object();
    json_object_set_new(json, "object", json_string(object->name));
    if (object->args != NULL && object->args->n > 0)
        set_part(json, "args", object->args, left);
    set_part(json, "named", object->named, left);
    set_part(json, "state", object->state, left);
    set_part(json, "list", object->list, left);
    set_part(json, "dict", object->dict, left);
    return json;
}

json_t *torch_to_json(const tess_pickle_value *value, int *left)
{
    if (value == NULL || *left <= 0)
        return json_null();
    *left -= 1;
    switch ((tess_pickle_kind)value->kind) {
    case TESS_PICKLE_BOOL:
        return json_boolean(value->flag);
    case TESS_PICKLE_INT:
        return json_integer(value->integer);
    case TESS_PICKLE_FLOAT:
        if (isnan(value->real))
            return json_string("NaN");
        return isinf(value->real) ? json_string(value->real < 0 ? "-Infinity" : "Infinity") : json_real(value->real);
    case TESS_PICKLE_TEXT:
    case TESS_PICKLE_NAME:
        *left -= (int)(value->n / 64 < INT32_MAX ? value->n / 64 : INT32_MAX);
        return json_stringn(value->text, value->n);
    case TESS_PICKLE_LIST:
    case TESS_PICKLE_TUPLE:
    case TESS_PICKLE_SET:
        return items_to_json(value, left);
    case TESS_PICKLE_DICT:
        return dict_to_json(value, left);
    case TESS_PICKLE_OBJECT:
        return object_to_json(value, left);
    default: /* bytes, integers beyond 64 bits, references */
        return json_null();
    }
}

/* ---- The walk into a catalog ---- */
static tess_status walk_value(torch_walk *walk, size_t length, const tess_pickle_value *value, json_t *meta);

/* ---- Tensors ---- */
static tess_status add_part(void *self, int n_dims, const int64_t *dim, const torch_tensor *local, const tess_box *box)
{
    torch_walk *walk = self;
    int number;
    TESS_TRY(tess_catalog_add_tensor(walk->from.catalog, walk->name, local->dtype, n_dims, dim, &number));
    return torch_add_piece(&walk->from, local, box, number);
}

/* Checks a copy of a tensor that a lower rank has provided. Counters may differ between ranks. If weights differ, they
 * are parts of a tensor, and the files do not say which parts. */
static tess_status check_copy(const torch_walk *walk, int tensor, const tess_catalog_piece *copy)
{
    const tess_catalog_tensor *t = &walk->from.catalog->tensors[tensor];
    bool is_float = strchr(t->dtype, 'F') != NULL;
    TESS_CHECK(walk->from.rank > 0, TESS_E_FORMAT, "two tensors get this name");
    if (!is_float || t->n_dims == 0 || t->n_pieces == 0)
        return TESS_OK;
    const tess_catalog_piece *first = &walk->from.catalog->pieces[t->first_piece];
    TESS_CHECK(
        first->sum_kind != copy->sum_kind || first->sum == copy->sum, TESS_E_UNSUPPORTED,
        "it is not the same on all ranks: parts of tensor parallelism, say, which the files do not tell how to put "
        "together; merge them where they were made");
    return TESS_OK;
}

static tess_status add_whole(torch_walk *walk, const tess_pickle_value *value)
{
    tess_catalog *catalog = walk->from.catalog;
    torch_tensor whole;
    int number, n_before = catalog->n_tensors;
    const char *last = strrchr(walk->name, '.');
    TESS_CHECK(strstr(last != NULL ? last : walk->name, "flat_param") == NULL, TESS_E_UNSUPPORTED,
               "a local state of FSDP, whose flat parameters do not say what they consist of: save a full or sharded "
               "one");
    TESS_TRY(torch_read_tensor(walk->from.file, value, &whole));
    TESS_TRY(tess_catalog_add_tensor(catalog, walk->name, whole.dtype, whole.n_dims, whole.dim, &number));
    if (catalog->n_tensors > n_before)
        return torch_add_piece(&walk->from, &whole, NULL, number);
    const tess_catalog_piece copy = torch_piece(&walk->from, &whole, NULL);
    return check_copy(walk, number, &copy);
}

static tess_status add_tensor(torch_walk *walk, const tess_pickle_value *value)
{
    torch_part_visitor visitor = {.self = walk, .part = add_part};
    if (walk->name[0] == '\0')
        snprintf(walk->name, sizeof(walk->name), "tensor");
    TESS_TRY_CTX(torch_is_sharded(value) ? torch_read_parts(walk->from.file, value, &visitor) : add_whole(walk, value),
                 "%s: tensor '%s'", walk->from.file->path, walk->name);
    return TESS_OK;
}

/* ---- Nested values ---- */
/* Finds the dicts of an object: its items and its attributes. */
static void find_dicts(const tess_pickle_value *value, const tess_pickle_value *dicts[2])
{
    dicts[0] = dicts[1] = NULL;
    if (value->kind == TESS_PICKLE_DICT) {
        dicts[0] = value;
    } else if (value->kind == TESS_PICKLE_OBJECT) {
        const tess_pickle_value *state = value->object->state;
        dicts[0] = value->object->dict;
        dicts[1] = state != NULL && state->kind == TESS_PICKLE_TUPLE ? tess_pickle_at(state, 1) : state;
    }
}

static bool holds_tensor(torch_walk *walk, const tess_pickle_value *value)
{
    const tess_pickle_value *dicts[2];
    if (--walk->left < 0)
        return false;
    if (torch_is_tensor(value) || torch_is_sharded(value))
        return true;
    bool found = false;
    if (value->kind >= TESS_PICKLE_LIST && value->kind <= TESS_PICKLE_SET)
        for (size_t i = 0; i < value->n && !found; i++)
            found = holds_tensor(walk, value->items[i]);
    find_dicts(value, dicts);
    for (int d = 0; d < 2 && !found; d++)
        for (size_t i = 1; dicts[d] != NULL && dicts[d]->kind == TESS_PICKLE_DICT && i < dicts[d]->n && !found; i += 2)
            found = holds_tensor(walk, dicts[d]->items[i]);
    return found;
}

/* Visits the value of a key. Its name is the name of the container (`length` bytes of walk->name), a dot, and the
 * key. */
static tess_status walk_member(torch_walk *walk, size_t length, const char *key, const tess_pickle_value *value,
                               json_t *meta)
{
    bool dot = length > 0 && walk->name[length - 1] != '.';
    int n = snprintf(walk->name + length, sizeof(walk->name) - length, "%s%s", dot ? "." : "", key);
    TESS_CHECK(n >= 0 && (size_t)n < sizeof(walk->name) - length, TESS_E_UNSUPPORTED,
               "%s: a name of more than %zu bytes: '%.100s..'", walk->from.file->path, sizeof(walk->name), walk->name);
    bool deep = holds_tensor(walk, value);
    TESS_CHECK(walk->left > 0, TESS_E_UNSUPPORTED, "%s: it has more than %d values", walk->from.file->path,
               TORCH_VALUES);
    if (!deep) {
        if (meta != NULL)
            json_object_set_new(meta, key, torch_to_json(value, &walk->left_meta));
        return TESS_OK;
    }
    json_auto_t *inner = meta != NULL ? json_object() : NULL;
    TESS_TRY(walk_value(walk, length + (size_t)n, value, inner));
    if (json_object_size(inner) > 0)
        json_object_set(meta, key, inner);
    return TESS_OK;
}

static tess_status walk_dict(torch_walk *walk, size_t length, const tess_pickle_value *dict, json_t *meta)
{
    char key[1024];
    for (size_t i = 0; i + 1 < dict->n; i += 2)
        if (torch_key(dict->items[i], key, sizeof(key)))
            TESS_TRY(walk_member(walk, length, key, dict->items[i + 1], meta));
        else
            TESS_CHECK(!holds_tensor(walk, dict->items[i + 1]), TESS_E_UNSUPPORTED,
                       "%s: '%.200s' holds tensors under a key that is %s", walk->from.file->path, walk->name,
                       tess_pickle_kind_name(dict->items[i]->kind));
    return TESS_OK;
}

/* ---- Modules ---- */
const tess_pickle_value *torch_module(const tess_pickle_value *value)
{
    const tess_pickle_value *dicts[2];
    find_dicts(value, dicts);
    bool is_one = value->kind == TESS_PICKLE_OBJECT && tess_pickle_get(dicts[1], "_parameters") != NULL &&
                  tess_pickle_get(dicts[1], "_modules") != NULL;
    return is_one ? dicts[1] : NULL;
}

static bool is_in_set(const tess_pickle_value *set, const tess_pickle_value *key)
{
    const char *text = tess_pickle_text(key);
    for (size_t i = 0; set != NULL && set->kind == TESS_PICKLE_SET && i < set->n; i++) {
        const char *item = tess_pickle_text(set->items[i]);
        if (text != NULL && item != NULL && strcmp(text, item) == 0)
            return true;
    }
    return false;
}

/* Visits what the module's state_dict() would contain: no other attributes, and no buffers that are not persistent. */
static tess_status walk_module(torch_walk *walk, size_t length, const tess_pickle_value *attributes)
{
    static const char *const parts[] = {"_parameters", "_buffers", "_modules"};
    const tess_pickle_value *unsaved = tess_pickle_get(attributes, "_non_persistent_buffers_set");
    char key[1024];
    for (size_t p = 0; p < sizeof(parts) / sizeof(parts[0]); p++) {
        const tess_pickle_value *part = tess_pickle_get(attributes, parts[p]);
        for (size_t i = 0; part != NULL && part->kind == TESS_PICKLE_DICT && i + 1 < part->n; i += 2)
            if (torch_key(part->items[i], key, sizeof(key)) && (p != 1 || !is_in_set(unsaved, part->items[i])))
                TESS_TRY(walk_member(walk, length, key, part->items[i + 1], NULL));
    }
    return TESS_OK;
}

static tess_status walk_value(torch_walk *walk, size_t length, const tess_pickle_value *value, json_t *meta)
{
    const tess_pickle_value *dicts[2], *module = torch_module(value);
    walk->name[length] = '\0';
    if (torch_is_tensor(value) || torch_is_sharded(value))
        return add_tensor(walk, value);
    if (module != NULL)
        return walk_module(walk, length, module);
    for (size_t i = 0; value->kind >= TESS_PICKLE_LIST && value->kind <= TESS_PICKLE_SET && i < value->n; i++) {
        char key[32];
        snprintf(key, sizeof(key), "%zu", i);
        TESS_TRY(walk_member(walk, length, key, value->items[i], meta));
    }
    find_dicts(value, dicts);
    for (int i = 0; i < 2; i++)
        if (dicts[i] != NULL && dicts[i]->kind == TESS_PICKLE_DICT)
            TESS_TRY(walk_dict(walk, length, dicts[i], meta));
    return TESS_OK;
}

tess_status torch_walk_value(torch_walk *walk, const char *prefix, const tess_pickle_value *value, json_t *meta)
{
    snprintf(walk->name, sizeof(walk->name), "%s", prefix);
    return walk_value(walk, strlen(prefix), value, meta);
}
