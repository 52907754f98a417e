/* A chat template, and a conversation after a NUL byte: parsed and rendered. */
#include <string.h>

#include "data/template/chat_template.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void render(tess_mem *mem, const tess_chat_template *chat, json_t *messages)
{
    json_t *extra = json_pack("{s:s, s:b}", "bos_token", "<s>", "enable_thinking", 0);
    const tess_chat_input input = {
        .messages = messages, .tools = messages, .extra = extra, .add_generation_prompt = true};
    tess_buffer out = {.mem = mem};
    tess_chat_spans spans = {.mem = mem};
    if (tess_chat_template_render(chat, &input, &out, &spans) == TESS_OK)
        for (size_t i = 0; i < spans.n; i++)
            if (spans.item[i].begin > spans.item[i].end || spans.item[i].end > out.size)
                __builtin_trap();
    tess_chat_spans_free(&spans);
    tess_buffer_free(&out);
    json_decref(extra);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char chat_text[] = "[{\"role\": \"user\", \"content\": \"a <b> \\u00e9\"}, {\"role\": \"assistant\", "
                                    "\"content\": \"c\", \"n\": [1, 2.5, null, true, {\"k\": \"v\"}]}]";
    tess_mem *mem;
    tess_chat_template *chat;
    if (tess_mem_create(&mem) != TESS_OK)
        return 0;
    const uint8_t *end = memchr(data, 0, size);
    size_t n = end != NULL ? (size_t)(end - data) : size;
    json_t *messages = end != NULL ? json_loadb((const char *)end + 1, size - n - 1, 0, NULL)
                                   : json_loadb(chat_text, sizeof(chat_text) - 1, 0, NULL);
    if (tess_chat_template_parse(mem, (const char *)data, n, &chat) == TESS_OK)
        render(mem, chat, messages);
    tess_chat_template_destroy(&chat);
    json_decref(messages);
    if (tess_mem_destroy(&mem) != 0)
        __builtin_trap(); /* a leak */
    return 0;
}
