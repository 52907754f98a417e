#include "data/loader/document.h"

#include <stdio.h>
#include <string.h>

tess_document_keys tess_document_keys_of(const char *text, const char *prompt, const char *completion)
{
    return (tess_document_keys){text != NULL ? text : "text", prompt != NULL ? prompt : "prompt",
                                completion != NULL ? completion : "completion"};
}

static bool is_blank(const char *line, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (strchr(" \t\r", line[i]) == NULL || line[i] == '\0')
            return false;
    }
    return true;
}

static tess_status fail_without_text(json_t *line, const tess_document_keys *keys)
{
    char names[200] = "";
    const char *name;
    json_t *member;
    size_t used = 0;
    json_object_foreach (line, name, member)
        used = tess_text_add(names, sizeof(names), used, "%s '%.40s'", used > 0 ? "," : ", but", name);
    return TESS_FAIL(TESS_E_FORMAT,
                     "it has no '%s'%s: name the member that holds the text with data.text_key (eval: --text-key), or "
                     "those of a prompt and its completion with data.prompt_key and data.completion_key",
                     keys->text, names);
}

static void take_string(const json_t *line, const char *key, const char **text, size_t *size)
{
    const json_t *value = json_object_get(line, key);
    *text = json_string_value(value);
    *size = json_string_length(value);
}

/* Joins the messages of a prompt and of a completion to one conversation. */
static tess_status take_messages(const json_t *prompt, json_t *completion, tess_document *document)
{
    json_t *all = json_copy((json_t *)prompt);
    bool failed = all == NULL || json_array_extend(all, completion) != 0;
    document->n_prompt = json_array_size(prompt);
    document->messages = all;
    document->tools = json_object_get(document->line, "tools");
    if (json_object_set_new(document->line, "messages", all) != 0 || failed)
        return TESS_FAIL(TESS_E_NOMEM, "no memory for a conversation");
    TESS_CHECK(document->n_prompt > 0, TESS_E_FORMAT, "the prompt has no message");
    return TESS_OK;
}

static tess_status take_pair(const tess_document_keys *keys, tess_document *document)
{
    const char *unused = NULL;
    json_t *prompt = json_object_get(document->line, keys->prompt);
    json_t *completion = json_object_get(document->line, keys->completion);
    TESS_CHECK(strcmp(keys->prompt, keys->completion) != 0, TESS_E_INVALID,
               "data.prompt_key and data.completion_key are both '%s'", keys->prompt);
    TESS_CHECK(json_is_array(prompt) == json_is_array(completion), TESS_E_FORMAT,
               "one of '%s' and '%s' is a list of messages and the other is not", keys->prompt, keys->completion);
    if (json_is_array(prompt))
        return take_messages(prompt, completion, document);
    TESS_TRY(tess_json_get_string(document->line, keys->prompt, "document", &unused));
    TESS_TRY(tess_json_get_string(document->line, keys->completion, "document", &unused));
    take_string(document->line, keys->prompt, &document->prompt, &document->prompt_size);
    take_string(document->line, keys->completion, &document->text, &document->size);
    return TESS_OK;
}

/* Takes the text, the pair or the conversation of a line. A text in addition to a pair or a conversation takes
 * precedence, because the user made it from them. If the text key is one half of a pair, this is an error. */
static tess_status take(const tess_document_keys *keys, tess_document *document)
{
    json_t *line = document->line;
    TESS_CHECK(json_is_object(line), TESS_E_FORMAT, "expected an object with a string '%s'", keys->text);
    TESS_CHECK(!tess_json_has(line, "loss_mask"), TESS_E_UNSUPPORTED,
               "'loss_mask' is not supported, every token of '%s' is trained on: remove the member to train on them "
               "all",
               keys->text);
    bool pair = tess_json_has(line, keys->prompt) && tess_json_has(line, keys->completion);
    bool half = pair && (strcmp(keys->text, keys->prompt) == 0 || strcmp(keys->text, keys->completion) == 0);
    TESS_CHECK(!half, TESS_E_UNSUPPORTED,
               "data.text_key=%s is one half of a pair, '%s' and '%s': leave it out to train on the completion after "
               "its prompt",
               keys->text, keys->prompt, keys->completion);
    if (json_is_string(json_object_get(line, keys->text))) {
        take_string(line, keys->text, &document->text, &document->size);
        return TESS_OK;
    }
    if (pair)
        return take_pair(keys, document);
    if (json_is_array(json_object_get(line, "messages"))) {
        document->messages = json_object_get(line, "messages");
        document->tools = json_object_get(line, "tools");
        TESS_CHECK(json_array_size(document->messages) > 0, TESS_E_FORMAT,
                   "'messages' is empty: a conversation has one message or more");
        return TESS_OK;
    }
    TESS_CHECK(!tess_json_has(line, "conversations"), TESS_E_UNSUPPORTED,
               "'conversations' are not supported: give each as 'messages', a list of objects with 'role' (system, "
               "user, assistant, tool) and 'content'");
    const json_t *text = json_object_get(line, keys->text);
    const char *unused = NULL;
    TESS_TRY(tess_json_get_string(line, keys->text, "document", &unused));
    return json_is_null(text) ? TESS_OK : fail_without_text(line, keys);
}

tess_status tess_document_parse(const char *line, size_t size, const tess_document_keys *keys, tess_document *document)
{
    *document = (tess_document){0};
    TESS_CHECK(size <= TESS_LINE_BYTES, TESS_E_FORMAT,
               "a document of %zu bytes, at most %d MiB are read: write it as several", size, TESS_LINE_BYTES >> 20);
    if (is_blank(line, size))
        return TESS_OK;
    TESS_TRY(tess_json_parse_record(line, size, "document", &document->line));
    tess_status status = take(keys, document);
    if (status != TESS_OK || (document->text == NULL && document->messages == NULL))
        tess_document_free(document);
    return status;
}

void tess_document_free(tess_document *document)
{
    json_decref(document->line);
    *document = (tess_document){0};
}

static bool is_read(const tess_document *document, const tess_document_keys *keys, const char *name)
{
    return document->prompt == NULL ? strcmp(name, keys->text) == 0
                                    : strcmp(name, keys->prompt) == 0 || strcmp(name, keys->completion) == 0;
}

const char *tess_document_mask(const tess_document *document, const tess_document_keys *keys)
{
    static const char *const words[] = {"mask", "weight", "labels"};
    for (void *at = json_object_iter(document->line); at != NULL; at = json_object_iter_next(document->line, at)) {
        const char *name = json_object_iter_key(at);
        for (int i = 0; i < 3 && !is_read(document, keys, name); i++)
            if (strcasestr(name, words[i]) != NULL)
                return name;
    }
    return NULL;
}
