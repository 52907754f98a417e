/* A configuration as a checkpoint keeps it: every option of every section with its value. */
#include <string.h>

#include "base/text/json.h"
#include "train/train_config.h"

json_t *tess_text_list_to_json(const tess_text_list *list)
{
    json_t *items = json_array();
    for (int i = 0; i < list->n; i++)
        json_array_append_new(items, tess_json_text(list->item[i]));
    return items;
}

static json_t *value_to_json(const tess_option *option, const tess_config *config)
{
    const char *field = (const char *)config + option->offset;
    char text[TESS_TEXT_SIZE] = "";
    switch (option->type) {
    case TESS_OPTION_BOOL:
        return json_boolean(*(const bool *)field);
    case TESS_OPTION_INT:
        return json_integer(*(const int64_t *)field);
    case TESS_OPTION_FLOAT:
        return json_real(*(const double *)field);
    case TESS_OPTION_LIST:
        return tess_text_list_to_json((const tess_text_list *)field);
    default:
        return tess_options_format(option, config, text, sizeof(text)) == TESS_OK ? tess_json_text(text) : NULL;
    }
}

json_t *tess_config_to_json(const tess_config *config)
{
    int n_tables;
    const tess_option_table *tables = tess_config_tables(&n_tables);
    json_t *sections = json_object();
    for (int t = 0; t < n_tables; t++) {
        json_t *section = json_object();
        for (int i = 0; i < tables[t].n_rows; i++)
            json_object_set_new(section, strchr(tables[t].rows[i].key, '.') + 1,
                                value_to_json(&tables[t].rows[i], config));
        json_object_set_new(sections, tables[t].section, section);
    }
    return sections;
}
