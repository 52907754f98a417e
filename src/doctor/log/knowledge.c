#include "doctor/log/knowledge.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/text/regex.h"
#include "doctor/data.h"
#include "base/text/literal.h"
#include "doctor/log/log_impl.h"

/* After this many lines, a pattern is compiled to machine code. Most patterns are matched less often, and compiling
 * costs more than a few matches. */
enum { WORTH_COMPILING = 64 };

enum { NONE = 0xffff, PLACES_BITS = 15 };

/* A pattern with a word is matched only against the part of a long line around that word, and only around its first
 * few places. This bounds the cost of a line: a search may try each of its bytes as a beginning. */
enum { PART_BEFORE = 1 << 10, PART_AFTER = 1 << 10, MOST_PARTS = 4 };

/* A pattern of an entry. If `regex` is NULL, it is a hook, which consists of its word alone. */
typedef struct pattern {
    tess_regex *regex;
    int entry;                      /* entry, or hook if `regex` is NULL */
    bool follows;                   /* the pattern is matched only against the lines after a line of the entry */
    uint8_t group[TESS_NAME_COUNT]; /* number of each named group in the pattern; 0: the pattern lacks it */
    bool has_names;
    bool anchored; /* the pattern must match where the line's own text begins */
    char word[TESS_LITERAL_MOST];
    uint32_t beginning; /* hash of the word's beginning, regardless of case */
    size_t word_size;   /* 0: the pattern is matched against every line */
    uint32_t seen;      /* serial of the line that it was last matched against */
    uint32_t n_parts;   /* parts of that line that it was matched against */
    size_t seen_to;     /* end of the last of these parts */
    uint32_t n_tried;   /* number of lines that it was matched against */
    uint16_t next;      /* pattern with the same hash, or NONE */
} pattern;

struct tess_knowledge {
    tess_mem *mem;
    tess_table table;
    pattern *patterns;
    int n_patterns, capacity;
    uint32_t *matched;                /* for each entry, the serial of the last line that matched it */
    uint16_t first[1 << PLACES_BITS]; /* first pattern for each hash of a word's beginning; mostly empty */
    uint16_t everywhere;              /* first of the patterns without a word */
    /* first of the fallbacks' patterns without a word; they are matched against lines of exceptions only */
    uint16_t exceptions;
    tess_regex_scratch *scratch;
    uint32_t serial;
    tess_regex **below; /* for each entry, the pattern for the frames of a traceback; NULL: the entry has none */
    const char *frames; /* frames of the current traceback, owned by the caller; NULL: none */
    size_t frames_size;
    int exception, cut_traceback;
    uint64_t n_searched;
};

