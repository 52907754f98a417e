/* Parses the expressions of a template, by the grammar of jinja2's parser. */
#include <string.h>

#include "data/template/template_impl.h"

/* ---- Tokens ---- */
tess_status template_node_new(template_parser *p, template_node_kind kind, template_node **out)
{
    TESS_TRY(template_alloc(p->arena, sizeof(template_node), out));
    (*out)->kind = kind;
    (*out)->line = p->token->line;
    return TESS_OK;
}

/* Puts a new node above *node, which becomes its `a`. */
static tess_status wrap(template_parser *p, template_node_kind kind, template_node **node)
{
    template_node *inner = *node;
    TESS_TRY(template_node_new(p, kind, node));
    (*node)->a = inner;
    return TESS_OK;
}

static bool is_word(const char *text)
{
    return (unsigned)((text[0] | 32) - 'a') < 26;
}

bool template_at(const template_parser *p, const char *text)
{
    template_token_kind kind = is_word(text) ? TOKEN_NAME : TOKEN_OPERATOR;
    return p->token->kind == kind && template_text_is(p->token->text, text);
}

bool template_skip(template_parser *p, const char *text)
{
    bool there = template_at(p, text);
    p->token += there;
    return there;
}

tess_status template_unexpected(const template_parser *p, const char *wanted)
{
    static const char *const names[] = {
        [TOKEN_DATA] = "text",        [TOKEN_OUTPUT_BEGIN] = "'{{'", [TOKEN_OUTPUT_END] = "'}}'",
        [TOKEN_BLOCK_BEGIN] = "'{%'", [TOKEN_BLOCK_END] = "'%}'",    [TOKEN_STRING] = "a string",
        [TOKEN_END] = "the end"};
    const template_token *t = p->token;
    if (names[t->kind] != NULL)
        return template_fail(t->line, TESS_E_FORMAT, "expected %s, found %s", wanted, names[t->kind]);
    return template_fail(t->line, TESS_E_FORMAT, "expected %s, found '%.*s'", wanted,
                         (int)(t->text.size < 40 ? t->text.size : 40), t->text.data);
}

tess_status template_expect(template_parser *p, const char *text)
{
    return template_skip(p, text) ? TESS_OK : template_unexpected(p, text);
}

tess_status template_expect_kind(template_parser *p, template_token_kind kind, const char *what)
{
    if (p->token->kind != kind)
        return template_unexpected(p, what);
    p->token += kind != TOKEN_END;
    return TESS_OK;
}

tess_status template_expect_name(template_parser *p, template_text *name)
{
    *name = p->token->text;
    return template_expect_kind(p, TOKEN_NAME, "a name");
}

/* ---- Lists of expressions ---- */
static tess_status parse_or(template_parser *p, template_node **out);

static bool ends_tuple(const template_parser *p)
{
    return p->token->kind == TOKEN_OUTPUT_END || p->token->kind == TOKEN_BLOCK_END || p->token->kind == TOKEN_END ||
           template_at(p, ")") || template_at(p, "in");
}

static tess_status parse_one(template_parser *p, bool with_condition, template_node **out)
{
    return with_condition ? template_parse_expression(p, out) : parse_or(p, out);
}

tess_status template_parse_tuple(template_parser *p, bool with_condition, template_node **out)
{
    template_node *first, **last;
    TESS_TRY(parse_one(p, with_condition, &first));
    *out = first;
    if (!template_at(p, ","))
        return TESS_OK;
    TESS_TRY(template_node_new(p, NODE_TUPLE, out));
    (*out)->a = first;
    last = &first->next;
    while (template_skip(p, ",") && !ends_tuple(p)) {
        TESS_TRY(parse_one(p, with_condition, last));
        last = &(*last)->next;
    }
    return TESS_OK;
}

