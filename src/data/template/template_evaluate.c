/* Evaluates expressions. */
#include <math.h>
#include <string.h>

#include "data/template/template_impl.h"

static tess_status evaluate_list(template_run *run, template_scope *scope, const template_node *node,
                                 template_value *out)
{
    template_value list, value;
    TESS_TRY(template_list_new(run, node->kind == NODE_LIST ? TEMPLATE_LIST : TEMPLATE_TUPLE, &list));
    for (const template_node *item = node->a; item != NULL; item = item->next) {
        TESS_TRY(template_evaluate(run, scope, item, &value));
        TESS_TRY(template_list_add(run, list.list, &value));
    }
    *out = list;
    return TESS_OK;
}

static tess_status evaluate_dict(template_run *run, template_scope *scope, const template_node *node,
                                 template_value *out)
{
    template_value dict, key, value;
    TESS_TRY(template_dict_new(run, TEMPLATE_DICT, &dict));
    for (const template_node *pair = node->a; pair != NULL; pair = pair->next) {
        TESS_TRY(template_evaluate(run, scope, pair->a, &key));
        TESS_TRY(template_evaluate(run, scope, pair->b, &value));
        TEMPLATE_CHECK(key.kind <= TEMPLATE_STRING || key.kind == TEMPLATE_TUPLE, run, "a key of type %s",
                       template_type(&key));
        TESS_TRY(template_dict_set(run, dict.dict, &key, &value));
    }
    *out = dict;
    return TESS_OK;
}

static tess_status evaluate_name(template_run *run, template_scope *scope, const template_node *node,
                                 template_value *out)
{
    const template_value *found = template_scope_find(run, scope, node->text);
    if (found != NULL) {
        *out = *found;
        return TESS_OK;
    }
    if (template_find(run, TEMPLATE_FUNCTIONS, node->text) != NULL) {
        *out = (template_value){.kind = TEMPLATE_FUNCTION, .text = node->text};
        return TESS_OK;
    }
    return template_undefined(run, out, "'%.*s'", (int)(node->text.size < 80 ? node->text.size : 80), node->text.data);
}

/* ---- Slices ---- */
/* Computes a bound of a slice of n items, by Python's rules. */
static tess_status slice_bound(template_run *run, template_scope *scope, const template_node *node, int64_t n,
                               int64_t step, int64_t fallback, int64_t *bound)
{
    template_value value = template_none();
    *bound = fallback;
    if (node != NULL)
        TESS_TRY(template_evaluate(run, scope, node, &value));
    if (value.kind == TEMPLATE_NONE)
        return TESS_OK;
    if (!template_as_int(&value, bound))
        return template_wrong(run, &value, "a slice");
    int64_t least = step > 0 ? 0 : -1, most = step > 0 ? n : n - 1;
    *bound += *bound < 0 ? n : 0;
    *bound = *bound < least ? least : *bound > most ? most : *bound;
    return TESS_OK;
}

static tess_status slice_step(template_run *run, template_scope *scope, const template_node *node, int64_t *step)
{
    template_value value;
    *step = 1;
    if (node == NULL)
        return TESS_OK;
    TESS_TRY(template_evaluate(run, scope, node, &value));
    if (value.kind != TEMPLATE_NONE && !template_as_int(&value, step))
        return template_wrong(run, &value, "a slice");
    TEMPLATE_CHECK(*step != 0 && *step > INT32_MIN && *step < INT32_MAX, run, "a slice with the step %lld",
                   (long long)*step);
    return TESS_OK;
}

static tess_status join_characters(template_run *run, const template_list *list, template_value *out)
{
    tess_buffer buffer = {.mem = run->arena.mem};
    tess_status status = TESS_OK;
    for (size_t i = 0; i < list->n && status == TESS_OK; i++)
        status = tess_buffer_append(&buffer, list->item[i].text.data, list->item[i].text.size);
    return template_take(run, &buffer, status, out);
}

