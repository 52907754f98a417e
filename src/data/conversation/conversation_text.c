#include "data/conversation/conversation_text.h"

#include "base/text/json.h"

/* Returns a message's thought; NULL: it has none. Data has several names for a thought; templates read one of two
 * names. */
static json_t *find_thought(const json_t *message)
{
    static const char *const names[] = {"reasoning_content", "thinking", "reasoning"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (tess_json_has(message, names[i]))
            return json_object_get(message, names[i]);
    return NULL;
}

/* Copies a message without members that are null, and with its thought under the names that templates read. NULL: no
 * memory. */
static json_t *message_of(json_t *from)
{
    const char *key;
    json_t *value, *message = json_object(), *thought = find_thought(from);
    bool made = message != NULL && (thought == NULL || json_object_set(message, "thinking", thought) == 0);
    json_object_foreach (from, key, value)
        made = made && (json_is_null(value) || json_object_set(message, key, value) == 0);
    if (made && (thought == NULL || json_object_set(message, "reasoning_content", thought) == 0))
        return message;
    json_decref(message);
    return NULL;
}

/* Copies the messages in the form in which transformers passes them to a template. NULL: no memory. */
static json_t *messages_of(const json_t *messages)
{
    json_t *all = json_array();
    for (size_t i = 0; i < json_array_size(messages) && all != NULL; i++) {
        if (json_array_append_new(all, message_of(json_array_get(messages, i))) == 0)
            continue;
        json_decref(all);
        all = NULL;
    }
    return all;
}

tess_status tess_conversation_check(const tess_chat *how, const json_t *messages, const json_t *tools)
{
    bool broken = how != NULL && how->problem[0] != '\0';
    TESS_CHECK(!broken, TESS_E_UNSUPPORTED, "a conversation, but the chat template cannot be used: %s", how->problem);
    TESS_CHECK(how != NULL && how->chat != NULL, TESS_E_UNSUPPORTED,
               "a conversation, but there is no chat template: name one, or a model's folder that has one, with "
               "data.chat_template (eval, tokenize: --chat-template)");
    TESS_CHECK(json_is_array(messages), TESS_E_FORMAT, "'messages' is not a list");
    TESS_CHECK(tools == NULL || json_is_null(tools) || json_is_array(tools), TESS_E_FORMAT, "'tools' is not a list");
    for (size_t i = 0; i < json_array_size(messages); i++)
        TESS_CHECK(json_is_string(json_object_get(json_array_get(messages, i), "role")), TESS_E_FORMAT,
                   "message %zu is not an object with a string 'role'", i + 1);
    return TESS_OK;
}

static tess_status write(const tess_chat *how, const json_t *messages, const json_t *tools, bool prompts,
                         tess_buffer *text, tess_chat_spans *spans, tess_chat_span *turns)
{
    TESS_TRY(tess_conversation_check(how, messages, tools));
    const json_t *named = tess_tokenizer_named(how->tokenizer);
    json_auto_t *present = messages_of(messages), *variables = json_object();
    bool made = present != NULL && variables != NULL &&
                (named == NULL || json_object_update(variables, (json_t *)named) == 0) &&
                (!how->as_shipped || json_object_set_new(variables, "as_shipped", json_true()) == 0);
    const tess_chat_input input = {
        .messages = present, .tools = tools, .extra = variables, .add_generation_prompt = prompts, .now_s = how->now_s};
    TESS_CHECK(made, TESS_E_NOMEM, "no memory for a conversation");
    return turns != NULL ? tess_chat_template_render_turns(how->chat, &input, text, turns)
                         : tess_chat_template_render(how->chat, &input, text, spans);
}

tess_status tess_conversation_write(const tess_chat *how, const json_t *messages, const json_t *tools, bool prompts,
                                    tess_buffer *text, tess_chat_spans *spans)
{
    return write(how, messages, tools, prompts, text, spans, NULL);
}

tess_status tess_conversation_write_turns(const tess_chat *how, const json_t *messages, const json_t *tools,
                                          tess_buffer *text, tess_chat_span *turns)
{
    return write(how, messages, tools, false, text, NULL, turns);
}

uint64_t tess_chat_hash(const tess_chat *how)
{
    return how != NULL && how->chat != NULL ? tess_chat_template_hash(how->chat) : 0;
}
