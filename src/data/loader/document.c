#include "data/loader/document.h"

#include <stdio.h>
#include <string.h>

static bool is_blank(const char *line, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (strchr(" \t\r", line[i]) == NULL || line[i] == '\0')
            return false;
    }
    return true;
}

static tess_status fail_without_text(json_t *document, const char *key)
{
    char names[200] = "";
    const char *name;
    json_t *member;
    size_t used = 0;
    json_object_foreach (document, name, member)
        used = tess_text_add(names, sizeof(names), used, "%s '%.40s'", used > 0 ? "," : ", but", name);
    return TESS_FAIL(TESS_E_FORMAT,
                     "it has no '%s'%s: name the member that holds the text with data.text_key (eval: --text-key)", key,
                     names);
}

/* The text beside a conversation is what the user wrote of it; one half of a pair is not. */
static tess_status check(json_t *document, const char *key)
{
    static const char *const conversations[] = {"messages", "conversations"};
    bool pair = tess_json_has(document, "prompt") && tess_json_has(document, "completion");
    bool half = pair && (strcmp(key, "prompt") == 0 || strcmp(key, "completion") == 0);
    const char *text = NULL;
    TESS_CHECK(json_is_object(document), TESS_E_FORMAT, "expected an object with a string '%s'", key);
    TESS_CHECK(
        !tess_json_has(document, "loss_mask"), TESS_E_UNSUPPORTED,
        "'loss_mask' is not supported, every token of '%s' is trained on: remove the member to train on them all", key);
    if (json_is_string(json_object_get(document, key)) && !half)
        return TESS_OK;
    TESS_CHECK(!pair, TESS_E_UNSUPPORTED,
               "pairs of 'prompt' and 'completion' are not supported, all of a text is trained on: join them into one "
               "string 'text' (jq -c '{text: (.prompt + .completion)}') and set data.text_key=text");
    for (int i = 0; i < 2; i++)
        TESS_CHECK(!tess_json_has(document, conversations[i]), TESS_E_UNSUPPORTED,
                   "conversations ('%s') are not supported: write each as one string with the model's chat template "
                   "(transformers: tokenizer.apply_chat_template(messages, tokenize=False)) and name its member with "
                   "data.text_key; data.add_bos=false if the template writes the bos token itself",
                   conversations[i]);
    TESS_TRY(tess_json_get_string(document, key, "document", &text));
    return fail_without_text(document, key);
}

tess_status tess_document_parse(const char *line, size_t size, const char *key, json_t **document)
{
    *document = NULL;
    TESS_CHECK(size <= TESS_LINE_BYTES, TESS_E_FORMAT,
               "a document of %zu bytes, at most %d MiB are read: write it as several", size, TESS_LINE_BYTES >> 20);
    if (is_blank(line, size))
        return TESS_OK;
    TESS_TRY(tess_json_parse(line, size, "document", false, document));
    tess_status status = check(*document, key);
    if (status != TESS_OK) {
        json_decref(*document);
        *document = NULL;
    }
    return status;
}

const char *tess_document_mask(const json_t *document, const char *key)
{
    static const char *const words[] = {"mask", "weight", "labels"};
    for (void *at = json_object_iter((json_t *)document); at != NULL;
         at = json_object_iter_next((json_t *)document, at)) {
        const char *name = json_object_iter_key(at);
        for (int i = 0; i < 3 && strcmp(name, key) != 0; i++)
            if (strcasestr(name, words[i]) != NULL)
                return name;
    }
    return NULL;
}
