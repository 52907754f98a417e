#include "data/tokenizer/special_tokens.h"

#include <stdio.h>
#include <string.h>

#include "base/os/os.h"
#include "base/text/json.h"

enum { FILE_BYTES = 64 << 20, PATH_SIZE = 4096 };

const char *const tess_special_token_names[] = {"bos_token", "eos_token", "unk_token",  "sep_token",
                                                "pad_token", "cls_token", "mask_token", NULL};

/* Adds the tokens that a file's object names. A null removes a token. */
static tess_status add_tokens(const json_t *from, const char *path, json_t *tokens)
{
    for (const char *const *name = tess_special_token_names; *name != NULL; name++) {
        const json_t *token = json_object_get(from, *name);
        if (token == NULL)
            continue;
        json_object_del(tokens, *name);
        if (json_is_null(token))
            continue;
        if (json_is_object(token))
            token = json_object_get(token, "content");
        TESS_CHECK(json_is_string(token), TESS_E_FORMAT, "%s: %s is neither a text nor an object with a content", path,
                   *name);
        TESS_CHECK(json_object_set(tokens, *name, (json_t *)token) == 0, TESS_E_NOMEM, "no memory for special tokens");
    }
    return TESS_OK;
}

/* Adds the tokens of a file if it exists. *lists: the file lists the tokenizer's added tokens. */
static tess_status add_file(const char *folder, const char *name, json_t *tokens, bool *exists, bool *lists)
{
    char path[PATH_SIZE];
    json_auto_t *json = NULL;
    *lists = false;
    TESS_TRY(tess_os_join(path, sizeof(path), folder, name));
    *exists = tess_os_is_file(path);
    if (!*exists)
        return TESS_OK;
    TESS_TRY(tess_json_load(path, FILE_BYTES, &json));
    *lists = json_object_get(json, "added_tokens_decoder") != NULL;
    return add_tokens(json, path, tokens);
}

tess_status tess_special_tokens_read(const char *path, json_t **tokens, bool *has_config)
{
    char folder[PATH_SIZE];
    bool config = false, map, lists;
    TESS_TRY(tess_os_join(folder, sizeof(folder), "", path));
    char *slash = strrchr(folder, '/');
    if (!tess_os_is_dir(path))
        snprintf(slash != NULL ? slash + 1 : folder, 2, "%s", slash != NULL ? "" : ".");
    *tokens = json_object();
    TESS_CHECK(*tokens != NULL, TESS_E_NOMEM, "no memory for special tokens");
    tess_status status = add_file(folder, "tokenizer_config.json", *tokens, &config, &lists);
    if (status == TESS_OK && !lists)
        status = add_file(folder, "special_tokens_map.json", *tokens, &map, &lists);
    if (has_config != NULL)
        *has_config = config;
    if (status == TESS_OK)
        return TESS_OK;
    json_decref(*tokens);
    *tokens = NULL;
    return status;
}