/* Parses items up to `closing`, and consumes it. */
static tess_status parse_items(template_parser *p, const char *closing, template_node **list)
{
    while (!template_skip(p, closing)) {
        TESS_TRY(template_parse_expression(p, list));
        list = &(*list)->next;
        if (!template_at(p, closing))
            TESS_TRY(template_expect(p, ","));
    }
    return TESS_OK;
}

static tess_status parse_pairs(template_parser *p, template_node **list)
{
    while (!template_skip(p, "}")) {
        TESS_TRY(template_node_new(p, NODE_PAIR, list));
        TESS_TRY(template_parse_expression(p, &(*list)->a));
        TESS_TRY(template_expect(p, ":"));
        TESS_TRY(template_parse_expression(p, &(*list)->b));
        list = &(*list)->next;
        if (!template_at(p, "}"))
            TESS_TRY(template_expect(p, ","));
    }
    return TESS_OK;
}

/* Parses arguments after "(", up to ")". */
static tess_status parse_args(template_parser *p, template_node **list)
{
    bool named = false;
    while (!template_skip(p, ")")) {
        if (template_at(p, "*") || template_at(p, "**"))
            return template_fail(p->token->line, TESS_E_UNSUPPORTED, "* and ** in a call are not supported");
        const template_token *next = p->token + 1;
        if (p->token->kind == TOKEN_NAME && next->kind == TOKEN_OPERATOR && template_text_is(next->text, "=")) {
            TESS_TRY(template_node_new(p, NODE_NAMED, list));
            (*list)->text = p->token->text;
            p->token += 2;
            named = true;
            TESS_TRY(template_parse_expression(p, &(*list)->a));
        } else if (named) {
            return template_fail(p->token->line, TESS_E_FORMAT, "an argument without a name behind one with a name");
        } else {
            TESS_TRY(template_parse_expression(p, list));
        }
        list = &(*list)->next;
        if (!template_at(p, ")"))
            TESS_TRY(template_expect(p, ","));
    }
    return TESS_OK;
}

/* ---- Primary expressions ---- */
static tess_status parse_literal(template_parser *p, template_node **out)
{
    static const struct {
        const char *name;
        template_value value;
    } words[] = {{"true", {.kind = TEMPLATE_BOOL, .truth = true}},
                 {"True", {.kind = TEMPLATE_BOOL, .truth = true}},
                 {"false", {.kind = TEMPLATE_BOOL, .truth = false}},
                 {"False", {.kind = TEMPLATE_BOOL, .truth = false}},
                 {"none", {.kind = TEMPLATE_NONE}},
                 {"None", {.kind = TEMPLATE_NONE}}};
    const template_token *t = p->token;
    TESS_TRY(template_node_new(p, t->kind == TOKEN_NAME ? NODE_NAME : NODE_LITERAL, out));
    (*out)->text = t->text;
    p->token++;
    for (size_t i = 0; t->kind == TOKEN_NAME && i < sizeof(words) / sizeof(words[0]); i++) {
        if (template_text_is(t->text, words[i].name)) {
            (*out)->kind = NODE_LITERAL;
            (*out)->value = words[i].value;
        }
    }
    if (t->kind == TOKEN_INT)
        (*out)->value = template_int(t->integer);
    if (t->kind == TOKEN_FLOAT)
        (*out)->value = TEMPLATE_OF(TEMPLATE_FLOAT, real, t->real);
    return TESS_OK;
}

/* Parses strings next to each other as one string. */
static tess_status parse_strings(template_parser *p, template_node **out)
{
    size_t size = 0;
    char *text;
    TESS_TRY(template_node_new(p, NODE_LITERAL, out));
    for (const template_token *t = p->token; t->kind == TOKEN_STRING; t++)
        size += t->text.size;
    TESS_TRY(template_alloc(p->arena, size + 1, &text));
    (*out)->value = template_string(text, size);
    for (; p->token->kind == TOKEN_STRING; p->token++) {
        memcpy(text, p->token->text.data, p->token->text.size);
        text += p->token->text.size;
    }
    return TESS_OK;
}

