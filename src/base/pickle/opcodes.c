/* The opcodes of a pickle: the function of each, the table of all, and the loop that runs a pickle. */
#include <string.h>

#include "base/mem/scoped.h"
#include "base/pickle/pickle_machine_impl.h"

/* ---- Protocol and frames, marks, the memo ---- */
static tess_status op_proto(machine *m)
{
    uint64_t protocol;
    TESS_TRY(machine_take_uint(m, 1, &protocol));
    TESS_CHECK(protocol <= 5, TESS_E_UNSUPPORTED, "protocol %llu: 0 to 5 are read", (unsigned long long)protocol);
    return TESS_OK;
}

static tess_status op_frame(machine *m)
{
    uint64_t length;
    TESS_TRY(machine_take_uint(m, 8, &length));
    TESS_CHECK(length <= m->size - m->at, TESS_E_FORMAT, "cut off: a frame of %llu bytes, %zu follow",
               (unsigned long long)length, m->size - m->at);
    return TESS_OK;
}

static tess_status op_stop(machine *m)
{
    m->stopped = true;
    return machine_pop(m, &m->pickle->root);
}

static tess_status op_mark(machine *m)
{
    TESS_TRY(machine_grow(m, (void **)&m->marks, &m->marks_room, m->n_marks, sizeof(*m->marks)));
    m->marks[m->n_marks++] = m->n_stack;
    return TESS_OK;
}

static tess_status op_pop_mark(machine *m)
{
    tess_pickle_value **items;
    size_t n;
    return machine_pop_to_mark(m, &items, &n);
}

static tess_status op_pop(machine *m)
{
    tess_pickle_value *value;
    if (m->n_marks > 0 && m->marks[m->n_marks - 1] == m->n_stack)
        return op_pop_mark(m);
    return machine_pop(m, &value);
}

static tess_status op_dup(machine *m)
{
    tess_pickle_value *value;
    TESS_TRY(machine_top(m, &value));
    return machine_push(m, value);
}

/* Stores the newest value in the memo. Refuses numbers beyond the size of the pickle, which no writer uses. */
static tess_status remember(machine *m, uint64_t index)
{
    tess_pickle_value *value;
    TESS_TRY(machine_top(m, &value));
    TESS_CHECK(index < m->size, TESS_E_FORMAT, "memo %llu in a pickle of %zu bytes", (unsigned long long)index,
               m->size);
    TESS_TRY(machine_grow(m, (void **)&m->memo, &m->memo_room, index, sizeof(*m->memo)));
    m->n_memo += m->memo[index] == NULL;
    m->memo[index] = value;
    return TESS_OK;
}

static tess_status take_index(machine *m, uint64_t *index)
{
    const char *line;
    size_t n;
    if (m->op->width > 0)
        return machine_take_uint(m, m->op->width, index);
    *index = 0;
    TESS_TRY(machine_take_line(m, &line, &n));
    TESS_CHECK(n >= 1 && n <= 18, TESS_E_FORMAT, "a memo number of %zu digits", n);
    for (size_t i = 0; i < n; i++) {
        TESS_CHECK(line[i] >= '0' && line[i] <= '9', TESS_E_FORMAT, "'%.*s' is not a memo number", (int)n, line);
        *index = *index * 10 + (uint64_t)(line[i] - '0');
    }
    return TESS_OK;
}

static tess_status op_put(machine *m)
{
    uint64_t index;
    TESS_TRY(take_index(m, &index));
    return remember(m, index);
}

static tess_status op_memoize(machine *m)
{
    return remember(m, m->n_memo);
}

static tess_status op_get(machine *m)
{
    uint64_t index;
    TESS_TRY(take_index(m, &index));
    TESS_CHECK(index < m->memo_room && m->memo[index] != NULL, TESS_E_FORMAT, "memo %llu was never set",
               (unsigned long long)index);
    return machine_push(m, m->memo[index]);
}

/* ---- Plain values ---- */
static tess_status op_none(machine *m)
{
    return machine_push(m, m->none);
}

static tess_status op_true(machine *m)
{
    return machine_push(m, m->yes);
}

static tess_status op_false(machine *m)
{
    return machine_push(m, m->no);
}

