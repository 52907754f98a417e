#define PCRE2_CODE_UNIT_WIDTH 8
#include "doctor/log/knowledge.h"

#include <pcre2.h>
#include <stdio.h>
#include <string.h>

#include "doctor/data.h"
#include "doctor/log/automaton.h"
#include "doctor/log/literal.h"

/* What a pattern may cost on one line, whatever a user writes: steps, and KiB for going back. */
enum { MATCH_LIMIT = 200000, HEAP_LIMIT_KIB = 1024 };

typedef struct pattern {
    pcre2_code *code;
    int entry;
    char word[TESS_LITERAL_MOST];
    size_t word_size; /* 0: it is tried on every line */
    uint32_t seen;    /* number of the line on which its word was last found */
} pattern;

struct tess_knowledge {
    tess_mem *mem;
    tess_table table;
    pattern *patterns;
    int n_patterns, capacity;
    int *everywhere; /* patterns without a word */
    int n_everywhere;
    tess_automaton *automaton; /* over the words of patterns, then the hooks */
    int *word_pattern;         /* of a word of the automaton; -1 - i: hook i */
    pcre2_match_context *limits;
    pcre2_match_data *match;
    uint32_t serial;
    int candidates[256]; /* of the current line */
    int n_candidates;
    uint32_t hooks;
};

static const tess_table_field fields[] = {
    {"role", offsetof(tess_log_entry, role_text), true},   {"match", offsetof(tess_log_entry, match), false},
    {"reached", offsetof(tess_log_entry, reached), false}, {"symptom", offsetof(tess_log_entry, symptom), true},
    {"cause", offsetof(tess_log_entry, cause), true},      {"check", offsetof(tess_log_entry, check), true},
    {"fix", offsetof(tess_log_entry, fix), true},          {"myth", offsetof(tess_log_entry, myth), false},
    {"source", offsetof(tess_log_entry, source), false}};

int tess_knowledge_n(const tess_knowledge *k)
{
    return k->table.n;
}

const tess_log_entry *tess_knowledge_at(const tess_knowledge *k, int entry)
{
    return tess_table_at(&k->table, entry);
}

static tess_status read_role(tess_log_entry *entry)
{
    static const char *const names[] = {"cause", "effect", "warning", "symptom"};
    for (int i = 0; i < 4; i++) {
        if (strcmp(entry->role_text, names[i]) == 0) {
            entry->role = (tess_log_role)i;
            return TESS_OK;
        }
    }
    return TESS_FAIL(TESS_E_FORMAT, "%s:%d: %s: role '%.40s': choose cause, effect, warning or symptom",
                     entry->row.file, entry->row.line, entry->row.id, entry->role_text);
}

static tess_status add_pattern(tess_knowledge *k, int entry, const char *text, size_t size)
{
    const tess_table_row *row = tess_table_at(&k->table, entry);
    if (k->n_patterns == k->capacity) {
        int capacity = k->capacity == 0 ? 256 : 2 * k->capacity;
        TESS_TRY(tess_mem_grow(k->mem, TESS_POOL_MISC, (size_t)capacity * sizeof(pattern), "patterns",
                               (void **)&k->patterns));
        k->capacity = capacity;
    }
    int error = 0;
    PCRE2_SIZE at = 0;
    const uint32_t options = PCRE2_CASELESS | PCRE2_NO_AUTO_CAPTURE | PCRE2_NEVER_BACKSLASH_C;
    pcre2_code *code = pcre2_compile((PCRE2_SPTR)text, size, options, &error, &at, NULL);
    if (code == NULL) {
        char why[160];
        pcre2_get_error_message(error, (PCRE2_UCHAR *)why, sizeof(why));
        return TESS_FAIL(TESS_E_FORMAT, "%s:%d: %s: pattern '%.*s' at character %zu: %s", row->file, row->line, row->id,
                         (int)(size < 80 ? size : 80), text, (size_t)at + 1, why);
    }
    pattern *p = &k->patterns[k->n_patterns++];
    *p = (pattern){.code = code, .entry = entry};
    p->word_size = tess_pattern_literal(text, size, p->word);
    return TESS_OK;
}

/* One pattern a line of the field. */
static tess_status add_patterns(tess_knowledge *k, int entry)
{
    const char *text = tess_knowledge_at(k, entry)->match;
    while (text != NULL && *text != '\0') {
        size_t n = strcspn(text, "\n");
        if (n > 0)
            TESS_TRY(add_pattern(k, entry, text, n));
        text += n + (text[n] == '\n');
    }
    return TESS_OK;
}

static tess_status build_automaton(tess_knowledge *k)
{
    const char **words = NULL;
    size_t *sizes = NULL;
    int n_hooks = 0, n = 0;
    while (tess_knowledge_hooks[n_hooks] != NULL)
        n_hooks++;
    size_t most = (size_t)(k->n_patterns + n_hooks);
    TESS_TRY(tess_mem_alloc_array(k->mem, TESS_POOL_MISC, most, sizeof(int), "words", (void **)&k->word_pattern));
    TESS_TRY(tess_mem_alloc_array(k->mem, TESS_POOL_MISC, most, sizeof(int), "words", (void **)&k->everywhere));
    TESS_TRY(tess_mem_alloc_array(k->mem, TESS_POOL_MISC, most, sizeof(*words), "words", (void **)&words));
    tess_status status = tess_mem_alloc_array(k->mem, TESS_POOL_MISC, most, sizeof(*sizes), "words", (void **)&sizes);
    for (int i = 0; status == TESS_OK && i < k->n_patterns; i++) {
        if (k->patterns[i].word_size == 0) {
            k->everywhere[k->n_everywhere++] = i;
            continue;
        }
        words[n] = k->patterns[i].word;
        sizes[n] = k->patterns[i].word_size;
        k->word_pattern[n++] = i;
    }
    for (int i = 0; status == TESS_OK && i < n_hooks; i++) {
        words[n] = tess_knowledge_hooks[i];
        sizes[n] = strlen(words[n]);
        k->word_pattern[n++] = -1 - i;
    }
    if (status == TESS_OK)
        status = tess_automaton_create(k->mem, words, sizes, n, &k->automaton);
    tess_mem_free(k->mem, words);
    tess_mem_free(k->mem, sizes);
    return status;
}