static tess_status evaluate_slice(template_run *run, template_scope *scope, const template_value *value,
                                  const template_node *node, template_value *out)
{
    int64_t from, to, step;
    const template_list *items;
    template_value slice;
    bool string = value->kind == TEMPLATE_STRING;
    if (!string && value->kind != TEMPLATE_LIST && value->kind != TEMPLATE_TUPLE && value->kind != TEMPLATE_RANGE_OF) {
        if (value->kind == TEMPLATE_UNDEFINED)
            return template_wrong(run, value, "a slice");
        return template_undefined(run, out, "a slice of a value of type %s", template_type(value));
    }
    TESS_TRY(template_items(run, value, &items));
    int64_t n = (int64_t)items->n;
    TESS_TRY(slice_step(run, scope, node->c, &step));
    TESS_TRY(slice_bound(run, scope, node->a, n, step, step > 0 ? 0 : n - 1, &from));
    TESS_TRY(slice_bound(run, scope, node->b, n, step, step > 0 ? n : -1, &to));
    TESS_TRY(template_list_new(run, string ? TEMPLATE_LIST : value->kind, &slice));
    for (int64_t i = from; step > 0 ? i < to : i > to; i += step)
        TESS_TRY(template_list_add(run, slice.list, &items->item[i]));
    if (string)
        return join_characters(run, slice.list, out);
    *out = slice;
    return TESS_OK;
}

static tess_status evaluate_item(template_run *run, template_scope *scope, const template_node *node,
                                 template_value *out)
{
    template_value value, key;
    TESS_TRY(template_evaluate(run, scope, node->a, &value));
    if (node->b->kind == NODE_SLICE)
        return evaluate_slice(run, scope, &value, node->b, out);
    TESS_TRY(template_evaluate(run, scope, node->b, &key));
    return template_item(run, &value, &key, out);
}

/* ---- Calls ---- */
tess_status template_collect_args(template_run *run, template_scope *scope, const template_node *list,
                                  template_args *args)
{
    size_t n = 0, k = 0;
    template_value *values;
    template_text *names;
    for (const template_node *at = list; at != NULL; at = at->next)
        n++;
    *args = (template_args){0};
    TESS_TRY(template_alloc(&run->arena, n * sizeof(*values), &values));
    TESS_TRY(template_alloc(&run->arena, n * sizeof(*names), &names));
    for (; list != NULL; list = list->next, k++) {
        bool named = list->kind == NODE_NAMED;
        TESS_TRY(template_evaluate(run, scope, named ? list->a : list, &values[k]));
        args->n += !named;
        if (named)
            names[args->n_named++] = list->text;
    }
    args->item = values;
    args->named = values + args->n; /* named arguments follow the others */
    args->name = names;
    return TESS_OK;
}

/* Evaluates the value that is called, filtered or tested, and its arguments. */
static tess_status evaluate_operands(template_run *run, template_scope *scope, const template_node *node,
                                     template_value *value, template_args *args)
{
    TESS_TRY(template_evaluate(run, scope, node->a, value));
    TESS_TRY(template_collect_args(run, scope, node->b, args));
    run->line = node->line;
    return TESS_OK;
}

static tess_status evaluate_call(template_run *run, template_scope *scope, const template_node *node,
                                 template_value *out)
{
    template_value function;
    template_args args;
    TESS_TRY(evaluate_operands(run, scope, node, &function, &args));
    return template_call(run, &function, &args, out);
}

tess_status template_apply_filters(template_run *run, template_scope *scope, const template_node *node,
                                   const template_value *value, template_value *out)
{
    template_value input = *value;
    template_args args;
    if (node == NULL) {
        *out = input;
        return TESS_OK;
    }
    TESS_TRY(template_enter(run));
    TESS_TRY(template_apply_filters(run, scope, node->a, value, &input));
    TESS_TRY(template_collect_args(run, scope, node->b, &args));
    run->line = node->line;
    TESS_TRY(template_use_name(run, TEMPLATE_FILTERS, node->text, &input, &args, out));
    template_leave(run);
    return TESS_OK;
}

