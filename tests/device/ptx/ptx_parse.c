/* Parses the text of a module: its variables, and the statements of its kernels. Instructions are decoded in
 * ptx_decode.c. All memory belongs to the module, so an error anywhere frees everything. */
#include "device/ptx/ptx_parser.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_REGISTERS = 1 << 16,
    MOST_SHARED = 256 << 10,
    MOST_LOCAL = 1 << 20,
    MOST_VARIABLE = 64 << 20,
    MOST_FILES = 1 << 12
};

/* ---- Memory and errors ---- */
struct ptx_memory {
    struct ptx_memory *next;
    max_align_t bytes[];
};

void ptx_parse_fail(ptx_parser *p, int line, const char *format, ...)
{
    va_list args;
    int n = snprintf(p->error, p->error_size, "PTX line %d: ", line);
    va_start(args, format);
    if (n >= 0 && (size_t)n < p->error_size)
        vsnprintf(p->error + n, p->error_size - (size_t)n, format, args);
    va_end(args);
    longjmp(p->failed, 1);
}

void *ptx_parse_alloc(ptx_parser *p, size_t bytes)
{
    struct ptx_memory *m = calloc(1, sizeof(*m) + bytes);
    if (m == NULL)
        ptx_parse_fail(p, p->line, "no memory for %zu bytes", bytes);
    m->next = p->module->memory;
    p->module->memory = m;
    return m->bytes;
}

void *ptx_parse_grow(ptx_parser *p, void *array, int n, size_t size)
{
    if ((n & (n - 1)) != 0)
        return array;
    void *larger = ptx_parse_alloc(p, (n > 0 ? 2 * (size_t)n : 1) * size);
    if (n > 0)
        memcpy(larger, array, (size_t)n * size);
    return larger;
}

static char *copy_text(ptx_parser *p, const ptx_token *t)
{
    char *text = ptx_parse_alloc(p, t->length + 1);
    memcpy(text, t->text, t->length);
    return text;
}

static ptx_token take_word(ptx_parser *p, const char *what)
{
    ptx_token t = ptx_take(&p->tokens);
    if (t.kind != PTX_WORD)
        ptx_parse_fail(p, t.line, "expected %s, not '%.*s'", what, (int)t.length, t.text);
    return t;
}

static void expect(ptx_parser *p, const char *sign)
{
    if (!ptx_takes(&p->tokens, sign))
        ptx_parse_fail(p, p->tokens.next.line, "expected '%s', not '%.*s'", sign, (int)p->tokens.next.length,
                       p->tokens.next.text);
}

/* ---- Numbers ---- */
/* Floats are 0fXXXXXXXX and 0dXXXXXXXXXXXXXXXX, the hexadecimal digits of their bits. */
static uint64_t number_of(ptx_parser *p, const ptx_token *t)
{
    char text[40], *end;
    if (t->length >= sizeof(text) || t->length == 0)
        ptx_parse_fail(p, t->line, "'%.*s' is no number", (int)t->length, t->text);
    memcpy(text, t->text, t->length);
    text[t->length] = '\0';
    const bool is_float = text[0] == '0' && text[1] != '\0' && strchr("fFdD", text[1]) != NULL;
    uint64_t x = is_float ? strtoull(text + 2, &end, 16) : strtoull(text, &end, 0);
    if (*end == 'U')
        end++;
    if (*end != '\0' || !isdigit((unsigned char)text[0]))
        ptx_parse_fail(p, t->line, "'%s' is no number", text);
    return x;
}

static uint64_t take_number(ptx_parser *p)
{
    const bool negative = ptx_takes(&p->tokens, "-");
    const ptx_token t = ptx_take(&p->tokens);
    const uint64_t x = number_of(p, &t);
    return negative ? 0 - x : x;
}