static tess_status parse_parentheses(template_parser *p, template_node **out)
{
    if (template_skip(p, ")"))
        return template_node_new(p, NODE_TUPLE, out);
    TESS_TRY(template_parse_tuple(p, true, out));
    return template_expect(p, ")");
}

static tess_status parse_primary(template_parser *p, template_node **out)
{
    template_token_kind kind = p->token->kind;
    if (kind == TOKEN_STRING)
        return parse_strings(p, out);
    if (kind == TOKEN_NAME || kind == TOKEN_INT || kind == TOKEN_FLOAT)
        return parse_literal(p, out);
    if (template_skip(p, "("))
        return parse_parentheses(p, out);
    if (template_skip(p, "[")) {
        TESS_TRY(template_node_new(p, NODE_LIST, out));
        return parse_items(p, "]", &(*out)->a);
    }
    if (template_skip(p, "{")) {
        TESS_TRY(template_node_new(p, NODE_DICT, out));
        return parse_pairs(p, &(*out)->a);
    }
    return template_unexpected(p, "an expression");
}

/* Parses an index, or start:stop:step, after "[". */
static tess_status parse_index(template_parser *p, template_node **out)
{
    template_node *part[3] = {NULL}, *slice;
    int n = 0;
    for (bool more = true; more && n < 3; n += more) {
        if (!template_at(p, ":") && !template_at(p, "]"))
            TESS_TRY(template_parse_expression(p, &part[n]));
        more = template_skip(p, ":");
    }
    TESS_TRY(template_expect(p, "]"));
    if (n == 0 && part[0] == NULL)
        return template_unexpected(p, "an index");
    *out = part[0];
    if (n == 0)
        return TESS_OK;
    TESS_TRY(template_node_new(p, NODE_SLICE, &slice));
    slice->a = part[0];
    slice->b = part[1];
    slice->c = part[2];
    *out = slice;
    return TESS_OK;
}

static tess_status parse_attribute(template_parser *p, template_node **node)
{
    const template_token *t = p->token;
    TESS_TRY(wrap(p, t->kind == TOKEN_INT ? NODE_ITEM : NODE_ATTRIBUTE, node));
    if (t->kind == TOKEN_INT)
        return parse_literal(p, &(*node)->b);
    return template_expect_name(p, &(*node)->text);
}

static tess_status parse_call(template_parser *p, template_node **node)
{
    TESS_TRY(wrap(p, NODE_CALL, node));
    return parse_args(p, &(*node)->b);
}

/* Counts the links of a chain, because its tree is as deep as the chain is long. */
static tess_status count_depth(template_parser *p, int *links)
{
    if (++*links + p->depth > TEMPLATE_DEPTH)
        return template_fail(p->token->line, TESS_E_INVALID, "nested more than %d deep", TEMPLATE_DEPTH);
    return TESS_OK;
}

static tess_status parse_postfix(template_parser *p, template_node **node, int *links)
{
    for (;;) {
        TESS_TRY(count_depth(p, links));
        if (template_skip(p, ".")) {
            TESS_TRY(parse_attribute(p, node));
        } else if (template_skip(p, "[")) {
            TESS_TRY(wrap(p, NODE_ITEM, node));
            TESS_TRY(parse_index(p, &(*node)->b));
        } else if (template_skip(p, "(")) {
            TESS_TRY(parse_call(p, node));
        } else {
            return TESS_OK;
        }
    }
}

static tess_status parse_filter(template_parser *p, template_node **node)
{
    TESS_TRY(wrap(p, NODE_FILTER, node));
    TESS_TRY(template_expect_name(p, &(*node)->text));
    return template_skip(p, "(") ? parse_args(p, &(*node)->b) : TESS_OK;
}

static bool begins_argument(const template_parser *p)
{
    template_token_kind kind = p->token->kind;
    if (kind == TOKEN_NAME)
        return !template_at(p, "else") && !template_at(p, "or") && !template_at(p, "and");
    return kind == TOKEN_STRING || kind == TOKEN_INT || kind == TOKEN_FLOAT || template_at(p, "[") ||
           template_at(p, "{");
}