/* Calls a filter or a test. */
static tess_status evaluate_use(template_run *run, template_scope *scope, const template_node *node,
                                template_value *out)
{
    template_value value;
    template_args args;
    TESS_TRY(evaluate_operands(run, scope, node, &value, &args));
    return template_use_name(run, node->kind == NODE_FILTER ? TEMPLATE_FILTERS : TEMPLATE_TESTS, node->text, &value,
                             &args, out);
}

/* ---- Operators ---- */
static tess_status repeat(template_run *run, const template_value *value, int64_t n, template_value *out)
{
    template_value result = *value;
    bool string = value->kind == TEMPLATE_STRING;
    size_t size = string ? value->text.size : value->list->n;
    n = n < 0 ? 0 : n;
    TEMPLATE_CHECK(size == 0 || n <= (int64_t)(TEMPLATE_MEMORY / size), run, "it takes too much memory");
    if (string) {
        char *text;
        TESS_TRY(template_step(run, size * (size_t)n / 64));
        TESS_TRY(template_alloc(&run->arena, size * (size_t)n + 1, &text));
        for (int64_t i = 0; i < n && size > 0; i++)
            memcpy(text + (size_t)i * size, value->text.data, size);
        *out = template_string(text, size * (size_t)n);
        return TESS_OK;
    }
    TESS_TRY(template_list_new(run, value->kind, &result));
    for (int64_t i = 0; i < n && size > 0; i++)
        for (size_t k = 0; k < size; k++)
            TESS_TRY(template_list_add(run, result.list, &value->list->item[k]));
    *out = result;
    return TESS_OK;
}

static tess_status power(template_run *run, int64_t base, int64_t exponent, template_value *out)
{
    int64_t result = 1;
    for (; exponent > 0; exponent--) {
        TESS_TRY(template_step(run, 1));
        TEMPLATE_CHECK(!__builtin_mul_overflow(result, base, &result), run, "an integer is larger than 64 bits");
    }
    *out = template_int(result);
    return TESS_OK;
}

/* Operations on integers whose result is an integer. */
static tess_status whole_numbers(template_run *run, template_op op, int64_t a, int64_t b, template_value *out)
{
    int64_t result = 0;
    bool overflows = false;
    if (op == OP_POW)
        return power(run, a, b, out);
    if (op == OP_ADD)
        overflows = __builtin_add_overflow(a, b, &result);
    else if (op == OP_SUB)
        overflows = __builtin_sub_overflow(a, b, &result);
    else if (op == OP_MUL)
        overflows = __builtin_mul_overflow(a, b, &result);
    else if (b == -1)
        overflows = op == OP_FLOORDIV && __builtin_sub_overflow((int64_t)0, a, &result);
    else if (op == OP_FLOORDIV) /* rounds down, where C rounds towards 0 */
        result = a / b - (a % b != 0 && (a < 0) != (b < 0));
    else
        result = a % b + (a % b != 0 && (a < 0) != (b < 0) ? b : 0);
    TEMPLATE_CHECK(!overflows, run, "an integer is larger than 64 bits");
    *out = template_int(result);
    return TESS_OK;
}

static tess_status real_power(template_run *run, double a, double b, template_value *out)
{
    double result = pow(a, b);
    TEMPLATE_CHECK(a != 0 || b >= 0, run, "0 cannot be raised to a negative power");
    TEMPLATE_CHECK(a >= 0 || !isfinite(b) || b == floor(b), run, "a power of a number below 0 is a complex number");
    TEMPLATE_CHECK(isfinite(result) || !isfinite(a) || !isfinite(b), run, "a power is too large");
    *out = TEMPLATE_OF(TEMPLATE_FLOAT, real, result);
    return TESS_OK;
}

