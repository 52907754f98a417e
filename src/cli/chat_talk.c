#include "cli/chat_talk.h"

#include <stdio.h>
#include <string.h>

#include "base/os/os.h"
#include "base/text/json.h"

/* ---- Messages ---- */
/* Inserts `message`, and takes ownership of it. */
static tess_status insert(json_t *messages, size_t at, json_t *message)
{
    TESS_CHECK(message != NULL && json_array_insert_new(messages, at, message) == 0, TESS_E_NOMEM,
               "no memory for a message");
    return TESS_OK;
}

static tess_status add_message(chat_talk *t, const char *role, const char *text, size_t size)
{
    json_t *content = json_stringn(text, size);
    TESS_CHECK(content != NULL, TESS_E_INVALID, "a message is UTF-8 text: this line is not");
    return insert(t->messages, json_array_size(t->messages), json_pack("{s:s, s:o}", "role", role, "content", content));
}

static bool has_system(const chat_talk *t)
{
    const char *role = json_string_value(json_object_get(json_array_get(t->messages, 0), "role"));
    return role != NULL && strcmp(role, "system") == 0;
}

tess_status chat_talk_set_system(chat_talk *t, const char *text)
{
    json_t *content = json_string(text);
    TESS_CHECK(content != NULL, TESS_E_INVALID, "a system message is UTF-8 text: this is not");
    if (has_system(t))
        json_array_remove(t->messages, 0);
    if (text[0] != '\0')
        return insert(t->messages, 0, json_pack("{s:s, s:o}", "role", "system", "content", content));
    json_decref(content);
    return TESS_OK;
}

tess_status chat_talk_reset(chat_talk *t)
{
    while (json_array_size(t->messages) > (has_system(t) ? 1 : 0))
        json_array_remove(t->messages, json_array_size(t->messages) - 1);
    return TESS_OK;
}

tess_status chat_talk_save(const chat_talk *t, const char *path)
{
    TESS_CHECK(json_array_size(t->messages) > (has_system(t) ? 1 : 0), TESS_E_INVALID,
               "/save: nothing has been said yet");
    TESS_AUTO(tess_buffer_free) tess_buffer line = {.mem = t->mem};
    TESS_TRY(tess_json_print(json_pack("{s:O}", "messages", t->messages), JSON_COMPACT, &line));
    FILE *file = fopen(path, "a");
    if (file == NULL)
        return tess_os_error("open", path);
    bool written = fwrite(line.data, 1, line.size, file) == line.size;
    return fclose(file) == 0 && written ? TESS_OK : tess_os_error("write", path);
}

tess_status chat_talk_open(chat_talk *t)
{
    const tess_model_config *config = &t->m->config;
    const tess_generator_options options = {.dtype = t->m->dtype, .max_length = t->length, .max_sequences = 1};
    int32_t end;
    t->ids.mem = t->answer.mem = t->text.mem = t->mem;
    t->messages = json_array();
    TESS_CHECK(t->messages != NULL, TESS_E_NOMEM, "no memory for messages");
    TESS_TRY(tess_encoder_create(t->mem, t->m->tokenizer, &t->encoder));
    t->n_ends = config->n_eos;
    memcpy(t->ends, config->eos_token_id, sizeof(config->eos_token_id));
    TESS_TRY(tess_conversation_end(t->how, t->encoder, t->mem, &end));
    if (end >= 0) /* few models list this token as an end of text */
        t->ends[t->n_ends++] = end;
    return tess_generator_create(t->m->compute.stream, t->m->model, &t->m->compute.hooks, &options, &t->generator);
}

void chat_talk_close(chat_talk *t)
{
    tess_generator_destroy(&t->generator);
    tess_encoder_destroy(&t->encoder);
    json_decref(t->messages);
    tess_ids_free(&t->ids);
    tess_ids_free(&t->answer);
    if (t->text.mem != NULL)
        tess_buffer_free(&t->text);
}