static tess_status parse_test(template_parser *p, template_node **node, int *links)
{
    bool negative = template_skip(p, "not");
    TESS_TRY(wrap(p, NODE_TEST, node));
    template_node *test = *node;
    TESS_TRY(template_expect_name(p, &test->text));
    if (template_skip(p, "(")) {
        TESS_TRY(parse_args(p, &test->b));
    } else if (begins_argument(p)) {
        if (template_at(p, "is"))
            return template_fail(test->line, TESS_E_FORMAT, "tests cannot be chained with 'is'");
        TESS_TRY(parse_primary(p, &test->b));
        TESS_TRY(parse_postfix(p, &test->b, links));
    }
    return negative ? wrap(p, NODE_NOT, node) : TESS_OK;
}

static tess_status parse_pipes(template_parser *p, template_node **node, int *links)
{
    for (;;) {
        TESS_TRY(count_depth(p, links));
        if (template_skip(p, "|"))
            TESS_TRY(parse_filter(p, node));
        else if (template_skip(p, "is"))
            TESS_TRY(parse_test(p, node, links));
        else if (template_skip(p, "("))
            TESS_TRY(parse_call(p, node));
        else
            return TESS_OK;
    }
}

tess_status template_parse_filters(template_parser *p, template_node **out)
{
    int links = 0;
    *out = NULL;
    TESS_TRY(parse_filter(p, out));
    return parse_pipes(p, out, &links);
}

/* ---- Operators ---- */
static tess_status parse_signed(template_parser *p, bool with_filter, template_node **out)
{
    int links = 0;
    if (template_at(p, "-") || template_at(p, "+")) {
        TESS_TRY(template_node_new(p, template_at(p, "-") ? NODE_NEGATIVE : NODE_POSITIVE, out));
        p->token++;
        TESS_CHECK(++p->depth < TEMPLATE_DEPTH, TESS_E_INVALID, "line %u: nested more than %d deep", p->token->line,
                   TEMPLATE_DEPTH);
        TESS_TRY(parse_signed(p, false, &(*out)->a));
        p->depth--;
    } else {
        TESS_TRY(parse_primary(p, out));
    }
    TESS_TRY(parse_postfix(p, out, &links));
    return with_filter ? parse_pipes(p, out, &links) : TESS_OK;
}

static tess_status parse_not(template_parser *p, template_node **out);
static tess_status parse_concat(template_parser *p, template_node **out);

/* The levels of operators, loosest first. Those of one level bind to the left, or the level has a parser of its own. */
static const struct operator_level {
    const char *text[4];
    template_op op[4];
    template_node_kind kind;
    tess_status (*parse)(template_parser *p, template_node **out);
} levels[] = {{{"or"}, {OP_NONE}, NODE_OR, NULL},
              {{"and"}, {OP_NONE}, NODE_AND, NULL},
              {.parse = parse_not}, /* not, and comparisons */
              {{"+", "-"}, {OP_ADD, OP_SUB}, NODE_BINARY, NULL},
              {.parse = parse_concat},
              {{"*", "/", "//", "%"}, {OP_MUL, OP_DIV, OP_FLOORDIV, OP_MOD}, NODE_BINARY, NULL},
              {{"**"}, {OP_POW}, NODE_BINARY, NULL}};
enum { N_LEVELS = sizeof(levels) / sizeof(levels[0]), BELOW_COMPARISON = 3, BELOW_CONCAT = 5 };

static tess_status parse_level(template_parser *p, int at, template_node **out)
{
    int links = 0;
    if (at == N_LEVELS)
        return parse_signed(p, true, out);
    const struct operator_level *level = &levels[at];
    if (level->parse != NULL)
        return level->parse(p, out);
    TESS_TRY(parse_level(p, at + 1, out));
    for (int i = 0; i < 4 && level->text[i] != NULL; i++) {
        if (!template_at(p, level->text[i]))
            continue;
        TESS_TRY(count_depth(p, &links));
        TESS_TRY(wrap(p, level->kind, out));
        (*out)->op = level->op[i];
        p->token++;
        TESS_TRY(parse_level(p, at + 1, &(*out)->b));
        i = -1;
    }
    return TESS_OK;
}