static tess_status real_numbers(template_op op, double a, double b, template_value *out)
{
    double result = op == OP_ADD        ? a + b
                    : op == OP_SUB      ? a - b
                    : op == OP_MUL      ? a * b
                    : op == OP_DIV      ? a / b
                    : op == OP_FLOORDIV ? floor(a / b)
                                        : fmod(a, b);
    if (op == OP_MOD && result != 0 && (result < 0) != (b < 0))
        result += b;
    *out = TEMPLATE_OF(TEMPLATE_FLOAT, real, result);
    return TESS_OK;
}

static tess_status numbers(template_run *run, template_op op, const template_value *a, const template_value *b,
                           template_value *out)
{
    int64_t x, y;
    bool divides = op == OP_DIV || op == OP_FLOORDIV || op == OP_MOD;
    TEMPLATE_CHECK(!divides || template_as_real(b) != 0, run, "division by zero");
    bool whole = template_as_int(a, &x) && template_as_int(b, &y);
    if (whole && op != OP_DIV && (op != OP_POW || y >= 0))
        return whole_numbers(run, op, x, y, out);
    if (op == OP_POW)
        return real_power(run, template_as_real(a), template_as_real(b), out);
    return real_numbers(op, template_as_real(a), template_as_real(b), out);
}

static bool repeats(const template_value *value)
{
    return value->kind == TEMPLATE_STRING || value->kind == TEMPLATE_LIST || value->kind == TEMPLATE_TUPLE;
}

static tess_status evaluate_binary(template_run *run, template_scope *scope, const template_node *node,
                                   template_value *out)
{
    template_value a, b;
    int64_t n;
    TESS_TRY(template_evaluate(run, scope, node->a, &a));
    TESS_TRY(template_evaluate(run, scope, node->b, &b));
    run->line = node->line;
    if (template_is_number(&a) && template_is_number(&b))
        return numbers(run, node->op, &a, &b, out);
    if (node->op == OP_ADD)
        return template_add(run, &a, &b, out);
    if (node->op == OP_MUL && repeats(&a) && template_as_int(&b, &n))
        return repeat(run, &a, n, out);
    if (node->op == OP_MUL && repeats(&b) && template_as_int(&a, &n))
        return repeat(run, &b, n, out);
    if (node->op == OP_MOD && a.kind == TEMPLATE_STRING)
        return template_format(run, a.text, &b, out);
    return template_wrong(run, b.kind == TEMPLATE_UNDEFINED || template_is_number(&a) ? &b : &a, "arithmetic");
}

static tess_status evaluate_sign(template_run *run, template_scope *scope, const template_node *node,
                                 template_value *out)
{
    template_value value, minus = template_int(node->kind == NODE_NEGATIVE ? -1 : 1);
    TESS_TRY(template_evaluate(run, scope, node->a, &value));
    if (!template_is_number(&value))
        return template_wrong(run, &value, "a sign");
    return numbers(run, OP_MUL, &value, &minus, out);
}

static tess_status put_all(template_run *run, template_scope *scope, const template_node *items, tess_buffer *out)
{
    template_value value;
    for (; items != NULL; items = items->next) {
        TESS_TRY(template_evaluate(run, scope, items, &value));
        TESS_TRY(template_print(run, &value, out));
    }
    return TESS_OK;
}

static tess_status evaluate_concat(template_run *run, template_scope *scope, const template_node *node,
                                   template_value *out)
{
    tess_buffer buffer = {.mem = run->arena.mem};
    return template_take(run, &buffer, put_all(run, scope, node->a, &buffer), out);
}

static tess_status compare(template_run *run, template_op op, const template_value *a, const template_value *b,
                           bool *holds)
{
    int order;
    if (op == OP_EQ || op == OP_NE) {
        *holds = template_equal(run, a, b) == (op == OP_EQ);
        return TESS_OK;
    }
    if (op == OP_IN || op == OP_NOT_IN) {
        TESS_TRY(template_contains(run, b, a, holds));
        *holds = *holds == (op == OP_IN);
        return TESS_OK;
    }
    TESS_TRY(template_compare(run, a, b, &order));
    *holds = template_order_holds(op, order);
    return TESS_OK;
}

