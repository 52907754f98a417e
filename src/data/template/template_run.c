/* Runs the statements of a template. */
#include <string.h>

#include "base/core/rng.h"
#include "base/mem/make_room.h"
#include "data/template/template_impl.h"

/* A generation block's text, at the position of the output where the block began. Inside a macro or a captured block
 * the text is written there only later, or never. A hash tells whether the output at that position is the text. */
typedef struct template_mark {
    struct template_mark *older;
    size_t begin, size;
    uint64_t hash;
    uint32_t line;
} template_mark;

static tess_status run_list(template_run *run, template_scope *scope, const template_node *list);

/* ---- Targets ---- */
static tess_status assign_attribute(template_run *run, template_scope *scope, const template_node *target,
                                    const template_value *value)
{
    const template_value *space = template_scope_find(run, scope, target->a->text);
    TEMPLATE_CHECK(space != NULL && space->kind == TEMPLATE_NAMESPACE, run, "set: '%.*s' is no namespace",
                   (int)target->a->text.size, target->a->text.data);
    TEMPLATE_CHECK(target->text.data[0] != '_', run, "set: a name in a namespace may not begin with _");
    const template_value key = template_string(target->text.data, target->text.size);
    return template_dict_set(run, space->dict, &key, value);
}

static tess_status assign(template_run *run, template_scope *scope, const template_node *target,
                          const template_value *value)
{
    const template_list *items;
    size_t i = 0;
    if (target->kind == NODE_NAME)
        return template_scope_set(run, scope, target->text, value);
    if (target->kind == NODE_ATTRIBUTE)
        return assign_attribute(run, scope, target, value);
    TESS_TRY(template_items(run, value, &items));
    for (const template_node *name = target->a; name != NULL; name = name->next, i++) {
        TEMPLATE_CHECK(i < items->n, run, "%zu values for more names", items->n);
        TESS_TRY(template_scope_set(run, scope, name->text, &items->item[i]));
    }
    TEMPLATE_CHECK(i == items->n, run, "%zu values for %zu names", items->n, i);
    return TESS_OK;
}

/* ---- Captured output ---- */
/* Runs a body, and returns its output as a value. */
static tess_status capture(template_run *run, template_scope *scope, const template_node *body, template_value *out)
{
    tess_buffer buffer = {.mem = run->arena.mem}, *outer = run->out;
    run->out = &buffer;
    tess_status status = run_list(run, scope, body);
    run->out = outer;
    return template_take(run, &buffer, status, out);
}

static tess_status capture_inner(template_run *run, template_scope *scope, const template_node *body,
                                 template_value *out)
{
    template_scope *inner;
    TESS_TRY(template_scope_new(run, scope, &inner));
    return capture(run, inner, body, out);
}

/* ---- Macros ---- */
static tess_status bind_parameters(template_run *run, template_scope *scope, const template_node *node,
                                   const template_args *args)
{
    size_t place = 0, used = 0;
    for (const template_node *p = node->b; p != NULL; p = p->next, place++) {
        template_value value;
        const template_value *given = place < args->n ? &args->item[place] : NULL;
        for (size_t i = 0; i < args->n_named && given == NULL; i++) {
            bool same =
                args->name[i].size == p->text.size && memcmp(args->name[i].data, p->text.data, p->text.size) == 0;
            given = same ? &args->named[i] : NULL;
        }
        used += given != NULL;
        if (given != NULL)
            value = *given;
        else if (p->a != NULL)
            TESS_TRY(template_evaluate(run, scope, p->a, &value));
        else
            TESS_TRY(template_undefined(run, &value, "the parameter '%.*s'", (int)p->text.size, p->text.data));
        TESS_TRY(template_scope_set(run, scope, p->text, &value));
    }
    TEMPLATE_CHECK(used == args->n + args->n_named, run, "a macro has no place for one of its arguments");
    return TESS_OK;
}

static tess_status call_macro(template_run *run, const template_macro *macro, const template_args *args,
                              const template_value *caller, template_value *out)
{
    template_scope *scope;
    bool breaks = run->breaks, continues = run->continues;
    run->breaks = run->continues = false;
    TESS_TRY(template_enter(run));
    TESS_TRY(template_scope_new(run, macro->scope, &scope));
    TESS_TRY(bind_parameters(run, scope, macro->node, args));
    if (caller != NULL)
        TESS_TRY(template_scope_set(run, scope, template_text_of("caller"), caller));
    TESS_TRY(capture(run, scope, macro->node->d, out));
    template_leave(run);
    run->breaks = breaks;
    run->continues = continues;
    return TESS_OK;
}

static tess_status make_macro(template_run *run, template_scope *scope, const template_node *node, template_value *out)
{
    out->kind = TEMPLATE_MACRO;
    TESS_TRY(template_alloc(&run->arena, sizeof(template_macro), &out->macro));
    *out->macro = (template_macro){node, scope};
    return TESS_OK;
}

