/* Loads the registry of variables: the built-in rows, and the user's own. */
#include <string.h>

#include "base/core/variables.h"
#include "base/text/text.h"
#include "doctor/data.h"
#include "doctor/env/env_impl.h"
#include "doctor/env/env_values.h"

static const tess_table_field fields[] = {{"of", offsetof(tess_env_variable, of), false},
                                          {"does", offsetof(tess_env_variable, does), true},
                                          {"default", offsetof(tess_env_variable, fallback), false},
                                          {"values", offsetof(tess_env_variable, values), false},
                                          {"risky", offsetof(tess_env_variable, risky), false},
                                          {"risk", offsetof(tess_env_variable, risk), false},
                                          {"state", offsetof(tess_env_variable, state), false},
                                          {"note", offsetof(tess_env_variable, note), false},
                                          {"tessera", offsetof(tess_env_variable, ours), false},
                                          {"source", offsetof(tess_env_variable, source), false}};

static const tess_table_field family_fields[] = {{"of", offsetof(env_family, of), true},
                                                 {"source", offsetof(env_family, source), true},
                                                 {"ask", offsetof(env_family, ask), false},
                                                 {"kin", offsetof(env_family, kin), false}};

static const tess_table_field conflict_fields[] = {{"when", offsetof(env_conflict, when), true},
                                                   {"and", offsetof(env_conflict, and), true},
                                                   {"but", offsetof(env_conflict, but), false},
                                                   {"says", offsetof(env_conflict, says), true}};

const env_family *env_family_of(const tess_env_registry *registry, const char *name)
{
    for (int i = 0; i < registry->families.n; i++) {
        const env_family *family = tess_table_at(&registry->families, i);
        if (strncmp(name, family->row.id, strlen(family->row.id)) == 0)
            return family;
    }
    return NULL;
}

static tess_status check_values(const tess_env_variable *variable, const char *field, const char *values)
{
    TESS_CHECK(tess_env_are_values(values), TESS_E_FORMAT,
               "%s:%d: %s: %s '%.80s': write bool, on, off, int LO..HI, ints LO..HI, number LO..HI, one A|B, list A|B, "
               "has A|B, lacks A|B or gpus",
               variable->row.file, variable->row.line, variable->row.id, field, values);
    return TESS_OK;
}

static tess_status check_rows(const tess_env_registry *registry)
{
    const tess_table *table = &registry->table;
    for (int i = 0; i < table->n; i++) {
        const tess_env_variable *variable = tess_table_at(table, i);
        TESS_CHECK(variable->of != NULL || env_family_of(registry, variable->row.id) != NULL, TESS_E_FORMAT,
                   "%s:%d: '%s' needs the field 'of'", variable->row.file, variable->row.line, variable->row.id);
        TESS_TRY(check_values(variable, "values", variable->values));
        TESS_TRY(check_values(variable, "risky", variable->risky));
        TESS_CHECK((variable->risky != NULL) == (variable->risk != NULL), TESS_E_FORMAT,
                   "%s:%d: %s: the fields 'risky' and 'risk' need each other", variable->row.file, variable->row.line,
                   variable->row.id);
    }
    return TESS_OK;
}

static tess_status write_field(const char *name, const char *text, tess_buffer *out)
{
    if (text[0] == '\0')
        return TESS_OK;
    TESS_TRY(tess_buffer_printf(out, "  %s: '", name));
    for (; *text != '\0'; text++)
        TESS_TRY(tess_buffer_append(out, *text == '\'' ? "''" : text, *text == '\'' ? 2 : 1));
    return tess_buffer_append(out, "'\n", 2);
}

/* Writes Tessera's own variables as the text of a table. */
static tess_status write_ours(tess_buffer *out)
{
    for (int v = 0; v < TESS_VARIABLE_COUNT; v++) {
        const tess_variable_row *row = &tess_variables[v];
        if (strncmp(row->name, "TESSERA_", 8) != 0)
            continue;
        TESS_TRY(tess_buffer_printf(out, "%s:\n", row->name));
        TESS_TRY(write_field("does", row->does, out));
        TESS_TRY(write_field("default", row->fallback, out));
        TESS_TRY(write_field("values", row->values, out));
    }
    return TESS_OK;
}

static tess_status add_ours(tess_table *table)
{
    TESS_AUTO(tess_buffer_free) tess_buffer text = {.mem = table->mem};
    TESS_TRY(write_ours(&text));
    return tess_table_parse(table, text.data, text.size, ENV_OURS);
}

#define TABLE(mem_, fields_, row)                                                                                   \
    {                                                                                                               \
        .mem = mem_, .fields = fields_, .n_fields = sizeof(fields_) / sizeof((fields_)[0]), .row_size = sizeof(row) \
    }

tess_status tess_env_registry_load(tess_mem *mem, const char *const *files, int n_files, tess_env_registry *registry)
{
    tess_table *table = &registry->table;
    *registry = (tess_env_registry){TABLE(mem, fields, tess_env_variable), TABLE(mem, family_fields, env_family),
                                    TABLE(mem, conflict_fields, env_conflict)};
    TESS_TRY(tess_table_parse(&registry->families, (const char *)tess_data_families, tess_data_families_size,
                              "families.yaml"));
    TESS_TRY(tess_table_parse(&registry->conflicts, (const char *)tess_data_conflicts, tess_data_conflicts_size,
                              "conflicts.yaml"));
#define X(subject)                                                                \
    TESS_TRY(tess_table_parse(table, (const char *)tess_data_variables_##subject, \
                              tess_data_variables_##subject##_size, ENV_BUILT_IN #subject ".yaml"));
    TESS_DOCTOR_VARIABLES(X)
#undef X
    TESS_TRY(add_ours(table));
    TESS_TRY(tess_table_load_own(table, "variables.yaml"));
    for (int i = 0; i < n_files; i++)
        TESS_TRY(tess_table_load(table, files[i]));
    return check_rows(registry);
}

void tess_env_registry_free(tess_env_registry *registry)
{
    tess_table_free(&registry->table);
    tess_table_free(&registry->families);
    tess_table_free(&registry->conflicts);
}
