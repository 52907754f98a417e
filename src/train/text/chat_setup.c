#include "train/text/chat_setup.h"

#include <stdio.h>

#include "data/conversation/training_template.h"
#include "data/template/template_find.h"

/* The date that strftime_now returns: 26 July 2024, the default of Llama's templates. The clock would make the data
 * of two runs differ. */
static const int64_t template_now_s = 1721952000;

tess_status tess_chat_setup_open(tess_mem *mem, const char *path, const char *folder, const tess_tokenizer *tokenizer,
                                 tess_chat_setup *setup)
{
    bool named = path != NULL && path[0] != '\0';
    *setup = (tess_chat_setup){.how = {.tokenizer = tokenizer, .now_s = template_now_s}};
    if (!named && (folder == NULL || folder[0] == '\0'))
        return TESS_OK;
    tess_status status = tess_chat_template_load(mem, named ? path : folder, &setup->chat);
    setup->how.chat = setup->chat;
    if (named)
        TESS_TRY_CTX(status, "data.chat_template");
    if (status == TESS_OK || status == TESS_E_NOMEM)
        return status;
    /* Only conversations need the template in the model's folder, so an error in it is reported when one is read. */
    if (status != TESS_E_NOT_FOUND)
        snprintf(setup->how.problem, sizeof(setup->how.problem), "%s", tess_error_message());
    tess_error_clear();
    return TESS_OK;
}

tess_status tess_chat_setup_train(tess_mem *mem, tess_chat_setup *setup, const tess_reporter *reporter)
{
    char line[300];
    const char *name;
    if (setup->chat == NULL)
        return TESS_OK;
    TESS_TRY(tess_training_template_find(mem, &setup->how, &setup->training, &name));
    setup->how.training = setup->training;
    if (setup->training == NULL || reporter == NULL)
        return TESS_OK;
    snprintf(line, sizeof(line),
             "chat template: %s's; conversations are trained on with the training template for it, which keeps the "
             "thoughts of earlier turns",
             name);
    reporter->line(reporter->self, line);
    return TESS_OK;
}

void tess_chat_setup_close(tess_chat_setup *setup)
{
    tess_chat_template_destroy(&setup->chat);
    tess_chat_template_destroy(&setup->training);
    *setup = (tess_chat_setup){0};
}