static uint64_t take_limited(ptx_parser *p, uint64_t most, const char *what)
{
    const int line = p->tokens.next.line;
    const uint64_t x = take_number(p);
    if (x > most)
        ptx_parse_fail(p, line, "%s: %llu, more than %llu", what, (unsigned long long)x, (unsigned long long)most);
    return x;
}

/* ---- Variables ---- */
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
static ptx_variable take_declaration(ptx_parser *p, ptx_space space, int *element)
{
    ptx_variable v = {.space = space, .align = 0};
    *element = 0;
    while (p->tokens.next.kind == PTX_WORD && p->tokens.next.text[0] == '.') {
        const ptx_token t = ptx_take(&p->tokens);
        if (ptx_token_is(&t, ".align")) {
            uint32_t align = (uint32_t)take_limited(p, 4096, "an alignment");
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
    const ptx_token name = take_word(p, "a variable's name");
    v.name = copy_text(p, &name);
    v.bytes = (uint64_t)*element;
    v.align = v.align == 0 ? (uint32_t)*element : v.align;
    while (ptx_takes(&p->tokens, "[")) {
        const uint64_t n = ptx_sees(&p->tokens, "]") ? 0 : take_limited(p, MOST_VARIABLE, "elements of a variable");
        expect(p, "]");
        v.bytes *= n;
        if (v.bytes > MOST_VARIABLE)
            ptx_parse_fail(p, name.line, "variable '%s' has %llu bytes", v.name, (unsigned long long)v.bytes);
    }
    return v;
}

static uint64_t place(uint64_t *end, const ptx_variable *v)
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
        const uint64_t x = take_number(p);
        if (at + (uint64_t)element > v->bytes)
            ptx_parse_fail(p, line, "variable '%s' has more values than elements", v->name);
        memcpy(to + at, &x, (size_t)element);
        at += (uint64_t)element;
    } while (several && ptx_takes(&p->tokens, ","));
    if (several)
        expect(p, "}");
}

static void take_module_variable(ptx_parser *p, ptx_space space)
{
    int element;
    ptx_module *m = p->module;
    ptx_variable v = take_declaration(p, space, &element);
    if (space != PTX_SHARED) {
        char *memory = ptx_parse_alloc(p, v.bytes + v.align);
        v.offset = ((uint64_t)(uintptr_t)memory + v.align - 1) / v.align * v.align;
    }
    if (ptx_takes(&p->tokens, "=")) {
        if (space == PTX_SHARED)
            ptx_parse_fail(p, p->tokens.next.line, "shared memory has no initial values");
        take_initial_values(p, &v, element);
    }
    expect(p, ";");
    m->variables = ptx_parse_grow(p, m->variables, m->n_variables, sizeof(v));
    m->variables[m->n_variables++] = v;
}

static ptx_variable *add_kernel_variable(ptx_parser *p, ptx_variable v)
{
    ptx_kernel *k = p->kernel;
    uint64_t *end = v.space == PTX_SHARED ? &k->shared_bytes : &k->local_bytes;
    v.offset = v.bytes > 0 ? place(end, &v) : 0;
    if (v.bytes == 0 && (int)v.align > k->dynamic_align)
        k->dynamic_align = (int)v.align;
    if (k->shared_bytes > MOST_SHARED || k->local_bytes > MOST_LOCAL)
        ptx_parse_fail(p, p->tokens.next.line, "kernel '%s' has too large variables", k->name);
    p->variables = ptx_parse_grow(p, p->variables, p->n_variables, sizeof(v));
    p->variables[p->n_variables++] = v;
    return &p->variables[p->n_variables - 1];
}

static ptx_variable *find_variable(ptx_variable *list, int n, const ptx_token *t)
{
    for (int i = n; i-- > 0;)
        if (ptx_token_is(t, list[i].name))
            return &list[i];
    return NULL;
}

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
    const ptx_variable *v = find_variable(k->parameters, k->n_parameters, t);
    if (v == NULL)
        v = find_variable(p->variables, p->n_variables, t);
    if (v == NULL) {
        v = find_variable(p->module->variables, p->module->n_variables, t);
        if (v != NULL && v->space == PTX_SHARED)
            v = add_kernel_variable(p, *v);
    }
    if (v == NULL)
        return PTX_NO_SLOT;
    if (v->space != PTX_SHARED || v->bytes > 0)
        return ptx_parse_constant(p, v->offset);
    if (p->dynamic_constant < 0)
        p->dynamic_constant = -2 - add_constant(p, 0);
    return -2 - p->dynamic_constant;
}

