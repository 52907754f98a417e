/* Reads and writes the tuning table as a JSON file. */
#include <stdlib.h>
#include <string.h>

#include "base/os/os.h"
#include "base/text/json.h"
#include "comm/hosts/choice.h"

enum { FILE_VERSION = 1, FILE_MOST_BYTES = 1 << 20 };

static int find_way(const char *name)
{
    int way = 0;
    while (way < HOSTS_WAYS && strcmp(tess_hosts_way_name(way), name) != 0)
        way++;
    return way < HOSTS_WAYS ? way : -1;
}

/* ---- Reading ---- */
static tess_status read_choice(const json_t *object, const char *where, tess_hosts_choice *choice)
{
    const char *way = NULL;
    int64_t round_bytes = -1;
    TESS_TRY(tess_json_get_string(object, "way", where, &way));
    TESS_TRY(tess_json_get_int(object, "round_bytes", where, &round_bytes));
    TESS_CHECK(way != NULL && find_way(way) >= 0, TESS_E_FORMAT, "%s: 'way' is '%.32s': \"striped\" or \"leaders\"",
               where, way != NULL ? way : "");
    TESS_CHECK(round_bytes >= 0, TESS_E_FORMAT, "%s: 'round_bytes' is %s", where,
               round_bytes == -1 ? "missing" : "negative");
    *choice = (tess_hosts_choice){find_way(way), (size_t)round_bytes};
    return TESS_OK;
}

static tess_status read_row(tess_tuning *tuning, int kind, const json_t *object, bool last, const char *where)
{
    tess_hosts_choice choice;
    int64_t up_to_bytes = -1;
    TESS_CHECK(json_is_object(object), TESS_E_FORMAT, "%s: a row is an object", where);
    TESS_CHECK(json_object_get(object, "up_to_bytes") != NULL, TESS_E_FORMAT, "%s: 'up_to_bytes' is missing", where);
    bool bounded = !json_is_null(json_object_get(object, "up_to_bytes"));
    TESS_TRY(tess_json_get_int(object, "up_to_bytes", where, &up_to_bytes));
    TESS_CHECK(!bounded || up_to_bytes > 0, TESS_E_FORMAT, "%s: 'up_to_bytes' is %lld: a positive number, or null",
               where, (long long)up_to_bytes);
    TESS_CHECK(bounded != last, TESS_E_FORMAT, "%s: %s", where,
               last ? "'up_to_bytes' of the last row must be null: else larger sizes have no row"
                    : "'up_to_bytes' is null, and rows follow that are never reached");
    TESS_TRY(read_choice(object, where, &choice));
    if (tess_tuning_add(tuning, kind, bounded ? (uint64_t)up_to_bytes : HOSTS_ANY_BYTES, choice) == TESS_OK)
        return TESS_OK;
    char why[256];
    snprintf(why, sizeof(why), "%s", tess_error_message());
    return TESS_FAIL(TESS_E_FORMAT, "%s: %s", where, why);
}

static tess_status read_operation(tess_tuning *tuning, const char *name, const json_t *rows, const char *what)
{
    char where[512];
    int kind = 0;
    while (kind < TESS_TRACE_OP_COUNT && !(tess_tuning_knows(kind) && strcmp(tess_trace_op_name(kind), name) == 0))
        kind++;
    TESS_CHECK(kind < TESS_TRACE_OP_COUNT, TESS_E_FORMAT,
               "%s: operations: '%.64s' is none of all_gather, reduce_scatter, all_reduce, broadcast, "
               "all_gather_pieces, reduce_scatter_pieces",
               what, name);
    size_t n = json_array_size(rows);
    TESS_CHECK(n > 0 && n <= TUNING_ROWS, TESS_E_FORMAT, "%s: %s: an array of 1 to %d rows, not %zu", what, name,
               TUNING_ROWS, n);
    for (size_t i = 0; i < n; i++) {
        snprintf(where, sizeof(where), "%.400s: %s, row %zu", what, name, i + 1);
        TESS_TRY(read_row(tuning, kind, json_array_get(rows, i), i + 1 == n, where));
    }
    return TESS_OK;
}

static tess_status read_document(tess_tuning *tuning, json_t *document, const char *what)
{
    int64_t version = 0;
    const char *name;
    json_t *rows, *operations = json_object_get(document, "operations");
    TESS_CHECK(json_is_object(document), TESS_E_FORMAT, "%s: no tuning table: it is no JSON object", what);
    TESS_TRY(tess_json_get_int(document, "tessera_tuning", what, &version));
    TESS_CHECK(version == FILE_VERSION, TESS_E_FORMAT,
               "%s: 'tessera_tuning' is %lld, this Tessera reads %d: write the table anew with "
               "`tessera bench comm --tune`",
               what, (long long)version, FILE_VERSION);
    TESS_CHECK(json_is_object(operations), TESS_E_FORMAT, "%s: 'operations' is no object", what);
    json_object_foreach (operations, name, rows)
        TESS_TRY(read_operation(tuning, name, rows, what));
    return TESS_OK;
}