static tess_status run_macro(template_run *run, template_scope *scope, const template_node *node)
{
    template_value macro;
    TESS_TRY(make_macro(run, scope, node, &macro));
    return template_scope_set(run, scope, node->text, &macro);
}

static tess_status run_call_block(template_run *run, template_scope *scope, const template_node *node)
{
    template_value function, caller, text;
    template_args args;
    TESS_TRY(template_evaluate(run, scope, node->a->a, &function));
    TESS_TRY(template_collect_args(run, scope, node->a->b, &args));
    if (function.kind != TEMPLATE_MACRO)
        return template_wrong(run, &function, "a call block");
    TESS_TRY(make_macro(run, scope, node, &caller));
    TESS_TRY(call_macro(run, function.macro, &args, &caller, &text));
    return template_print(run, &text, run->out);
}

/* ---- Statements ---- */
static tess_status run_output(template_run *run, template_scope *scope, const template_node *node)
{
    template_value value;
    TESS_TRY(template_evaluate(run, scope, node->a, &value));
    return template_print(run, &value, run->out);
}

static tess_status run_if(template_run *run, template_scope *scope, const template_node *node)
{
    template_value test;
    while (true) {
        TESS_TRY(template_evaluate(run, scope, node->a, &test));
        if (template_truth(&test))
            return run_list(run, scope, node->b);
        bool elif = node->c != NULL && node->c->kind == NODE_IF && node->c->next == NULL;
        if (!elif)
            return run_list(run, scope, node->c);
        node = node->c;
    }
}

/* Returns the items that a loop visits: those that pass its condition. */
static tess_status loop_items(template_run *run, template_scope *scope, const template_node *node,
                              const template_list **items)
{
    template_value value, kept, test;
    template_scope *inner;
    TESS_TRY(template_evaluate(run, scope, node->b, &value));
    TESS_TRY(template_items(run, &value, items));
    if (node->c == NULL)
        return TESS_OK;
    const template_list *all = *items;
    TESS_TRY(template_list_new(run, TEMPLATE_LIST, &kept));
    for (size_t i = 0; i < all->n; i++) {
        TESS_TRY(template_scope_new(run, scope, &inner));
        TESS_TRY(assign(run, inner, node->a, &all->item[i]));
        TESS_TRY(template_evaluate(run, inner, node->c, &test));
        if (template_truth(&test))
            TESS_TRY(template_list_add(run, kept.list, &all->item[i]));
    }
    *items = kept.list;
    return TESS_OK;
}

/* Records that an iteration of a loop over messages has written the output from `begin` on. */
static void note_turn(template_run *run, const template_value *item, size_t begin)
{
    size_t message = item->kind == TEMPLATE_DICT ? item->dict->message : 0;
    if (run->turns == NULL || message == 0 || run->out != run->root || run->root->size == begin)
        return;
    tess_chat_span *turn = &run->turns[message - 1];
    turn->begin = turn->end == 0 ? begin : run->root->size;
    turn->end = run->root->size;
}

static tess_status run_for(template_run *run, template_scope *scope, const template_node *node)
{
    template_value loop = {.kind = TEMPLATE_LOOP};
    template_scope *inner;
    const template_list *items;
    TESS_TRY(loop_items(run, scope, node, &items));
    TESS_TRY(template_alloc(&run->arena, sizeof(template_loop), &loop.loop));
    loop.loop->items = items;
    for (size_t i = 0; i < items->n; i++) {
        size_t begin = run->root->size;
        loop.loop->index = i;
        TESS_TRY(template_scope_new(run, scope, &inner));
        TESS_TRY(template_scope_set(run, inner, template_text_of("loop"), &loop));
        TESS_TRY(assign(run, inner, node->a, &items->item[i]));
        TESS_TRY(run_list(run, inner, node->d));
        note_turn(run, &items->item[i], begin);
        bool breaks = run->breaks;
        run->breaks = run->continues = false;
        if (breaks)
            break;
    }
    if (items->n > 0 || node->e == NULL)
        return TESS_OK;
    TESS_TRY(template_scope_new(run, scope, &inner));
    return run_list(run, inner, node->e);
}

static tess_status run_set(template_run *run, template_scope *scope, const template_node *node)
{
    template_value value;
    TESS_TRY(template_evaluate(run, scope, node->b, &value));
    run->line = node->line;
    return assign(run, scope, node->a, &value);
}

static tess_status run_set_block(template_run *run, template_scope *scope, const template_node *node)
{
    template_value text;
    TESS_TRY(capture_inner(run, scope, node->d, &text));
    TESS_TRY(template_apply_filters(run, scope, node->b, &text, &text));
    return assign(run, scope, node->a, &text);
}

static tess_status run_filter_block(template_run *run, template_scope *scope, const template_node *node)
{
    template_value text;
    TESS_TRY(capture_inner(run, scope, node->d, &text));
    TESS_TRY(template_apply_filters(run, scope, node->b, &text, &text));
    return template_print(run, &text, run->out);
}

