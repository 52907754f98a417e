/* Operands: registers, constants and addresses of variables become slots. */
#include <ctype.h>
#include <string.h>

#include "device/ptx/ptx_parser.h"

/* ---- Slots ---- */
static int add_constant(ptx_parser *p, uint64_t value)
{
    ptx_kernel *k = p->kernel;
    k->constants = ptx_parse_grow(p, k->constants, k->n_constants, sizeof(k->constants[0]));
    for (int lane = 0; lane < PTX_WARP; lane++)
        k->constants[k->n_constants][lane] = value;
    return -2 - k->n_constants++;
}

int ptx_parse_constant(ptx_parser *p, uint64_t value)
{
    const ptx_kernel *k = p->kernel;
    for (int i = 0; i < k->n_constants; i++)
        if (k->constants[i][0] == value && i != p->dynamic_constant)
            return -2 - i;
    return add_constant(p, value);
}

/* The slot of a variable's address in its space. A module's shared variable belongs to the kernels that name it. */
static int slot_of_variable(ptx_parser *p, const ptx_token *t)
{
    ptx_kernel *k = p->kernel;
    const ptx_variable *v = ptx_parse_find_variable(k->parameters, k->n_parameters, t);
    if (v == NULL)
        v = ptx_parse_find_variable(p->variables, p->n_variables, t);
    if (v == NULL) {
        v = ptx_parse_find_variable(p->module->variables, p->module->n_variables, t);
        if (v != NULL && v->space == PTX_SHARED)
            v = ptx_parse_kernel_variable(p, *v);
    }
    if (v == NULL)
        return PTX_NO_SLOT;
    if (v->space != PTX_SHARED || v->bytes > 0)
        return ptx_parse_constant(p, v->offset);
    if (p->dynamic_constant < 0)
        p->dynamic_constant = -2 - add_constant(p, 0);
    return -2 - p->dynamic_constant;
}

int ptx_parse_new_register(ptx_parser *p, int count)
{
    ptx_kernel *k = p->kernel;
    const int first = k->n_registers;
    if (count > PTX_MOST_REGISTERS - first)
        ptx_parse_fail(p, p->tokens.next.line, "kernel '%s' has more than %d registers", k->name, PTX_MOST_REGISTERS);
    k->n_registers += count;
    return first;
}

static int special_slot(ptx_parser *p, const ptx_token *t)
{
    ptx_kernel *k = p->kernel;
    const struct {
        const char *name;
        int *slot;
    } specials[] = {{"%tid.x", &k->tid},       {"%ctaid.x", &k->ctaid}, {"%ntid.x", &k->ntid},
                    {"%nctaid.x", &k->nctaid}, {"%laneid", &k->laneid}, {"%warpid", &k->warpid}};
    static const char *const zeros[] = {"%tid.y", "%tid.z", "%ctaid.y", "%ctaid.z"};
    static const char *const ones[] = {"%ntid.y", "%ntid.z", "%nctaid.y", "%nctaid.z"};
    for (size_t i = 0; i < sizeof(specials) / sizeof(specials[0]); i++)
        if (ptx_token_is(t, specials[i].name)) {
            if (*specials[i].slot == PTX_NO_SLOT)
                *specials[i].slot = ptx_parse_new_register(p, 1);
            return *specials[i].slot;
        }
    for (size_t i = 0; i < sizeof(ones) / sizeof(ones[0]); i++) {
        if (ptx_token_is(t, zeros[i]))
            return ptx_parse_constant(p, 0);
        if (ptx_token_is(t, ones[i]))
            return ptx_parse_constant(p, 1);
    }
    return PTX_NO_SLOT;
}

/* The newest declaration wins, so that inline assembly may declare names anew in its braces. */
static int register_slot(const ptx_parser *p, const ptx_token *t)
{
    size_t prefix = t->length;
    int number = 0, scale = 1;
    while (prefix > 0 && isdigit((unsigned char)t->text[prefix - 1]) && scale <= PTX_MOST_REGISTERS * 10) {
        number += (t->text[--prefix] - '0') * scale;
        scale *= 10;
    }
    for (int i = p->n_registers; i-- > 0;) {
        const ptx_registers *r = &p->registers[i];
        if (r->count == 0 && r->name.length == t->length && memcmp(r->name.text, t->text, t->length) == 0)
            return r->first_slot;
        if (r->count > 0 && r->name.length == prefix && memcmp(r->name.text, t->text, prefix) == 0 && number < r->count)
            return r->first_slot + number;
    }
    return PTX_NO_SLOT;
}