/* Words of the hooks, in lower case. Each hook is one bit of tess_found.hooks. */
_Static_assert(TESS_HOOK_COUNT <= 64, "tess_found.hooks has a bit for each");
static const char *const hooks[TESS_HOOK_COUNT] = {[TESS_HOOK_WORK] = "optype=",
                                                   [TESS_HOOK_PROGRESS] = "last enqueued ",
                                                   [TESS_HOOK_NOTIFIED] = " dump signal ",
                                                   [TESS_HOOK_NRANKS] = " nranks ",
                                                   [TESS_HOOK_WORLD] = "world_size",
                                                   [TESS_HOOK_WORLD_WORDS] = "world size",
                                                   [TESS_HOOK_MEMBER] = "member: ",
                                                   [TESS_HOOK_STARTING] = "starting with ",
                                                   [TESS_HOOK_PROCESSES] = "num processes",
                                                   [TESS_HOOK_MISMATCH] = " is running collective: ",
                                                   [TESS_HOOK_REPEATED] = "x across cluster]",
                                                   [TESS_HOOK_ROOT] = "root cause (first observed failure)",
                                                   [TESS_HOOK_EXITCODE] = "exitcode",
                                                   [TESS_HOOK_EXIT_CODE] = "_exit_code",
                                                   [TESS_HOOK_CLOSING] = "closing signal",
                                                   [TESS_HOOK_KILLING] = "killing subprocess",
                                                   [TESS_HOOK_STARTED_LAST] = "--local_rank=",
                                                   [TESS_HOOK_LOCAL_RANK] = "(local_rank: ",
                                                   [TESS_HOOK_FAILURE_TIME] = "time      : ",
                                                   [TESS_HOOK_FAILURE_HOST] = "host      : ",
                                                   [TESS_HOOK_TRACEBACK] = "traceback (most recent call last)",
                                                   [TESS_HOOK_FRAME] = "\", line ",
                                                   [TESS_HOOK_BOX] = "\u2502 /",
                                                   [TESS_HOOK_LOSS] = "loss",
                                                   [TESS_HOOK_SPEED] = "samples/sec",
                                                   [TESS_HOOK_STEP] = "step",
                                                   [TESS_HOOK_ITERATION] = "iter",
                                                   [TESS_HOOK_EPOCH] = "epoch",
                                                   [TESS_HOOK_RATE] = "it/s",
                                                   [TESS_HOOK_PERIOD] = "s/it",
                                                   [TESS_HOOK_THROUGHPUT] = "throughput",
                                                   [TESS_HOOK_ANSWER] = "\"post /",
                                                   [TESS_HOOK_ERROR] = "error",
                                                   [TESS_HOOK_FATAL] = "fatal",
                                                   [TESS_HOOK_FAILED] = " failed",
                                                   [TESS_HOOK_CRITICAL] = "critical",
                                                   [TESS_HOOK_WARN] = " nccl warn ",
                                                   [TESS_HOOK_EXCEPTION] = "exception",
                                                   [TESS_HOOK_RDZV] = "rdzv",
                                                   [TESS_HOOK_MASTER] = "master_addr",
                                                   [TESS_HOOK_COORDINATOR] = "distributed service on ",
                                                   [TESS_HOOK_NODE] = "node: ",
                                                   [TESS_HOOK_NODE_NAME] = "nodename: ",
                                                   [TESS_HOOK_ASSIGNED] = "successfully assigned ",
                                                   [TESS_HOOK_CHECKPOINT] = "checkpoint from ",
                                                   [TESS_HOOK_PROXY] = "[proxy service ",
                                                   [TESS_HOOK_WATCHDOG] = "processgroup",
                                                   [TESS_HOOK_KIND] = "kind: pod",
                                                   [TESS_HOOK_KIND_JSON] = "\"kind\":",
                                                   [TESS_HOOK_NAME] = "name:  "};

static const tess_table_field fields[] = {
    {"asked", offsetof(tess_log_entry, asked), false},       {"role", offsetof(tess_log_entry, role_text), true},
    {"match", offsetof(tess_log_entry, match), false},       {"then", offsetof(tess_log_entry, then), false},
    {"who", offsetof(tess_log_entry, who), false},           {"below", offsetof(tess_log_entry, below), false},
    {"signal", offsetof(tess_log_entry, signal), false},     {"limit", offsetof(tess_log_entry, limit), false},
    {"beats", offsetof(tess_log_entry, beats), false},       {"explains", offsetof(tess_log_entry, explains), false},
    {"fallback", offsetof(tess_log_entry, fallback), false}, {"quotes", offsetof(tess_log_entry, quotes), false},
    {"reached", offsetof(tess_log_entry, reached), false},   {"differ", offsetof(tess_log_entry, differ), false},
    {"alone", offsetof(tess_log_entry, alone), false},       {"lasts", offsetof(tess_log_entry, lasts), false},
    {"restarts", offsetof(tess_log_entry, restarts), false}, {"waits", offsetof(tess_log_entry, waits), false},
    {"symptom", offsetof(tess_log_entry, symptom), true},    {"guess", offsetof(tess_log_entry, guess), false},
    {"cause", offsetof(tess_log_entry, cause), false},       {"check", offsetof(tess_log_entry, check), false},
    {"fix", offsetof(tess_log_entry, fix), false},           {"myth", offsetof(tess_log_entry, myth), false},
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
    static const char *const names[] = {"cause", "wrapper", "effect", "warning", "symptom", "end"};
    return names[role];
}

bool tess_knowledge_explains(const tess_knowledge *k, int entry, int other)
{
    const tess_log_entry *e = tess_knowledge_at(k, entry);
    for (int i = 0; i < e->n_explained; i++)
        if (e->explained[i] == other)
            return true;
    return false;
}

static tess_status read_role(tess_log_entry *entry)
{
    for (entry->role = TESS_LOG_CAUSE; entry->role <= TESS_LOG_END; entry->role++)
        if (strcmp(entry->role_text, tess_log_role_name(entry->role)) == 0)
            return TESS_OK;
    return TESS_FAIL(TESS_E_FORMAT, "%s:%d: %s: role '%.40s': choose cause, wrapper, effect, warning, symptom or end",
                     entry->row.file, entry->row.line, entry->row.id, entry->role_text);
}

