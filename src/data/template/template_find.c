#include "data/template/template_find.h"

#include <string.h>

#include "base/os/os.h"
#include "base/text/json.h"

enum { CONFIG_BYTES = 64 << 20 };

static tess_status parse_file(tess_mem *mem, const char *path, tess_chat_template **chat)
{
    TESS_AUTO(tess_os_unmap) tess_mapping file = {0};
    TESS_TRY(tess_os_map(path, &file));
    TESS_TRY_CTX(tess_chat_template_parse(mem, file.size > 0 ? (const char *)file.data : "", file.size, chat), "%s",
                 path);
    return TESS_OK;
}

/* Finds the template in a configuration. chat_template is a string, or a list of named templates, of which "default" is
 * used. NULL: there is none. */
static const json_t *template_of(const json_t *config)
{
    const json_t *value = json_object_get(config, "chat_template");
    for (size_t i = 0; json_is_array(value) && i < json_array_size(value); i++) {
        const json_t *entry = json_array_get(value, i);
        const char *name = json_string_value(json_object_get(entry, "name"));
        if (name != NULL && strcmp(name, "default") == 0)
            return json_object_get(entry, "template");
    }
    return json_is_string(value) ? value : NULL;
}

static tess_status load_folder(tess_mem *mem, const char *folder, tess_chat_template **chat)
{
    char jinja[1024], config[1024];
    json_auto_t *read = NULL;
    TESS_TRY(tess_os_join(jinja, sizeof(jinja), folder, "chat_template.jinja"));
    TESS_TRY(tess_os_join(config, sizeof(config), folder, "tokenizer_config.json"));
    if (tess_os_is_file(jinja))
        return parse_file(mem, jinja, chat);
    if (tess_os_is_file(config))
        TESS_TRY(tess_json_load(config, CONFIG_BYTES, &read));
    const json_t *text = template_of(read);
    TESS_CHECK(text != NULL, TESS_E_NOT_FOUND,
               "%s: no chat template: neither a chat_template.jinja in that folder nor a 'chat_template' in this file; "
               "name a file",
               config);
    TESS_TRY_CTX(tess_chat_template_parse(mem, json_string_value(text), json_string_length(text), chat), "%s", config);
    return TESS_OK;
}

tess_status tess_chat_template_load(tess_mem *mem, const char *path, tess_chat_template **chat)
{
    *chat = NULL;
    return tess_os_is_dir(path) ? load_folder(mem, path, chat) : parse_file(mem, path, chat);
}
