#include "data/conversation/training_template.h"

#include <string.h>

extern const unsigned char tess_data_qwen3[], tess_data_deepseek_r1[];
extern const size_t tess_data_qwen3_size, tess_data_deepseek_r1_size;

static const struct {
    const char *name;
    const unsigned char *text;
    const size_t *size;
} families[] = {{"Qwen3", tess_data_qwen3, &tess_data_qwen3_size},
                {"DeepSeek-R1", tess_data_deepseek_r1, &tess_data_deepseek_r1_size}};

/* Writes a conversation with how->chat, and with how->training as the family shipped it. *own is empty if one of them
 * refuses it. */
static tess_status write_both(const tess_chat *how, const json_t *messages, const json_t *tools, bool prompts,
                              tess_buffer *own, tess_buffer *shipped)
{
    tess_chat other = *how;
    other.chat = how->training;
    other.as_shipped = true;
    tess_status status = tess_conversation_write(how, messages, tools, prompts, own, NULL);
    if (status == TESS_OK)
        status = tess_conversation_write(&other, messages, tools, prompts, shipped, NULL);
    if (status == TESS_OK || status == TESS_E_NOMEM)
        return status;
    tess_error_clear();
    own->size = 0;
    return TESS_OK;
}

/* Checks whether both templates write the same. With `prompts`, the family's own prompt may in addition end with the
 * beginning of a thought. */
static tess_status agree(tess_mem *mem, const tess_chat *how, const json_t *messages, const json_t *tools, bool prompts,
                         bool *same)
{
    TESS_AUTO(tess_buffer_free) tess_buffer own = {.mem = mem}, shipped = {.mem = mem};
    *same = false;
    TESS_TRY(write_both(how, messages, tools, prompts, &own, &shipped));
    *same = own.size > 0 && shipped.size > 0 && own.size >= shipped.size && (prompts || own.size == shipped.size) &&
            memcmp(own.data, shipped.data, shipped.size) == 0;
    return TESS_OK;
}

tess_status tess_training_template_fits(tess_mem *mem, const tess_chat *how, const json_t *messages,
                                        const json_t *tools, bool *fits)
{
    *fits = false;
    return how->training != NULL ? agree(mem, how, messages, tools, false, fits) : TESS_OK;
}

/* Checks whether how->training belongs to the template's family: two plain turns and the prompt to answer must
 * agree. */
static tess_status recognise(tess_mem *mem, const tess_chat *how, bool *known)
{
    json_auto_t *turns =
        json_pack("[{s:s, s:s}, {s:s, s:s}, {s:s, s:s}, {s:s, s:s}]", "role", "user", "content", "a", "role",
                  "assistant", "content", "b", "role", "user", "content", "c", "role", "assistant", "content", "d");
    json_auto_t *question = json_pack("[O]", json_array_get(turns, 0));
    *known = false;
    TESS_CHECK(question != NULL, TESS_E_NOMEM, "no memory for a conversation");
    TESS_TRY(agree(mem, how, turns, NULL, false, known));
    return *known ? agree(mem, how, question, NULL, true, known) : TESS_OK;
}

tess_status tess_training_template_find(tess_mem *mem, const tess_chat *how, tess_chat_template **training,
                                        const char **name)
{
    tess_chat probe = *how;
    *training = NULL;
    *name = NULL;
    for (size_t i = 0; i < sizeof(families) / sizeof(families[0]) && !tess_chat_template_marks(how->chat); i++) {
        bool known;
        TESS_TRY(tess_chat_template_parse(mem, (const char *)families[i].text, *families[i].size, training));
        probe.training = *training;
        *name = families[i].name;
        tess_status status = recognise(mem, &probe, &known);
        if (status == TESS_OK && known)
            return TESS_OK;
        tess_chat_template_destroy(training);
        TESS_TRY(status);
    }
    return TESS_OK;
}
