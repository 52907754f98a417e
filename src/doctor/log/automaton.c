#include "doctor/log/automaton.h"

#include <string.h>

/* A state is a prefix of a word. next[state * n_classes + class] is a full table, so a step is one load. Bytes that are
 * in no word are class 0. */
struct tess_automaton {
    tess_mem *mem;
    uint8_t class_of[256];
    int n_classes, n_states, n_words;
    int32_t *next;
    int32_t *word;    /* of a state: the last word that ends there, or -1 */
    int32_t *same;    /* of a word: another that is the same, or -1 */
    int32_t *shorter; /* of a state: the next shorter suffix of it at which a word ends, or 0 */
    uint8_t *ends;    /* of a state: a word ends there, at it or at a suffix */
};

static int32_t *row(tess_automaton *a, int32_t state)
{
    return a->next + (size_t)state * (size_t)a->n_classes;
}

static void number_classes(tess_automaton *a, const char *const *words, const size_t *sizes)
{
    a->n_classes = 1;
    for (int w = 0; w < a->n_words; w++)
        for (size_t i = 0; i < sizes[w]; i++) {
            uint8_t c = (uint8_t)words[w][i];
            if (a->class_of[c] == 0)
                a->class_of[c] = (uint8_t)a->n_classes++;
        }
    for (int c = 'A'; c <= 'Z'; c++)
        a->class_of[c] = a->class_of[c - 'A' + 'a'];
}

static void add_word(tess_automaton *a, int w, const char *word, size_t size)
{
    int32_t state = 0;
    for (size_t i = 0; i < size; i++) {
        int32_t *to = &row(a, state)[a->class_of[(uint8_t)word[i]]];
        if (*to == 0)
            *to = a->n_states++;
        state = *to;
    }
    a->same[w] = a->word[state];
    a->word[state] = w;
}

/* Completes the table breadth first: where a state has no step, that of its longest proper suffix is taken. */
static void complete(tess_automaton *a, int32_t *queue, int32_t *suffix)
{
    int head = 0, tail = 0;
    for (int c = 0; c < a->n_classes; c++)
        if (row(a, 0)[c] != 0)
            queue[tail++] = row(a, 0)[c];
    while (head < tail) {
        int32_t state = queue[head++], back = suffix[state];
        a->shorter[state] = a->word[back] >= 0 ? back : a->shorter[back];
        a->ends[state] = a->word[state] >= 0 || a->shorter[state] != 0;
        for (int c = 0; c < a->n_classes; c++) {
            int32_t *to = &row(a, state)[c];
            if (*to == 0) {
                *to = row(a, back)[c];
            } else {
                suffix[*to] = row(a, back)[c];
                queue[tail++] = *to;
            }
        }
    }
}

static tess_status allocate(tess_automaton *a, size_t most_states)
{
    TESS_TRY(tess_mem_alloc_array(a->mem, TESS_POOL_MISC, most_states * (size_t)a->n_classes, sizeof(int32_t),
                                  "search table", (void **)&a->next));
    TESS_TRY(tess_mem_alloc_array(a->mem, TESS_POOL_MISC, most_states, sizeof(int32_t), "search", (void **)&a->word));
    TESS_TRY(
        tess_mem_alloc_array(a->mem, TESS_POOL_MISC, most_states, sizeof(int32_t), "search", (void **)&a->shorter));
    TESS_TRY(tess_mem_alloc_array(a->mem, TESS_POOL_MISC, most_states, 1, "search", (void **)&a->ends));
    TESS_TRY(
        tess_mem_alloc_array(a->mem, TESS_POOL_MISC, (size_t)a->n_words, sizeof(int32_t), "search", (void **)&a->same));
    memset(a->word, 0xff, most_states * sizeof(int32_t));
    return TESS_OK;
}

static tess_status build(tess_automaton *a, const char *const *words, const size_t *sizes)
{
    size_t most_states = 1;
    int32_t *work = NULL;
    for (int w = 0; w < a->n_words; w++)
        most_states += sizes[w];
    number_classes(a, words, sizes);
    TESS_TRY(allocate(a, most_states));
    TESS_TRY(tess_mem_alloc_array(a->mem, TESS_POOL_MISC, 2 * most_states, sizeof(int32_t), "search", (void **)&work));
    a->n_states = 1;
    for (int w = 0; w < a->n_words; w++)
        add_word(a, w, words[w], sizes[w]);
    complete(a, work, work + most_states);
    tess_mem_free(a->mem, work);
    return TESS_OK;
}

tess_status tess_automaton_create(tess_mem *mem, const char *const *words, const size_t *sizes, int n_words,
                                  tess_automaton **out)
{
    tess_automaton *a = NULL;
    TESS_TRY(tess_mem_alloc(mem, TESS_POOL_MISC, sizeof(*a), "search", (void **)&a));
    a->mem = mem;
    a->n_words = n_words;
    tess_status status = build(a, words, sizes);
    if (status != TESS_OK)
        tess_automaton_destroy(&a);
    *out = a;
    return status;
}

void tess_automaton_destroy(tess_automaton **automaton)
{
    tess_automaton *a = *automaton;
    if (a == NULL)
        return;
    tess_mem_free(a->mem, a->next);
    tess_mem_free(a->mem, a->word);
    tess_mem_free(a->mem, a->same);
    tess_mem_free(a->mem, a->shorter);
    tess_mem_free(a->mem, a->ends);
    tess_mem_free(a->mem, a);
    *automaton = NULL;
}

static void tell(const tess_automaton *a, int32_t state, void (*found)(void *context, int word), void *context)
{
    for (; state != 0; state = a->shorter[state])
        for (int32_t w = a->word[state]; w >= 0; w = a->same[w])
            found(context, w);
}

void tess_automaton_scan(const tess_automaton *a, const char *text, size_t size, void (*found)(void *context, int word),
                         void *context)
{
    int32_t state = 0;
    for (size_t i = 0; i < size; i++) {
        state = a->next[(size_t)state * (size_t)a->n_classes + a->class_of[(uint8_t)text[i]]];
        if (__builtin_expect(a->ends[state], 0))
            tell(a, state, found, context);
    }
}
