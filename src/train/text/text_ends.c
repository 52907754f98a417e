#include "train/text/text_ends.h"

int32_t tess_model_end_of_text(const tess_model_config *config, const tess_tokenizer *tokenizer)
{
    const char *eos = json_string_value(json_object_get(tess_tokenizer_named(tokenizer), "eos_token"));
    int64_t id = eos != NULL ? tess_tokenizer_id(tokenizer, eos) : -1;
    if (id < 0 && config->n_eos > 0 &&
        (config->eos_stated || tess_tokenizer_is_special(tokenizer, config->eos_token_id[0])))
        id = config->eos_token_id[0];
    return id >= 0 && id < tess_tokenizer_vocab_size(tokenizer) ? (int32_t)id : -1;
}

tess_status tess_model_begin_of_text(const tess_model_config *config, const tess_tokenizer *tokenizer, tess_add_bos add,
                                     tess_prefix *bos)
{
    int64_t id = config->bos_token_id;
    *bos = add != TESS_ADD_BOS_FALSE ? tess_tokenizer_prefix(tokenizer) : (tess_prefix){0};
    if (add != TESS_ADD_BOS_TRUE || bos->n > 0)
        return TESS_OK;
    TESS_CHECK(
        tess_tokenizer_is_special(tokenizer, id), TESS_E_INVALID,
        "there is no bos token: the tokenizer's template (post_processor of tokenizer.json) puts nothing before a "
        "text, and the bos_token_id of config.json is none of its special tokens; leave it to auto, or name one "
        "there");
    *bos = (tess_prefix){{(int32_t)id}, 1};
    return TESS_OK;
}
