/* Parses a fault spec. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/options.h"
#include "base/core/rng.h"
#include "base/text/text.h"
#include "inject/inject_impl.h"
#include "trace/label.h"

enum { WORD_BYTES = 320, FIRST_STEPS = 10 };

/* Where a kind may happen. */
typedef enum fault_place { OPERATION, MOMENT, PHASE, BATCH, DISK, TENSOR } fault_place;

static const fault_place places[] = {
#define X(name, text, where, help) where,
    TESS_FAULT_LIST(X)
#undef X
};

/* A fault that is still being parsed. */
typedef struct draft {
    tess_fault fault;
    const tess_fault_spec *spec;
    bool has_kind, has_rank, has_point, random_rank, random_step;
    int64_t steps; /* range of a random step */
} draft;

/* Finds `text` among the names; the message calls them `what`. */
static tess_status choose(const char *what, const char *text, const char *const *names, int n, int *chosen)
{
    char list[512] = "";
    size_t at = 0;
    for (int i = 0; i < n; i++)
        if (strcmp(text, names[i]) == 0) {
            *chosen = i;
            return TESS_OK;
        }
    const char *nearest = tess_options_nearest(text, names, n);
    if (nearest != NULL)
        return TESS_FAIL(TESS_E_INVALID, "unknown %s '%.60s': did you mean '%s'?", what, text, nearest);
    for (int i = 0; i < n && at + 40 < sizeof(list); i++)
        at = tess_text_add(list, sizeof(list), at, "%s%s", i > 0 ? ", " : "", names[i]);
    return TESS_FAIL(TESS_E_INVALID, "unknown %s '%.60s': there are %s", what, text, list);
}

static tess_status parse_int(const char *key, const char *text, int64_t min, int64_t max, int64_t *value)
{
    char *end;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    TESS_CHECK(end != text && *end == '\0' && errno == 0 && number >= min && number <= max, TESS_E_INVALID,
               "%s=%.60s: expected a number from %lld to %lld", key, text, (long long)min, (long long)max);
    *value = number;
    return TESS_OK;
}

static tess_status parse_float(const char *key, const char *text, double max, double *value)
{
    char *end;
    double number = strtod(text, &end);
    TESS_CHECK(end != text && *end == '\0' && number >= 0 && number <= max, TESS_E_INVALID,
               "%s=%.60s: expected a number from 0 to %g", key, text, max);
    *value = number;
    return TESS_OK;
}

static tess_status parse_kind(draft *d, char *text)
{
    const char *names[TESS_FAULT_KINDS];
    for (int i = 0; i < TESS_FAULT_KINDS; i++)
        names[i] = tess_fault_name((tess_fault_kind)i);
    int kind = 0;
    TESS_TRY(choose("kind", text, names, TESS_FAULT_KINDS, &kind));
    d->fault.kind = (tess_fault_kind)kind;
    d->has_kind = true;
    return TESS_OK;
}

/* Cuts "#3" off the end of the text. */
static tess_status split_number(draft *d, char *text)
{
    char *number = strchr(text, '#');
    if (number == NULL)
        return TESS_OK;
    *number++ = '\0';
    return parse_int("point: the number behind '#'", number, 1, INT64_MAX, &d->fault.nth);
}

/* "reduce_scatter", "all_gather#3", "any". */
static tess_status parse_operation(draft *d, char *text)
{
    const char *names[TESS_TRACE_PHASE];
    TESS_TRY(split_number(d, text));
    names[0] = "any";
    for (int op = 1; op < TESS_TRACE_PHASE; op++)
        names[op] = tess_trace_op_name(op);
    return choose("operation", text, names, TESS_TRACE_PHASE, &d->fault.op);
}

/* "forward", "forward:12". */
static tess_status parse_phase(draft *d, char *text)
{
    char *number = strchr(text, ':');
    if (number != NULL) {
        *number++ = '\0';
        TESS_TRY(parse_int("point: the number behind the phase", number, 0, INT64_MAX, &d->fault.detail));
    }
    TESS_CHECK(text[0] != '\0' && strlen(text) < sizeof(d->fault.phase), TESS_E_INVALID,
               "point: '%.60s' is not a phase name (1 to %zu letters)", text, sizeof(d->fault.phase) - 1);
    snprintf(d->fault.phase, sizeof(d->fault.phase), "%s", text);
    return TESS_OK;
}

