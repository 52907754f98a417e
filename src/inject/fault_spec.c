/* Parses the text of a fault spec. The keys of a fault are rows of base/core/options. */
#include <stdio.h>
#include <string.h>

#include "base/core/options.h"
#include "base/core/rng.h"
#include "base/text/text.h"
#include "inject/inject_impl.h"
#include "trace/label.h"

enum { WORD_BYTES = 320 };

/* The places where a kind of fault can happen. */
typedef enum fault_place { OPERATION, MOMENT, PHASE, BATCH, DISK, TENSOR } fault_place;

static const fault_place places[] = {
#define X(name, text, where, help) where,
    TESS_FAULT_LIST(X)
#undef X
};

/* A fault that is still being parsed. The keys set its members. */
typedef struct draft {
    tess_fault fault;
    const tess_fault_spec *spec;
    bool has_kind, has_rank, has_point, random_rank, random_step;
    int64_t steps; /* a random step is one of the first `steps` */
} draft;

/* Copies the part of `text` before the separator. *rest is the part after it; NULL: there is no separator. */
static void split(const char *text, char separator, char first[WORD_BYTES], const char **rest)
{
    const char *end = strchrnul(text, separator);
    snprintf(first, WORD_BYTES, "%.*s", (int)(end - text), text);
    *rest = *end != '\0' ? end + 1 : NULL;
}

static tess_status parse_kind(void *config, const char *text)
{
    draft *d = config;
    const char *names[TESS_FAULT_KINDS];
    for (int i = 0; i < TESS_FAULT_KINDS; i++)
        names[i] = tess_fault_name((tess_fault_kind)i);
    int kind = 0;
    TESS_TRY(tess_options_choose("kind", text, names, TESS_FAULT_KINDS, &kind));
    d->fault.kind = (tess_fault_kind)kind;
    d->has_kind = true;
    return TESS_OK;
}

/* Parses a name and its number in the step: "write", "write#3". */
static tess_status parse_nth(draft *d, const char *text, const char *what, const char *const *names, int n, int *chosen)
{
    char name[WORD_BYTES];
    const char *number;
    split(text, '#', name, &number);
    if (number != NULL)
        TESS_TRY_CTX(tess_options_int(number, 1, INT64_MAX, &d->fault.nth), "point: the number behind '#'");
    return tess_options_choose(what, name, names, n, chosen);
}

/* Parses "reduce_scatter", "all_gather#3" or "any". */
static tess_status parse_operation(draft *d, const char *text)
{
    const char *names[TESS_TRACE_PHASE] = {"any"};
    for (int op = 1; op < TESS_TRACE_PHASE; op++)
        names[op] = tess_trace_op_name(op);
    return parse_nth(d, text, "operation", names, TESS_TRACE_PHASE, &d->fault.op);
}

static tess_status parse_save_point(draft *d, const char *text)
{
    const char *names[TESS_SAVE_POINTS];
    for (int i = 0; i < TESS_SAVE_POINTS; i++)
        names[i] = tess_save_point_name((tess_save_point)i);
    return parse_nth(d, text, "call of a save", names, TESS_SAVE_POINTS, &d->fault.save_point);
}

/* Parses "forward" or "forward:12". */
static tess_status parse_phase(draft *d, const char *text)
{
    char name[WORD_BYTES];
    const char *number;
    split(text, ':', name, &number);
    if (number != NULL)
        TESS_TRY_CTX(tess_options_int(number, 0, INT64_MAX, &d->fault.detail), "point: the number behind the phase");
    TESS_CHECK(name[0] != '\0' && strlen(name) < sizeof(d->fault.phase), TESS_E_INVALID,
               "point: '%.60s' is not a phase name (1 to %zu letters)", name, sizeof(d->fault.phase) - 1);
    memcpy(d->fault.phase, name, strlen(name) + 1);
    return TESS_OK;
}

