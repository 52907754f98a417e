#include "cli/plan/written_config.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/os/os.h"
#include "base/text/text.h"

enum { VALUE_BYTES = 16384 };

/* JSON's texts are YAML's. The text of an option is taken as it is: its form for people hides passwords. */
static tess_status put_text(const char *text, tess_buffer *out)
{
    json_t *json = json_string(text);
    char *quoted = json == NULL ? NULL : json_dumps(json, JSON_ENCODE_ANY);
    tess_status status = quoted == NULL ? TESS_FAIL(TESS_E_NOMEM, "no memory for a value of a configuration")
                                        : tess_buffer_printf(out, "%s\n", quoted);
    free(quoted);
    json_decref(json);
    return status;
}

static tess_status put_value(const tess_option *row, const void *section, tess_buffer *out)
{
    char value[VALUE_BYTES];
    TESS_TRY(tess_buffer_printf(out, "  %s: ", strchr(row->key, '.') + 1));
    if (row->type == TESS_OPTION_TEXT)
        return put_text((const char *)section + row->offset, out);
    TESS_TRY(tess_options_format(row, section, value, sizeof(value)));
    return row->type == TESS_OPTION_LIST ? put_text(value, out) : tess_buffer_printf(out, "%s\n", value);
}

static tess_status put_section(const tess_option_table *table, const tess_config *config, tess_buffer *out)
{
    const void *section = tess_options_section(table, config);
    bool is_open = false;
    for (int i = 0; i < table->section->n_rows; i++) {
        const tess_option *row = &table->section->rows[i];
        if (row->type == TESS_OPTION_OWN || tess_options_is_default(row, section))
            continue;
        if (!is_open)
            TESS_TRY(tess_buffer_printf(out, "%s:\n", table->section->name));
        is_open = true;
        TESS_TRY(put_value(row, section, out));
    }
    return TESS_OK;
}

static tess_status put_head(const char *head, tess_buffer *out)
{
    for (const char *line = head, *end; *line != '\0'; line = *end == '\0' ? end : end + 1) {
        end = line + strcspn(line, "\n");
        TESS_TRY(tess_buffer_printf(out, "# %.*s\n", (int)(end - line), line));
    }
    return TESS_OK;
}

static tess_status put_config(const tess_config *config, const char *head, tess_buffer *out)
{
    int n_tables;
    const tess_option_table *tables = tess_config_tables(&n_tables);
    TESS_TRY(put_head(head, out));
    for (int t = 0; t < n_tables; t++)
        TESS_TRY(put_section(&tables[t], config, out));
    return TESS_OK;
}

tess_status cli_config_write(tess_mem *mem, const tess_config *config, const char *head, const char *path)
{
    tess_buffer text = {.mem = mem};
    tess_status status = put_config(config, head, &text);
    if (status == TESS_OK)
        status = tess_os_write_atomic(path, text.data, text.size);
    tess_buffer_free(&text);
    return status;
}