/* "write", "write#3". */
static tess_status parse_save_point(draft *d, char *text)
{
    const char *names[TESS_SAVE_POINTS];
    TESS_TRY(split_number(d, text));
    for (int i = 0; i < TESS_SAVE_POINTS; i++)
        names[i] = tess_save_point_name((tess_save_point)i);
    return choose("call of a save", text, names, TESS_SAVE_POINTS, &d->fault.save_point);
}

/* Words of `point`; for those with more behind them, its parser and an example. */
static const struct point_word {
    const char *name;
    tess_fault_point point;
    tess_status (*parse_rest)(draft *d, char *text);
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

static tess_status parse_point(draft *d, char *text)
{
    const char *names[POINT_WORDS];
    char *rest = strchr(text, ':');
    if (rest != NULL)
        *rest++ = '\0';
    for (int i = 0; i < POINT_WORDS; i++)
        names[i] = point_words[i].name;
    int i = 0;
    TESS_TRY(choose("point", text, names, POINT_WORDS, &i));
    const struct point_word *word = &point_words[i];
    d->fault.point = word->point;
    d->has_point = true;
    TESS_CHECK((rest != NULL) == (word->parse_rest != NULL), TESS_E_INVALID, "point=%s: %s", text,
               word->needs != NULL ? word->needs : "nothing may follow");
    return rest != NULL ? word->parse_rest(d, rest) : TESS_OK;
}

/* "layers:12", "loss". */
static tess_status parse_label(draft *d, char *text)
{
    int64_t number = -1;
    char *rest = strchr(text, ':');
    if (rest != NULL) {
        *rest++ = '\0';
        TESS_TRY(parse_int("label: the number", rest, 0, TESS_LABEL_MOST, &number));
    }
    d->fault.label = tess_label(text, number);
    return TESS_OK;
}

static tess_status parse_rank(draft *d, char *text)
{
    int64_t rank = -1;
    d->has_rank = true;
    d->random_rank = strcmp(text, "random") == 0;
    if (!d->random_rank && strcmp(text, "all") != 0)
        TESS_TRY(parse_int("rank", text, 0, d->spec->world - 1, &rank));
    d->fault.rank = (int)rank;
    return TESS_OK;
}

static tess_status parse_step(draft *d, char *text)
{
    d->random_step = strcmp(text, "random") == 0;
    return d->random_step ? TESS_OK : parse_int("step", text, 0, INT64_MAX, &d->fault.step);
}

static tess_status parse_what(draft *d, char *text)
{
    static const char *const whats[] = {"micro_batch", "step"};
    int what = 0;
    TESS_TRY(choose("what", text, whats, 2, &what));
    d->fault.whole_step = what == 1;
    return TESS_OK;
}

/* ---- Keys ---- */

/* A number or a text goes to its field of the draft; the other keys have parsers of their own. The rows are not those
 * of base/core/options: those read integers as double, which has no room for INT64_MAX, and texts of one size. */
typedef struct key {
    const char *name;
    enum { INT, FLOAT, TEXT, OWN } type;
    size_t offset;
    int64_t min, max;
    tess_status (*parse)(draft *d, char *text);
} key;

#define AT(field_) offsetof(draft, field_)

static const key keys[] = {
    {"rank", OWN, .parse = parse_rank},
    {"step", OWN, .parse = parse_step},
    {"point", OWN, .parse = parse_point},
    {"kind", OWN, .parse = parse_kind},
    {"label", OWN, .parse = parse_label},
    {"times", INT, AT(fault.times), .min = 0, .max = INT64_MAX},
    {"life", INT, AT(fault.life), .min = 0, .max = INT64_MAX},
    {"steps", INT, AT(steps), .min = 1, .max = INT64_MAX},
    {"n", INT, AT(fault.n), .min = 1, .max = INT64_MAX / 2},
    {"ms", FLOAT, AT(fault.ms), .max = 1000000000},
    {"percent", FLOAT, AT(fault.percent), .max = 1000000},
    {"bytes", INT, AT(fault.bytes), .min = 1, .max = INT64_MAX},
    {"bit", INT, AT(fault.bit), .min = 0, .max = 63},
    {"code", INT, AT(fault.code), .min = 0, .max = 255},
    {"tensor", TEXT, .offset = AT(fault.tensor)},
    {"path", TEXT, .offset = AT(fault.path)},
    {"what", OWN, .parse = parse_what},
};
enum { N_KEYS = sizeof(keys) / sizeof(keys[0]) };

static tess_status parse_value(draft *d, const key *key, char *text)
{
    void *field = (char *)d + key->offset;
    switch (key->type) {
    case INT:
        return parse_int(key->name, text, key->min, key->max, field);
    case FLOAT:
        return parse_float(key->name, text, (double)key->max, field);
    case TEXT:
        TESS_CHECK(strlen(text) < TESS_FAULT_TEXT, TESS_E_INVALID, "%s: longer than %d letters", key->name,
                   TESS_FAULT_TEXT - 1);
        snprintf(field, TESS_FAULT_TEXT, "%s", text);
        return TESS_OK;
    default:
        return key->parse(d, text);
    }
}

static tess_status parse_word(draft *d, char *word)
{
    const char *names[N_KEYS];
    char *text = strchr(word, '=');
    TESS_CHECK(text != NULL && text[1] != '\0', TESS_E_INVALID, "'%.60s' is not key=value", word);
    *text++ = '\0';
    for (int i = 0; i < N_KEYS; i++)
        names[i] = keys[i].name;
    int i = 0;
    TESS_TRY(choose("key", word, names, N_KEYS, &i));
    return parse_value(d, &keys[i], text);
}

/* ---- Defaults and contradictions ---- */
static void set_default_point(tess_fault *f)
{
    static const tess_fault_point defaults[] = {
        [OPERATION] = TESS_FAULT_BEFORE, [MOMENT] = TESS_FAULT_ENTER_STEP, [PHASE] = TESS_FAULT_ENTER_PHASE,
        [BATCH] = TESS_FAULT_ENTER_STEP, [DISK] = TESS_FAULT_ENTER_STEP, /* invalid for DISK: its point must be given */
        [TENSOR] = TESS_FAULT_GRADIENT};
    f->point = defaults[places[f->kind]];
    if (f->kind == TESS_FAULT_SLOW_LOG)
        snprintf(f->phase, sizeof(f->phase), "log");
}

/* The process that saves may not be a rank. */
static bool needs_runtime(tess_fault_kind kind)
{
    return kind == TESS_FAULT_RANK0_EVAL || kind == TESS_FAULT_FAIL;
}

static bool point_fits(const tess_fault *f)
{
    switch (places[f->kind]) {
    case OPERATION:
        return f->point == TESS_FAULT_BEFORE;
    case MOMENT:
        return f->point < TESS_FAULT_SAVE || (f->point == TESS_FAULT_SAVE && !needs_runtime(f->kind));
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

/* A fault at a phase that never begins would wait in silence. */
static tess_status check_phase(const draft *d)
{
    const char *const *phases = d->spec->phases;
    int n = 0, chosen;
    if (phases == NULL || d->fault.phase[0] == '\0')
        return TESS_OK;
    while (phases[n] != NULL)
        n++;
    return choose("phase", d->fault.phase, phases, n, &chosen);
}

/* So would a wrong root of an operation without a root. */
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

/* Parses the words up to ';' or the end, and moves *at behind them. */
static tess_status parse_fault(const char **at, draft *d)
{
    while (**at != '\0' && **at != ';') {
        char word[WORD_BYTES];
        size_t n = strcspn(*at, " \t\n;");
        TESS_CHECK(n < sizeof(word), TESS_E_INVALID, "'%.40s...' is too long a word", *at);
        memcpy(word, *at, n);
        word[n] = '\0';
        *at += n;
        if (n > 0)
            TESS_TRY(parse_word(d, word));
        *at += strspn(*at, " \t\n");
    }
    return TESS_OK;
}

tess_status tess_faults_parse(const tess_fault_spec *spec, tess_fault *faults, int max, int *n)
{
    *n = 0;
    const char *at = spec->text != NULL ? spec->text : "";
    for (int index = 0; *at != '\0'; index++) {
        draft d = {
            .spec = spec,
            .fault = {.step = -1, .detail = -1, .times = 1, .life = 1, .n = 1, .bit = -1, .code = 3, .percent = 10},
            .steps = FIRST_STEPS};
        at += strspn(at, " \t\n;");
        if (*at == '\0')
            break;
        TESS_CHECK(*n < max, TESS_E_INVALID, "fault.spec: more than %d faults", max);
        const char *begin = at;
        TESS_TRY_CTX(parse_fault(&at, &d), "fault.spec: fault %d", index + 1);
        TESS_TRY_CTX(complete(&d, index), "fault.spec: fault %d", index + 1);
        d.fault.number = index + 1;
        snprintf(d.fault.text, sizeof(d.fault.text), "%.*s", (int)(at - begin), begin);
        faults[(*n)++] = d.fault;
    }
    return TESS_OK;
}