/* Fails if an entry that is not a good end lacks the cause, the check or the fix. */
static tess_status check_advice(const tess_log_entry *entry)
{
    const struct {
        const char *name, *text;
    } fields_of_errors[] = {{"cause", entry->cause}, {"check", entry->check}, {"fix", entry->fix}};
    for (int i = 0; i < 3; i++)
        TESS_CHECK(entry->role == TESS_LOG_END || fields_of_errors[i].text != NULL, TESS_E_FORMAT,
                   "%s:%d: '%s' needs the field '%s'", entry->row.file, entry->row.line, entry->row.id,
                   fields_of_errors[i].name);
    return TESS_OK;
}

/* Reads a field that is either "yes" or missing. */
static tess_status read_yes(const tess_log_entry *entry, const char *name, const char *text, bool *out)
{
    *out = text != NULL && strcmp(text, "yes") == 0;
    TESS_CHECK(text == NULL || *out, TESS_E_FORMAT, "%s:%d: %s: %s '%.40s': write yes, or leave it out",
               entry->row.file, entry->row.line, entry->row.id, name, text);
    return TESS_OK;
}

/* Reads the field `alone`, which is either "cause" or missing. */
static tess_status read_alone(tess_log_entry *entry)
{
    entry->is_enough = entry->alone != NULL && strcmp(entry->alone, "cause") == 0;
    TESS_CHECK(entry->alone == NULL || (entry->is_enough && entry->role == TESS_LOG_WRAPPER), TESS_E_FORMAT,
               "%s:%d: %s: alone '%.40s': write cause, of a wrapper, or leave it out", entry->row.file, entry->row.line,
               entry->row.id, entry->alone);
    return TESS_OK;
}

/* Returns what the end is about; all entries that are no ends are about a program. */
static tess_log_scope read_scope(const tess_log_entry *entry)
{
    if (entry->role != TESS_LOG_END || entry->who == NULL)
        return TESS_LOG_OF_PROGRAM;
    if (strcmp(entry->who, "job") == 0)
        return TESS_LOG_OF_JOB;
    return strcmp(entry->who, "process") == 0 ? TESS_LOG_OF_PROCESS : TESS_LOG_OF_PROGRAM;
}

static tess_status read_who(tess_log_entry *entry)
{
    entry->by_endpoint = entry->who != NULL && strcmp(entry->who, "endpoint") == 0;
    entry->by_file = entry->who != NULL && strcmp(entry->who, "file") == 0;
    entry->by_reporter =
        entry->by_endpoint || entry->by_file || (entry->who != NULL && strcmp(entry->who, "reporter") == 0);
    entry->by_gpu = entry->who != NULL && strcmp(entry->who, "gpu") == 0;
    entry->by_host = entry->by_gpu || (entry->who != NULL && strcmp(entry->who, "host") == 0);
    entry->by_pod = entry->who != NULL && strcmp(entry->who, "pod") == 0;
    entry->by_reporter |= entry->by_pod && entry->role != TESS_LOG_EFFECT;
    entry->scope = read_scope(entry);
    TESS_CHECK(entry->who == NULL || entry->by_reporter || entry->by_host || entry->by_pod ||
                   entry->scope != TESS_LOG_OF_PROGRAM,
               TESS_E_FORMAT,
               "%s:%d: %s: who '%.40s': write reporter, endpoint, file, pod, host, gpu, or process or job (of an end), "
               "or leave it "
               "out",
               entry->row.file, entry->row.line, entry->row.id, entry->who);
    return TESS_OK;
}

/* Returns the entry with that id; -1: there is none. */
static int find_id(const tess_knowledge *k, const char *id)
{
    const tess_table_row *row = tess_table_find(&k->table, id);
    const char *first = tess_table_at(&k->table, 0);
    return row != NULL ? (int)(((const char *)row - first) / (ptrdiff_t)k->table.row_size) : -1;
}

