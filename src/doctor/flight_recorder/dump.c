/* Gives access to the values of a dump in the same way whether it is a pickle or JSON. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os/os.h"
#include "base/text/json.h"
#include "doctor/flight_recorder/flight_recorder_impl.h"

enum { MOST_KEYS = 128, LONGEST_KEY = 32, HEAD_BYTES = 4096 };

static const size_t most_bytes = (size_t)1 << 30;

static tess_status parse(tess_mem *mem, const char *path, const tess_mapping *file, dump *dump)
{
    static const char *const names[] = {"collections.OrderedDict", NULL};
    const tess_pickle_options options = {.names = names, .only_names = true};
    size_t begin = 0;
    TESS_CHECK(file->size <= most_bytes, TESS_E_FORMAT, "%s: %zu bytes; dumps of up to %zu are read", path, file->size,
               most_bytes);
    while (begin < file->size && strchr(" \t\r\n", file->data[begin]) != NULL)
        begin++;
    if (begin < file->size && file->data[begin] == '{') {
        TESS_TRY(tess_json_parse((const char *)file->data, file->size, path, false, &dump->json));
        dump->root.json = dump->json;
    } else {
        TESS_TRY(tess_pickle_parse(mem, file->data, file->size, path, &options, &dump->pickle));
        dump->root.pickle = tess_pickle_root(dump->pickle);
    }
    return TESS_OK;
}

tess_status dump_open(tess_mem *mem, const char *path, dump *dump)
{
    tess_mapping file;
    *dump = (struct dump){0};
    TESS_TRY(tess_os_map(path, &file));
    dump->looks = 1000 + 2 * file.size;
    tess_status status = parse(mem, path, &file, dump);
    tess_os_unmap(&file);
    if (status == TESS_OK && !dump_is_dict(dump->root))
        status = TESS_FAIL(TESS_E_FORMAT, "%s: its top level is no dict", path);
    if (status != TESS_OK)
        dump_close(dump);
    return status;
}

void dump_close(dump *dump)
{
    json_decref(dump->json);
    tess_pickle_destroy(&dump->pickle);
    *dump = (struct dump){0};
}

bool dump_is(const char *path)
{
    static const char *const words[] = {"entries", "pg_config", "pg_status", "nccl_comm_state", "comm_lib_version"};
    char head[HEAD_BYTES];
    FILE *file = tess_os_is_file(path) ? fopen(path, "rb") : NULL;
    size_t n = file != NULL ? fread(head, 1, sizeof(head), file) : 0;
    if (file != NULL)
        fclose(file);
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (memmem(head, n, words[i], strlen(words[i])) != NULL)
            return true;
    return false;
}

bool dump_present(dump_value value)
{
    return value.json != NULL ? !json_is_null(value.json)
                              : value.pickle != NULL && value.pickle->kind != TESS_PICKLE_NONE;
}

bool dump_is_dict(dump_value value)
{
    return value.json != NULL ? json_is_object(value.json)
                              : value.pickle != NULL && value.pickle->kind == TESS_PICKLE_DICT;
}

bool dump_is_list(dump_value value)
{
    if (value.json != NULL)
        return json_is_array(value.json);
    return value.pickle != NULL && (value.pickle->kind == TESS_PICKLE_LIST || value.pickle->kind == TESS_PICKLE_TUPLE);
}

dump_value dump_get(dump_value dict, const char *key)
{
    if (dict.json != NULL)
        return (dump_value){.json = json_object_get(dict.json, key)};
    if (dict.pickle == NULL || dict.pickle->n > 2 * MOST_KEYS)
        return (dump_value){0};
    return (dump_value){.pickle = tess_pickle_get(dict.pickle, key)};
}

size_t dump_length(dump_value list)
{
    if (!dump_is_list(list))
        return 0;
    return list.json != NULL ? json_array_size(list.json) : list.pickle->n;
}

dump_value dump_at(dump *dump, dump_value list, size_t index)
{
    if (dump->looks == 0)
        return (dump_value){0};
    dump->looks--;
    if (list.json != NULL)
        return (dump_value){.json = json_array_get(list.json, index)};
    return (dump_value){.pickle = tess_pickle_at(list.pickle, index)};
}

bool dump_int(dump_value value, int64_t *integer)
{
    const char *text = dump_text(value);
    if (text != NULL) {
        char *end;
        long long number = strtoll(text, &end, 10);
        *integer = number;
        return end != text && *end == '\0';
    }
    if (json_is_integer(value.json)) {
        *integer = json_integer_value(value.json);
        return true;
    }
    if (value.pickle == NULL || value.pickle->kind != TESS_PICKLE_INT)
        return false;
    *integer = value.pickle->integer;
    return true;
}

bool dump_true(dump_value value)
{
    if (value.json != NULL)
        return json_is_true(value.json);
    return value.pickle != NULL && value.pickle->kind == TESS_PICKLE_BOOL && value.pickle->flag;
}

const char *dump_text(dump_value value)
{
    return value.json != NULL ? json_string_value(value.json) : tess_pickle_text(value.pickle);
}

tess_status dump_each(dump_value dict, dump_visit visit, void *context)
{
    const char *key;
    json_t *value;
    if (!dump_is_dict(dict))
        return TESS_OK;
    for (size_t i = 0; dict.pickle != NULL && i + 1 < dict.pickle->n; i += 2) {
        const tess_pickle_value *name = dict.pickle->items[i];
        char number[LONGEST_KEY];
        snprintf(number, sizeof(number), "%lld", name->kind == TESS_PICKLE_INT ? (long long)name->integer : -1);
        TESS_TRY(visit(context, name->kind == TESS_PICKLE_TEXT ? name->text : number,
                       (dump_value){.pickle = dict.pickle->items[i + 1]}));
    }
    json_object_foreach ((json_t *)dict.json, key, value) {
        TESS_TRY(visit(context, key, (dump_value){.json = value}));
    }
    return TESS_OK;
}
