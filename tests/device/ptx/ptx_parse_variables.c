/* Declarations of variables, of a module and of its kernels. */
#include <ctype.h>
#include <string.h>

#include "device/ptx/ptx_parser.h"

enum { MOST_SHARED = 256 << 10, MOST_LOCAL = 1 << 20, MOST_VARIABLE = 64 << 20 };

static int bytes_of_type(ptx_parser *p, const ptx_token *t)
{
    const char *digits = t->text + 2;
    if (t->length < 3 || t->text[0] != '.' || strchr("busf", t->text[1]) == NULL || !isdigit((unsigned char)digits[0]))
        ptx_parse_fail(p, t->line, "'%.*s' is no type", (int)t->length, t->text);
    const int bits = t->length == 3
                         ? digits[0] - '0'
                         : (digits[0] - '0') * 10 + (isdigit((unsigned char)digits[1]) ? digits[1] - '0' : 0);
    if (bits != 8 && bits != 16 && bits != 32 && bits != 64)
        ptx_parse_fail(p, t->line, "'%.*s' is no type of a variable", (int)t->length, t->text);
    return bits / 8;
}

/* .align 8 .b8 name[24], with any of .ptr and .space between; *element gets the size of one of its elements. */
ptx_variable ptx_parse_declaration(ptx_parser *p, ptx_space space, int *element)
{
    ptx_variable v = {.space = space, .align = 0};
    *element = 0;
    while (p->tokens.next.kind == PTX_WORD && p->tokens.next.text[0] == '.') {
        const ptx_token t = ptx_take(&p->tokens);
        if (ptx_token_is(&t, ".align")) {
            uint32_t align = (uint32_t)ptx_parse_limited(p, 4096, "an alignment");
            if (align == 0 || (align & (align - 1)) != 0)
                ptx_parse_fail(p, t.line, "the alignment %u", align);
            v.align = *element == 0 ? align : v.align; /* after the type it is that of what a pointer points to */
        } else if (!ptx_token_is(&t, ".ptr") && !ptx_token_is(&t, ".global") && !ptx_token_is(&t, ".shared") &&
                   !ptx_token_is(&t, ".const")) {
            *element = bytes_of_type(p, &t);
        }
    }
    if (*element == 0)
        ptx_parse_fail(p, p->tokens.next.line, "a variable without a type");
    const ptx_token name = ptx_parse_word(p, "a variable's name");
    v.name = ptx_parse_text(p, &name);
    v.bytes = (uint64_t)*element;
    v.align = v.align == 0 ? (uint32_t)*element : v.align;
    while (ptx_takes(&p->tokens, "[")) {
        const uint64_t n =
            ptx_sees(&p->tokens, "]") ? 0 : ptx_parse_limited(p, MOST_VARIABLE, "elements of a variable");
        ptx_parse_sign(p, "]");
        v.bytes *= n;
        if (v.bytes > MOST_VARIABLE)
            ptx_parse_fail(p, name.line, "variable '%s' has %llu bytes", v.name, (unsigned long long)v.bytes);
    }
    return v;
}

uint64_t ptx_parse_place(uint64_t *end, const ptx_variable *v)
{
    const uint64_t at = (*end + v->align - 1) / v->align * v->align;
    *end = at + v->bytes;
    return at;
}

/* = {1, 2, 3}, or = 1 */
static void take_initial_values(ptx_parser *p, ptx_variable *v, int element)
{
    const bool several = ptx_takes(&p->tokens, "{");
    char *to = (char *)(uintptr_t)v->offset;
    uint64_t at = 0;
    do {
        const int line = p->tokens.next.line;
        const uint64_t x = ptx_parse_number(p);
        if (at + (uint64_t)element > v->bytes)
            ptx_parse_fail(p, line, "variable '%s' has more values than elements", v->name);
        memcpy(to + at, &x, (size_t)element);
        at += (uint64_t)element;
    } while (several && ptx_takes(&p->tokens, ","));
    if (several)
        ptx_parse_sign(p, "}");
}

void ptx_parse_module_variable(ptx_parser *p, ptx_space space)
{
    int element;
    ptx_module *m = p->module;
    ptx_variable v = ptx_parse_declaration(p, space, &element);
    if (space != PTX_SHARED) {
        char *memory = ptx_parse_alloc_alone(p, v.bytes + v.align);
        v.offset = ((uint64_t)(uintptr_t)memory + v.align - 1) / v.align * v.align;
    }
    if (ptx_takes(&p->tokens, "=")) {
        if (space == PTX_SHARED)
            ptx_parse_fail(p, p->tokens.next.line, "shared memory has no initial values");
        take_initial_values(p, &v, element);
    }
    ptx_parse_sign(p, ";");
    m->variables = ptx_parse_grow(p, m->variables, m->n_variables, sizeof(v));
    m->variables[m->n_variables++] = v;
}

ptx_variable *ptx_parse_kernel_variable(ptx_parser *p, ptx_variable v)
{
    ptx_kernel *k = p->kernel;
    uint64_t *end = v.space == PTX_SHARED ? &k->shared_bytes : &k->local_bytes;
    v.offset = v.bytes > 0 ? ptx_parse_place(end, &v) : 0;
    if (v.bytes == 0 && (int)v.align > k->dynamic_align)
        k->dynamic_align = (int)v.align;
    if (k->shared_bytes > MOST_SHARED || k->local_bytes > MOST_LOCAL)
        ptx_parse_fail(p, p->tokens.next.line, "kernel '%s' has too large variables", k->name);
    p->variables = ptx_parse_grow(p, p->variables, p->n_variables, sizeof(v));
    p->variables[p->n_variables++] = v;
    return &p->variables[p->n_variables - 1];
}

ptx_variable *ptx_parse_find_variable(ptx_variable *list, int n, const ptx_token *t)
{
    for (int i = n; i-- > 0;)
        if (ptx_token_is(t, list[i].name))
            return &list[i];
    return NULL;
}
