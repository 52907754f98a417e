/* Reads the decoder and post_processor sections of tokenizer.json. */
#include <string.h>

#include "data/tokenizer/tokenizer_impl.h"

static const char *const names[] = {"ByteLevel", "ByteFallback", "Fuse", "Replace", "Strip", "Metaspace"};

static tess_status read_strip(const tess_node *node, tess_decode_step *step)
{
    TESS_TRY(tess_node_text(node, "content", &step->from));
    TESS_CHECK(step->from.size > 0, TESS_E_FORMAT, "%s: 'content' is empty", node->what);
    const json_t *start = json_object_get(node->json, "start"), *stop = json_object_get(node->json, "stop");
    TESS_CHECK(json_is_integer(start) && json_is_integer(stop) && json_integer_value(start) >= 0 &&
                   json_integer_value(start) <= INT32_MAX && json_integer_value(stop) >= 0 &&
                   json_integer_value(stop) <= INT32_MAX,
               TESS_E_FORMAT, "%s: 'start' and 'stop' must be counts", node->what);
    step->start = (int)json_integer_value(start);
    step->stop = (int)json_integer_value(stop);
    return TESS_OK;
}

static tess_status read_step(tess_mem *mem, const tess_node *node, const char *type, void *into)
{
    tess_decoder *decoder = into;
    TESS_CHECK(decoder->n_steps < TESS_MAX_STEPS, TESS_E_UNSUPPORTED, "%s: more than %d steps", node->what,
               TESS_MAX_STEPS);
    tess_decode_step *step = &decoder->steps[decoder->n_steps];
    size_t k = 0;
    while (k < sizeof(names) / sizeof(names[0]) && strcmp(type, names[k]) != 0)
        k++;
    TESS_CHECK(
        k < sizeof(names) / sizeof(names[0]), TESS_E_UNSUPPORTED,
        "%s: decoder '%s' is not supported (ByteLevel, ByteFallback, Fuse, Replace, Strip, Metaspace, Sequence are)",
        node->what, type);
    /* Every id could change the whole text. */
    for (int i = 0; i < decoder->n_steps; i++)
        TESS_CHECK(k > TESS_DECODE_BYTE_FALLBACK ||
                       (decoder->steps[i].kind != TESS_DECODE_FUSE && decoder->steps[i].kind != TESS_DECODE_BYTE_LEVEL),
                   TESS_E_UNSUPPORTED, "%s: decoder '%s' after %s is not supported", node->what, type,
                   names[decoder->steps[i].kind]);
    *step = (tess_decode_step){.kind = (tess_decode_kind)k, .from = {.mem = mem}, .to = {.mem = mem}};
    decoder->n_steps++;
    if (step->kind == TESS_DECODE_STRIP)
        return read_strip(node, step);
    if (step->kind == TESS_DECODE_REPLACE) {
        tess_regex *regex = NULL;
        TESS_TRY(tess_node_pattern(mem, node, &step->from, &regex));
        tess_regex_destroy(&regex);
        TESS_CHECK(step->from.size > 0, TESS_E_UNSUPPORTED, "%s: Replace of a regex is not supported in a decoder",
                   node->what);
        return tess_node_text(node, "content", &step->to);
    }
    if (step->kind == TESS_DECODE_METASPACE) {
        const char *scheme = json_string_value(json_object_get(node->json, "prepend_scheme"));
        step->drop_first = scheme != NULL ? strcmp(scheme, "never") != 0
                                          : !json_is_false(json_object_get(node->json, "add_prefix_space"));
        TESS_TRY(tess_buffer_append(&step->to, " ", 1));
        return tess_node_text(node, "replacement", &step->from);
    }
    return TESS_OK;
}

tess_status tess_decoder_read(tess_mem *mem, const tess_node *node, tess_decoder *decoder)
{
    decoder->present = node->json != NULL && !json_is_null(node->json);
    return tess_node_steps(mem, node, "decoders", read_step, decoder);
}

void tess_decoder_free(tess_decoder *decoder)
{
    for (int i = 0; i < decoder->n_steps; i++) {
        tess_buffer_free(&decoder->steps[i].from);
        tess_buffer_free(&decoder->steps[i].to);
    }
    decoder->n_steps = 0;
}