/* The words of `point`. If more text follows a word, the row has a parser and an example. */
static const struct point_word {
    const char *name;
    tess_fault_point point;
    tess_status (*parse_rest)(draft *d, const char *text);
    const char *needs;
} point_words[] = {
    {"before", TESS_FAULT_BEFORE, parse_operation, "it needs an operation, as in before:all_reduce"},
    {"after", TESS_FAULT_AFTER, parse_operation, "it needs an operation, as in after:all_reduce"},
    {"phase", TESS_FAULT_ENTER_PHASE, parse_phase, "it needs a name, as in phase:forward"},
    {"save", TESS_FAULT_SAVE, parse_save_point, "it needs a call, as in save:write"},
    {"step", TESS_FAULT_ENTER_STEP, NULL, NULL},
    {"gradient", TESS_FAULT_GRADIENT, NULL, NULL},
    {"parameter", TESS_FAULT_PARAMETER, NULL, NULL},
    {"state", TESS_FAULT_STATE, NULL, NULL},
};
enum { POINT_WORDS = sizeof(point_words) / sizeof(point_words[0]) };

static tess_status parse_point(void *config, const char *text)
{
    draft *d = config;
    const char *names[POINT_WORDS], *rest;
    char name[WORD_BYTES];
    int i = 0;
    split(text, ':', name, &rest);
    for (int k = 0; k < POINT_WORDS; k++)
        names[k] = point_words[k].name;
    TESS_TRY(tess_options_choose("point", name, names, POINT_WORDS, &i));
    const struct point_word *word = &point_words[i];
    d->fault.point = word->point;
    d->has_point = true;
    TESS_CHECK((rest != NULL) == (word->parse_rest != NULL), TESS_E_INVALID, "point=%s: %s", name,
               word->needs != NULL ? word->needs : "nothing may follow");
    return rest != NULL ? word->parse_rest(d, rest) : TESS_OK;
}

/* Parses "layers:12" or "loss". */
static tess_status parse_label(void *config, const char *text)
{
    char name[WORD_BYTES];
    const char *rest;
    int64_t number = -1;
    split(text, ':', name, &rest);
    if (rest != NULL)
        TESS_TRY_CTX(tess_options_int(rest, 0, TESS_LABEL_MOST, &number), "label: the number");
    ((draft *)config)->fault.label = tess_label(name, number);
    return TESS_OK;
}

static tess_status parse_rank(void *config, const char *text)
{
    draft *d = config;
    int64_t rank = -1;
    d->has_rank = true;
    d->random_rank = strcmp(text, "random") == 0;
    if (!d->random_rank && strcmp(text, "all") != 0)
        TESS_TRY_CTX(tess_options_int(text, 0, d->spec->any_rank ? INT32_MAX : d->spec->world - 1, &rank), "rank");
    d->fault.rank = (int)rank;
    return TESS_OK;
}

static tess_status parse_step(void *config, const char *text)
{
    draft *d = config;
    d->random_step = strcmp(text, "random") == 0;
    if (!d->random_step)
        TESS_TRY_CTX(tess_options_int(text, 0, INT64_MAX, &d->fault.step), "step");
    return TESS_OK;
}

/* ---- Keys ---- */
#define OWN(key_, parse_)                                     \
    {                                                         \
        .key = key_, .type = TESS_OPTION_OWN, .parse = parse_ \
    }
#define INT(key_, field_, fallback_, min_, max_)                                                                       \
    {                                                                                                                  \
        .key = key_, .type = TESS_OPTION_INT, .offset = offsetof(draft, field_), .fallback = fallback_, .least = min_, \
        .most = max_                                                                                                   \
    }
#define FLOAT(key_, field_, fallback_, max_)                                                                          \
    {                                                                                                                 \
        .key = key_, .type = TESS_OPTION_FLOAT, .offset = offsetof(draft, field_), .fallback = fallback_, .max = max_ \
    }
#define TEXT(key_, field_)                                                                                     \
    {                                                                                                          \
        .key = key_, .type = TESS_OPTION_TEXT, .offset = offsetof(draft, field_), .text_size = TESS_FAULT_TEXT \
    }

