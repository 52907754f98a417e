#define PCRE2_CODE_UNIT_WIDTH 8
#include "doctor/log/knowledge.h"

#include <pcre2.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "doctor/data.h"
#include "doctor/log/literal.h"

/* The most that a pattern, which may be a user's, costs on one line: steps, and KiB for backtracking. */
enum { MATCH_LIMIT = 200000, HEAP_LIMIT_KIB = 1024 };

enum { NONE = 0xffff, PLACES_BITS = 15 };

/* A pattern of an entry, or with `code` NULL a hook, which is its word alone. */
typedef struct pattern {
    pcre2_code *code;
    int entry; /* or hook */
    char word[TESS_LITERAL_MOST];
    size_t word_size; /* 0: the pattern is matched against every line */
    uint32_t seen;    /* serial of the line that it was last matched against */
    uint16_t next;    /* pattern with the same hash, or NONE */
} pattern;

struct tess_knowledge {
    tess_mem *mem;
    tess_table table;
    pattern *patterns;
    int n_patterns, capacity;
    uint16_t first[1 << PLACES_BITS]; /* by the hash of a word's beginning; sparse, so that most look-ups find none */
    uint16_t everywhere;              /* first of the patterns without a word */
    pcre2_match_context *limits;
    pcre2_match_data *match;
    uint32_t serial;
};

/* Lower case; one bit of tess_found each. */
static const char *const hooks[TESS_HOOK_COUNT] = {[TESS_HOOK_WORK] = "worknccl(",
                                                   [TESS_HOOK_PROGRESS] = "last enqueued ",
                                                   [TESS_HOOK_NOTIFIED] = " dump signal ",
                                                   [TESS_HOOK_NRANKS] = " nranks ",
                                                   [TESS_HOOK_WORLD] = "world_size",
                                                   [TESS_HOOK_WORLD_WORDS] = "world size",
                                                   [TESS_HOOK_ROOT] = "root cause (first observed failure)",
                                                   [TESS_HOOK_EXITCODE] = "exitcode",
                                                   [TESS_HOOK_LOCAL_RANK] = "(local_rank: "};

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

const char *tess_log_role_name(tess_log_role role)
{
    static const char *const names[] = {"cause", "effect", "warning", "symptom"};
    return names[role];
}

static tess_status read_role(tess_log_entry *entry)
{
    for (entry->role = TESS_LOG_CAUSE; entry->role <= TESS_LOG_SYMPTOM; entry->role++)
        if (strcmp(entry->role_text, tess_log_role_name(entry->role)) == 0)
            return TESS_OK;
    return TESS_FAIL(TESS_E_FORMAT, "%s:%d: %s: role '%.40s': choose cause, effect, warning or symptom",
                     entry->row.file, entry->row.line, entry->row.id, entry->role_text);
}

/* Of the first TESS_LITERAL_LEAST bytes, regardless of case. */
static size_t hash_beginning(const char *text)
{
    uint32_t beginning;
    _Static_assert(sizeof(beginning) == TESS_LITERAL_LEAST, "no word is shorter");
    memcpy(&beginning, text, sizeof(beginning));
    return (beginning | 0x20202020u) * 2654435761u >> (32 - PLACES_BITS);
}

static tess_status add(tess_knowledge *k, const pattern *p)
{
    TESS_CHECK(k->n_patterns < NONE, TESS_E_UNSUPPORTED, "more than %d patterns", NONE);
    if (k->n_patterns == k->capacity) {
        int capacity = k->capacity == 0 ? 256 : 2 * k->capacity;
        TESS_TRY(tess_mem_grow(k->mem, TESS_POOL_MISC, (size_t)capacity * sizeof(pattern), "patterns",
                               (void **)&k->patterns));
        k->capacity = capacity;
    }
    uint16_t *first = p->word_size > 0 ? &k->first[hash_beginning(p->word)] : &k->everywhere;
    k->patterns[k->n_patterns] = *p;
    k->patterns[k->n_patterns].next = *first;
    *first = (uint16_t)k->n_patterns++;
    return TESS_OK;
}

static tess_status add_pattern(tess_knowledge *k, int entry, const char *text, size_t size)
{
    const tess_table_row *row = tess_table_at(&k->table, entry);
    int error = 0;
    PCRE2_SIZE at = 0;
    const uint32_t options = PCRE2_CASELESS | PCRE2_NO_AUTO_CAPTURE | PCRE2_NEVER_BACKSLASH_C;
    pattern p = {.entry = entry};
    p.code = pcre2_compile((PCRE2_SPTR)text, size, options, &error, &at, NULL);
    if (p.code == NULL) {
        char why[160];
        pcre2_get_error_message(error, (PCRE2_UCHAR *)why, sizeof(why));
        return TESS_FAIL(TESS_E_FORMAT, "%s:%d: %s: pattern '%.*s' at character %zu: %s", row->file, row->line, row->id,
                         (int)(size < 80 ? size : 80), text, (size_t)at + 1, why);
    }
    p.word_size = tess_pattern_literal(text, size, p.word);
    tess_status status = add(k, &p);
    if (status != TESS_OK)
        pcre2_code_free(p.code);
    return status;
}

/* The field has a pattern on each line. */
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
    for (int i = 0; i < TESS_HOOK_COUNT; i++) {
        pattern p = {.entry = i, .word_size = strlen(hooks[i])};
        memcpy(p.word, hooks[i], p.word_size);
        TESS_TRY(add(k, &p));
    }
    return TESS_OK;
}

static tess_status create_empty(tess_mem *mem, tess_knowledge **out)
{
    TESS_TRY(tess_mem_alloc(mem, TESS_POOL_MISC, sizeof(**out), "what is known of errors", (void **)out));
    (*out)->mem = mem;
    memset((*out)->first, 0xff, sizeof((*out)->first));
    (*out)->everywhere = NONE;
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
    tess_mem_free(k->mem, k->patterns);
    tess_table_free(&k->table);
    tess_mem_free(k->mem, k);
    *knowledge = NULL;
}

static void try_pattern(tess_knowledge *k, pattern *p, const char *line, size_t size, tess_found *found)
{
    if (p->code == NULL)
        found->hooks |= 1u << p->entry;
    if (p->code == NULL || p->seen == k->serial)
        return;
    p->seen = k->serial;
    for (int e = 0; e < found->n_entries; e++)
        if (found->entries[e] == p->entry)
            return;
    if (found->n_entries < TESS_KNOWLEDGE_MOST_FOUND && /* a pattern that reaches the limits does not match */
        pcre2_match(p->code, (PCRE2_SPTR)line, size, 0, 0, k->match, k->limits) >= 0)
        found->entries[found->n_entries++] = p->entry;
}

void tess_knowledge_find(tess_knowledge *k, const char *line, size_t size, tess_found *found)
{
    found->n_entries = 0;
    found->hooks = 0;
    k->serial++;
    for (size_t at = 0; at + TESS_LITERAL_LEAST <= size; at++)
        for (int i = k->first[hash_beginning(line + at)]; i != NONE; i = k->patterns[i].next)
            if (k->patterns[i].word_size <= size - at &&
                strncasecmp(line + at, k->patterns[i].word, k->patterns[i].word_size) == 0)
                try_pattern(k, &k->patterns[i], line, size, found);
    for (int i = k->everywhere; i != NONE; i = k->patterns[i].next)
        try_pattern(k, &k->patterns[i], line, size, found);
}
