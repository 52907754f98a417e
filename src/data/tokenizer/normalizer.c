/* Normalizers: the changes that a tokenizer makes to a text before it is cut into pieces. */
#include <string.h>

#include "data/tokenizer/tokenizer_impl.h"

static tess_status read_step(tess_mem *mem, const tess_node *node, const char *type, void *into)
{
    static const struct {
        const char *name;
        tess_norm_kind kind;
    } kinds[] = {{"NFC", TESS_NORM_NFC},   {"NFD", TESS_NORM_NFD},         {"NFKC", TESS_NORM_NFKC},
                 {"NFKD", TESS_NORM_NFKD}, {"Prepend", TESS_NORM_PREPEND}, {"Replace", TESS_NORM_REPLACE}};
    tess_normalizer *normalizer = into;
    TESS_CHECK(normalizer->n_steps < TESS_MAX_STEPS, TESS_E_UNSUPPORTED, "%s: more than %d steps", node->what,
               TESS_MAX_STEPS);
    tess_norm_step *step = &normalizer->steps[normalizer->n_steps];
    size_t k = 0;
    while (k < sizeof(kinds) / sizeof(kinds[0]) && strcmp(type, kinds[k].name) != 0)
        k++;
    TESS_CHECK(k < sizeof(kinds) / sizeof(kinds[0]), TESS_E_UNSUPPORTED,
               "%s: normalizer '%s' is not supported (NFC, NFD, NFKC, NFKD, Prepend, Replace, Sequence are)",
               node->what, type);
    *step = (tess_norm_step){.kind = kinds[k].kind, .text = {.mem = mem}, .pattern = {.mem = mem}};
    normalizer->n_steps++;
    if (step->kind == TESS_NORM_PREPEND)
        return tess_node_text(node, "prepend", &step->text);
    if (step->kind == TESS_NORM_REPLACE) {
        TESS_TRY(tess_node_pattern(mem, node, &step->pattern, &step->regex));
        return tess_node_text(node, "content", &step->text);
    }
    return TESS_OK;
}

tess_status tess_normalizer_read(tess_mem *mem, const tess_node *node, tess_normalizer *normalizer)
{
    return tess_node_steps(mem, node, "normalizers", read_step, normalizer);
}

void tess_normalizer_free(tess_normalizer *normalizer)
{
    for (int i = 0; i < normalizer->n_steps; i++) {
        tess_norm_step *step = &normalizer->steps[i];
        tess_buffer_free(&step->text);
        tess_buffer_free(&step->pattern);
        tess_regex_destroy(&step->regex);
    }
    normalizer->n_steps = 0;
}

tess_status tess_pattern_find(const tess_regex *regex, const tess_buffer *literal, tess_regex_scratch *scratch,
                              const char *text, size_t size, size_t from, bool *found, size_t *begin, size_t *end)
{
    if (regex != NULL)
        return tess_regex_find(regex, scratch, text, size, from, found, begin, end);
    const char *at = literal->size > 0 ? memmem(text + from, size - from, literal->data, literal->size) : NULL;
    *found = at != NULL;
    if (at != NULL) {
        *begin = (size_t)(at - text);
        *end = *begin + literal->size;
    }
    return TESS_OK;
}

/* Runs one step. *changed: `out` has the result; otherwise the text is unchanged. */
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
        TESS_TRY(
            tess_pattern_find(step->regex, &step->pattern, scratch->regex, text, size, from, &found, &begin, &end));
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
