/* Tests, which follow "is" in a template. */
#include <string.h>

#include "data/template/template_impl.h"

#define KIND(kind) (1 << TEMPLATE_##kind)

/* Values with a length and items. jinja2 includes undefined values and dictionaries. */
#define SEQUENCES (KIND(UNDEFINED) | KIND(STRING) | KIND(LIST) | KIND(TUPLE) | KIND(RANGE_OF) | KIND(DICT))
#define NUMBERS (KIND(BOOL) | KIND(INT) | KIND(FLOAT))

/* Variant: the set of kinds that is tested for. */
static tess_status is_kind(const template_use *c)
{
    *c->out = template_bool((c->variant & (1 << c->value->kind)) != 0);
    return TESS_OK;
}

/* Variant: the truth value that is tested for. */
static tess_status is_truth(const template_use *c)
{
    *c->out = template_bool(c->value->kind == TEMPLATE_BOOL && (int)c->value->truth == c->variant);
    return TESS_OK;
}

static tess_status is_equal(const template_use *c)
{
    *c->out = template_bool(template_equal(c->run, c->value, &c->args->item[0]) == (c->variant != 0));
    return TESS_OK;
}

static tess_status is_same(const template_use *c)
{
    const template_value *a = c->value, *b = &c->args->item[0];
    bool boxed = a->kind >= TEMPLATE_LIST && a->kind <= TEMPLATE_MACRO;
    *c->out = template_bool(a->kind == b->kind &&
                            (boxed ? (const void *)a->list == (const void *)b->list : template_equal(c->run, a, b)));
    return TESS_OK;
}

static tess_status is_ordered(const template_use *c)
{
    int order;
    TESS_TRY(template_compare(c->run, c->value, &c->args->item[0], &order));
    *c->out = template_bool(template_order_holds((template_op)c->variant, order));
    return TESS_OK;
}

static tess_status is_in(const template_use *c)
{
    bool contains;
    TESS_TRY(template_contains(c->run, &c->args->item[0], c->value, &contains));
    *c->out = template_bool(contains);
    return TESS_OK;
}

/* Variant 0: even; 1: odd. */
static tess_status is_parity(const template_use *c)
{
    int64_t n;
    if (!template_as_int(c->value, &n))
        return template_wrong(c->run, c->value, "odd or even");
    *c->out = template_bool((n & 1) == c->variant);
    return TESS_OK;
}

static tess_status is_divisible(const template_use *c)
{
    int64_t n, by;
    TEMPLATE_CHECK(template_as_int(c->value, &n) && template_as_int(&c->args->item[0], &by) && by != 0, c->run,
                   "divisibleby takes integers, and not 0");
    *c->out = template_bool(by == -1 || n % by == 0);
    return TESS_OK;
}

/* Variant: the template_case that is tested for. */
static tess_status is_case(const template_use *c)
{
    template_value text;
    TESS_TRY(template_str(c->run, c->value, &text));
    *c->out = template_bool(template_is_case(text.text, c->variant == CASE_LOWER));
    return TESS_OK;
}

/* The tests "filter" and "test": whether there is one of this name. Variant: the set to search. */
static tess_status is_known(const template_use *c)
{
    if (c->value->kind != TEMPLATE_STRING)
        return template_wrong(c->run, c->value, "this test");
    *c->out = template_bool(template_find(c->run, (template_set)c->variant, c->value->text) != NULL);
    return TESS_OK;
}

static const template_builtin tests[] = {
    {"defined", is_kind, ~KIND(UNDEFINED), 0, 0, NULL},
    {"undefined", is_kind, KIND(UNDEFINED), 0, 0, NULL},
    {"none", is_kind, KIND(NONE), 0, 0, NULL},
    {"boolean", is_kind, KIND(BOOL), 0, 0, NULL},
    {"integer", is_kind, KIND(INT), 0, 0, NULL},
    {"float", is_kind, KIND(FLOAT), 0, 0, NULL},
    {"string", is_kind, KIND(STRING), 0, 0, NULL},
    {"mapping", is_kind, KIND(DICT), 0, 0, NULL},
    {"number", is_kind, NUMBERS, 0, 0, NULL},
    {"true", is_truth, 1, 0, 0, NULL},
    {"false", is_truth, 0, 0, 0, NULL},
    {"iterable", is_kind, SEQUENCES | KIND(VIEW) | KIND(ITERATOR) | KIND(LOOP), 0, 0, NULL},
    {"sequence", is_kind, SEQUENCES, 0, 0, NULL},
    {"callable", is_kind, KIND(MACRO) | KIND(FUNCTION) | KIND(METHOD), 0, 0, NULL},
    {"equalto", is_equal, 1, 1, 1, NULL},
    {"eq", is_equal, 1, 1, 1, NULL},
    {"==", is_equal, 1, 1, 1, NULL},
    {"ne", is_equal, 0, 1, 1, NULL},
    {"!=", is_equal, 0, 1, 1, NULL},
    {"sameas", is_same, 0, 1, 1, NULL},
    {"lt", is_ordered, OP_LT, 1, 1, NULL},
    {"lessthan", is_ordered, OP_LT, 1, 1, NULL},
    {"<", is_ordered, OP_LT, 1, 1, NULL},
    {"le", is_ordered, OP_LE, 1, 1, NULL},
    {"<=", is_ordered, OP_LE, 1, 1, NULL},
    {"gt", is_ordered, OP_GT, 1, 1, NULL},
    {"greaterthan", is_ordered, OP_GT, 1, 1, NULL},
    {">", is_ordered, OP_GT, 1, 1, NULL},
    {"ge", is_ordered, OP_GE, 1, 1, NULL},
    {">=", is_ordered, OP_GE, 1, 1, NULL},
    {"in", is_in, 0, 1, 1, NULL},
    {"even", is_parity, 0, 0, 0, NULL},
    {"odd", is_parity, 1, 0, 0, NULL},
    {"divisibleby", is_divisible, 0, 1, 1, NULL},
    {"upper", is_case, CASE_UPPER, 0, 0, NULL},
    {"lower", is_case, CASE_LOWER, 0, 0, NULL},
    {"filter", is_known, TEMPLATE_FILTERS, 0, 0, NULL},
    {"test", is_known, TEMPLATE_TESTS, 0, 0, NULL}};
TEMPLATE_TABLE(template_tests, tests, NULL);