/* Reads the field `explains`: ids separated by blanks. */
static tess_status read_explains(const tess_knowledge *k, tess_log_entry *entry)
{
    for (const char *at = entry->explains; at != NULL && at[strspn(at, " ,\n")] != '\0';) {
        char id[80];
        at += strspn(at, " ,\n");
        size_t n = strcspn(at, " ,\n");
        snprintf(id, sizeof(id), "%.*s", (int)(n < 79 ? n : 79), at);
        int other = find_id(k, id);
        TESS_CHECK(other >= 0 && entry->n_explained < TESS_KNOWLEDGE_MOST_EXPLAINED, TESS_E_FORMAT,
                   "%s:%d: %s: explains '%s': %s", entry->row.file, entry->row.line, entry->row.id, id,
                   other < 0 ? "there is no such entry" : "too many");
        entry->explained[entry->n_explained++] = other;
        at += n;
    }
    return TESS_OK;
}

static tess_status read_differ(const tess_knowledge *k, tess_log_entry *entry)
{
    entry->different = entry->differ != NULL ? find_id(k, entry->differ) : -1;
    TESS_CHECK(entry->differ == NULL || entry->different >= 0, TESS_E_FORMAT,
               "%s:%d: %s: differ '%.40s': there is no such entry", entry->row.file, entry->row.line, entry->row.id,
               entry->differ);
    return TESS_OK;
}

/* Reads the first TESS_LITERAL_LEAST bytes as a number, with letters in lower case. */
static uint32_t read_beginning(const char *text)
{
    uint32_t beginning;
    _Static_assert(sizeof(beginning) == TESS_LITERAL_LEAST, "no word is shorter");
    memcpy(&beginning, text, sizeof(beginning));
    return beginning | 0x20202020u;
}

static size_t hash_beginning(uint32_t beginning)
{
    return beginning * 2654435761u >> (32 - PLACES_BITS);
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
    uint16_t *first = &k->everywhere;
    if (p->word_size > 0)
        first = &k->first[hash_beginning(read_beginning(p->word))];
    else if (tess_knowledge_at(k, p->entry)->is_fallback)
        first = &k->exceptions;
    k->patterns[k->n_patterns] = *p;
    k->patterns[k->n_patterns].beginning = p->word_size > 0 ? read_beginning(p->word) : 0;
    k->patterns[k->n_patterns].next = *first;
    *first = (uint16_t)k->n_patterns++;
    return TESS_OK;
}

/* Finds the numbers of the pattern's named groups. */
static tess_status read_names(pattern *p, const tess_table_row *row)
{
    static const char *const names[] = {
#define X(id, text) text,
        TESS_LOG_NAME_LIST(X)
#undef X
    };
    const char *given;
    for (int i = 0, group; (given = tess_regex_name(p->regex, i, &group)) != NULL; i++) {
        int name = 0;
        while (name < TESS_NAME_COUNT && strcmp(given, names[name]) != 0)
            name++;
        TESS_CHECK(name < TESS_NAME_COUNT && group <= TESS_NAME_COUNT, TESS_E_FORMAT,
                   "%s:%d: %s: a group named '%.40s': choose rank, task, local_rank, host, pid, gpu, actor, device, "
                   "peer, step, what, also, lacks, container or reporter",
                   row->file, row->line, row->id, given);
        p->group[name] = (uint8_t)group;
        p->has_names = true;
    }
    return TESS_OK;
}

static tess_status compile(const tess_knowledge *k, const tess_table_row *row, const char *text, size_t size,
                           unsigned more, tess_regex **out)
{
    char what[512];
    snprintf(what, sizeof(what), "%s:%d: %s", row->file, row->line, row->id);
    return tess_regex_create(k->mem, text, size, TESS_REGEX_CASELESS | TESS_REGEX_NAMED_ONLY | more, what, out);
}

static tess_status add_pattern(tess_knowledge *k, int entry, bool follows, const char *text, size_t size)
{
    const tess_table_row *row = tess_table_at(&k->table, entry);
    pattern p = {.entry = entry, .follows = follows, .anchored = text[0] == '^'};
    TESS_TRY(compile(k, row, text, size, 0, &p.regex));
    p.word_size = tess_pattern_literal(text, size, p.word);
    tess_status status = read_names(&p, row);
    bool is_slow = p.word_size == 0 && !follows && !tess_knowledge_at(k, entry)->is_fallback; /* tried on every line */
    if (status == TESS_OK && is_slow)
        status = TESS_FAIL(TESS_E_FORMAT, "%s:%d: %s: '%.*s': a pattern needs four plain characters outside of groups",
                           row->file, row->line, row->id, (int)(size < 200 ? size : 200), text);
    if (status == TESS_OK)
        status = add(k, &p);
    if (status != TESS_OK)
        tess_regex_destroy(&p.regex);
    return status;
}

