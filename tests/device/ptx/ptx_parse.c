/* Parses the text of a module: the statements of its kernels. Instructions are decoded in ptx_decode.c. */
#include "device/ptx/ptx_parser.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_FILES = 1 << 12 };

/* ---- Statements ---- */
static void take_registers(ptx_parser *p)
{
    ptx_take(&p->tokens); /* the type: a register has room for any */
    do {
        ptx_registers r = {.name = ptx_parse_word(p, "a register's name"), .depth = p->depth};
        if (ptx_takes(&p->tokens, "<")) {
            r.count = (int)ptx_parse_limited(p, PTX_MOST_REGISTERS, "registers");
            ptx_parse_sign(p, ">");
        }
        r.first_slot = ptx_parse_new_register(p, r.count > 0 ? r.count : 1);
        p->registers = ptx_parse_grow(p, p->registers, p->n_registers, sizeof(r));
        p->registers[p->n_registers++] = r;
    } while (ptx_takes(&p->tokens, ","));
    ptx_parse_sign(p, ";");
}

static void take_location(ptx_parser *p, int line)
{
    p->file = (int)ptx_parse_limited(p, MOST_FILES, "a file's number");
    p->source_line = (int)ptx_parse_limited(p, INT32_MAX, "a line");
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
        p->target_names[k->n_targets++] = ptx_parse_word(p, "a label");
    } while (ptx_takes(&p->tokens, ","));
    ptx_parse_sign(p, ";");
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
        i.guard = ptx_parse_slot(p);
        name = ptx_parse_word(p, "an instruction");
    }
    if (name.kind != PTX_WORD)
        ptx_parse_fail(p, name.line, "'%.*s' is no statement", (int)name.length, name.text);
    while (!ptx_takes(&p->tokens, ";")) {
        if (n == PTX_MOST_OPERANDS)
            ptx_parse_fail(p, name.line, "'%.*s' has more than %d operands", (int)name.length, name.text, n);
        operands[n++] = ptx_parse_operand(p);
        if (!ptx_sees(&p->tokens, ";"))
            ptx_parse_sign(p, ",");
    }
    i.name = ptx_parse_text(p, &name);
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
        ptx_parse_kernel_variable(
            p, ptx_parse_declaration(p, ptx_token_is(&t, ".shared") ? PTX_SHARED : PTX_LOCAL, &element));
        ptx_parse_sign(p, ";");
    } else if (ptx_token_is(&t, ".loc")) {
        take_location(p, t.line);
    } else if (ptx_token_is(&t, ".pragma")) {
        ptx_take(&p->tokens);
        ptx_parse_sign(p, ";");
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
        ptx_parse_sign(p, ".param");
        ptx_variable v = ptx_parse_declaration(p, PTX_PARAM, &element);
        v.offset = ptx_parse_place(&k->parameter_bytes, &v);
        if (k->parameter_bytes > 1 << 15)
            ptx_parse_fail(p, p->tokens.next.line, "kernel '%s' has too large parameters", k->name);
        k->parameters = ptx_parse_grow(p, k->parameters, k->n_parameters, sizeof(v));
        k->parameters[k->n_parameters++] = v;
        if (!ptx_sees(&p->tokens, ")"))
            ptx_parse_sign(p, ",");
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
        uint64_t threads = ptx_parse_limited(p, 1024, "threads");
        while (ptx_takes(&p->tokens, ","))
            threads *= ptx_parse_limited(p, 1024, "threads");
        p->kernel->max_threads = (int)(threads <= 1024 ? threads : 1024);
    }
}

static void set_facts(ptx_kernel *k)
{
    k->granule = 4;
    for (int c = 0; c < k->n_code; c++) {
        const ptx_instruction *i = &k->code[c];
        k->approximates = k->approximates || i->approximate;
        const bool accesses = i->kind == PTX_LOAD || i->kind == PTX_STORE || i->kind == PTX_ATOMIC;
        if (accesses && i->space != PTX_PARAM && i->space != PTX_LOCAL && i->bytes * i->vector < k->granule)
            k->granule = i->bytes * i->vector;
    }
}

static void take_kernel(ptx_parser *p)
{
    ptx_module *m = p->module;
    const ptx_token name = ptx_parse_word(p, "a kernel's name");
    m->kernels = ptx_parse_grow(p, m->kernels, m->n_kernels, sizeof(ptx_kernel));
    ptx_kernel *k = &m->kernels[m->n_kernels++];
    *k = (ptx_kernel){.name = ptx_parse_text(p, &name),
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
    set_facts(k);
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
    const int number = (int)ptx_parse_limited(p, MOST_FILES, "a file's number");
    const ptx_token path = ptx_take(&p->tokens);
    while (m->n_files <= number) {
        m->files = ptx_parse_grow(p, m->files, m->n_files, sizeof(char *));
        m->files[m->n_files++] = NULL;
    }
    m->files[number] = ptx_parse_text(p, &path);
    ptx_skip_line(&p->tokens, line);
}

static void take_target(ptx_parser *p, int line)
{
    const ptx_token name = ptx_parse_word(p, "a target");
    p->module->target_name = ptx_parse_text(p, &name);
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
            ptx_parse_module_variable(p, PTX_GLOBAL);
        else if (ptx_token_is(&t, ".const"))
            ptx_parse_module_variable(p, PTX_CONST);
        else if (ptx_token_is(&t, ".shared"))
            ptx_parse_module_variable(p, PTX_SHARED);
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

const ptx_kernel *ptx_module_kernel(const ptx_module *m, const char *name)
{
    for (int i = 0; i < m->n_kernels; i++)
        if (strcmp(m->kernels[i].name, name) == 0)
            return &m->kernels[i];
    return NULL;
}