static const tess_option keys[] = {
    OWN("rank", parse_rank),
    OWN("step", parse_step),
    OWN("point", parse_point),
    OWN("kind", parse_kind),
    OWN("label", parse_label),
    INT("times", fault.times, "1", 0, INT64_MAX),
    INT("life", fault.life, "1", 0, INT64_MAX),
    INT("steps", steps, "10", 1, INT64_MAX),
    INT("n", fault.n, "1", 1, INT64_MAX / 2),
    FLOAT("ms", fault.ms, "0", 1e9),
    FLOAT("percent", fault.percent, "10", 1e6),
    INT("bytes", fault.bytes, NULL, 1, INT64_MAX),
    INT("bit", fault.bit, NULL, 0, 63),
    INT("code", fault.code, "3", 0, 255),
    TEXT("tensor", fault.tensor),
    TEXT("path", fault.path),
    {.key = "what",
     .type = TESS_OPTION_CHOICE,
     .offset = offsetof(draft, fault.whole_step),
     .fallback = "micro_batch",
     .choices = "micro_batch|step"},
};

static const tess_option_section words = {.name = "fault.spec", .rows = keys, .n_rows = sizeof(keys) / sizeof(keys[0])};
static const tess_option_table table = {&words, 0};

/* ---- Defaults and contradictions ---- */
static void set_default_point(tess_fault *f)
{
    static const tess_fault_point defaults[] = {[OPERATION] = TESS_FAULT_BEFORE,
                                                [MOMENT] = TESS_FAULT_ENTER_STEP,
                                                [PHASE] = TESS_FAULT_ENTER_PHASE,
                                                /* DISK: this value is invalid, so the spec must give a point */
                                                [BATCH] = TESS_FAULT_ENTER_STEP,
                                                [DISK] = TESS_FAULT_ENTER_STEP,
                                                [TENSOR] = TESS_FAULT_GRADIENT};
    f->point = defaults[places[f->kind]];
    if (f->kind == TESS_FAULT_SLOW_LOG)
        snprintf(f->phase, sizeof(f->phase), "log");
}

static bool point_fits(const tess_fault *f)
{
    /* a process that saves need not be a rank */
    bool needs_runtime = f->kind == TESS_FAULT_RANK0_EVAL || f->kind == TESS_FAULT_FAIL;
    switch (places[f->kind]) {
    case OPERATION:
        return f->point == TESS_FAULT_BEFORE;
    case MOMENT:
        return f->point < TESS_FAULT_SAVE || (f->point == TESS_FAULT_SAVE && !needs_runtime);
    case PHASE:
        return f->point == TESS_FAULT_ENTER_PHASE && f->phase[0] != '\0';
    case BATCH:
        return f->point == TESS_FAULT_ENTER_STEP;
    case DISK:
        return f->point == TESS_FAULT_SAVE;
    default:
        return f->point >= TESS_FAULT_GRADIENT;
    }
}

/* Refuses a phase that never begins: its fault would silently never happen. */
static tess_status check_phase(const draft *d)
{
    const char *const *phases = d->spec->phases;
    int n = 0, chosen;
    if (phases == NULL || d->fault.phase[0] == '\0')
        return TESS_OK;
    while (phases[n] != NULL)
        n++;
    return tess_options_choose("phase", d->fault.phase, phases, n, &chosen);
}

/* Refuses a wrong root for an operation without a root, because this fault would never happen either. */
static tess_status check_operation(const tess_fault *f)
{
    char list[512] = "";
    size_t at = 0;
    if (f->op == TESS_TRACE_NONE || tess_fault_can_hit(f->kind, f->op))
        return TESS_OK;
    for (int op = 1; op < TESS_TRACE_PHASE; op++)
        if (tess_fault_can_hit(f->kind, op))
            at = tess_text_add(list, sizeof(list), at, "%s%s", at > 0 ? ", " : "", tess_trace_op_name(op));
    return TESS_FAIL(TESS_E_INVALID, "kind=%s cannot happen to %s, but to %s", tess_fault_name(f->kind),
                     tess_trace_op_name(f->op), list);
}