/* Adds the patterns of a field that holds one pattern per line. */
static tess_status add_patterns(tess_knowledge *k, int entry, bool follows, const char *text)
{
    while (text != NULL && *text != '\0') {
        size_t n = strcspn(text, "\n");
        if (n > 0)
            TESS_TRY(add_pattern(k, entry, follows, text, n));
        text += n + (text[n] == '\n');
    }
    return TESS_OK;
}

static tess_status load_files(tess_table *table, const char *const *files, int n_files)
{
#define X(subject)                                                                                                \
    TESS_TRY(tess_table_parse(table, (const char *)tess_data_errors_##subject, tess_data_errors_##subject##_size, \
                              "errors_" #subject ".yaml"));
    TESS_DOCTOR_ERRORS(X)
#undef X
    TESS_TRY(tess_table_load_own(table, "errors.yaml"));
    for (int i = 0; i < n_files; i++)
        TESS_TRY(tess_table_load(table, files[i]));
    return TESS_OK;
}

static tess_status prepare(tess_knowledge *k)
{
    TESS_TRY(TESS_NEW(k->mem, k->table.n + 1, "patterns for frames", &k->below));
    for (int i = 0; i < k->table.n; i++) {
        tess_log_entry *entry = tess_table_at(&k->table, i);
        if (strcmp(entry->row.id, "python-exception") == 0)
            k->exception = i;
        if (strcmp(entry->row.id, "python-traceback-cut") == 0)
            k->cut_traceback = i;
        if (entry->below != NULL)
            TESS_TRY(
                compile(k, &entry->row, entry->below, strcspn(entry->below, "\n"), TESS_REGEX_MULTILINE, &k->below[i]));
        TESS_TRY(read_role(entry));
        TESS_TRY(read_who(entry));
        TESS_TRY(read_alone(entry));
        TESS_TRY(read_yes(entry, "fallback", entry->fallback, &entry->is_fallback));
        TESS_TRY(check_advice(entry));
        TESS_TRY(read_yes(entry, "lasts", entry->lasts, &entry->is_lasting));
        TESS_TRY(read_yes(entry, "restarts", entry->restarts, &entry->is_restart));
        TESS_TRY(read_yes(entry, "waits", entry->waits, &entry->is_wait));
        TESS_TRY(read_yes(entry, "beats", entry->beats, &entry->is_beat));
        TESS_TRY(read_yes(entry, "asked", entry->asked, &entry->is_asked));
        TESS_TRY(read_yes(entry, "limit", entry->limit, &entry->is_limit));
        TESS_TRY(read_yes(entry, "signal", entry->signal, &entry->is_signal));
        TESS_TRY(read_yes(entry, "quotes", entry->quotes, &entry->is_quoting));
        TESS_TRY(read_explains(k, entry));
        TESS_TRY(read_differ(k, entry));
        TESS_TRY(add_patterns(k, i, false, entry->match));
        TESS_TRY(add_patterns(k, i, true, entry->then));
    }
    TESS_TRY(TESS_NEW(k->mem, k->table.n + 1, "patterns", &k->matched));
    tess_knowledge_begin_text(k);
    /* Limits the cost of one pattern on one line; the pattern may come from a user. */
    static const tess_regex_limits limits = {.groups = TESS_NAME_COUNT, .steps = 200000, .heap_kib = 1024};
    TESS_TRY(tess_regex_scratch_create(k->mem, &limits, &k->scratch));
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
    (*out)->everywhere = (*out)->exceptions = NONE;
    (*out)->exception = (*out)->cut_traceback = -1;
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
        tess_regex_destroy(&k->patterns[i].regex);
    for (int i = 0; k->below != NULL && i < k->table.n; i++)
        tess_regex_destroy(&k->below[i]);
    tess_regex_scratch_destroy(&k->scratch);
    tess_mem_free(k->mem, k->below);
    tess_mem_free(k->mem, k->patterns);
    tess_mem_free(k->mem, k->matched);
    tess_table_free(&k->table);
    tess_mem_free(k->mem, k);
    *knowledge = NULL;
}

void tess_knowledge_set_frames(tess_knowledge *k, const char *frames, size_t size)
{
    k->frames = frames;
    k->frames_size = size;
}

int tess_knowledge_exception(const tess_knowledge *k)
{
    return k->exception;
}

int tess_knowledge_cut_traceback(const tess_knowledge *k)
{
    return k->cut_traceback;
}

uint64_t tess_knowledge_searched(const tess_knowledge *k)
{
    return k->n_searched;
}

void tess_knowledge_begin_text(tess_knowledge *k)
{
    k->serial += TESS_KNOWLEDGE_LINES_AFTER;
}

/* Returns the slot of an entry among the entries found, and adds it if needed. Returns NULL if there are too many. */
static tess_found_entry *place_of(tess_found *found, int entry)
{
    for (int i = 0; i < found->n_entries; i++)
        if (found->entries[i].entry == entry)
            return &found->entries[i];
    if (found->n_entries == TESS_KNOWLEDGE_MOST_FOUND)
        return NULL;
    tess_found_entry *new = &found->entries[found->n_entries++];
    *new = (tess_found_entry){.entry = entry, .follows = true};
    return new;
}

static void note_names(const tess_knowledge *k, const pattern *p, const char *line, tess_found_entry *found)
{
    for (int name = 0; name < TESS_NAME_COUNT; name++) {
        size_t begin, end;
        if (p->group[name] == 0 || found->names[name].text != NULL ||
            !tess_regex_group(k->scratch, p->group[name], &begin, &end))
            continue;
        found->names[name].text = line + begin;
        found->names[name].size = end - begin;
    }
}

static bool is_below(const tess_knowledge *k, int entry)
{
    return k->below[entry] == NULL ||
           (k->frames != NULL && tess_regex_matches(k->below[entry], k->scratch, k->frames, k->frames_size));
}

static bool is_due(const tess_knowledge *k, const pattern *p, const tess_found *found)
{
    if (!is_below(k, p->entry))
        return false;
    if (p->follows) {
        uint32_t distance = k->serial - k->matched[p->entry];
        return k->matched[p->entry] != 0 && distance > 0 && distance <= TESS_KNOWLEDGE_LINES_AFTER;
    }
    for (int i = 0; i < found->n_entries && !p->has_names; i++)
        if (found->entries[i].entry == p->entry && !found->entries[i].follows)
            return false; /* another pattern of the entry has already matched, and this one has no named groups */
    return true;
}

/* Finds the part of the line that a pattern is to be matched against next, because its word is at `at`. Returns false
 * if the parts before it are enough. */
static bool next_part(const tess_knowledge *k, pattern *p, size_t at, size_t size, size_t *from, size_t *to)
{
    if (p->seen == k->serial && (at + p->word_size <= p->seen_to || p->n_parts == MOST_PARTS))
        return false;
    p->n_parts = p->seen == k->serial ? p->n_parts + 1 : 1;
    p->seen = k->serial;
    bool is_whole = p->word_size == 0 || size <= PART_BEFORE + PART_AFTER;
    *from = is_whole || at < PART_BEFORE ? 0 : at - PART_BEFORE;
    *to = is_whole || size - at < PART_AFTER ? size : at + PART_AFTER;
    p->seen_to = *to;
    return true;
}

/* Matches a pattern whose word is at line[at..]. */
static void try_pattern(tess_knowledge *k, pattern *p, const char *line, size_t size, size_t at, tess_found *found)
{
    size_t from, to;
    if (p->regex == NULL) {
        found->hooks |= TESS_HOOK_BIT(p->entry);
        found->has_a_word |= (TESS_HOOK_BIT(p->entry) & TESS_HOOKS_OF_STEPS) == 0; /* every step has such words */
        return;
    }
    if (!next_part(k, p, at, size, &from, &to) || !is_due(k, p, found))
        return;
    found->has_a_word = true;
    if (++p->n_tried == WORTH_COMPILING)
        tess_regex_speed_up(p->regex);
    size_t begin = p->anchored ? log_text_begin(line, size) : 0;
    if (begin > to || (p->anchored && from > 0))
        return;
    k->n_searched += to - from;
    if (!tess_regex_matches_part(p->regex, k->scratch, line + begin, size - begin, from, to - begin))
        return; /* a pattern that reaches the limits does not match */
    tess_found_entry *place = place_of(found, p->entry);
    if (place == NULL)
        return;
    if (place->end == 0 && tess_regex_group(k->scratch, 0, &place->begin, &place->end)) {
        place->begin += begin;
        place->end += begin;
    }
    place->follows &= p->follows;
    note_names(k, p, line + begin, place);
    p->seen_to = size;
}

/* Whether a better fallback matches the same line: only one fallback of a line counts. A fallback with a pattern for
 * frames is better than one without. Otherwise, the entry that comes first in the files is better; the entry for all
 * exceptions comes last. */
static bool is_more_general(const tess_knowledge *k, const tess_found *found, int i)
{
    int entry = found->entries[i].entry;
    for (int n = 0; n < found->n_entries; n++) {
        int other = found->entries[n].entry;
        bool asks_more = (k->below[other] != NULL) > (k->below[entry] != NULL);
        bool asks_as_much = (k->below[other] != NULL) == (k->below[entry] != NULL);
        if (n != i && tess_knowledge_at(k, other)->is_fallback && (asks_more || (asks_as_much && other < entry)))
            return true;
    }
    return false;
}

/* Whether another entry of the same line says more. */
static bool is_explained(const tess_knowledge *k, const tess_found *found, int i)
{
    int entry = found->entries[i].entry;
    bool is_fallback = tess_knowledge_at(k, entry)->is_fallback;
    for (int n = 0; n < found->n_entries; n++) {
        int other = found->entries[n].entry;
        const tess_log_entry *more = tess_knowledge_at(k, other);
        bool follows = found->entries[n].follows;
        bool is_warned = more->role == TESS_LOG_WARNING && entry != k->exception &&
                         tess_knowledge_at(k, entry)->role == TESS_LOG_WRAPPER;
        if (n != i && !more->is_fallback &&
            (is_fallback ? follows || is_warned || more->role <= TESS_LOG_EFFECT
                         : !follows && tess_knowledge_explains(k, other, entry)))
            return true;
    }
    return is_fallback && is_more_general(k, found, i);
}

/* Removes entries if another entry of the same line says more. */
static void drop_explained(const tess_knowledge *k, tess_found *found)
{
    bool drop[TESS_KNOWLEDGE_MOST_FOUND];
    int n = 0;
    for (int i = 0; i < found->n_entries; i++)
        drop[i] = is_explained(k, found, i);
    for (int i = 0; i < found->n_entries; i++)
        if (!drop[i])
            found->entries[n++] = found->entries[i];
    found->n_entries = n;
}

/* Whether the text begins with the pattern's word. Compares the last letter first: words with equal beginnings
 * mostly differ in their last letter. */
static bool is_word_at(const pattern *p, const char *text, size_t size)
{
    return p->word_size <= size && ((text[p->word_size - 1] ^ p->word[p->word_size - 1]) & ~0x20) == 0 &&
           strncasecmp(text, p->word, p->word_size) == 0;
}

static bool is_exception(const tess_knowledge *k, const char *line, size_t size, const tess_found *found)
{
    if (k->frames == NULL &&
        (found->hooks & (TESS_HOOK_BIT(TESS_HOOK_ERROR) | TESS_HOOK_BIT(TESS_HOOK_EXCEPTION))) == 0)
        return false;
    size_t begin = log_text_begin(line, size);
    return begin < size && log_exception_name(line + begin, size - begin) > 0;
}

void tess_knowledge_find(tess_knowledge *k, const char *line, size_t size, tess_found *found)
{
    found->n_entries = 0;
    found->hooks = 0;
    found->has_a_word = false;
    k->serial++;
    for (size_t at = 0; at + TESS_LITERAL_LEAST <= size; at++) {
        uint32_t beginning = read_beginning(line + at);
        for (int i = k->first[hash_beginning(beginning)]; i != NONE; i = k->patterns[i].next)
            if (k->patterns[i].beginning == beginning && is_word_at(&k->patterns[i], line + at, size - at))
                try_pattern(k, &k->patterns[i], line, size, at, found);
    }
    for (int i = k->everywhere; i != NONE; i = k->patterns[i].next)
        try_pattern(k, &k->patterns[i], line, size, 0, found);
    if (is_exception(k, line, size, found))
        for (int i = k->exceptions; i != NONE; i = k->patterns[i].next)
            try_pattern(k, &k->patterns[i], line, size, 0, found);
    if (found->n_entries > 1)
        drop_explained(k, found);
    for (int i = 0; i < found->n_entries; i++)
        if (!found->entries[i].follows)
            k->matched[found->entries[i].entry] = k->serial;
}