static tess_status load_files(tess_table *table, const char *const *files, int n_files)
{
    TESS_TRY(tess_table_parse(table, (const char *)tess_data_errors, tess_data_errors_size, "errors.yaml"));
    TESS_TRY(tess_table_load_own(table, "errors.yaml"));
    for (int i = 0; i < n_files; i++)
        TESS_TRY(tess_table_load(table, files[i]));
    return TESS_OK;
}

static tess_status prepare(tess_knowledge *k)
{
    for (int i = 0; i < k->table.n; i++) {
        TESS_TRY(read_role(tess_table_at(&k->table, i)));
        TESS_TRY(add_patterns(k, i));
    }
    k->limits = pcre2_match_context_create(NULL);
    k->match = pcre2_match_data_create(1, NULL);
    TESS_CHECK(k->limits != NULL && k->match != NULL, TESS_E_NOMEM, "no memory to match patterns");
    pcre2_set_match_limit(k->limits, MATCH_LIMIT);
    pcre2_set_heap_limit(k->limits, HEAP_LIMIT_KIB);
    return build_automaton(k);
}

static tess_status create_empty(tess_mem *mem, tess_knowledge **out)
{
    TESS_TRY(tess_mem_alloc(mem, TESS_POOL_MISC, sizeof(**out), "what is known of errors", (void **)out));
    (*out)->mem = mem;
    (*out)->table = (tess_table){.mem = mem,
                                 .fields = fields,
                                 .n_fields = sizeof(fields) / sizeof(fields[0]),
                                 .row_size = sizeof(tess_log_entry)};
    return TESS_OK;
}

tess_status tess_knowledge_create(tess_mem *mem, const char *const *files, int n_files, tess_knowledge **out)
{
    *out = NULL;
    TESS_TRY(create_empty(mem, out));
    tess_status status = load_files(&(*out)->table, files, n_files);
    if (status == TESS_OK)
        status = prepare(*out);
    if (status != TESS_OK)
        tess_knowledge_destroy(out);
    return status;
}

tess_status tess_knowledge_create_from(tess_mem *mem, const char *text, size_t size, const char *what,
                                       tess_knowledge **out)
{
    *out = NULL;
    TESS_TRY(create_empty(mem, out));
    tess_status status = tess_table_parse(&(*out)->table, text, size, what);
    if (status == TESS_OK)
        status = prepare(*out);
    if (status != TESS_OK)
        tess_knowledge_destroy(out);
    return status;
}

void tess_knowledge_destroy(tess_knowledge **knowledge)
{
    tess_knowledge *k = *knowledge;
    if (k == NULL)
        return;
    for (int i = 0; i < k->n_patterns; i++)
        pcre2_code_free(k->patterns[i].code);
    pcre2_match_context_free(k->limits);
    pcre2_match_data_free(k->match);
    tess_automaton_destroy(&k->automaton);
    tess_mem_free(k->mem, k->word_pattern);
    tess_mem_free(k->mem, k->everywhere);
    tess_mem_free(k->mem, k->patterns);
    tess_table_free(&k->table);
    tess_mem_free(k->mem, k);
    *knowledge = NULL;
}

static void take_word(void *context, int word)
{
    tess_knowledge *k = context;
    int i = k->word_pattern[word];
    if (i < 0) {
        k->hooks |= 1u << (-1 - i);
        return;
    }
    if (k->patterns[i].seen == k->serial || k->n_candidates == (int)(sizeof(k->candidates) / sizeof(int)))
        return;
    k->patterns[i].seen = k->serial;
    k->candidates[k->n_candidates++] = i;
}

static void try_pattern(tess_knowledge *k, int i, const char *line, size_t size, tess_found *found)
{
    int entry = k->patterns[i].entry;
    for (int e = 0; e < found->n_entries; e++)
        if (found->entries[e] == entry)
            return;
    /* A pattern that runs into the limits is taken as not there. */
    if (found->n_entries < TESS_KNOWLEDGE_MOST_FOUND &&
        pcre2_match(k->patterns[i].code, (PCRE2_SPTR)line, size, 0, 0, k->match, k->limits) >= 0)
        found->entries[found->n_entries++] = entry;
}

void tess_knowledge_find(tess_knowledge *k, const char *line, size_t size, tess_found *found)
{
    found->n_entries = 0;
    k->serial++;
    k->n_candidates = 0;
    k->hooks = 0;
    tess_automaton_scan(k->automaton, line, size, take_word, k);
    for (int i = 0; i < k->n_candidates; i++)
        try_pattern(k, k->candidates[i], line, size, found);
    for (int i = 0; i < k->n_everywhere; i++)
        try_pattern(k, k->everywhere[i], line, size, found);
    found->hooks = k->hooks;
}