static tess_status run_with(template_run *run, template_scope *scope, const template_node *node)
{
    template_value value;
    template_scope *inner;
    TESS_TRY(template_scope_new(run, scope, &inner));
    for (const template_node *pair = node->a; pair != NULL; pair = pair->next) {
        TESS_TRY(template_evaluate(run, scope, pair->b, &value));
        TESS_TRY(assign(run, inner, pair->a, &value));
    }
    return run_list(run, inner, node->d);
}

static tess_status run_generation(template_run *run, template_scope *scope, const template_node *node)
{
    template_value text;
    template_mark *mark;
    TESS_TRY(capture_inner(run, scope, node->d, &text));
    TESS_TRY(template_alloc(&run->arena, sizeof(*mark), &mark));
    *mark = (template_mark){.older = run->marks,
                            .begin = run->root->size,
                            .size = text.text.size,
                            .hash = tess_hash_bytes(text.text.data, text.text.size, 0),
                            .line = node->line};
    run->marks = mark;
    return template_print(run, &text, run->out);
}

static tess_status run_one(template_run *run, template_scope *scope, const template_node *node)
{
    switch (node->kind) {
    case NODE_TEXT:
        TESS_TRY(template_step(run, node->text.size / 64));
        return tess_buffer_append(run->out, node->text.data, node->text.size);
    case NODE_OUTPUT:
        return run_output(run, scope, node);
    case NODE_IF:
        return run_if(run, scope, node);
    case NODE_FOR:
        return run_for(run, scope, node);
    case NODE_SET:
        return run_set(run, scope, node);
    case NODE_SET_BLOCK:
        return run_set_block(run, scope, node);
    case NODE_MACRO:
        return run_macro(run, scope, node);
    case NODE_CALL_BLOCK:
        return run_call_block(run, scope, node);
    case NODE_FILTER_BLOCK:
        return run_filter_block(run, scope, node);
    case NODE_WITH:
        return run_with(run, scope, node);
    case NODE_GENERATION:
        return run_generation(run, scope, node);
    case NODE_BREAK:
        run->breaks = true;
        return TESS_OK;
    case NODE_CONTINUE:
        run->continues = true;
        return TESS_OK;
    default:
        return TESS_FAIL(TESS_E_INTERNAL, "line %u: a node of kind %d is no statement", node->line, (int)node->kind);
    }
}

static tess_status run_list(template_run *run, template_scope *scope, const template_node *list)
{
    TESS_TRY(template_enter(run));
    for (; list != NULL && !run->breaks && !run->continues; list = list->next) {
        TESS_TRY(template_step(run, 1));
        run->line = list->line;
        TESS_TRY(run_one(run, scope, list));
        TEMPLATE_CHECK(run->out->size <= TEMPLATE_MEMORY, run, "it writes more than %d MiB", TEMPLATE_MEMORY >> 20);
    }
    template_leave(run);
    return TESS_OK;
}

/* ---- The whole rendering ---- */
static bool stands(const template_run *run, const template_mark *mark)
{
    return mark->begin + mark->size <= run->root->size &&
           tess_hash_bytes(run->root->data + mark->begin, mark->size, 0) == mark->hash;
}

static tess_status collect_spans(const template_run *run, tess_chat_spans *spans)
{
    size_t n = 0;
    for (const template_mark *mark = run->marks; mark != NULL; mark = mark->older, n++)
        if (!stands(run, mark))
            return template_fail(mark->line, TESS_E_UNSUPPORTED,
                                 "the text of a generation block is not written where the block stands (a macro or a "
                                 "set block holds it back): which tokens it becomes cannot be told");
    TESS_TRY(tess_mem_reserve(spans->mem, TESS_POOL_MISC, spans->n + n, sizeof(*spans->item), "spans", &spans->room,
                              &spans->item));
    n = spans->n += n;
    for (const template_mark *mark = run->marks; mark != NULL; mark = mark->older)
        spans->item[--n] = (tess_chat_span){mark->begin, mark->begin + mark->size};
    return TESS_OK;
}

static const template_table *const tables[TEMPLATE_SETS] = {
    [TEMPLATE_FILTERS] = &template_filters,           [TEMPLATE_TESTS] = &template_tests,
    [TEMPLATE_FUNCTIONS] = &template_functions,       [TEMPLATE_STRING_METHODS] = &template_string_methods,
    [TEMPLATE_DICT_METHODS] = &template_dict_methods, [TEMPLATE_LIST_METHODS] = &template_list_methods,
    [TEMPLATE_LOOP_METHODS] = &template_loop_methods};

tess_status template_run_all(template_run *run, template_scope *globals, const template_node *root,
                             tess_chat_spans *spans)
{
    template_scope *scope;
    run->call_macro = call_macro;
    run->tables = tables;
    run->root = run->out;
    TESS_TRY(template_scope_new(run, globals, &scope));
    TESS_TRY(run_list(run, scope, root));
    return spans != NULL && run->marks != NULL ? collect_spans(run, spans) : TESS_OK;
}