static tess_status complete(draft *d, int index)
{
    static const char *const needs[] = {[OPERATION] = "point=before:OPERATION",
                                        [MOMENT] =
                                            "point=before:OPERATION, after:OPERATION, phase:NAME, save:NAME or step",
                                        [PHASE] = "point=phase:NAME",
                                        [BATCH] = "point=step",
                                        [DISK] = "point=save:NAME",
                                        [TENSOR] = "point=gradient, parameter or state"};
    const uint64_t seed = d->spec->seed, world = (uint64_t)d->spec->world;
    tess_fault *f = &d->fault;
    bool of_rank0 = f->kind == TESS_FAULT_RANK0_EVAL || f->kind == TESS_FAULT_SLOW_LOG;
    TESS_CHECK(d->has_kind, TESS_E_INVALID, "kind= is missing");
    TESS_CHECK(d->has_rank || of_rank0, TESS_E_INVALID, "rank= is missing: a number, random or all");
    if (!d->has_point)
        set_default_point(f);
    TESS_CHECK(point_fits(f), TESS_E_INVALID, "kind=%s needs %s", tess_fault_name(f->kind), needs[places[f->kind]]);
    TESS_TRY(check_phase(d));
    TESS_TRY(check_operation(f));
    if (!d->has_rank)
        f->rank = 0;
    if (d->random_rank)
        f->rank = (int)(tess_rng_u64(seed, TESS_RNG_FAULT, 0, (uint64_t)index) % world);
    if (d->random_step)
        f->step = 1 + (int64_t)(tess_rng_u64(seed, TESS_RNG_FAULT, 1, (uint64_t)index) % (uint64_t)d->steps);
    if (f->kind == TESS_FAULT_SLOW)
        f->times = 0;
    if (f->kind == TESS_FAULT_SLOW_LOG && f->ms == 0)
        f->ms = 2000;
    f->seed = tess_rng_u64(seed, TESS_RNG_FAULT, 2, (uint64_t)index);
    return TESS_OK;
}

/* Parses the words up to ';' or the end, and moves *at to the text after them. */
static tess_status parse_fault(const char **at, draft *d, const char *source)
{
    while (**at != '\0' && **at != ';') {
        char word[WORD_BYTES];
        size_t n = strcspn(*at, " \t\n;");
        TESS_CHECK(n < sizeof(word), TESS_E_INVALID, "%s: '%.40s...' is too long a word", source, *at);
        memcpy(word, *at, n);
        word[n] = '\0';
        char *text = strchr(word, '=');
        TESS_CHECK(text != NULL && text[1] != '\0', TESS_E_INVALID, "%s: '%.60s' is not key=value", source, word);
        *text++ = '\0';
        TESS_TRY(tess_options_set(&table, 1, d, word, text, source));
        *at += n;
        *at += strspn(*at, " \t\n");
    }
    return TESS_OK;
}

tess_status tess_faults_parse(const tess_fault_spec *spec, tess_fault *faults, int max, int *n)
{
    *n = 0;
    const char *at = spec->text != NULL ? spec->text : "";
    for (int index = 0; *at != '\0'; index++) {
        char source[48];
        draft d = {.spec = spec, .fault = {.step = -1, .detail = -1, .bit = -1}};
        at += strspn(at, " \t\n;");
        if (*at == '\0')
            break;
        TESS_CHECK(*n < max, TESS_E_INVALID, "fault.spec: more than %d faults", max);
        const char *begin = at;
        snprintf(source, sizeof(source), "fault.spec: fault %d", index + 1);
        TESS_TRY(tess_options_defaults(&table, 1, &d));
        TESS_TRY(parse_fault(&at, &d, source));
        TESS_TRY_CTX(complete(&d, index), "%s", source);
        d.fault.number = index + 1;
        snprintf(d.fault.text, sizeof(d.fault.text), "%.*s", (int)(at - begin), begin);
        faults[(*n)++] = d.fault;
    }
    return TESS_OK;
}
