/* Runs the steps of a pre-tokenizer depth first, piece by piece, so that no lists are needed. */
#include <string.h>

#include "data/tokenizer/tokenizer_impl.h"

static tess_status run_step(const tess_pre_run *run, int index, const char *text, size_t size);

/* The piece that a split step has not passed on yet, because it may still grow. */
typedef struct pending {
    const tess_pre_run *run;
    int next; /* number of the step that receives the pieces */
    tess_split_behavior behavior;
    const char *text;
    size_t begin, end;
    bool held, match; /* match: the newest span was a match */
} pending;

static tess_status flush(pending *p)
{
    if (!p->held)
        return TESS_OK;
    p->held = false;
    return run_step(p->run, p->next, p->text + p->begin, p->end - p->begin);
}

/* Takes the next span of the text: a match, or the text between two matches. */
static tess_status put(pending *p, size_t begin, size_t end, bool match)
{
    bool joins = false;
    switch (p->behavior) {
    case TESS_SPLIT_ISOLATED:
        break;
    case TESS_SPLIT_REMOVED:
        if (match)
            return TESS_OK;
        break;
    case TESS_SPLIT_CONTIGUOUS:
        joins = p->held && match == p->match;
        break;
    case TESS_SPLIT_MERGED_WITH_PREVIOUS:
        joins = p->held && match && !p->match;
        break;
    case TESS_SPLIT_MERGED_WITH_NEXT:
        joins = p->held && !match && p->match;
        break;
    }
    p->match = match;
    if (joins) {
        p->end = end;
        return TESS_OK;
    }
    TESS_TRY(flush(p));
    p->begin = begin;
    p->end = end;
    p->held = true;
    return TESS_OK;
}

static tess_status run_split(const tess_pre_run *run, int index, const char *text, size_t size)
{
    const tess_pre_step *step = &run->pre->steps[index];
    pending p = {.run = run, .next = index + 1, .behavior = step->behavior, .text = text};
    tess_matches matches = {
        .regex = step->regex, .literal = &step->text, .scratch = run->regex, .text = text, .size = size};
    size_t at = 0;
    for (size_t begin, end;; at = end) {
        bool found;
        TESS_TRY(tess_matches_next(&matches, &found, &begin, &end));
        if (!found)
            break;
        if (begin > at)
            TESS_TRY(put(&p, at, begin, step->invert));
        TESS_TRY(put(&p, begin, end, !step->invert));
    }
    if (at < size)
        TESS_TRY(put(&p, at, size, step->invert));
    return flush(&p);
}

static bool starts_with(const char *text, size_t size, const tess_buffer *prefix)
{
    return size >= prefix->size && memcmp(text, prefix->data, prefix->size) == 0;
}

static tess_status run_prefix(const tess_pre_run *run, int index, const char *text, size_t size)
{
    const tess_pre_step *step = &run->pre->steps[index];
    if (starts_with(text, size, &step->text))
        return run_step(run, index + 1, text, size);
    tess_buffer *out = &run->text[index];
    out->size = 0;
    TESS_TRY(tess_buffer_append(out, step->text.data, step->text.size));
    TESS_TRY(tess_buffer_append(out, text, size));
    return run_step(run, index + 1, out->data, out->size);
}

static tess_status run_metaspace(const tess_pre_run *run, int index, const char *text, size_t size)
{
    const tess_pre_step *step = &run->pre->steps[index];
    tess_buffer *out = &run->text[index];
    out->size = 0;
    bool prepend = step->prepend == TESS_PREPEND_ALWAYS || (step->prepend == TESS_PREPEND_FIRST && run->at_start);
    if (prepend && text[0] != ' ' && !starts_with(text, size, &step->text))
        TESS_TRY(tess_buffer_append(out, step->text.data, step->text.size));
    for (size_t at = 0; at < size;) {
        const char *space = memchr(text + at, ' ', size - at);
        size_t end = space != NULL ? (size_t)(space - text) : size;
        TESS_TRY(tess_buffer_append(out, text + at, end - at));
        if (space != NULL)
            TESS_TRY(tess_buffer_append(out, step->text.data, step->text.size));
        at = end + 1;
    }
    return run_step(run, index + 1, out->data, out->size);
}

static tess_status run_step(const tess_pre_run *run, int index, const char *text, size_t size)
{
    if (size == 0)
        return TESS_OK;
    if (index == run->pre->n_steps)
        return run->emit(run->context, text, size);
    switch (run->pre->steps[index].kind) {
    case TESS_PRE_PREFIX:
        return run_prefix(run, index, text, size);
    case TESS_PRE_METASPACE:
        return run_metaspace(run, index, text, size);
    case TESS_PRE_SPLIT:
        break;
    }
    return run_split(run, index, text, size);
}

tess_status tess_pre_tokenize(const tess_pre_run *run, const char *text, size_t size)
{
    return run_step(run, 0, text, size);
}
