#include <string.h>

#include "data/tokenizer/tokenizer_impl.h"
#include "data/tokenizer/bpe_train.h"
#include "data/tokenizer/unicode.h"

static tess_status count_piece(void *context, const char *piece, size_t size)
{
    tess_string_entry *entry;
    TESS_TRY(tess_strings_add(context, piece, size, 0, &entry, NULL));
    entry->value++;
    return TESS_OK;
}

static tess_status count(trainer *t, const char *text, size_t size)
{
    tess_pre_tokenizer pre = {.n_steps = 1, .steps = {{.kind = TESS_PRE_SPLIT, .text = {.mem = t->mem}}}};
    tess_pre_run run = {.pre = &pre, .emit = count_piece, .context = &t->texts};
    tess_status status =
        tess_regex_create(t->mem, tess_gpt2_regex, strlen(tess_gpt2_regex), "bpe training", &pre.steps[0].regex);
    if (status == TESS_OK)
        status = tess_regex_scratch_create(t->mem, &run.regex);
    if (status == TESS_OK)
        status = tess_pre_tokenize(&run, text, size);
    tess_regex_scratch_destroy(&run.regex);
    tess_pre_tokenizer_free(&pre);
    return status;
}

tess_status tess_train_count_words(trainer *t, const char *text, size_t size)
{
    if (tess_utf8_valid(text, size) == size)
        return count(t, text, size);
    tess_buffer repaired = {.mem = t->mem};
    tess_status status = tess_utf8_repair(text, size, &repaired);
    if (status == TESS_OK)
        status = count(t, repaired.data, repaired.size);
    tess_buffer_free(&repaired);
    return status;
}
