/* Parses the statements of a template, by the grammar of jinja2's parser, of its loopcontrols, and of transformers'
 * generation blocks. */
#include <string.h>

#include "data/template/template_impl.h"

static tess_status parse_body(template_parser *p, const char *const *ends, template_node **list);

/* ---- Targets ---- */
/* Parses a name, or several names as a tuple. */
static tess_status parse_names(template_parser *p, template_node **out)
{
    bool bracket = template_skip(p, "(");
    TESS_TRY(template_node_new(p, NODE_NAME, out));
    TESS_TRY(template_expect_name(p, &(*out)->text));
    if (template_at(p, ",")) {
        template_node *first = *out, **last = &first->next;
        TESS_TRY(template_node_new(p, NODE_TUPLE, out));
        (*out)->a = first;
        while (template_skip(p, ",") && p->token->kind == TOKEN_NAME && !template_at(p, "in")) {
            TESS_TRY(template_node_new(p, NODE_NAME, last));
            TESS_TRY(template_expect_name(p, &(*last)->text));
            last = &(*last)->next;
        }
    }
    return bracket ? template_expect(p, ")") : TESS_OK;
}

/* Parses the target of set, which may be an attribute of a namespace. */
static tess_status parse_target(template_parser *p, template_node **out)
{
    const template_token *next = p->token + 1;
    if (p->token->kind != TOKEN_NAME || next->kind != TOKEN_OPERATOR || !template_text_is(next->text, "."))
        return parse_names(p, out);
    TESS_TRY(template_node_new(p, NODE_ATTRIBUTE, out));
    TESS_TRY(template_node_new(p, NODE_NAME, &(*out)->a));
    TESS_TRY(template_expect_name(p, &(*out)->a->text));
    p->token++;
    return template_expect_name(p, &(*out)->text);
}

/* ---- Ends ---- */
static tess_status end_block(template_parser *p)
{
    return template_expect_kind(p, TOKEN_BLOCK_END, "'%}'");
}

/* Parses a body and its end tag. */
static tess_status parse_to(template_parser *p, const char *end, template_node **body)
{
    const char *const ends[] = {end, NULL};
    TESS_TRY(end_block(p));
    TESS_TRY(parse_body(p, ends, body));
    TESS_TRY(template_expect(p, end));
    return end_block(p);
}

/* ---- Statements ---- */
/* Parses what follows "if" or "elif". */
static tess_status parse_if(template_parser *p, template_node *node)
{
    static const char *const ends[] = {"elif", "else", "endif", NULL}, *const last[] = {"endif", NULL};
    for (;;) {
        TESS_TRY(template_parse_tuple(p, false, &node->a));
        TESS_TRY(end_block(p));
        TESS_TRY(parse_body(p, ends, &node->b));
        if (!template_at(p, "elif"))
            break;
        TESS_TRY(template_node_new(p, NODE_IF, &node->c));
        node = node->c;
        p->token++;
    }
    if (template_skip(p, "else")) {
        TESS_TRY(end_block(p));
        TESS_TRY(parse_body(p, last, &node->c));
    }
    TESS_TRY(template_expect(p, "endif"));
    return end_block(p);
}

static tess_status parse_for(template_parser *p, template_node *node)
{
    static const char *const ends[] = {"else", "endfor", NULL}, *const last[] = {"endfor", NULL};
    TESS_TRY(parse_names(p, &node->a));
    TESS_TRY(template_expect(p, "in"));
    TESS_TRY(template_parse_tuple(p, false, &node->b));
    if (template_skip(p, "if"))
        TESS_TRY(template_parse_expression(p, &node->c));
    if (template_at(p, "recursive"))
        return template_fail(p->token->line, TESS_E_UNSUPPORTED, "recursive loops are not supported");
    TESS_TRY(end_block(p));
    p->loops++;
    TESS_TRY(parse_body(p, ends, &node->d));
    p->loops--;
    if (template_skip(p, "else")) {
        TESS_TRY(end_block(p));
        TESS_TRY(parse_body(p, last, &node->e));
    }
    TESS_TRY(template_expect(p, "endfor"));
    return end_block(p);
}

static tess_status parse_set(template_parser *p, template_node *node)
{
    TESS_TRY(parse_target(p, &node->a));
    if (template_skip(p, "=")) {
        TESS_TRY(template_parse_tuple(p, true, &node->b));
        return end_block(p);
    }
    node->kind = NODE_SET_BLOCK;
    if (template_skip(p, "|"))
        TESS_TRY(template_parse_filters(p, &node->b));
    return parse_to(p, "endset", &node->d);
}

/* Parses names and defaults after "(", up to ")". */
static tess_status parse_parameters(template_parser *p, template_node **list)
{
    while (!template_skip(p, ")")) {
        TESS_TRY(template_node_new(p, NODE_NAMED, list));
        TESS_TRY(template_expect_name(p, &(*list)->text));
        if (template_skip(p, "="))
            TESS_TRY(template_parse_expression(p, &(*list)->a));
        list = &(*list)->next;
        if (!template_at(p, ")"))
            TESS_TRY(template_expect(p, ","));
    }
    return TESS_OK;
}

