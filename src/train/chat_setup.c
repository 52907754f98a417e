/* The chat template of a run or an evaluation. */
#include "data/template/template_find.h"
#include "train/model_folder.h"

/* What strftime_now tells: the day that Llama's templates give where nobody says another. A clock would make the data
 * of two runs differ. */
static const int64_t template_now_s = 1721952000;

tess_status tess_chat_setup_open(tess_mem *mem, const char *path, const char *folder, const tess_tokenizer *tokenizer,
                                 tess_chat_setup *setup)
{
    bool named = path != NULL && path[0] != '\0';
    *setup = (tess_chat_setup){0};
    if (!named && (folder == NULL || folder[0] == '\0'))
        return TESS_OK;
    tess_status status = tess_chat_template_load(mem, named ? path : folder, &setup->chat, &setup->variables);
    if (!named && status != TESS_OK &&
        status != TESS_E_NOMEM) { /* only conversations need it: they say how to ask why */
        tess_error_clear();
        return TESS_OK;
    }
    TESS_TRY_CTX(status, "data.chat_template");
    setup->how = (tess_chat){setup->chat, tokenizer, setup->variables, template_now_s};
    return TESS_OK;
}

void tess_chat_setup_close(tess_chat_setup *setup)
{
    tess_chat_template_destroy(&setup->chat);
    json_decref(setup->variables);
    *setup = (tess_chat_setup){0};
}
