/* Converts text to ids: normalizer, pre-tokenizer, BPE, and special tokens. */
#include <string.h>

#include "data/tokenizer/tokenizer_impl.h"
#include "data/tokenizer/unicode.h"
#include "data/tokenizer/word_cache.h"

struct tess_encoder {
    tess_mem *mem;
    const tess_tokenizer *tokenizer;
    tess_word *words; /* (TESS_WORD_SLOTS) */
    tess_regex_scratch *regex;
    tess_norm_scratch norm;
    tess_bpe_scratch bpe;
    tess_buffer pre[TESS_MAX_STEPS];
    tess_buffer repaired;
    tess_ids *ids; /* receives the ids of the current call */
};

tess_status tess_encoder_create(tess_mem *mem, const tess_tokenizer *tokenizer, tess_encoder **out)
{
    TESS_AUTO(tess_encoder_destroy) tess_encoder *encoder = NULL;
    TESS_TRY(TESS_NEW(mem, 1, "encoder", &encoder));
    encoder->mem = mem;
    encoder->tokenizer = tokenizer;
    encoder->norm = (tess_norm_scratch){.mem = mem, .text = {{.mem = mem}, {.mem = mem}}};
    encoder->bpe.mem = mem;
    encoder->repaired.mem = mem;
    for (int i = 0; i < TESS_MAX_STEPS; i++)
        encoder->pre[i].mem = mem;
    TESS_TRY(TESS_PART(encoder, TESS_WORD_SLOTS, "word cache", &encoder->words));
    TESS_TRY(tess_oniguruma_scratch_create(mem, &encoder->regex));
    TESS_TRY(tess_oniguruma_scratch_create(mem, &encoder->norm.regex));
    *out = TESS_GIVE(encoder);
    return TESS_OK;
}

void tess_encoder_destroy(tess_encoder **out)
{
    tess_encoder *encoder = *out;
    if (encoder == NULL)
        return;
    tess_regex_scratch_destroy(&encoder->regex);
    tess_norm_scratch_free(&encoder->norm);
    tess_bpe_scratch_free(&encoder->bpe);
    for (int i = 0; i < TESS_MAX_STEPS; i++)
        tess_buffer_free(&encoder->pre[i]);
    tess_buffer_free(&encoder->repaired);
    tess_mem_drop(out);
}

static tess_status encode_piece(void *context, const char *piece, size_t size)
{
    tess_encoder *encoder = context;
    tess_ids *ids = encoder->ids;
    const tess_bpe *bpe = &encoder->tokenizer->bpe;
    if (size > TESS_WORD_BYTES)
        return tess_bpe_encode(bpe, &encoder->bpe, piece, size, ids);
    uint32_t hash;
    bool hit;
    tess_word *slot = tess_word_find(encoder->words, piece, size, &hash, &hit);
    if (hit) {
        for (int i = 0; i < slot->n_ids; i++)
            TESS_TRY(tess_ids_append(ids, slot->ids[i]));
        return TESS_OK;
    }
    size_t before = ids->size;
    TESS_TRY(tess_bpe_encode(bpe, &encoder->bpe, piece, size, ids));
    size_t n = ids->size - before;
    if (n > 0 && n <= TESS_WORD_IDS)
        tess_word_put(slot, piece, size, hash, ids->data + before, n);
    return TESS_OK;
}

/* Encodes normalized text between added tokens. */
static tess_status encode_plain(tess_encoder *encoder, const char *text, size_t size, bool at_start)
{
    const tess_pre_run run = {.pre = &encoder->tokenizer->pre,
                              .regex = encoder->regex,
                              .text = encoder->pre,
                              .at_start = at_start,
                              .emit = encode_piece,
                              .context = encoder};
    return tess_pre_tokenize(&run, text, size);
}

/* Encodes raw text between the added tokens that match raw text. */
static tess_status encode_raw(tess_encoder *encoder, const char *text, size_t size, bool at_start)
{
    const tess_tokenizer *t = encoder->tokenizer;
    TESS_TRY(tess_normalize(&t->normalizer, &encoder->norm, text, size, &text, &size));
    tess_added_scan scan = {.set = &t->added, .trie = &t->added.normalized, .text = text, .size = size};
    size_t done = 0, begin, end;
    for (const tess_added *token; (token = tess_added_next(&scan, &begin, &end)) != NULL; done = end) {
        if (done < begin)
            TESS_TRY(encode_plain(encoder, text + done, begin - done, at_start && done == 0));
        TESS_TRY(tess_ids_append(encoder->ids, token->id));
    }
    return done < size ? encode_plain(encoder, text + done, size - done, at_start && done == 0) : TESS_OK;
}

tess_status tess_encode(tess_encoder *encoder, const char *text, size_t size, bool add_special, tess_ids *ids)
{
    const tess_tokenizer *t = encoder->tokenizer;
    encoder->ids = ids;
    size_t valid = tess_utf8_valid(text, size);
    if (valid < size) {
        encoder->repaired.size = 0;
        TESS_TRY(tess_buffer_append(&encoder->repaired, text, valid));
        TESS_TRY(tess_utf8_repair(text + valid, size - valid, &encoder->repaired));
        text = encoder->repaired.data;
        size = encoder->repaired.size;
    }
    for (int i = 0; add_special && i < t->special.n_before; i++)
        TESS_TRY(tess_ids_append(ids, t->special.before[i]));
    tess_added_scan scan = {.set = &t->added, .trie = &t->added.raw, .text = text, .size = size};
    size_t done = 0, begin, end;
    for (const tess_added *token; (token = tess_added_next(&scan, &begin, &end)) != NULL; done = end) {
        if (done < begin)
            TESS_TRY(encode_raw(encoder, text + done, begin - done, done == 0));
        TESS_TRY(tess_ids_append(ids, token->id));
    }
    if (done < size)
        TESS_TRY(encode_raw(encoder, text + done, size - done, done == 0));
    for (int i = 0; add_special && i < t->special.n_after; i++)
        TESS_TRY(tess_ids_append(ids, t->special.after[i]));
    return TESS_OK;
}

tess_status tess_encode_text(const tess_tokenizer *tokenizer, const char *text, size_t size, bool add_special,
                             tess_ids *ids)
{
    TESS_AUTO(tess_encoder_destroy) tess_encoder *encoder = NULL;
    TESS_TRY(tess_encoder_create(ids->mem, tokenizer, &encoder));
    return tess_encode(encoder, text, size, add_special, ids);
}