/* Reads a line, or counted bytes, and makes a value of it with the opcode's reader. */
static tess_status op_read(machine *m)
{
    const char *data;
    size_t n;
    tess_pickle_value *value;
    TESS_TRY(m->op->width > 0 ? machine_take_counted(m, m->op->width, &data, &n) : machine_take_line(m, &data, &n));
    TESS_TRY(m->op->read(m->pickle, data, n, &value));
    return machine_push(m, value);
}

static tess_status op_int(machine *m)
{
    size_t left = m->size - m->at;
    if (left >= 3 && memcmp(m->data + m->at, "01\n", 3) == 0) {
        m->at += 3;
        return op_true(m);
    }
    if (left >= 3 && memcmp(m->data + m->at, "00\n", 3) == 0) {
        m->at += 3;
        return op_false(m);
    }
    return op_read(m);
}

static tess_status op_binint(machine *m)
{
    uint64_t bits;
    tess_pickle_value *value;
    TESS_TRY(machine_take_uint(m, m->op->width, &bits));
    TESS_TRY(pickle_make_int(m->pickle, m->op->width == 4 ? (int32_t)bits : (int64_t)bits, &value));
    return machine_push(m, value);
}

static tess_status op_binfloat(machine *m)
{
    const uint8_t *bytes;
    uint64_t bits = 0;
    tess_pickle_value *value;
    TESS_TRY(machine_take(m, 8, &bytes));
    for (int i = 0; i < 8; i++)
        bits = bits << 8 | bytes[i];
    TESS_TRY(pickle_make(m->pickle, TESS_PICKLE_FLOAT, &value));
    memcpy(&value->real, &bits, sizeof(bits));
    return machine_push(m, value);
}

/* ---- Containers ---- */
static tess_status op_empty(machine *m)
{
    tess_pickle_value *value;
    TESS_TRY(pickle_make(m->pickle, m->op->kind, &value));
    return machine_push(m, value);
}

/* Takes the values above the newest mark. */
static tess_status take_items(machine *m, tess_pickle_value ***items, size_t *n)
{
    TESS_TRY(machine_pop_to_mark(m, items, n));
    TESS_CHECK(m->op->kind != TESS_PICKLE_DICT || *n % 2 == 0, TESS_E_FORMAT, "a key without a value");
    return TESS_OK;
}

static tess_status push_filled(machine *m, tess_pickle_value *const *items, size_t n)
{
    tess_pickle_value *value;
    TESS_TRY(pickle_make(m->pickle, m->op->kind, &value));
    TESS_TRY(pickle_append(m->pickle, value, items, n));
    return machine_push(m, value);
}

static tess_status op_make(machine *m)
{
    tess_pickle_value **items;
    size_t n;
    TESS_TRY(take_items(m, &items, &n));
    return push_filled(m, items, n);
}

/* Takes the newest op->width values, oldest first. */
static tess_status pop_values(machine *m, tess_pickle_value *items[3])
{
    for (size_t i = m->op->width; i-- > 0;)
        TESS_TRY(machine_pop(m, &items[i]));
    return TESS_OK;
}

static tess_status op_short_tuple(machine *m)
{
    tess_pickle_value *items[3];
    TESS_TRY(pop_values(m, items));
    return push_filled(m, items, m->op->width);
}

/* Adds items to the newest value, or to the container part of an object whose class extends a container. */
static tess_status add_items(machine *m, tess_pickle_value *const *items, size_t n)
{
    tess_pickle_kind kind = m->op->kind;
    tess_pickle_value *container;
    TESS_TRY(machine_top(m, &container));
    if (container->kind == TESS_PICKLE_OBJECT) {
        tess_pickle_object *object = container->object;
        tess_pickle_value **part = kind == TESS_PICKLE_DICT ? &object->dict : &object->list;
        if (*part == NULL)
            TESS_TRY(pickle_make(m->pickle, kind, part));
        container = *part;
    }
    TESS_CHECK(container->kind == kind, TESS_E_FORMAT, "items for %s: expected %s",
               tess_pickle_kind_name(container->kind), tess_pickle_kind_name(kind));
    return pickle_append(m->pickle, container, items, n);
}

static tess_status op_add(machine *m)
{
    tess_pickle_value *items[3];
    TESS_TRY(pop_values(m, items));
    return add_items(m, items, m->op->width);
}

static tess_status op_add_marked(machine *m)
{
    tess_pickle_value **items;
    size_t n;
    TESS_TRY(take_items(m, &items, &n));
    return add_items(m, items, n);
}