/* ---- An answer ---- */
static tess_status next_request(void *self, tess_request *r, bool *none)
{
    chat_talk *t = self;
    *none = t->asked;
    t->asked = true;
    *r = (tess_request){.ids = t->ids.data,
                        .n = (int64_t)t->ids.size,
                        .n_prompt = (int64_t)t->ids.size,
                        .max_new_tokens = t->max_new_tokens,
                        .keep = true};
    return TESS_OK;
}

/* Sets t->text to the answer: the text that its ids add to that of the ids before them. grows: more ids will come, and
 * only the part that they cannot change is wanted. */
static tess_status decode_answer(chat_talk *t, bool grows)
{
    TESS_AUTO(tess_buffer_free) tess_buffer before = {.mem = t->mem};
    const tess_ids *ids = &t->answer;
    t->text.size = 0;
    TESS_TRY(tess_decode(t->m->tokenizer, ids->data, t->n_before, true, &before));
    TESS_TRY((grows ? tess_decode_settled : tess_decode)(t->m->tokenizer, ids->data, ids->size, true, &t->text));
    size_t begin = tess_text_common(&before, &t->text);
    t->text.size -= begin;
    memmove(t->text.data, t->text.data + begin, t->text.size);
    return TESS_OK;
}

static void show(chat_talk *t)
{
    if (t->text.size <= t->shown)
        return;
    fwrite(t->text.data + t->shown, 1, t->text.size - t->shown, stdout);
    fflush(stdout);
    t->shown = t->text.size;
}

static tess_status on_token(void *self, const tess_request *r, int64_t position, int32_t token, float logprob,
                            bool generated, bool *stop)
{
    chat_talk *t = self;
    (void)r, (void)position, (void)logprob, (void)generated;
    TESS_TRY(tess_ids_append(&t->answer, token));
    TESS_TRY(decode_answer(t, true));
    show(t);
    *stop = *t->stop != 0;
    return TESS_OK;
}

static tess_status on_finished(void *self, const tess_request *r, tess_finish why)
{
    chat_talk *t = self;
    (void)r, (void)why;
    TESS_TRY(decode_answer(t, false));
    show(t);
    putchar('\n');
    fflush(stdout);
    return TESS_OK;
}

static tess_status write_prompt(chat_talk *t)
{
    t->text.size = t->ids.size = 0;
    TESS_TRY(tess_conversation_write(t->how, t->messages, NULL, true, &t->text, NULL));
    TESS_TRY(tess_encode(t->encoder, t->text.size > 0 ? t->text.data : "", t->text.size, false, &t->ids));
    TESS_CHECK(t->ids.size > 0, TESS_E_INVALID, "the chat template writes nothing: there is nothing to go on from");
    TESS_CHECK((int64_t)t->ids.size < t->length, TESS_E_INVALID,
               "the conversation has %zu tokens, and there is room for %lld with an answer: /reset begins a new one, "
               "--max-length gives more where the model has it",
               t->ids.size, (long long)t->length);
    return TESS_OK;
}

static tess_status answer(chat_talk *t)
{
    const tess_request_source source = {t, next_request, on_token, on_finished};
    TESS_TRY(write_prompt(t));
    t->answer.size = t->text.size = t->shown = 0;
    t->asked = false;
    for (size_t i = tess_decode_from(t->m->tokenizer, t->ids.data, t->ids.size, true); i < t->ids.size; i++)
        TESS_TRY(tess_ids_append(&t->answer, t->ids.data[i]));
    t->n_before = t->answer.size;
    TESS_TRY(tess_generator_run(t->generator, t->sampling, t->ends, t->n_ends, &source));
    return add_message(t, "assistant", t->text.data, t->text.size);
}

tess_status chat_talk_ask(chat_talk *t, const char *text, size_t size)
{
    size_t n = json_array_size(t->messages);
    TESS_TRY(add_message(t, "user", text, size));
    tess_status status = answer(t);
    while (status != TESS_OK && json_array_size(t->messages) > n)
        json_array_remove(t->messages, n);
    return status;
}
