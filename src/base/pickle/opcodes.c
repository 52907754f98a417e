/* The opcodes by their bytes, and the run of a pickle through them. */
#include "base/pickle/pickle_machine_impl.h"

typedef struct opcode {
    const char *name;
    tess_status (*run)(machine *m);
} opcode;

static const opcode opcodes[256] = {
    ['('] = {"MARK", pickle_op_mark},
    ['.'] = {"STOP", pickle_op_stop},
    ['0'] = {"POP", pickle_op_pop},
    ['1'] = {"POP_MARK", pickle_op_pop_mark},
    ['2'] = {"DUP", pickle_op_dup},
    ['B'] = {"BINBYTES", pickle_op_bytes},
    ['C'] = {"SHORT_BINBYTES", pickle_op_bytes},
    ['F'] = {"FLOAT", pickle_op_float},
    ['G'] = {"BINFLOAT", pickle_op_binfloat},
    ['I'] = {"INT", pickle_op_int},
    ['J'] = {"BININT", pickle_op_binint},
    ['K'] = {"BININT1", pickle_op_binint},
    ['L'] = {"LONG", pickle_op_long},
    ['M'] = {"BININT2", pickle_op_binint},
    ['N'] = {"NONE", pickle_op_none},
    ['P'] = {"PERSID", pickle_op_persid},
    ['Q'] = {"BINPERSID", pickle_op_binpersid},
    ['R'] = {"REDUCE", pickle_op_call},
    ['S'] = {"STRING", pickle_op_string},
    ['T'] = {"BINSTRING", pickle_op_text_4},
    ['U'] = {"SHORT_BINSTRING", pickle_op_text_1},
    ['V'] = {"UNICODE", pickle_op_unicode},
    ['X'] = {"BINUNICODE", pickle_op_text_4},
    [']'] = {"EMPTY_LIST", pickle_op_empty_list},
    ['a'] = {"APPEND", pickle_op_append},
    ['b'] = {"BUILD", pickle_op_build},
    ['c'] = {"GLOBAL", pickle_op_global},
    ['d'] = {"DICT", pickle_op_dict},
    ['e'] = {"APPENDS", pickle_op_appends},
    ['g'] = {"GET", pickle_op_get},
    ['h'] = {"BINGET", pickle_op_binget},
    ['i'] = {"INST", pickle_op_inst},
    ['j'] = {"LONG_BINGET", pickle_op_binget},
    ['l'] = {"LIST", pickle_op_list},
    ['o'] = {"OBJ", pickle_op_obj},
    ['p'] = {"PUT", pickle_op_put},
    ['q'] = {"BINPUT", pickle_op_binput},
    ['r'] = {"LONG_BINPUT", pickle_op_binput},
    ['s'] = {"SETITEM", pickle_op_setitem},
    ['t'] = {"TUPLE", pickle_op_tuple},
    ['u'] = {"SETITEMS", pickle_op_setitems},
    [')'] = {"EMPTY_TUPLE", pickle_op_empty_tuple},
    ['}'] = {"EMPTY_DICT", pickle_op_empty_dict},
    [0x80] = {"PROTO", pickle_op_proto},
    [0x81] = {"NEWOBJ", pickle_op_call},
    [0x82] = {"EXT1", pickle_op_extension},
    [0x83] = {"EXT2", pickle_op_extension},
    [0x84] = {"EXT4", pickle_op_extension},
    [0x85] = {"TUPLE1", pickle_op_short_tuple},
    [0x86] = {"TUPLE2", pickle_op_short_tuple},
    [0x87] = {"TUPLE3", pickle_op_short_tuple},
    [0x88] = {"NEWTRUE", pickle_op_true},
    [0x89] = {"NEWFALSE", pickle_op_false},
    [0x8a] = {"LONG1", pickle_op_binlong},
    [0x8b] = {"LONG4", pickle_op_binlong},
    [0x8c] = {"SHORT_BINUNICODE", pickle_op_text_1},
    [0x8d] = {"BINUNICODE8", pickle_op_text_8},
    [0x8e] = {"BINBYTES8", pickle_op_bytes},
    [0x8f] = {"EMPTY_SET", pickle_op_empty_set},
    [0x90] = {"ADDITEMS", pickle_op_additems},
    [0x91] = {"FROZENSET", pickle_op_frozenset},
    [0x92] = {"NEWOBJ_EX", pickle_op_newobj_ex},
    [0x93] = {"STACK_GLOBAL", pickle_op_stack_global},
    [0x94] = {"MEMOIZE", pickle_op_memoize},
    [0x95] = {"FRAME", pickle_op_frame},
    [0x96] = {"BYTEARRAY8", pickle_op_bytes},
    [0x97] = {"NEXT_BUFFER", pickle_op_buffer},
    [0x98] = {"READONLY_BUFFER", pickle_op_buffer},
};

static tess_status step(machine *m, const char *what)
{
    size_t offset = m->at;
    TESS_CHECK(offset < m->size, TESS_E_FORMAT, "%s: offset %zu: cut off: no STOP", what, offset);
    m->op = m->data[m->at++];
    const opcode *opcode = &opcodes[m->op];
    TESS_CHECK(opcode->run != NULL, TESS_E_FORMAT, "%s: offset %zu: 0x%02x is not an opcode", what, offset, m->op);
    TESS_TRY_CTX(opcode->run(m), "%s: offset %zu, %s", what, offset, opcode->name);
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

static size_t default_limit(size_t size)
{
    const size_t most = (size_t)4 << 30, least = 64 << 10;
    return size > (most - least) / 64 ? most : least + 64 * size;
}

static tess_status read_all(tess_pickle *pickle, const void *data, size_t size, const char *what,
                            const tess_pickle_options *options)
{
    machine m = {.pickle = pickle, .options = options, .data = data, .size = size};
    tess_status status = run(&m, what);
    tess_mem_free(pickle->mem, m.stack);
    tess_mem_free(pickle->mem, m.marks);
    tess_mem_free(pickle->mem, m.memo);
    return status == TESS_OK ? pickle_check_graph(pickle->root, what) : status;
}

tess_status tess_pickle_parse(tess_mem *mem, const void *data, size_t size, const char *what,
                              const tess_pickle_options *options, tess_pickle **out)
{
    static const tess_pickle_options any = {0};
    void *memory;
    *out = NULL;
    TESS_TRY(tess_mem_alloc(mem, TESS_POOL_MISC, sizeof(tess_pickle), "pickle", &memory));
    tess_pickle *pickle = memory;
    *pickle = (tess_pickle){.mem = mem};
    options = options != NULL ? options : &any;
    pickle->limit = options->max_bytes > 0 ? options->max_bytes : default_limit(size);
    tess_status status = read_all(pickle, data, size, what, options);
    if (status != TESS_OK) {
        tess_pickle_destroy(&pickle);
        return status;
    }
    *out = pickle;
    return TESS_OK;
}