/* ---- Names, calls and states: this reader only makes inert objects of them ---- */
static tess_status take_name(machine *m, tess_pickle_value **name)
{
    const char *module, *member;
    size_t n_module, n_member;
    TESS_TRY(machine_take_line(m, &module, &n_module));
    TESS_TRY(machine_take_line(m, &member, &n_member));
    return pickle_make_name(m->pickle, module, n_module, member, n_member, name);
}

static tess_status op_global(machine *m)
{
    tess_pickle_value *name;
    TESS_TRY(take_name(m, &name));
    return machine_push(m, name);
}

static tess_status op_stack_global(machine *m)
{
    tess_pickle_value *module, *member, *name;
    TESS_TRY(machine_pop(m, &member));
    TESS_TRY(machine_pop(m, &module));
    TESS_CHECK(module->kind == TESS_PICKLE_TEXT && member->kind == TESS_PICKLE_TEXT, TESS_E_FORMAT,
               "a name made of %s and %s", tess_pickle_kind_name(module->kind), tess_pickle_kind_name(member->kind));
    TESS_TRY(pickle_make_name(m->pickle, module->text, module->n, member->text, member->n, &name));
    return machine_push(m, name);
}

static tess_status call_and_push(machine *m, tess_pickle_value *callee, tess_pickle_value *args)
{
    tess_pickle_value *value;
    TESS_TRY(pickle_call(m->pickle, callee, args, &value));
    return machine_push(m, value);
}

/* REDUCE and NEWOBJ: calling a class and making an instance of it give the same inert object. */
static tess_status op_call(machine *m)
{
    tess_pickle_value *callee, *args;
    TESS_TRY(machine_pop(m, &args));
    TESS_TRY(machine_pop(m, &callee));
    return call_and_push(m, callee, args);
}

static tess_status op_newobj_ex(machine *m)
{
    tess_pickle_value *callee, *args, *named, *value;
    TESS_TRY(machine_pop(m, &named));
    TESS_TRY(machine_pop(m, &args));
    TESS_TRY(machine_pop(m, &callee));
    TESS_CHECK(named->kind == TESS_PICKLE_DICT, TESS_E_FORMAT, "named arguments are %s",
               tess_pickle_kind_name(named->kind));
    TESS_TRY(pickle_call(m->pickle, callee, args, &value));
    if (value->kind == TESS_PICKLE_OBJECT)
        value->object->named = named;
    return machine_push(m, value);
}

static tess_status op_inst(machine *m)
{
    tess_pickle_value **items, *name, *args;
    size_t n;
    TESS_TRY(take_name(m, &name));
    TESS_TRY(machine_pop_to_mark(m, &items, &n));
    TESS_TRY(pickle_make(m->pickle, TESS_PICKLE_TUPLE, &args));
    TESS_TRY(pickle_append(m->pickle, args, items, n));
    return call_and_push(m, name, args);
}

static tess_status op_obj(machine *m)
{
    tess_pickle_value **items, *args;
    size_t n;
    TESS_TRY(machine_pop_to_mark(m, &items, &n));
    TESS_CHECK(n >= 1, TESS_E_FORMAT, "an object without a class");
    tess_pickle_value *name = items[0];
    TESS_TRY(pickle_make(m->pickle, TESS_PICKLE_TUPLE, &args));
    TESS_TRY(pickle_append(m->pickle, args, items + 1, n - 1));
    return call_and_push(m, name, args);
}

/* BUILD sets an object's state. A value that has become plain data drops it (attributes of an OrderedDict). */
static tess_status op_build(machine *m)
{
    tess_pickle_value *state, *value;
    TESS_TRY(machine_pop(m, &state));
    TESS_TRY(machine_top(m, &value));
    if (value->kind == TESS_PICKLE_OBJECT)
        value->object->state = state;
    return TESS_OK;
}

static tess_status push_persistent(machine *m, tess_pickle_value *id)
{
    tess_pickle_value *value;
    TESS_TRY(pickle_make(m->pickle, TESS_PICKLE_PERSISTENT, &value));
    TESS_TRY(pickle_append(m->pickle, value, &id, 1));
    return machine_push(m, value);
}

static tess_status op_persid(machine *m)
{
    const char *line;
    size_t n;
    tess_pickle_value *id;
    TESS_TRY(machine_take_line(m, &line, &n));
    TESS_TRY(pickle_make_text(m->pickle, line, n, &id));
    return push_persistent(m, id);
}

