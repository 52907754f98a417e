#include "data/template/chat_template.h"

#include <string.h>

#include "base/core/rng.h"
#include "base/mem/make_room.h"
#include "data/template/template_impl.h"

static tess_status keep_source(tess_chat_template *chat, template_text text)
{
    char *copy;
    TESS_TRY(template_alloc(&chat->arena, text.size + 1, &copy));
    if (text.size > 0)
        memcpy(copy, text.data, text.size);
    chat->source = (template_text){copy, text.size};
    return TESS_OK;
}

static tess_status parse(tess_chat_template *chat, template_text text)
{
    template_tokens tokens;
    template_node *root;
    TESS_CHECK(text.size <= TEMPLATE_BYTES, TESS_E_INVALID, "a template of %zu bytes; at most %d MiB are read",
               text.size, TEMPLATE_BYTES >> 20);
    for (size_t at = 0, n; at < text.size; at += n) {
        uint32_t code_point;
        n = (size_t)tess_utf8_decode((const uint8_t *)text.data + at, text.size - at, &code_point);
        TESS_CHECK(n > 0, TESS_E_FORMAT, "byte %zu is not UTF-8", at);
    }
    TESS_TRY(keep_source(chat, text));
    TESS_TRY(template_lex(&chat->arena, text, &tokens));
    template_parser parser = {.arena = &chat->arena, .token = tokens.item};
    TESS_TRY(template_parse(&parser, &root));
    chat->root = root;
    chat->marks = parser.marks;
    return TESS_OK;
}

tess_status tess_chat_template_parse(tess_mem *mem, const char *text, size_t size, tess_chat_template **out)
{
    tess_chat_template *chat;
    *out = NULL;
    TESS_TRY(TESS_NEW(mem, 1, "chat template", &chat));
    *chat = (tess_chat_template){.arena = {.mem = mem, .limit = TEMPLATE_PARSED_MEMORY}};
    tess_status status = parse(chat, (template_text){text, size});
    if (status != TESS_OK)
        tess_chat_template_destroy(&chat);
    *out = chat;
    return status == TESS_OK ? TESS_OK : tess_fail_context(status, "chat template");
}

void tess_chat_template_destroy(tess_chat_template **chat)
{
    if (*chat == NULL)
        return;
    template_arena_free(&(*chat)->arena);
    tess_mem_drop(chat);
}

bool tess_chat_template_marks(const tess_chat_template *chat)
{
    return chat->marks;
}

uint64_t tess_chat_template_hash(const tess_chat_template *chat)
{
    return tess_hash_bytes(chat->source.data, chat->source.size, 0);
}

const char *tess_chat_template_source(const tess_chat_template *chat, size_t *size)
{
    *size = chat->source.size;
    return chat->source.data;
}

tess_status tess_chat_spans_add(tess_chat_spans *spans, tess_chat_span span)
{
    TESS_TRY(tess_mem_reserve(spans->mem, TESS_POOL_MISC, spans->n + 1, sizeof(*spans->item), "spans", &spans->room,
                              &spans->item));
    spans->item[spans->n++] = span;
    return TESS_OK;
}

void tess_chat_spans_free(tess_chat_spans *spans)
{
    tess_mem_free(spans->mem, spans->item);
    *spans = (tess_chat_spans){.mem = spans->mem};
}

static tess_status set_json(template_run *run, template_scope *scope, const char *name, const json_t *json)
{
    template_value value = template_none();
    if (json != NULL)
        TESS_TRY(template_from_json(run, json, &value));
    return template_scope_set(run, scope, template_text_of(name), &value);
}

/* Creates the variables that transformers passes to a template. tools and documents are None if there are none. */
static tess_status make_globals(template_run *run, const tess_chat_input *input, template_scope **globals)
{
    const template_value prompt = template_bool(input->add_generation_prompt);
    TESS_TRY(template_scope_new(run, NULL, globals));
    for (void *at = json_object_iter((json_t *)input->extra); at != NULL;
         at = json_object_iter_next((json_t *)input->extra, at))
        TESS_TRY(set_json(run, *globals, json_object_iter_key(at), json_object_iter_value(at)));
    TESS_TRY(set_json(run, *globals, "messages", input->messages));
    const template_value *messages = template_dict_find(run, &(*globals)->names, template_text_of("messages"));
    for (size_t i = 0; messages->kind == TEMPLATE_LIST && i < messages->list->n; i++)
        if (messages->list->item[i].kind == TEMPLATE_DICT)
            messages->list->item[i].dict->message = i + 1;
    TESS_TRY(set_json(run, *globals, "tools", input->tools));
    TESS_TRY(set_json(run, *globals, "documents", input->documents));
    return template_scope_set(run, *globals, template_text_of("add_generation_prompt"), &prompt);
}

static tess_status render(const tess_chat_template *chat, const tess_chat_input *input, tess_buffer *out,
                          tess_chat_spans *spans, tess_chat_span *turns)
{
    template_scope *globals;
    template_run run = {
        .arena = {.mem = out->mem, .limit = TEMPLATE_MEMORY}, .out = out, .now_s = input->now_s, .turns = turns};
    size_t size = out->size;
    tess_status status;
    TESS_GOTO(make_globals(&run, input, &globals), made);
    status = template_run_all(&run, globals, chat->root, spans);
made:
    template_arena_free(&run.arena);
    if (status == TESS_OK)
        return TESS_OK;
    out->size = size;
    return tess_fail_context(status, "chat template");
}

tess_status tess_chat_template_render(const tess_chat_template *chat, const tess_chat_input *input, tess_buffer *out,
                                      tess_chat_spans *spans)
{
    return render(chat, input, out, spans, NULL);
}

tess_status tess_chat_template_render_turns(const tess_chat_template *chat, const tess_chat_input *input,
                                            tess_buffer *out, tess_chat_span *turns)
{
    memset(turns, 0, json_array_size(input->messages) * sizeof(*turns));
    return render(chat, input, out, NULL, turns);
}
