/* Normalizers: the changes that a tokenizer makes to a text before it is cut into pieces. */
#include <string.h>

#include "data/tokenizer/tokenizer_impl.h"
#include "data/tokenizer/unicode.h"

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

tess_status tess_matches_next(tess_matches *m, bool *found, size_t *begin, size_t *end)
{
    for (*found = false; m->from <= m->size;
         m->from += m->from < m->size ? (size_t)tess_utf8_length(m->text[m->from]) : 1) {
        if (m->regex != NULL) {
            TESS_TRY(tess_regex_find(m->regex, m->scratch, m->text, m->size, m->from, found, begin, end));
        } else {
            const tess_buffer *l = m->literal;
            const char *at =
                l->size == 0 ? m->text + m->from : memmem(m->text + m->from, m->size - m->from, l->data, l->size);
            *found = at != NULL;
            *begin = at != NULL ? (size_t)(at - m->text) : 0;
            *end = *begin + l->size;
        }
        if (!*found)
            return TESS_OK;
        m->from = *end;
        if (*begin < *end || *end != m->last || !m->any) {
            m->last = *end;
            m->any = true;
            return TESS_OK;
        }
    }
    *found = false;
    return TESS_OK;
}

/* Runs one step. *changed: `out` has the result; otherwise the text is unchanged. */
static tess_status run_step(const tess_norm_step *step, tess_norm_scratch *scratch, const char *text, size_t size,
                            tess_buffer *out, bool *changed)
{
    out->size = 0;
    *changed = false;
    if (size == 0)
        return TESS_OK;
    if (step->kind == TESS_NORM_PREPEND) {
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
    tess_matches matches = {
        .regex = step->regex, .literal = &step->pattern, .scratch = scratch->regex, .text = text, .size = size};
    for (size_t done = 0, begin, end;; done = end) {
        bool found;
        TESS_TRY(tess_matches_next(&matches, &found, &begin, &end));
        if (!found)
            return *changed ? tess_buffer_append(out, text + done, size - done) : TESS_OK;
        *changed = true;
        TESS_TRY(tess_buffer_append(out, text + done, begin - done));
        TESS_TRY(tess_buffer_append(out, step->text.data, step->text.size));
    }
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