static tess_status op_binpersid(machine *m)
{
    tess_pickle_value *id;
    TESS_TRY(machine_pop(m, &id));
    return push_persistent(m, id);
}

static tess_status op_extension(TESS_UNUSED machine *m)
{
    return TESS_FAIL(TESS_E_UNSUPPORTED, "it names a class by a number of the writer's extension registry");
}

static tess_status op_buffer(TESS_UNUSED machine *m)
{
    return TESS_FAIL(TESS_E_UNSUPPORTED, "a buffer that lies outside the pickle");
}

/* ---- The table ---- */
static const pickle_opcode opcodes[256] = {
    ['('] = {"MARK", .run = op_mark},
    ['.'] = {"STOP", .run = op_stop},
    ['0'] = {"POP", .run = op_pop},
    ['1'] = {"POP_MARK", .run = op_pop_mark},
    ['2'] = {"DUP", .run = op_dup},
    ['B'] = {"BINBYTES", .run = op_read, .width = 4, .read = pickle_make_bytes},
    ['C'] = {"SHORT_BINBYTES", .run = op_read, .width = 1, .read = pickle_make_bytes},
    ['F'] = {"FLOAT", .run = op_read, .read = pickle_read_float},
    ['G'] = {"BINFLOAT", .run = op_binfloat},
    ['I'] = {"INT", .run = op_int, .read = pickle_read_int},
    ['J'] = {"BININT", .run = op_binint, .width = 4},
    ['K'] = {"BININT1", .run = op_binint, .width = 1},
    ['L'] = {"LONG", .run = op_read, .read = pickle_read_int},
    ['M'] = {"BININT2", .run = op_binint, .width = 2},
    ['N'] = {"NONE", .run = op_none},
    ['P'] = {"PERSID", .run = op_persid},
    ['Q'] = {"BINPERSID", .run = op_binpersid},
    ['R'] = {"REDUCE", .run = op_call},
    ['S'] = {"STRING", .run = op_read, .read = pickle_read_quoted},
    ['T'] = {"BINSTRING", .run = op_read, .width = 4, .read = pickle_make_text},
    ['U'] = {"SHORT_BINSTRING", .run = op_read, .width = 1, .read = pickle_make_text},
    ['V'] = {"UNICODE", .run = op_read, .read = pickle_read_escaped},
    ['X'] = {"BINUNICODE", .run = op_read, .width = 4, .read = pickle_make_text},
    [']'] = {"EMPTY_LIST", op_empty, .kind = TESS_PICKLE_LIST},
    ['a'] = {"APPEND", .run = op_add, .width = 1, .kind = TESS_PICKLE_LIST},
    ['b'] = {"BUILD", .run = op_build},
    ['c'] = {"GLOBAL", .run = op_global},
    ['d'] = {"DICT", .run = op_make, .kind = TESS_PICKLE_DICT},
    ['e'] = {"APPENDS", .run = op_add_marked, .kind = TESS_PICKLE_LIST},
    ['g'] = {"GET", .run = op_get},
    ['h'] = {"BINGET", .run = op_get, .width = 1},
    ['i'] = {"INST", .run = op_inst},
    ['j'] = {"LONG_BINGET", .run = op_get, .width = 4},
    ['l'] = {"LIST", .run = op_make, .kind = TESS_PICKLE_LIST},
    ['o'] = {"OBJ", .run = op_obj},
    ['p'] = {"PUT", .run = op_put},
    ['q'] = {"BINPUT", .run = op_put, .width = 1},
    ['r'] = {"LONG_BINPUT", .run = op_put, .width = 4},
    ['s'] = {"SETITEM", .run = op_add, .width = 2, .kind = TESS_PICKLE_DICT},
    ['t'] = {"TUPLE", .run = op_make, .kind = TESS_PICKLE_TUPLE},
    ['u'] = {"SETITEMS", .run = op_add_marked, .kind = TESS_PICKLE_DICT},
    [')'] = {"EMPTY_TUPLE", .run = op_empty, .kind = TESS_PICKLE_TUPLE},
    ['}'] = {"EMPTY_DICT", .run = op_empty, .kind = TESS_PICKLE_DICT},
    [0x80] = {"PROTO", .run = op_proto},
    [0x81] = {"NEWOBJ", .run = op_call},
    [0x82] = {"EXT1", .run = op_extension},
    [0x83] = {"EXT2", .run = op_extension},
    [0x84] = {"EXT4", .run = op_extension},
    [0x85] = {"TUPLE1", .run = op_short_tuple, .width = 1, .kind = TESS_PICKLE_TUPLE},
    [0x86] = {"TUPLE2", .run = op_short_tuple, .width = 2, .kind = TESS_PICKLE_TUPLE},
    [0x87] = {"TUPLE3", .run = op_short_tuple, .width = 3, .kind = TESS_PICKLE_TUPLE},
    [0x88] = {"NEWTRUE", .run = op_true},
    [0x89] = {"NEWFALSE", .run = op_false},
    [0x8a] = {"LONG1", .run = op_read, .width = 1, .read = pickle_read_bytes_int},
    [0x8b] = {"LONG4", .run = op_read, .width = 4, .read = pickle_read_bytes_int},
    [0x8c] = {"SHORT_BINUNICODE", .run = op_read, .width = 1, .read = pickle_make_text},
    [0x8d] = {"BINUNICODE8", .run = op_read, .width = 8, .read = pickle_make_text},
    [0x8e] = {"BINBYTES8", .run = op_read, .width = 8, .read = pickle_make_bytes},
    [0x8f] = {"EMPTY_SET", .run = op_empty, .kind = TESS_PICKLE_SET},
    [0x90] = {"ADDITEMS", .run = op_add_marked, .kind = TESS_PICKLE_SET},
    [0x91] = {"FROZENSET", .run = op_make, .kind = TESS_PICKLE_SET},
    [0x92] = {"NEWOBJ_EX", .run = op_newobj_ex},
    [0x93] = {"STACK_GLOBAL", .run = op_stack_global},
    [0x94] = {"MEMOIZE", .run = op_memoize},
    [0x95] = {"FRAME", .run = op_frame},
    [0x96] = {"BYTEARRAY8", .run = op_read, .width = 8, .read = pickle_make_bytes},
    [0x97] = {"NEXT_BUFFER", .run = op_buffer},
    [0x98] = {"READONLY_BUFFER", .run = op_buffer},
};