static tess_status parse_concat(template_parser *p, template_node **out)
{
    template_node *first, **last;
    TESS_TRY(parse_level(p, BELOW_CONCAT, &first));
    *out = first;
    if (!template_at(p, "~"))
        return TESS_OK;
    TESS_TRY(template_node_new(p, NODE_CONCAT, out));
    (*out)->a = first;
    for (last = &first->next; template_skip(p, "~"); last = &(*last)->next)
        TESS_TRY(parse_level(p, BELOW_CONCAT, last));
    return TESS_OK;
}

static bool take_comparison(template_parser *p, template_op *op)
{
    static const struct {
        const char *text;
        template_op op;
    } operators[] = {{"==", OP_EQ}, {"!=", OP_NE}, {"<", OP_LT}, {"<=", OP_LE},
                     {">", OP_GT},  {">=", OP_GE}, {"in", OP_IN}};
    for (size_t i = 0; i < sizeof(operators) / sizeof(operators[0]); i++) {
        *op = operators[i].op;
        if (template_skip(p, operators[i].text))
            return true;
    }
    const template_token *next = p->token + 1;
    *op = OP_NOT_IN;
    bool found = template_at(p, "not") && next->kind == TOKEN_NAME && template_text_is(next->text, "in");
    p->token += found ? 2 : 0;
    return found;
}

static tess_status parse_comparison(template_parser *p, template_node **out)
{
    template_node *first, **last = NULL;
    template_op op;
    TESS_TRY(parse_level(p, BELOW_COMPARISON, &first));
    *out = first;
    while (take_comparison(p, &op)) {
        if (last == NULL) {
            TESS_TRY(template_node_new(p, NODE_COMPARE, out));
            (*out)->a = first;
            last = &(*out)->b;
        }
        TESS_TRY(template_node_new(p, NODE_OPERAND, last));
        (*last)->op = op;
        TESS_TRY(parse_level(p, BELOW_COMPARISON, &(*last)->a));
        last = &(*last)->next;
    }
    return TESS_OK;
}

static tess_status parse_not(template_parser *p, template_node **out)
{
    int n = 0;
    while (template_skip(p, "not")) {
        TESS_TRY(count_depth(p, &n));
        TESS_TRY(template_node_new(p, NODE_NOT, out));
        out = &(*out)->a;
    }
    return parse_comparison(p, out);
}

/* Every nesting of expressions passes through this function, so it counts the depth. */
static tess_status parse_or(template_parser *p, template_node **out)
{
    TESS_CHECK(++p->depth < TEMPLATE_DEPTH, TESS_E_INVALID, "line %u: nested more than %d deep", p->token->line,
               TEMPLATE_DEPTH);
    TESS_TRY(parse_level(p, 0, out));
    p->depth--;
    return TESS_OK;
}

tess_status template_parse_expression(template_parser *p, template_node **out)
{
    int links = 0;
    TESS_TRY(parse_or(p, out));
    while (template_skip(p, "if")) {
        template_node *then = *out;
        TESS_TRY(count_depth(p, &links));
        TESS_TRY(template_node_new(p, NODE_CONDITION, out));
        (*out)->b = then;
        TESS_TRY(parse_or(p, &(*out)->a));
        if (template_skip(p, "else")) {
            TESS_CHECK(++p->depth < TEMPLATE_DEPTH, TESS_E_INVALID, "line %u: nested more than %d deep", p->token->line,
                       TEMPLATE_DEPTH);
            TESS_TRY(template_parse_expression(p, &(*out)->c));
            p->depth--;
        }
    }
    return TESS_OK;
}
