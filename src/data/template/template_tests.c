/* Tests: what follows "is". */
#include <string.h>

#include "data/template/template_impl.h"

typedef struct test_call {
    template_run *run;
    const template_value *value;
    const template_args *args;
    bool *out;
    int variant;
} test_call;

static tess_status is_kind(const test_call *c)
{
    *c->out = (int)c->value->kind == c->variant;
    return TESS_OK;
}

static tess_status is_defined(const test_call *c)
{
    *c->out = c->value->kind != TEMPLATE_UNDEFINED;
    return TESS_OK;
}

static tess_status is_number(const test_call *c)
{
    *c->out = template_is_number(c->value);
    return TESS_OK;
}

/* Variant: true or false. */
static tess_status is_truth(const test_call *c)
{
    *c->out = c->value->kind == TEMPLATE_BOOL && (int)c->value->truth == c->variant;
    return TESS_OK;
}

static bool is_iterable_kind(template_kind kind)
{
    return kind == TEMPLATE_UNDEFINED || (kind >= TEMPLATE_STRING && kind <= TEMPLATE_DICT) || kind == TEMPLATE_LOOP;
}

static tess_status is_iterable(const test_call *c)
{
    *c->out = is_iterable_kind(c->value->kind);
    return TESS_OK;
}

/* True for values with a length and items: jinja2 counts undefined values and dictionaries in. */
static tess_status is_sequence(const test_call *c)
{
    template_kind kind = c->value->kind;
    *c->out = is_iterable_kind(kind) && kind != TEMPLATE_VIEW && kind != TEMPLATE_ITERATOR && kind != TEMPLATE_LOOP;
    return TESS_OK;
}

static tess_status is_callable(const test_call *c)
{
    *c->out = c->value->kind >= TEMPLATE_MACRO;
    return TESS_OK;
}

static tess_status is_equal(const test_call *c)
{
    *c->out = template_equal(c->run, c->value, &c->args->item[0]) == (c->variant != 0);
    return TESS_OK;
}

static tess_status is_same(const test_call *c)
{
    const template_value *a = c->value, *b = &c->args->item[0];
    bool boxed = a->kind >= TEMPLATE_LIST && a->kind <= TEMPLATE_MACRO;
    *c->out =
        a->kind == b->kind && (boxed ? (const void *)a->list == (const void *)b->list : template_equal(c->run, a, b));
    return TESS_OK;
}

static tess_status is_ordered(const test_call *c)
{
    int order;
    TESS_TRY(template_compare(c->run, c->value, &c->args->item[0], &order));
    *c->out = template_order_holds((template_op)c->variant, order);
    return TESS_OK;
}

static tess_status is_in(const test_call *c)
{
    return template_contains(c->run, &c->args->item[0], c->value, c->out);
}

/* Variant 0: even, 1: odd. */
static tess_status is_parity(const test_call *c)
{
    int64_t n;
    if (!template_as_int(c->value, &n))
        return template_wrong(c->run, c->value, "odd or even");
    *c->out = (n & 1) == c->variant;
    return TESS_OK;
}

static tess_status is_divisible(const test_call *c)
{
    int64_t n, by;
    TEMPLATE_CHECK(template_as_int(c->value, &n) && template_as_int(&c->args->item[0], &by) && by != 0, c->run,
                   "divisibleby takes integers, and not 0");
    *c->out = by == -1 || n % by == 0;
    return TESS_OK;
}

/* Variant: a template_case. */
static tess_status is_case(const test_call *c)
{
    uint32_t code;
    bool some = false, other = false, lower = c->variant == CASE_LOWER;
    template_value text;
    TESS_TRY(template_str(c->run, c->value, &text));
    for (size_t at = 0; at < text.text.size;) {
        at += (size_t)template_decode(text.text, at, &code);
        some = some || (lower ? template_is_lower(code) : template_is_upper(code));
        other = other || (lower ? template_is_upper(code) : template_is_lower(code));
    }
    *c->out = some && !other;
    return TESS_OK;
}

/* Variant: whether of filters. */
static tess_status is_known(const test_call *c)
{
    if (c->value->kind != TEMPLATE_STRING)
        return template_wrong(c->run, c->value, "this test");
    *c->out = c->variant != 0 ? template_has_filter(c->value->text) : template_has_test(c->value->text);
    return TESS_OK;
}

static const struct {
    const char *name;
    tess_status (*call)(const test_call *call);
    int variant;
    size_t n_args;
} tests[] = {{"defined", is_defined, 0, 0},
             {"undefined", is_kind, TEMPLATE_UNDEFINED, 0},
             {"none", is_kind, TEMPLATE_NONE, 0},
             {"boolean", is_kind, TEMPLATE_BOOL, 0},
             {"integer", is_kind, TEMPLATE_INT, 0},
             {"float", is_kind, TEMPLATE_FLOAT, 0},
             {"string", is_kind, TEMPLATE_STRING, 0},
             {"mapping", is_kind, TEMPLATE_DICT, 0},
             {"number", is_number, 0, 0},
             {"true", is_truth, 1, 0},
             {"false", is_truth, 0, 0},
             {"iterable", is_iterable, 0, 0},
             {"sequence", is_sequence, 0, 0},
             {"callable", is_callable, 0, 0},
             {"equalto", is_equal, 1, 1},
             {"eq", is_equal, 1, 1},
             {"==", is_equal, 1, 1},
             {"ne", is_equal, 0, 1},
             {"!=", is_equal, 0, 1},
             {"sameas", is_same, 0, 1},
             {"lt", is_ordered, OP_LT, 1},
             {"lessthan", is_ordered, OP_LT, 1},
             {"<", is_ordered, OP_LT, 1},
             {"le", is_ordered, OP_LE, 1},
             {"<=", is_ordered, OP_LE, 1},
             {"gt", is_ordered, OP_GT, 1},
             {"greaterthan", is_ordered, OP_GT, 1},
             {">", is_ordered, OP_GT, 1},
             {"ge", is_ordered, OP_GE, 1},
             {">=", is_ordered, OP_GE, 1},
             {"in", is_in, 0, 1},
             {"even", is_parity, 0, 0},
             {"odd", is_parity, 1, 0},
             {"divisibleby", is_divisible, 0, 1},
             {"upper", is_case, CASE_UPPER, 0},
             {"lower", is_case, CASE_LOWER, 0},
             {"filter", is_known, 1, 0},
             {"test", is_known, 0, 0}};
enum { N_TESTS = sizeof(tests) / sizeof(tests[0]) };

bool template_has_test(template_text name)
{
    for (size_t i = 0; i < N_TESTS; i++)
        if (template_text_is(name, tests[i].name))
            return true;
    return false;
}

tess_status template_test(template_run *run, template_text name, const template_value *value, const template_args *args,
                          bool *out)
{
    *out = false;
    TESS_TRY(template_step(run, 1));
    for (size_t i = 0; i < N_TESTS; i++) {
        if (!template_text_is(name, tests[i].name))
            continue;
        const test_call call = {run, value, args, out, tests[i].variant};
        TESS_TRY(template_check_args(run, args, tests[i].n_args, tests[i].n_args, NULL, tests[i].name));
        return tests[i].call(&call);
    }
    return template_fail(run->line, TESS_E_UNSUPPORTED, "the test '%.*s' is not supported", (int)name.size, name.data);
}
