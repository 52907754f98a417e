#include "doctor/table/table.h"

#include <stdio.h>
#include <string.h>

#include "base/core/options.h"
#include "base/core/variables.h"
#include "base/mem/make_room.h"
#include "base/os/os.h"
#include "base/text/yaml.h"

/* The state while a file is read. */
typedef struct table_reading {
    tess_table *table;
    const char *what;
    int current; /* row of the last key; -1: no row yet */
} table_reading;

static const char **field_of(const tess_table *table, void *row, int field)
{
    return (const char **)((char *)row + table->fields[field].offset);
}

void *tess_table_at(const tess_table *table, int i)
{
    return table->rows + (size_t)i * table->row_size;
}

void *tess_table_find(const tess_table *table, const char *id)
{
    for (int i = 0; i < table->n; i++) {
        tess_table_row *row = tess_table_at(table, i);
        if (strcmp(row->id, id) == 0)
            return row;
    }
    return NULL;
}

static tess_status copy_text(tess_mem *mem, const char *text, size_t size, const char **out)
{
    void *copy;
    TESS_TRY(tess_mem_alloc(mem, TESS_POOL_MISC, size + 1, "a text of the doctor", &copy));
    memcpy(copy, text, size);
    *out = copy;
    return TESS_OK;
}

static void free_row(tess_table *table, void *at)
{
    tess_table_row *row = at;
    for (int i = 0; i < table->n_fields; i++)
        tess_mem_free(table->mem, (void *)*field_of(table, row, i));
    tess_mem_free(table->mem, (void *)row->id);
    tess_mem_free(table->mem, (void *)row->file);
    memset(row, 0, table->row_size);
}

static tess_status check_row(const table_reading *r)
{
    const tess_table *table = r->table;
    if (r->current < 0)
        return TESS_OK;
    tess_table_row *row = tess_table_at(table, r->current);
    for (int i = 0; i < table->n_fields; i++)
        TESS_CHECK(!table->fields[i].required || *field_of(table, row, i) != NULL, TESS_E_FORMAT,
                   "%s:%d: '%s' needs the field '%s'", r->what, row->line, row->id, table->fields[i].name);
    return TESS_OK;
}

/* Begins the row with that id. If an earlier file has the row, the row is emptied first. */
static tess_status begin_row(table_reading *r, const char *id, size_t id_size, int line)
{
    tess_table *table = r->table;
    tess_table_row *row = NULL;
    TESS_TRY(check_row(r));
    TESS_CHECK(id_size > 0 && id_size < 128, TESS_E_FORMAT, "%s:%d: a name needs 1 to 127 characters", r->what, line);
    for (int i = 0; i < table->n && row == NULL; i++) {
        tess_table_row *other = tess_table_at(table, i);
        if (strlen(other->id) != id_size || memcmp(other->id, id, id_size) != 0)
            continue;
        free_row(table, other);
        row = other;
        r->current = i;
    }
    if (row == NULL) {
        TESS_CHECK(table->n < TESS_TABLE_MOST_ROWS, TESS_E_FORMAT, "%s:%d: more than %d entries", r->what, line,
                   TESS_TABLE_MOST_ROWS);
        TESS_TRY_CTX(tess_mem_make_room(table->mem, TESS_POOL_MISC, (size_t)table->n, table->row_size,
                                        "what the doctor knows", &table->capacity, &table->rows),
                     "%s:%d", r->what, line);
        r->current = table->n++;
        row = tess_table_at(table, r->current);
    }
    row->line = line;
    tess_status status = copy_text(table->mem, id, id_size, &row->id);
    if (status == TESS_OK)
        status = copy_text(table->mem, r->what, strlen(r->what), &row->file);
    if (status != TESS_OK) { /* a row without both texts is removed */
        free_row(table, row);
        memmove(row, tess_table_at(table, table->n - 1), table->row_size);
        memset(tess_table_at(table, --table->n), 0, table->row_size);
    }
    return status;
}

static tess_status fail_unknown(const table_reading *r, const char *name, int line)
{
    enum { MOST = 32 };
    const char *names[MOST];
    char hint[TESS_HINT_BYTES];
    int n = r->table->n_fields < MOST ? r->table->n_fields : MOST;
    for (int i = 0; i < n; i++)
        names[i] = r->table->fields[i].name;
    return TESS_FAIL(TESS_E_FORMAT, "%s:%d: there is no field '%.60s'%s", r->what, line, name,
                     tess_options_hint("", name, names, n, "", hint));
}

static tess_status take_value(void *context, const char *key, const char *text, int line)
{
    table_reading *r = context;
    tess_table *table = r->table;
    if (text == NULL)
        return TESS_OK; /* not a text: the parser reports the error */
    const char *dot = strrchr(key, '.'), *name = dot + 1;
    size_t id_size = (size_t)(dot - key), size = strlen(text);
    tess_table_row *row = r->current >= 0 ? tess_table_at(table, r->current) : NULL;
    if (row == NULL || strlen(row->id) != id_size || memcmp(row->id, key, id_size) != 0) {
        TESS_TRY(begin_row(r, key, id_size, line));
        row = tess_table_at(table, r->current);
    }
    while (size > 0 && (text[size - 1] == '\n' || text[size - 1] == ' '))
        size--;
    TESS_CHECK(size > 0, TESS_E_FORMAT, "%s:%d: '%s' is empty: leave it out", r->what, line, name);
    TESS_CHECK(size <= TESS_TABLE_MOST_TEXT, TESS_E_FORMAT, "%s:%d: '%s' has more than %d bytes", r->what, line, name,
               TESS_TABLE_MOST_TEXT);
    for (int i = 0; i < table->n_fields; i++) {
        if (strcmp(table->fields[i].name, name) != 0)
            continue;
        const char **field = field_of(table, row, i);
        TESS_CHECK(*field == NULL, TESS_E_FORMAT, "%s:%d: '%s' has the field '%s' twice", r->what, line, row->id, name);
        return copy_text(table->mem, text, size, field);
    }
    return fail_unknown(r, name, line);
}

tess_status tess_table_parse(tess_table *table, const char *text, size_t size, const char *what)
{
    table_reading r = {.table = table, .what = what, .current = -1};
    TESS_TRY(tess_yaml_parse(table->mem, text, size, what, take_value, &r));
    return check_row(&r);
}

tess_status tess_table_load(tess_table *table, const char *path)
{
    TESS_AUTO(tess_mem_drop) char *text = NULL;
    size_t size;
    TESS_TRY(tess_os_read(table->mem, path, TESS_TABLE_MOST_FILE, &text, &size));
    return tess_table_parse(table, text, size, path);
}

tess_status tess_table_load_own(tess_table *table, const char *name)
{
    char folder[1024], path[1200];
    const char *config = tess_variable_value(TESS_VAR_XDG_CONFIG_HOME), *home = tess_variable_value(TESS_VAR_HOME);
    if (config != NULL && config[0] == '/')
        snprintf(folder, sizeof(folder), "%s/tessera", config);
    else if (home != NULL)
        snprintf(folder, sizeof(folder), "%s/.config/tessera", home);
    else
        return TESS_OK;
    TESS_TRY(tess_os_join(path, sizeof(path), folder, name));
    return tess_os_is_file(path) ? tess_table_load(table, path) : TESS_OK;
}

void tess_table_free(tess_table *table)
{
    for (int i = 0; i < table->n; i++)
        free_row(table, tess_table_at(table, i));
    tess_mem_free(table->mem, table->rows);
    table->rows = NULL;
    table->n = 0;
    table->capacity = 0;
}