static tess_status add_id(const tess_node *node, const json_t *id, bool after, tess_template *special)
{
    TESS_CHECK(json_is_integer(id) && json_integer_value(id) >= 0 && json_integer_value(id) < TESS_MAX_TOKEN_ID,
               TESS_E_FORMAT, "%s: a special token without an id of 0..%d", node->what, TESS_MAX_TOKEN_ID - 1);
    int *n = after ? &special->n_after : &special->n_before;
    TESS_CHECK(*n < TESS_MAX_TEMPLATE, TESS_E_UNSUPPORTED, "%s: more than %d special tokens", node->what,
               TESS_MAX_TEMPLATE);
    (after ? special->after : special->before)[(*n)++] = (int32_t)json_integer_value(id);
    return TESS_OK;
}

static tess_status read_template(const tess_node *node, tess_template *special)
{
    const json_t *single = json_object_get(node->json, "single"),
                 *tokens = json_object_get(node->json, "special_tokens");
    TESS_CHECK(json_is_array(single), TESS_E_FORMAT, "%s: expected a list 'single'", node->what);
    bool after = false;
    for (size_t i = 0; i < json_array_size(single); i++) {
        const json_t *piece = json_array_get(single, i), *sequence = json_object_get(piece, "Sequence");
        if (sequence != NULL) {
            const char *id = json_string_value(json_object_get(sequence, "id"));
            TESS_CHECK(!after && id != NULL && strcmp(id, "A") == 0, TESS_E_UNSUPPORTED,
                       "%s: 'single' must hold the sequence A once", node->what);
            after = true;
            continue;
        }
        const char *name = json_string_value(json_object_get(json_object_get(piece, "SpecialToken"), "id"));
        const json_t *ids = name != NULL ? json_object_get(json_object_get(tokens, name), "ids") : NULL;
        TESS_CHECK(json_is_array(ids), TESS_E_FORMAT, "%s: single[%zu]: '%s' is not one of the special_tokens",
                   node->what, i, name != NULL ? name : "?");
        for (size_t k = 0; k < json_array_size(ids); k++)
            TESS_TRY(add_id(node, json_array_get(ids, k), after, special));
    }
    TESS_CHECK(after, TESS_E_UNSUPPORTED, "%s: 'single' must hold the sequence A once", node->what);
    return TESS_OK;
}

/* Puts the template `outer` around the present template. */
static tess_status wrap(const tess_node *node, const tess_template *outer, tess_template *special)
{
    TESS_CHECK(special->n_before + outer->n_before <= TESS_MAX_TEMPLATE &&
                   special->n_after + outer->n_after <= TESS_MAX_TEMPLATE,
               TESS_E_UNSUPPORTED, "%s: more than %d special tokens", node->what, TESS_MAX_TEMPLATE);
    memmove(special->before + outer->n_before, special->before, sizeof(int32_t) * (size_t)special->n_before);
    memcpy(special->before, outer->before, sizeof(int32_t) * (size_t)outer->n_before);
    memcpy(special->after + special->n_after, outer->after, sizeof(int32_t) * (size_t)outer->n_after);
    special->n_before += outer->n_before;
    special->n_after += outer->n_after;
    return TESS_OK;
}

static tess_status read_post(TESS_UNUSED tess_mem *mem, const tess_node *node, const char *type, void *into)
{
    tess_template outer = {0};
    if (strcmp(type, "ByteLevel") == 0)
        return TESS_OK; /* it changes offsets, but never ids */
    if (strcmp(type, "TemplateProcessing") == 0) {
        TESS_TRY(read_template(node, &outer));
        return wrap(node, &outer, into);
    }
    TESS_CHECK(
        strcmp(type, "BertProcessing") == 0 || strcmp(type, "RobertaProcessing") == 0, TESS_E_UNSUPPORTED,
        "%s: post-processor '%s' is not supported (ByteLevel, TemplateProcessing, BertProcessing, RobertaProcessing, "
        "Sequence are)",
        node->what, type);
    TESS_TRY(add_id(node, json_array_get(json_object_get(node->json, "cls"), 1), false, &outer));
    TESS_TRY(add_id(node, json_array_get(json_object_get(node->json, "sep"), 1), true, &outer));
    return wrap(node, &outer, into);
}

tess_status tess_template_read(tess_mem *mem, const tess_node *node, tess_template *special)
{
    return tess_node_steps(mem, node, "processors", read_post, special);
}