/* The slot of a register, a special register, a number or a variable's address; PTX_NO_SLOT: the word is something
 * else.
 */
static int slot_of_word(ptx_parser *p, const ptx_token *t)
{
    if (isdigit((unsigned char)t->text[0]))
        return ptx_parse_constant(p, ptx_parse_number_of(p, t));
    if (ptx_token_is(t, "WARP_SZ"))
        return ptx_parse_constant(p, PTX_WARP);
    int slot = register_slot(p, t);
    if (slot == PTX_NO_SLOT)
        slot = special_slot(p, t);
    if (slot == PTX_NO_SLOT)
        slot = slot_of_variable(p, t);
    if (slot == PTX_NO_SLOT && t->text[0] == '%')
        ptx_parse_fail(p, t->line, "no register '%.*s' is declared, or it is one that the interpreter does not have",
                       (int)t->length, t->text);
    return slot;
}

/* ---- Operands ---- */
static void set_immediate(ptx_parser *p, ptx_operand *o, uint64_t x)
{
    o->is_immediate = true;
    o->immediate = x;
    o->slot = ptx_parse_constant(p, x);
}

int ptx_parse_slot(ptx_parser *p)
{
    if (ptx_takes(&p->tokens, "-"))
        return ptx_parse_constant(p, 0 - ptx_parse_number(p));
    const ptx_token t = ptx_parse_word(p, "a register or a number");
    if (ptx_token_is(&t, "_"))
        return PTX_NO_SLOT;
    const int slot = slot_of_word(p, &t);
    if (slot == PTX_NO_SLOT)
        ptx_parse_fail(p, t.line, "nothing is named '%.*s'", (int)t.length, t.text);
    return slot;
}

static ptx_operand take_address(ptx_parser *p)
{
    ptx_operand o = {.kind = PTX_ADDRESS, .pair = PTX_NO_SLOT, .slot = ptx_parse_slot(p)};
    if (o.slot == PTX_NO_SLOT)
        ptx_parse_fail(p, p->tokens.next.line, "an address without a base");
    if (ptx_takes(&p->tokens, "+") || ptx_sees(&p->tokens, "-"))
        o.offset = (int64_t)ptx_parse_number(p);
    ptx_parse_sign(p, "]");
    return o;
}

static ptx_operand take_vector(ptx_parser *p)
{
    ptx_operand o = {.kind = PTX_VECTOR, .slot = PTX_NO_SLOT, .pair = PTX_NO_SLOT};
    do {
        if (o.n == PTX_MOST_OUT)
            ptx_parse_fail(p, p->tokens.next.line, "a vector of more than %d registers", PTX_MOST_OUT);
        o.slots[o.n++] = ptx_parse_slot(p);
    } while (ptx_takes(&p->tokens, ","));
    ptx_parse_sign(p, "}");
    return o;
}

ptx_operand ptx_parse_operand(ptx_parser *p)
{
    ptx_operand o = {.kind = PTX_SLOT, .slot = PTX_NO_SLOT, .pair = PTX_NO_SLOT};
    if (ptx_takes(&p->tokens, "["))
        return take_address(p);
    if (ptx_takes(&p->tokens, "{"))
        return take_vector(p);
    if (ptx_sees(&p->tokens, "-")) {
        set_immediate(p, &o, ptx_parse_number(p));
        return o;
    }
    if (ptx_sees(&p->tokens, "!"))
        ptx_parse_fail(p, p->tokens.next.line, "a negated operand is not known to the interpreter");
    o.name = ptx_parse_word(p, "an operand");
    if (ptx_token_is(&o.name, "_"))
        return o;
    if (isdigit((unsigned char)o.name.text[0])) {
        set_immediate(p, &o, ptx_parse_number_of(p, &o.name));
        return o;
    }
    o.slot = slot_of_word(p, &o.name);
    if (o.slot == PTX_NO_SLOT)
        o.kind = PTX_NAME;
    if (ptx_takes(&p->tokens, "|"))
        o.pair = ptx_parse_slot(p);
    return o;
}
