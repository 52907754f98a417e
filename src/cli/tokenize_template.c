#include "cli/tokenize_template.h"

#include <stdio.h>

#include "base/text/json.h"
#include "data/template/template_find.h"
#include "data/tokenizer/special_tokens.h"

enum { CONVERSATION_BYTES = 64 << 20 };

static tess_status print(const tess_buffer *text, const tess_chat_spans *spans, bool as_json)
{
    if (!as_json) {
        fwrite(text->data != NULL ? text->data : "", 1, text->size, stdout);
        return TESS_OK;
    }
    json_t *places = json_array();
    for (size_t i = 0; i < spans->n; i++)
        json_array_append_new(places,
                              json_pack("[I, I]", (json_int_t)spans->item[i].begin, (json_int_t)spans->item[i].end));
    return tess_json_put(
        json_pack("{s:s%, s:o}", "text", text->data != NULL ? text->data : "", text->size, "generation", places),
        JSON_COMPACT, stdout);
}

/* Renders a conversation. Its members become variables of the template, and override those of the model's folder. */
static tess_status render(tess_mem *mem, const tess_chat_template *chat, json_t *conversation, json_t *variables,
                          bool spans, int64_t now_s)
{
    bool prompt = false, whole = json_is_object(conversation);
    TESS_AUTO(tess_buffer_free) tess_buffer text = {.mem = mem};
    TESS_AUTO(tess_chat_spans_free) tess_chat_spans places = {.mem = mem};
    tess_chat_input input = {
        .messages = whole ? json_object_get(conversation, "messages") : conversation,
        .tools = whole ? json_object_get(conversation, "tools") : NULL,
        .documents = whole ? json_object_get(conversation, "documents") : NULL,
        .extra = variables,
        .now_s = now_s,
    };
    TESS_CHECK(json_is_array(input.messages), TESS_E_FORMAT, "expected a list of messages, or an object with one");
    if (whole) {
        TESS_TRY(tess_json_get_bool(conversation, "add_generation_prompt", "conversation", &prompt));
        TESS_CHECK(json_object_update(variables, conversation) == 0, TESS_E_NOMEM, "no memory for variables");
    }
    input.add_generation_prompt = prompt;
    TESS_TRY(tess_chat_template_render(chat, &input, &text, spans ? &places : NULL));
    return print(&text, &places, spans);
}

tess_status cli_tokenize_template(tess_mem *mem, const char *path, const char *conversation, bool spans, int64_t now_s)
{
    TESS_AUTO(tess_chat_template_destroy) tess_chat_template *chat = NULL;
    json_auto_t *variables = NULL, *read = NULL;
    TESS_TRY(tess_chat_template_load(mem, path, &chat));
    TESS_TRY_CTX(tess_special_tokens_read(path, &variables, NULL), "%s", conversation);
    TESS_TRY_CTX(tess_json_load(conversation, CONVERSATION_BYTES, &read), "%s", conversation);
    TESS_TRY_CTX(render(mem, chat, read, variables, spans, now_s), "%s", conversation);
    return TESS_OK;
}