static tess_status read_json(tess_mem *mem, json_t *document, const char *what, tess_tuning **out)
{
    tess_tuning *tuning = NULL;
    tess_status status = tess_tuning_create(mem, &tuning);
    if (status == TESS_OK)
        status = read_document(tuning, document, what);
    json_decref(document);
    if (status != TESS_OK)
        tess_tuning_free(&tuning);
    else
        *out = tuning;
    return status;
}

tess_status tess_tuning_parse(tess_mem *mem, const char *text, size_t size, const char *what, tess_tuning **tuning)
{
    json_t *document;
    TESS_CHECK(size <= FILE_MOST_BYTES, TESS_E_FORMAT, "%s: %zu bytes; at most %d are read", what, size,
               FILE_MOST_BYTES);
    TESS_TRY(tess_json_parse(text, size, what, true, &document));
    return read_json(mem, document, what, tuning);
}

tess_status tess_tuning_load(tess_mem *mem, const char *path, tess_tuning **tuning)
{
    json_t *document;
    TESS_TRY(tess_json_load(path, FILE_MOST_BYTES, &document));
    return read_json(mem, document, path, tuning);
}

/* ---- Writing: one line for each row, for readers ---- */
static void write_text(FILE *out, const char *text)
{
    json_t *string = json_string(text);
    char *quoted = string != NULL ? json_dumps(string, JSON_ENCODE_ANY) : NULL;
    fputs(quoted != NULL ? quoted : "null", out);
    free(quoted);
    json_decref(string);
}

static void write_operation(FILE *out, const tess_tuning *tuning, int kind)
{
    uint64_t up_to_bytes;
    tess_hosts_choice choice;
    fprintf(out, "  \"%s\": [", tess_trace_op_name(kind));
    for (int i = 0; tess_tuning_row(tuning, kind, i, &up_to_bytes, &choice); i++) {
        fprintf(out, "%s\n   {\"up_to_bytes\": ", i > 0 ? "," : "");
        if (up_to_bytes == HOSTS_ANY_BYTES)
            fputs("null", out);
        else
            fprintf(out, "%llu", (unsigned long long)up_to_bytes);
        fprintf(out, ", \"way\": \"%s\", \"round_bytes\": %zu}", tess_hosts_way_name(choice.way), choice.round_bytes);
    }
    fputs("]", out);
}

static void write_document(FILE *out, const tess_tuning *tuning, const tess_tuning_fact *facts, int n_facts)
{
    const char *separator = "";
    uint64_t bound;
    tess_hosts_choice choice;
    fprintf(out, "{\n \"tessera_tuning\": %d,\n", FILE_VERSION);
    for (int i = 0; i < n_facts; i++) {
        fprintf(out, " \"%s\": ", facts[i].key);
        write_text(out, facts[i].text);
        fputs(",\n", out);
    }
    fputs(" \"operations\": {", out);
    for (int kind = 0; kind < TESS_TRACE_OP_COUNT; kind++) {
        if (!tess_tuning_row(tuning, kind, 0, &bound, &choice))
            continue;
        fprintf(out, "%s\n", separator);
        write_operation(out, tuning, kind);
        separator = ",";
    }
    fputs("\n }\n}\n", out);
}

static tess_status check_complete(const tess_tuning *tuning)
{
    for (int kind = 0; kind < TESS_TRACE_OP_COUNT; kind++) {
        uint64_t bound = HOSTS_ANY_BYTES;
        tess_hosts_choice choice;
        for (int i = 0; tess_tuning_row(tuning, kind, i, &bound, &choice); i++)
            ;
        TESS_CHECK(bound == HOSTS_ANY_BYTES, TESS_E_INVALID, "tuning of %s ends at %llu bytes",
                   tess_trace_op_name(kind), (unsigned long long)bound);
    }
    return TESS_OK;
}

tess_status tess_tuning_write(const tess_tuning *tuning, const tess_tuning_fact *facts, int n_facts, const char *path)
{
    TESS_AUTO(tess_malloc_drop) char *text = NULL;
    size_t size;
    TESS_TRY(check_complete(tuning));
    FILE *out = open_memstream(&text, &size);
    TESS_CHECK(out != NULL, TESS_E_NOMEM, "%s: no memory to write the tuning table", path);
    write_document(out, tuning, facts, n_facts);
    return fclose(out) == 0 ? tess_os_write_atomic(path, text, size)
                            : TESS_FAIL(TESS_E_NOMEM, "%s: no memory to write the tuning table", path);
}