/* ---- The run ---- */
static tess_status step(machine *m, const char *what)
{
    size_t offset = m->at;
    TESS_CHECK(offset < m->size, TESS_E_FORMAT, "%s: offset %zu: cut off: no STOP", what, offset);
    uint8_t byte = m->data[m->at++];
    m->op = &opcodes[byte];
    TESS_CHECK(m->op->run != NULL, TESS_E_FORMAT, "%s: offset %zu: 0x%02x is not an opcode", what, offset, byte);
    TESS_TRY_CTX(m->op->run(m), "%s: offset %zu, %s", what, offset, m->op->name);
    return TESS_OK;
}

static tess_status run(machine *m, const char *what)
{
    TESS_TRY(pickle_make(m->pickle, TESS_PICKLE_NONE, &m->none));
    TESS_TRY(pickle_make(m->pickle, TESS_PICKLE_BOOL, &m->yes));
    TESS_TRY(pickle_make(m->pickle, TESS_PICKLE_BOOL, &m->no));
    m->yes->flag = true;
    while (!m->stopped)
        TESS_TRY(step(m, what));
    m->pickle->size = m->at;
    return TESS_OK;
}

tess_status tess_pickle_parse(tess_mem *mem, const void *data, size_t size, const char *what,
                              const tess_pickle_options *options, tess_pickle **out)
{
    static const tess_pickle_options any = {0};
    const size_t most = (size_t)4 << 30, least = 64 << 10;
    tess_pickle *pickle;
    *out = NULL;
    TESS_TRY(TESS_NEW(mem, 1, "pickle", &pickle));
    *pickle = (tess_pickle){.mem = mem, .options = options != NULL ? options : &any};
    pickle->limit = size > (most - least) / 64 ? most : least + 64 * size;
    if (pickle->options->max_bytes > 0)
        pickle->limit = pickle->options->max_bytes;
    machine m = {.pickle = pickle, .data = data, .size = size};
    tess_status status = run(&m, what);
    tess_mem_free(mem, m.stack);
    tess_mem_free(mem, m.marks);
    tess_mem_free(mem, m.memo);
    if (status == TESS_OK)
        status = pickle_check_graph(pickle->root, what);
    if (status != TESS_OK) {
        tess_pickle_destroy(&pickle);
        return status;
    }
    *out = pickle;
    return TESS_OK;
}