/* Parses a body that runs as a function: loops around it do not count as its own. */
static tess_status parse_function_body(template_parser *p, const char *end, template_node **body)
{
    int loops = p->loops;
    p->loops = 0;
    TESS_TRY(parse_to(p, end, body));
    p->loops = loops;
    return TESS_OK;
}

static tess_status parse_macro(template_parser *p, template_node *node)
{
    TESS_TRY(template_expect_name(p, &node->text));
    TESS_TRY(template_expect(p, "("));
    TESS_TRY(parse_parameters(p, &node->b));
    return parse_function_body(p, "endmacro", &node->d);
}

static tess_status parse_call_block(template_parser *p, template_node *node)
{
    if (template_skip(p, "("))
        TESS_TRY(parse_parameters(p, &node->b));
    TESS_TRY(template_parse_expression(p, &node->a));
    if (node->a->kind != NODE_CALL)
        return template_unexpected(p, "a call");
    return parse_function_body(p, "endcall", &node->d);
}

static tess_status parse_filter_block(template_parser *p, template_node *node)
{
    TESS_TRY(template_parse_filters(p, &node->b));
    return parse_function_body(p, "endfilter", &node->d);
}

static tess_status parse_with(template_parser *p, template_node *node)
{
    template_node **list = &node->a;
    while (p->token->kind != TOKEN_BLOCK_END) {
        if (list != &node->a)
            TESS_TRY(template_expect(p, ","));
        TESS_TRY(template_node_new(p, NODE_PAIR, list));
        TESS_TRY(parse_names(p, &(*list)->a));
        TESS_TRY(template_expect(p, "="));
        TESS_TRY(template_parse_expression(p, &(*list)->b));
        list = &(*list)->next;
    }
    return parse_to(p, "endwith", &node->d);
}

static tess_status parse_generation(template_parser *p, template_node *node)
{
    p->marks = true;
    return parse_function_body(p, "endgeneration", &node->d);
}

static tess_status parse_leaving(template_parser *p, template_node *node)
{
    if (p->loops == 0)
        return template_fail(node->line, TESS_E_FORMAT, "break and continue belong inside a loop");
    return end_block(p);
}

static const struct {
    const char *name;
    template_node_kind kind;
    tess_status (*parse)(template_parser *p, template_node *node);
} statements[] = {{"if", NODE_IF, parse_if},
                  {"for", NODE_FOR, parse_for},
                  {"set", NODE_SET, parse_set},
                  {"macro", NODE_MACRO, parse_macro},
                  {"call", NODE_CALL_BLOCK, parse_call_block},
                  {"filter", NODE_FILTER_BLOCK, parse_filter_block},
                  {"with", NODE_WITH, parse_with},
                  {"generation", NODE_GENERATION, parse_generation},
                  {"break", NODE_BREAK, parse_leaving},
                  {"continue", NODE_CONTINUE, parse_leaving}};

static tess_status parse_statement(template_parser *p, template_node **out)
{
    static const char *const others[] = {"include", "import", "from", "extends", "block", "autoescape", "do", "trans"};
    for (size_t i = 0; i < sizeof(statements) / sizeof(statements[0]); i++) {
        if (!template_at(p, statements[i].name))
            continue;
        TESS_TRY(template_node_new(p, statements[i].kind, out));
        p->token++;
        return statements[i].parse(p, *out);
    }
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        if (template_at(p, others[i]))
            return template_fail(p->token->line, TESS_E_UNSUPPORTED, "{%% %s %%} is not supported", others[i]);
    return template_unexpected(p, "a statement");
}

static tess_status parse_output(template_parser *p, template_node **out)
{
    TESS_TRY(template_node_new(p, NODE_OUTPUT, out));
    TESS_TRY(template_parse_tuple(p, true, &(*out)->a));
    return template_expect_kind(p, TOKEN_OUTPUT_END, "'}}'");
}

static bool at_any(const template_parser *p, const char *const *ends)
{
    for (; ends != NULL && *ends != NULL; ends++)
        if (template_at(p, *ends))
            return true;
    return false;
}

/* Parses a body up to a tag that begins with one of `ends`, and stops at that name. `ends` NULL: parses to the end. */
static tess_status parse_body(template_parser *p, const char *const *ends, template_node **list)
{
    TESS_CHECK(++p->depth < TEMPLATE_DEPTH, TESS_E_INVALID, "line %u: nested more than %d deep", p->token->line,
               TEMPLATE_DEPTH);
    for (; p->token->kind != TOKEN_END; list = &(*list)->next) {
        if (p->token->kind == TOKEN_DATA) {
            TESS_TRY(template_node_new(p, NODE_TEXT, list));
            (*list)->text = p->token++->text;
        } else if (p->token->kind == TOKEN_OUTPUT_BEGIN) {
            p->token++;
            TESS_TRY(parse_output(p, list));
        } else {
            TESS_TRY(template_expect_kind(p, TOKEN_BLOCK_BEGIN, "'{%'"));
            if (at_any(p, ends))
                break;
            TESS_TRY(parse_statement(p, list));
        }
    }
    p->depth--;
    if (p->token->kind == TOKEN_END && ends != NULL)
        return template_unexpected(p, ends[0]);
    return TESS_OK;
}

tess_status template_parse(template_parser *p, template_node **root)
{
    *root = NULL;
    return parse_body(p, NULL, root);
}