static int new_register(ptx_parser *p, int count)
{
    ptx_kernel *k = p->kernel;
    const int first = k->n_registers;
    if (count > MOST_REGISTERS - first)
        ptx_parse_fail(p, p->tokens.next.line, "kernel '%s' has more than %d registers", k->name, MOST_REGISTERS);
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
                *specials[i].slot = new_register(p, 1);
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
    while (prefix > 0 && isdigit((unsigned char)t->text[prefix - 1]) && scale <= MOST_REGISTERS * 10) {
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
        return ptx_parse_constant(p, number_of(p, t));
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

static int take_slot(ptx_parser *p)
{
    if (ptx_takes(&p->tokens, "-"))
        return ptx_parse_constant(p, 0 - take_number(p));
    const ptx_token t = take_word(p, "a register or a number");
    if (ptx_token_is(&t, "_"))
        return PTX_NO_SLOT;
    const int slot = slot_of_word(p, &t);
    if (slot == PTX_NO_SLOT)
        ptx_parse_fail(p, t.line, "nothing is named '%.*s'", (int)t.length, t.text);
    return slot;
}

static ptx_operand take_address(ptx_parser *p)
{
    ptx_operand o = {.kind = PTX_ADDRESS, .pair = PTX_NO_SLOT, .slot = take_slot(p)};
    if (o.slot == PTX_NO_SLOT)
        ptx_parse_fail(p, p->tokens.next.line, "an address without a base");
    if (ptx_takes(&p->tokens, "+") || ptx_sees(&p->tokens, "-"))
        o.offset = (int64_t)take_number(p);
    expect(p, "]");
    return o;
}

static ptx_operand take_vector(ptx_parser *p)
{
    ptx_operand o = {.kind = PTX_VECTOR, .slot = PTX_NO_SLOT, .pair = PTX_NO_SLOT};
    do {
        if (o.n == PTX_MOST_OUT)
            ptx_parse_fail(p, p->tokens.next.line, "a vector of more than %d registers", PTX_MOST_OUT);
        o.slots[o.n++] = take_slot(p);
    } while (ptx_takes(&p->tokens, ","));
    expect(p, "}");
    return o;
}

static ptx_operand take_operand(ptx_parser *p)
{
    ptx_operand o = {.kind = PTX_SLOT, .slot = PTX_NO_SLOT, .pair = PTX_NO_SLOT};
    if (ptx_takes(&p->tokens, "["))
        return take_address(p);
    if (ptx_takes(&p->tokens, "{"))
        return take_vector(p);
    if (ptx_sees(&p->tokens, "-")) {
        set_immediate(p, &o, take_number(p));
        return o;
    }
    if (ptx_sees(&p->tokens, "!"))
        ptx_parse_fail(p, p->tokens.next.line, "a negated operand is not known to the interpreter");
    o.name = take_word(p, "an operand");
    if (ptx_token_is(&o.name, "_"))
        return o;
    if (isdigit((unsigned char)o.name.text[0])) {
        set_immediate(p, &o, number_of(p, &o.name));
        return o;
    }
    o.slot = slot_of_word(p, &o.name);
    if (o.slot == PTX_NO_SLOT)
        o.kind = PTX_NAME;
    if (ptx_takes(&p->tokens, "|"))
        o.pair = take_slot(p);
    return o;
}

/* ---- Statements ---- */
static void take_registers(ptx_parser *p)
{
    ptx_take(&p->tokens); /* the type: a register has room for any */
    do {
        ptx_registers r = {.name = take_word(p, "a register's name"), .depth = p->depth};
        if (ptx_takes(&p->tokens, "<")) {
            r.count = (int)take_limited(p, MOST_REGISTERS, "registers");
            expect(p, ">");
        }
        r.first_slot = new_register(p, r.count > 0 ? r.count : 1);
        p->registers = ptx_parse_grow(p, p->registers, p->n_registers, sizeof(r));
        p->registers[p->n_registers++] = r;
    } while (ptx_takes(&p->tokens, ","));
    expect(p, ";");
}

static void take_location(ptx_parser *p, int line)
{
    p->file = (int)take_limited(p, MOST_FILES, "a file's number");
    p->source_line = (int)take_limited(p, INT32_MAX, "a line");
    ptx_skip_line(&p->tokens, line);
}

static void take_label(ptx_parser *p, const ptx_token *name)
{
    p->labels = ptx_parse_grow(p, p->labels, p->n_labels, sizeof(p->labels[0]));
    p->labels[p->n_labels++] = (ptx_label){*name, p->kernel->n_code};
}

/* .branchtargets $a, $b; which the label before it names. */
static void take_branch_targets(ptx_parser *p)
{
    ptx_kernel *k = p->kernel;
    if (p->n_labels == 0)
        ptx_parse_fail(p, p->tokens.next.line, ".branchtargets without a label");
    p->labels[p->n_labels - 1].at = -1 - k->n_targets; /* a list, not a place */
    do {
        p->target_names = ptx_parse_grow(p, p->target_names, k->n_targets, sizeof(ptx_token));
        p->target_names[k->n_targets++] = take_word(p, "a label");
    } while (ptx_takes(&p->tokens, ","));
    expect(p, ";");
    p->target_names = ptx_parse_grow(p, p->target_names, k->n_targets, sizeof(ptx_token));
    p->target_names[k->n_targets++] = (ptx_token){.kind = PTX_END}; /* ends the list */
}

static void take_instruction(ptx_parser *p, ptx_token name)
{
    ptx_kernel *k = p->kernel;
    ptx_operand operands[PTX_MOST_OPERANDS];
    int n = 0;
    ptx_instruction i = {.line = name.line,
                         .guard = PTX_NO_SLOT,
                         .base = PTX_NO_SLOT,
                         .from_base = PTX_NO_SLOT,
                         .file = p->file,
                         .source_line = p->source_line};
    p->line = name.line;
    if (ptx_token_is(&name, "@")) {
        i.guard_negated = ptx_takes(&p->tokens, "!");
        i.guard = take_slot(p);
        name = take_word(p, "an instruction");
    }
    if (name.kind != PTX_WORD)
        ptx_parse_fail(p, name.line, "'%.*s' is no statement", (int)name.length, name.text);
    while (!ptx_takes(&p->tokens, ";")) {
        if (n == PTX_MOST_OPERANDS)
            ptx_parse_fail(p, name.line, "'%.*s' has more than %d operands", (int)name.length, name.text, n);
        operands[n++] = take_operand(p);
        if (!ptx_sees(&p->tokens, ";"))
            expect(p, ",");
    }
    i.name = copy_text(p, &name);
    ptx_decode(p, &name, operands, n, &i);
    k->code = ptx_parse_grow(p, k->code, k->n_code, sizeof(i));
    p->branches = ptx_parse_grow(p, p->branches, k->n_code, sizeof(ptx_token));
    p->branches[k->n_code] = i.kind == PTX_BRANCH           ? operands[0].name
                             : i.kind == PTX_BRANCH_INDEXED ? operands[1].name
                                                            : (ptx_token){.kind = PTX_END};
    k->code[k->n_code++] = i;
}

static void end_scope(ptx_parser *p)
{
    p->depth--;
    while (p->n_registers > 0 && p->registers[p->n_registers - 1].depth > p->depth)
        p->n_registers--;
}

static void take_statement(ptx_parser *p)
{
    int element;
    const ptx_token t = ptx_take(&p->tokens);
    if (t.kind == PTX_END)
        ptx_parse_fail(p, t.line, "the text ends in kernel '%s'", p->kernel->name);
    if (ptx_token_is(&t, "{")) {
        p->depth++;
    } else if (ptx_token_is(&t, "}")) {
        end_scope(p);
    } else if (ptx_token_is(&t, ".reg")) {
        take_registers(p);
    } else if (ptx_token_is(&t, ".shared") || ptx_token_is(&t, ".local")) {
        add_kernel_variable(p, take_declaration(p, ptx_token_is(&t, ".shared") ? PTX_SHARED : PTX_LOCAL, &element));
        expect(p, ";");
    } else if (ptx_token_is(&t, ".loc")) {
        take_location(p, t.line);
    } else if (ptx_token_is(&t, ".pragma")) {
        ptx_take(&p->tokens);
        expect(p, ";");
    } else if (ptx_token_is(&t, ".branchtargets")) {
        take_branch_targets(p);
    } else if (t.kind == PTX_WORD && t.text[0] == '.') {
        ptx_parse_fail(p, t.line, "unknown directive '%.*s'", (int)t.length, t.text);
    } else if (t.kind == PTX_WORD && ptx_takes(&p->tokens, ":")) {
        take_label(p, &t);
    } else if (!ptx_token_is(&t, ";")) {
        take_instruction(p, t);
    }
}

/* ---- Kernels ---- */
static int compare_labels(const void *a, const void *b)
{
    const ptx_token *x = &((const ptx_label *)a)->name, *y = &((const ptx_label *)b)->name;
    const size_t n = x->length < y->length ? x->length : y->length;
    const int order = memcmp(x->text, y->text, n);
    return order != 0 ? order : (x->length > y->length) - (x->length < y->length);
}

static int place_of_label(ptx_parser *p, const ptx_token *name, int line)
{
    const ptx_label key = {.name = *name};
    const ptx_label *label = name->kind == PTX_WORD && p->n_labels > 0
                                 ? bsearch(&key, p->labels, (size_t)p->n_labels, sizeof(key), compare_labels)
                                 : NULL;
    if (label == NULL)
        ptx_parse_fail(p, line, "no label '%.*s'", (int)name->length, name->text);
    return label->at;
}

static void resolve_branches(ptx_parser *p)
{
    ptx_kernel *k = p->kernel;
    if (p->n_labels > 0)
        qsort(p->labels, (size_t)p->n_labels, sizeof(p->labels[0]), compare_labels);
    k->targets = ptx_parse_alloc(p, (size_t)(k->n_targets + 1) * sizeof(int));
    for (int t = 0; t < k->n_targets; t++)
        if (p->target_names[t].kind != PTX_END)
            k->targets[t] = place_of_label(p, &p->target_names[t], p->target_names[t].line);
    for (int c = 0; c < k->n_code; c++) {
        ptx_instruction *i = &k->code[c];
        if (i->kind != PTX_BRANCH && i->kind != PTX_BRANCH_INDEXED)
            continue;
        const int at = place_of_label(p, &p->branches[c], i->line);
        if ((at < 0) != (i->kind == PTX_BRANCH_INDEXED))
            ptx_parse_fail(p, i->line, "'%s' has the wrong kind of label", i->name);
        if (i->kind == PTX_BRANCH) {
            i->target = at;
            continue;
        }
        i->first_target = -1 - at;
        while (p->target_names[i->first_target + i->n_targets].kind != PTX_END)
            i->n_targets++;
    }
    for (int t = 0; t < k->n_targets; t++)
        if (k->targets[t] < 0)
            ptx_parse_fail(p, p->target_names[t].line, "a list of labels is no target");
}

static void take_parameters(ptx_parser *p)
{
    ptx_kernel *k = p->kernel;
    if (!ptx_takes(&p->tokens, "("))
        return;
    while (!ptx_takes(&p->tokens, ")")) {
        int element;
        expect(p, ".param");
        ptx_variable v = take_declaration(p, PTX_PARAM, &element);
        v.offset = place(&k->parameter_bytes, &v);
        if (k->parameter_bytes > 1 << 15)
            ptx_parse_fail(p, p->tokens.next.line, "kernel '%s' has too large parameters", k->name);
        k->parameters = ptx_parse_grow(p, k->parameters, k->n_parameters, sizeof(v));
        k->parameters[k->n_parameters++] = v;
        if (!ptx_sees(&p->tokens, ")"))
            expect(p, ",");
    }
}

/* .maxntid 256, 1, 1 and others */
static void take_performance_hints(ptx_parser *p)
{
    while (!ptx_takes(&p->tokens, "{")) {
        const ptx_token t = ptx_take(&p->tokens);
        if (t.kind == PTX_END)
            ptx_parse_fail(p, t.line, "kernel '%s' has no body", p->kernel->name);
        if (!ptx_token_is(&t, ".maxntid") && !ptx_token_is(&t, ".reqntid"))
            continue;
        uint64_t threads = take_limited(p, 1024, "threads");
        while (ptx_takes(&p->tokens, ","))
            threads *= take_limited(p, 1024, "threads");
        p->kernel->max_threads = (int)(threads <= 1024 ? threads : 1024);
    }
}

static void set_granule(ptx_kernel *k)
{
    k->granule = 4;
    for (int c = 0; c < k->n_code; c++) {
        const ptx_instruction *i = &k->code[c];
        const bool accesses = i->kind == PTX_LOAD || i->kind == PTX_STORE || i->kind == PTX_ATOMIC;
        if (accesses && i->space != PTX_PARAM && i->space != PTX_LOCAL && i->bytes * i->vector < k->granule)
            k->granule = i->bytes * i->vector;
    }
}

static void take_kernel(ptx_parser *p)
{
    ptx_module *m = p->module;
    const ptx_token name = take_word(p, "a kernel's name");
    m->kernels = ptx_parse_grow(p, m->kernels, m->n_kernels, sizeof(ptx_kernel));
    ptx_kernel *k = &m->kernels[m->n_kernels++];
    *k = (ptx_kernel){.name = copy_text(p, &name),
                      .dynamic_align = 16,
                      .tid = PTX_NO_SLOT,
                      .ctaid = PTX_NO_SLOT,
                      .ntid = PTX_NO_SLOT,
                      .nctaid = PTX_NO_SLOT,
                      .laneid = PTX_NO_SLOT,
                      .warpid = PTX_NO_SLOT};
    p->kernel = k;
    p->n_registers = p->n_variables = p->n_labels = p->file = p->source_line = 0;
    p->dynamic_constant = -1;
    take_parameters(p);
    take_performance_hints(p);
    for (p->depth = 1; p->depth > 0;)
        take_statement(p);
    resolve_branches(p);
    set_granule(k);
    const uint64_t align = (uint64_t)k->dynamic_align;
    k->shared_bytes = p->dynamic_constant >= 0 ? (k->shared_bytes + align - 1) / align * align : k->shared_bytes;
    for (int lane = 0; lane < PTX_WARP && p->dynamic_constant >= 0; lane++)
        k->constants[p->dynamic_constant][lane] = k->shared_bytes;
}

/* ---- Modules ---- */
static void skip_braces(ptx_parser *p)
{
    int depth = 0;
    for (;;) {
        const ptx_token t = ptx_take(&p->tokens);
        if (t.kind == PTX_END)
            ptx_parse_fail(p, t.line, "the text ends in braces");
        depth += ptx_token_is(&t, "{");
        depth -= ptx_token_is(&t, "}");
        if (depth == 0 && ptx_token_is(&t, "}"))
            return;
    }
}

/* A function's prototype or body. A call of it is an instruction that the interpreter refuses. */
static void skip_function(ptx_parser *p)
{
    while (!ptx_sees(&p->tokens, "{")) {
        const ptx_token t = ptx_take(&p->tokens);
        if (t.kind == PTX_END || ptx_token_is(&t, ";"))
            return;
    }
    skip_braces(p);
}

static void take_file(ptx_parser *p, int line)
{
    ptx_module *m = p->module;
    const int number = (int)take_limited(p, MOST_FILES, "a file's number");
    const ptx_token path = ptx_take(&p->tokens);
    while (m->n_files <= number) {
        m->files = ptx_parse_grow(p, m->files, m->n_files, sizeof(char *));
        m->files[m->n_files++] = NULL;
    }
    m->files[number] = copy_text(p, &path);
    ptx_skip_line(&p->tokens, line);
}

static void take_target(ptx_parser *p, int line)
{
    const ptx_token name = take_word(p, "a target");
    p->module->target_name = copy_text(p, &name);
    if (sscanf(p->module->target_name, "sm_%d", &p->module->target) != 1)
        ptx_parse_fail(p, line, "the target '%s'", p->module->target_name);
    ptx_skip_line(&p->tokens, line);
}

static bool is_any(const ptx_token *t, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (ptx_token_is(t, names[i]))
            return true;
    return false;
}

static void take_module(ptx_parser *p)
{
    static const char *const linkage[] = {".visible", ".extern", ".weak", ".common", ";"}, *const lines[] = {
                                                                                               ".version",
                                                                                               ".address_size"};
    for (;;) {
        const ptx_token t = ptx_take(&p->tokens);
        if (t.kind == PTX_END)
            return;
        if (is_any(&t, linkage, sizeof(linkage) / sizeof(linkage[0])))
            continue;
        if (is_any(&t, lines, sizeof(lines) / sizeof(lines[0])))
            ptx_skip_line(&p->tokens, t.line);
        else if (ptx_token_is(&t, ".target"))
            take_target(p, t.line);
        else if (ptx_token_is(&t, ".file"))
            take_file(p, t.line);
        else if (ptx_token_is(&t, ".section"))
            skip_braces(p);
        else if (ptx_token_is(&t, ".entry"))
            take_kernel(p);
        else if (ptx_token_is(&t, ".func"))
            skip_function(p);
        else if (ptx_token_is(&t, ".global"))
            take_module_variable(p, PTX_GLOBAL);
        else if (ptx_token_is(&t, ".const"))
            take_module_variable(p, PTX_CONST);
        else if (ptx_token_is(&t, ".shared"))
            take_module_variable(p, PTX_SHARED);
        else
            ptx_parse_fail(p, t.line, "unknown directive '%.*s'", (int)t.length, t.text);
    }
}

ptx_module *ptx_module_parse(const char *text, size_t bytes, char *error, size_t error_size)
{
    static const ptx_module empty;
    ptx_parser *p = calloc(1, sizeof(*p));
    ptx_module *volatile m = malloc(sizeof(*m));
    if (p == NULL || m == NULL) {
        snprintf(error, error_size, "no memory");
        free(p);
        free(m);
        return NULL;
    }
    *m = empty;
    p->module = m;
    p->error = error;
    p->error_size = error_size;
    if (setjmp(p->failed) == 0) {
        ptx_tokens_begin(&p->tokens, text, bytes);
        take_module(p);
    } else {
        ptx_module_free(m);
        m = NULL;
    }
    free(p);
    return m;
}

void ptx_module_free(ptx_module *m)
{
    for (struct ptx_memory *next; m != NULL && m->memory != NULL; m->memory = next) {
        next = m->memory->next;
        free(m->memory);
    }
    free(m);
}

const ptx_kernel *ptx_module_kernel(const ptx_module *m, const char *name)
{
    for (int i = 0; i < m->n_kernels; i++)
        if (strcmp(m->kernels[i].name, name) == 0)
            return &m->kernels[i];
    return NULL;
}