static tess_status evaluate_comparison(template_run *run, template_scope *scope, const template_node *node,
                                       template_value *out)
{
    template_value left, right;
    bool holds = true;
    TESS_TRY(template_evaluate(run, scope, node->a, &left));
    for (const template_node *at = node->b; at != NULL && holds; at = at->next) {
        TESS_TRY(template_evaluate(run, scope, at->a, &right));
        run->line = at->line;
        TESS_TRY(compare(run, at->op, &left, &right, &holds));
        left = right;
    }
    *out = template_bool(holds);
    return TESS_OK;
}

/* and, or: the result is the operand that decides. */
static tess_status evaluate_logic(template_run *run, template_scope *scope, const template_node *node,
                                  template_value *out)
{
    TESS_TRY(template_evaluate(run, scope, node->a, out));
    bool decided = template_truth(out) == (node->kind == NODE_OR);
    return decided ? TESS_OK : template_evaluate(run, scope, node->b, out);
}

static tess_status evaluate_condition(template_run *run, template_scope *scope, const template_node *node,
                                      template_value *out)
{
    template_value test;
    TESS_TRY(template_evaluate(run, scope, node->a, &test));
    if (template_truth(&test))
        return template_evaluate(run, scope, node->b, out);
    if (node->c != NULL)
        return template_evaluate(run, scope, node->c, out);
    return template_undefined(run, out, "what an 'if' without 'else' gives");
}

static tess_status evaluate_not(template_run *run, template_scope *scope, const template_node *node,
                                template_value *out)
{
    TESS_TRY(template_evaluate(run, scope, node->a, out));
    *out = template_bool(!template_truth(out));
    return TESS_OK;
}

static tess_status evaluate_attribute(template_run *run, template_scope *scope, const template_node *node,
                                      template_value *out)
{
    template_value value;
    TESS_TRY(template_evaluate(run, scope, node->a, &value));
    run->line = node->line;
    return template_attribute(run, &value, node->text, out);
}

static tess_status evaluate_literal(TESS_UNUSED template_run *run, TESS_UNUSED template_scope *scope,
                                    const template_node *node, template_value *out)
{
    *out = node->value;
    return TESS_OK;
}

static tess_status (*const evaluators[])(template_run *, template_scope *, const template_node *, template_value *) = {
    [NODE_LITERAL] = evaluate_literal,    [NODE_NAME] = evaluate_name,     [NODE_LIST] = evaluate_list,
    [NODE_TUPLE] = evaluate_list,         [NODE_DICT] = evaluate_dict,     [NODE_ATTRIBUTE] = evaluate_attribute,
    [NODE_ITEM] = evaluate_item,          [NODE_CALL] = evaluate_call,     [NODE_FILTER] = evaluate_use,
    [NODE_TEST] = evaluate_use,           [NODE_NOT] = evaluate_not,       [NODE_NEGATIVE] = evaluate_sign,
    [NODE_POSITIVE] = evaluate_sign,      [NODE_AND] = evaluate_logic,     [NODE_OR] = evaluate_logic,
    [NODE_BINARY] = evaluate_binary,      [NODE_CONCAT] = evaluate_concat, [NODE_COMPARE] = evaluate_comparison,
    [NODE_CONDITION] = evaluate_condition};

tess_status template_evaluate(template_run *run, template_scope *scope, const template_node *node, template_value *out)
{
    TESS_TRY(template_enter(run));
    run->line = node->line;
    *out = template_none();
    TESS_CHECK(node->kind <= NODE_CONDITION && evaluators[node->kind] != NULL, TESS_E_INTERNAL,
               "line %u: a node of kind %d is no expression", node->line, (int)node->kind);
    TESS_TRY(evaluators[node->kind](run, scope, node, out));
    template_leave(run);
    return TESS_OK;
}
