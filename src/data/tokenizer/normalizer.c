#include <string.h>

#include "data/tokenizer/tokenizer_impl.h"

static tess_status read_step(tess_mem *mem, const tess_node *node, tess_norm_step *step)
{
    static const struct {
        const char *name;
        tess_norm_kind kind;
    } kinds[] = {{"NFC", TESS_NORM_NFC},   {"NFD", TESS_NORM_NFD},         {"NFKC", TESS_NORM_NFKC},
                 {"NFKD", TESS_NORM_NFKD}, {"Prepend", TESS_NORM_PREPEND}, {"Replace", TESS_NORM_REPLACE}};
    const char *type = NULL;
    TESS_TRY(tess_node_type(node, &type));
    size_t k = 0;
    while (k < sizeof(kinds) / sizeof(kinds[0]) && strcmp(type, kinds[k].name) != 0)
        k++;
    TESS_CHECK(k < sizeof(kinds) / sizeof(kinds[0]), TESS_E_UNSUPPORTED,
               "%s: normalizer '%s' is not supported (NFC, NFD, NFKC, NFKD, Prepend, Replace, Sequence are)",
               node->what, type);
    *step = (tess_norm_step){.kind = kinds[k].kind, .text = {.mem = mem}, .pattern = {.mem = mem}};
    if (step->kind == TESS_NORM_PREPEND)
        return tess_node_text(node, "prepend", &step->text);
    if (step->kind == TESS_NORM_REPLACE) {
        TESS_TRY(tess_node_pattern(mem, node, &step->pattern, &step->regex));
        return tess_node_text(node, "content", &step->text);
    }
    return TESS_OK;
}

static tess_status read_into(tess_mem *mem, const tess_node *node, int depth, tess_normalizer *normalizer)
{
    const char *type = NULL;
    TESS_TRY(tess_node_type(node, &type));
    if (strcmp(type, "Sequence") != 0) {
        TESS_CHECK(normalizer->n_steps < TESS_MAX_STEPS, TESS_E_UNSUPPORTED, "%s: more than %d steps", node->what,
                   TESS_MAX_STEPS);
        return read_step(mem, node, &normalizer->steps[normalizer->n_steps++]);
    }
    TESS_CHECK(depth < 4, TESS_E_UNSUPPORTED, "%s: sequences nested more than 4 deep", node->what);
    const json_t *list = json_object_get(node->json, "normalizers");
    TESS_CHECK(json_is_array(list), TESS_E_FORMAT, "%s: a Sequence without a list 'normalizers'", node->what);
    for (size_t i = 0; i < json_array_size(list); i++) {
        tess_node item = tess_node_item(node, "normalizers", i);
        TESS_TRY(read_into(mem, &item, depth + 1, normalizer));
    }
    return TESS_OK;
}

tess_status tess_normalizer_read(tess_mem *mem, const tess_node *node, tess_normalizer *normalizer)
{
    return node->json == NULL || json_is_null(node->json) ? TESS_OK : read_into(mem, node, 0, normalizer);
}

void tess_normalizer_free(tess_normalizer *normalizer)
{
    for (int i = 0; i < normalizer->n_steps; i++) {
        tess_norm_step *step = &normalizer->steps[i];
        if (step->text.mem != NULL)
            tess_buffer_free(&step->text);
        if (step->pattern.mem != NULL)
            tess_buffer_free(&step->pattern);
        tess_regex_destroy(&step->regex);
    }
    normalizer->n_steps = 0;
}

/* The next occurrence of the step's pattern. */
static tess_status find(const tess_norm_step *step, tess_norm_scratch *scratch, const char *text, size_t size,
                        size_t from, bool *found, size_t *begin, size_t *end)
{
    *found = false;
    if (step->regex != NULL)
        return tess_regex_find(step->regex, scratch->regex, text, size, from, found, begin, end);
    if (step->pattern.size == 0)
        return TESS_OK;
    const char *at = memmem(text + from, size - from, step->pattern.data, step->pattern.size);
    if (at != NULL) {
        *found = true;
        *begin = (size_t)(at - text);
        *end = *begin + step->pattern.size;
    }
    return TESS_OK;
}

/* Runs one step; *changed says whether `out` holds the result. */
static tess_status run_step(const tess_norm_step *step, tess_norm_scratch *scratch, const char *text, size_t size,
                            tess_buffer *out, bool *changed)
{
    out->size = 0;
    *changed = false;
    if (step->kind == TESS_NORM_PREPEND) {
        if (size == 0)
            return TESS_OK;
        *changed = true;
        TESS_TRY(tess_buffer_append(out, step->text.data, step->text.size));
        return tess_buffer_append(out, text, size);
    }
    if (step->kind != TESS_NORM_REPLACE) {
        if (tess_normal_form_skip(step->kind, text, size) == size)
            return TESS_OK;
        *changed = true;
        return tess_normal_form(step->kind, scratch, text, size, out);
    }
    for (size_t from = 0; from < size;) {
        bool found;
        size_t begin = 0, end = 0;
        TESS_TRY(find(step, scratch, text, size, from, &found, &begin, &end));
        if (!found) {
            if (*changed)
                TESS_TRY(tess_buffer_append(out, text + from, size - from));
            break;
        }
        *changed = true;
        TESS_TRY(tess_buffer_append(out, text + from, begin - from));
        TESS_TRY(tess_buffer_append(out, step->text.data, step->text.size));
        from = end;
    }
    return TESS_OK;
}

tess_status tess_normalize(const tess_normalizer *normalizer, tess_norm_scratch *scratch, const char *text, size_t size,
                           const char **out, size_t *out_size)
{
    int turn = 0;
    *out = text;
    *out_size = size;
    for (int i = 0; i < normalizer->n_steps; i++) {
        bool changed;
        TESS_TRY(run_step(&normalizer->steps[i], scratch, *out, *out_size, &scratch->text[turn], &changed));
        if (!changed)
            continue;
        *out = scratch->text[turn].size > 0 ? scratch->text[turn].data : "";
        *out_size = scratch->text[turn].size;
        turn = 1 - turn;
    }
    return TESS_OK;
}

void tess_norm_scratch_free(tess_norm_scratch *scratch)
{
    tess_buffer_free(&scratch->text[0]);
    tess_buffer_free(&scratch->text[1]);
    tess_mem_free(scratch->mem, scratch->points);
    tess_regex_scratch_destroy(&scratch->regex);
}
