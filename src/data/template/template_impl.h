/* The parts of a chat template, which process text -> tokens -> tree -> output. Private to this folder.
 *
 * - template_lexer.c: tokens, with jinja2's control of whitespace
 * - template_expression.c, template_parse.c: expressions and statements of the tree
 * - template_value.c: values: Python's None, bool, int, float, str, list, tuple, dict, and the other kinds of
 *   template_kind
 * - template_text.c: strings: characters, spaces, case
 * - template_print.c, template_json.c: str() and repr(), tojson
 * - template_evaluate.c, template_run.c, template_scope.c: expressions, statements, names
 * - template_use.c: finds filters, tests, functions and methods in the tables of the files below, and calls them
 * - template_filters.c, template_sequences.c: filters of one value and of many
 * - template_tests.c: tests
 * - template_methods.c: methods of strings
 * - template_call.c: functions, and the other methods
 *
 * Everything is allocated in an arena: the tree in the template's, values in the arena of a rendering. Nothing is
 * freed separately. */
#ifndef TESS_DATA_TEMPLATE_TEMPLATE_IMPL_H
#define TESS_DATA_TEMPLATE_TEMPLATE_IMPL_H

#include "data/template/chat_template.h"

enum {
    TEMPLATE_BYTES = 1 << 20, /* size of the largest template */
    TEMPLATE_DEPTH = 200,     /* depth of the tree */
    TEMPLATE_RUN_DEPTH = 600, /* depth of evaluation, including calls of macros, and of values */
    /* Steps of a rendering: each node evaluated, each item visited and each 64 bytes written count as one */
    TEMPLATE_STEPS = 4 << 20,
    TEMPLATE_MEMORY = 256 << 20, /* memory of a rendering's values */
    TEMPLATE_PARSED_MEMORY = 64 << 20,
    TEMPLATE_RANGE = 100000 /* longest range(), as in jinja2's sandbox */
};

/* ---- template_arena.c ---- */
typedef struct template_chunk template_chunk;
typedef struct template_arena {
    tess_mem *mem;
    template_chunk *newest;
    size_t used, limit; /* bytes of all chunks */
} template_arena;
/* Allocates zeroed memory. TESS_E_INVALID: the arena's limit is exceeded. */
tess_status template_alloc(template_arena *arena, size_t size, void *out);
void template_arena_free(template_arena *arena);

/* ---- Text ---- */
typedef struct template_text {
    const char *data;
    size_t size;
} template_text;

static inline template_text template_text_of(const char *text)
{
    return (template_text){text, __builtin_strlen(text)};
}
bool template_text_is(template_text text, const char *word);

/* ---- Values ---- */
typedef enum template_kind {
    TEMPLATE_UNDEFINED, /* text: name of what is undefined, for messages */
    TEMPLATE_NONE,
    TEMPLATE_BOOL,
    TEMPLATE_INT,
    TEMPLATE_FLOAT,
    TEMPLATE_STRING,
    TEMPLATE_LIST,
    TEMPLATE_TUPLE,
    TEMPLATE_RANGE_OF, /* a range(): like a tuple, but prints and compares differently */
    TEMPLATE_VIEW,     /* keys(), values(), items(): cannot be indexed */
    TEMPLATE_ITERATOR, /* items of a generator, which can be read only once */
    TEMPLATE_DICT,
    TEMPLATE_NAMESPACE,
    TEMPLATE_LOOP,
    TEMPLATE_MACRO,
    TEMPLATE_FUNCTION, /* text: name of the function */
    TEMPLATE_METHOD
} template_kind;

typedef struct template_value {
    template_kind kind;
    bool markup; /* a string that is already HTML, from safe or escape: + escapes what is added to it */
    bool rough;  /* a float of JSON that may be an integer of more than 64 bits; its exact digits are not known */
    union {
        bool truth;
        int64_t integer;
        double real;
        template_text text;
        struct template_list *list;
        struct template_dict *dict;
        struct template_loop *loop;
        struct template_macro *macro;
        struct template_method *method;
    };
} template_value;

typedef struct template_list {
    template_value *item;
    size_t n, room;
    size_t next; /* position of an iterator */
} template_list;

/* Entries are in the order of insertion. */
typedef struct template_dict {
    template_value *key, *value;
    size_t n, room;
    size_t message; /* number (from 1) of the message that the dict represents; 0: it is not a message */
} template_dict;

typedef struct template_loop {
    const template_list *items;
    size_t index;                  /* index of the current item */
    const template_value *changed; /* the value that loop.changed saw last; NULL: none yet */
} template_loop;

typedef struct template_method {
    template_value self;
    const struct template_builtin *builtin;
} template_method;

typedef struct template_macro {
    const struct template_node *node; /* MACRO or CALL_BLOCK */
    struct template_scope *scope;     /* the scope in which the macro was defined */
} template_macro;

/* Arguments of a call, filter or test. */
typedef struct template_args {
    const template_value *item;
    size_t n;
    const template_text *name; /* (n_named) names of the named arguments */
    const template_value *named;
    size_t n_named;
} template_args;

/* ---- The tree ---- */
typedef enum template_node_kind {
    NODE_LITERAL,      /* value */
    NODE_NAME,         /* text */
    NODE_LIST,         /* a: items */
    NODE_TUPLE,        /* a: items */
    NODE_DICT,         /* a: PAIRs */
    NODE_PAIR,         /* a: key, b: value */
    NODE_ATTRIBUTE,    /* a.text */
    NODE_ITEM,         /* a[b] */
    NODE_SLICE,        /* a:b:c, each may be NULL */
    NODE_CALL,         /* a(b: arguments) */
    NODE_NAMED,        /* text=a: a named argument; or a parameter with its default (or NULL) */
    NODE_FILTER,       /* a | text(b); a is NULL in a filter block or set block */
    NODE_TEST,         /* a is text(b) */
    NODE_NOT,          /* not a */
    NODE_NEGATIVE,     /* -a */
    NODE_POSITIVE,     /* +a */
    NODE_AND,          /* a and b */
    NODE_OR,           /* a or b */
    NODE_BINARY,       /* a op b */
    NODE_CONCAT,       /* a: items, joined by ~ */
    NODE_COMPARE,      /* a, b: OPERANDs */
    NODE_OPERAND,      /* op a */
    NODE_CONDITION,    /* b if a else c; c may be NULL */
    NODE_TEXT,         /* text */
    NODE_OUTPUT,       /* {{ a }} */
    NODE_IF,           /* a: test, b: body, c: else */
    NODE_FOR,          /* a: target, b: iterable, c: test or NULL, d: body, e: else */
    NODE_SET,          /* a: target, b: value */
    NODE_SET_BLOCK,    /* a: target, b: filter or NULL, d: body */
    NODE_MACRO,        /* text, b: parameters, d: body */
    NODE_CALL_BLOCK,   /* a: call, b: parameters of the caller, d: body */
    NODE_FILTER_BLOCK, /* b: filter, d: body */
    NODE_WITH,         /* a: PAIRs of target and value, d: body */
    NODE_GENERATION,   /* d: body */
    NODE_BREAK,
    NODE_CONTINUE
} template_node_kind;

typedef enum template_op {
    OP_NONE,
    OP_ADD,
    OP_SUB,
    OP_MUL,
    OP_DIV,
    OP_FLOORDIV,
    OP_MOD,
    OP_POW,
    OP_EQ,
    OP_NE,
    OP_LT,
    OP_LE,
    OP_GT,
    OP_GE,
    OP_IN,
    OP_NOT_IN
} template_op;

typedef struct template_node {
    template_node_kind kind;
    template_op op;
    uint32_t line;
    struct template_node *a, *b, *c, *d, *e;
    struct template_node *next; /* next in a list */
    template_text text;
    template_value value;
} template_node;

struct tess_chat_template {
    template_arena arena;
    const template_node *root; /* first statement of the list */
    bool marks;
    template_text source;
};

/* ---- template_lexer.c ---- */
typedef enum template_token_kind {
    TOKEN_DATA,
    TOKEN_OUTPUT_BEGIN, /* {{ */
    TOKEN_OUTPUT_END,
    TOKEN_BLOCK_BEGIN, /* {% */
    TOKEN_BLOCK_END,
    TOKEN_NAME,
    TOKEN_STRING, /* text: the content without quotes, with escapes resolved */
    TOKEN_INT,
    TOKEN_FLOAT,
    TOKEN_OPERATOR, /* text */
    TOKEN_END
} template_token_kind;

typedef struct template_token {
    template_token_kind kind;
    uint32_t line;
    template_text text;
    int64_t integer;
    double real;
} template_token;

typedef struct template_tokens {
    template_token *item;
    size_t n, room;
} template_tokens;

/* Splits the text into tokens. The last token is TOKEN_END. */
tess_status template_lex(template_arena *arena, template_text text, template_tokens *tokens);

/* ---- template_expression.c ---- */
typedef struct template_parser {
    template_arena *arena;
    const template_token *token; /* the current token */
    int depth, loops;            /* loops: number of loops around the current statement inside the same macro */
    bool marks;
} template_parser;

tess_status template_node_new(template_parser *p, template_node_kind kind, template_node **node);
bool template_at(const template_parser *p, const char *op_or_name);
bool template_skip(template_parser *p, const char *op_or_name);
tess_status template_expect(template_parser *p, const char *op_or_name);
tess_status template_expect_kind(template_parser *p, template_token_kind kind, const char *what);
tess_status template_expect_name(template_parser *p, template_text *name);
tess_status template_unexpected(const template_parser *p, const char *wanted);
/* Parses one expression, or several with commas, which form a tuple. with_condition: "a if b else c" belongs to it. */
tess_status template_parse_tuple(template_parser *p, bool with_condition, template_node **node);
tess_status template_parse_expression(template_parser *p, template_node **node);
/* Parses a name with optional arguments, and more of them after "|". The innermost `a` of the last node is NULL. */
tess_status template_parse_filters(template_parser *p, template_node **node);

/* ---- template_parse.c ---- */
tess_status template_parse(template_parser *p, template_node **root);

/* ---- A rendering ---- */
typedef struct template_scope {
    struct template_scope *parent;
    template_dict names;
} template_scope;

typedef struct template_run template_run;

/* ---- Filters, tests, functions and methods: called by name ---- */
typedef enum template_set {
    TEMPLATE_FILTERS,
    TEMPLATE_TESTS,
    TEMPLATE_FUNCTIONS,
    TEMPLATE_STRING_METHODS,
    TEMPLATE_DICT_METHODS,
    TEMPLATE_LIST_METHODS,
    TEMPLATE_LOOP_METHODS,
    TEMPLATE_SETS
} template_set;

typedef struct template_use {
    template_run *run;
    const template_value *value; /* the filtered or tested value, or the method's object; NULL in functions */
    const template_args *args;
    template_value *out;
    int variant; /* copied from the row */
} template_use;

enum { TEMPLATE_ANY = 1 << 30 }; /* value of `most` for functions that accept any arguments with any names */
#define TEMPLATE_NAMES(...) ((const char *const[]){__VA_ARGS__, NULL})

typedef struct template_builtin {
    const char *name;
    tess_status (*use)(const template_use *use);
    int variant;              /* tells apart rows that share a function */
    size_t least, most;       /* smallest and largest number of arguments */
    const char *const *names; /* names of the arguments that may be named, ended by NULL; NULL: there are none */
} template_builtin;

/* The rows of a set that one file defines. */
typedef struct template_table {
    const template_builtin *rows;
    size_t n;
    const struct template_table *next; /* rows of another file, or NULL */
} template_table;
#define TEMPLATE_TABLE(name_, rows_, next_) \
    const template_table name_ = {rows_, sizeof(rows_) / sizeof((rows_)[0]), next_}

extern const template_table template_text_filters, template_filters, template_tests, template_functions,
    template_string_methods, template_dict_methods, template_list_methods, template_loop_methods;

struct template_run {
    template_arena arena;
    int64_t steps;
    int depth;
    uint32_t line; /* line that is being evaluated */
    int64_t now_s;
    tess_buffer *out;            /* output of the innermost block whose output is captured */
    tess_buffer *root;           /* the output of the rendering */
    struct template_mark *marks; /* newest generation block */
    tess_chat_span *turns;       /* see tess_chat_template_render_turns; NULL: not wanted */
    bool breaks, continues;      /* the innermost loop is being left, or continues with its next item */
    /* Functions of files at higher levels, for files at lower levels, which must not depend on them. */
    tess_status (*call_macro)(template_run *run, const template_macro *macro, const template_args *args,
                              const template_value *caller, template_value *out);
    const template_table *const *tables; /* (TEMPLATE_SETS) */
};

/* ---- template_value.c ---- */
tess_status template_step(template_run *run, size_t n); /* TESS_E_INVALID: too many steps */
tess_status template_enter(template_run *run);          /* goes one level deeper; TESS_E_INVALID: too deep */
static inline void template_leave(template_run *run)
{
    run->depth--;
}

#define TEMPLATE_OF(kind_, field_, value_) ((template_value){.kind = (kind_), .field_ = (value_)})
static inline template_value template_bool(bool truth)
{
    return TEMPLATE_OF(TEMPLATE_BOOL, truth, truth);
}
static inline template_value template_int(int64_t integer)
{
    return TEMPLATE_OF(TEMPLATE_INT, integer, integer);
}
static inline template_value template_string(const char *data, size_t size)
{
    return (template_value){.kind = TEMPLATE_STRING, .text = {data, size}};
}
static inline template_value template_none(void)
{
    return (template_value){.kind = TEMPLATE_NONE};
}
/* Makes an undefined value. `what` is its name in messages: a format without line ends. */
tess_status template_undefined(template_run *run, template_value *out, const char *what, ...)
    __attribute__((format(printf, 3, 4)));
/* Makes a string of a copy of text in the arena. */
tess_status template_copy(template_run *run, const char *data, size_t size, template_value *out);
/* Moves what was written to `text` into the arena, and frees `text`. */
tess_status template_take(template_run *run, tess_buffer *text, tess_status status, template_value *out);

tess_status template_list_new(template_run *run, template_kind kind, template_value *out);
tess_status template_list_add(template_run *run, template_list *list, const template_value *value);
tess_status template_dict_new(template_run *run, template_kind kind, template_value *out);
tess_status template_dict_set(template_run *run, template_dict *dict, const template_value *key,
                              const template_value *value);
/* NULL: there is no such key. */
const template_value *template_dict_get(template_run *run, const template_dict *dict, const template_value *key);
const template_value *template_dict_find(template_run *run, const template_dict *dict, template_text key);

tess_status template_from_json(template_run *run, const json_t *json, template_value *out);

const char *template_type(const template_value *value);          /* Python's name of the value's type */
bool template_is_number(const template_value *value);            /* bool, int or float */
bool template_as_int(const template_value *value, int64_t *out); /* bool or int */
double template_as_real(const template_value *value);
bool template_truth(const template_value *value);
bool template_is_list(const template_value *value); /* list, tuple, range or view */
/* Python's ==; for values with an identity, Python's `is`. If it takes too many steps or is too deep, the next
 * template_step reports that. */
bool template_equal(template_run *run, const template_value *a, const template_value *b);
/* Sets *order below, at or above 0. TESS_E_INVALID: Python cannot order the values. */
tess_status template_compare(template_run *run, const template_value *a, const template_value *b, int *order);
/* Whether <, <=, > or >= is true for two values for which template_compare returned this order. */
bool template_order_holds(template_op op, int order);
tess_status template_contains(template_run *run, const template_value *container, const template_value *item,
                              bool *out);
/* Returns the items of a value that can be iterated. The list may be the value's own. An iterator returns its remaining
 * items. */
tess_status template_items(template_run *run, const template_value *value, const template_list **items);
tess_status template_length(template_run *run, const template_value *value, int64_t *length);
tess_status template_add(template_run *run, const template_value *a, const template_value *b, template_value *out);

/* Errors have the form "line N: ...". */
#define TEMPLATE_FAIL(run_, ...) template_fail((run_)->line, TESS_E_INVALID, __VA_ARGS__)
#define TEMPLATE_CHECK(cond_, run_, ...)               \
    do {                                               \
        if (!(cond_))                                  \
            return TEMPLATE_FAIL((run_), __VA_ARGS__); \
    } while (0)
tess_status template_fail(uint32_t line, tess_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Fails because an operation is not supported for the value, which is undefined or has another type. */
tess_status template_wrong(template_run *run, const template_value *value, const char *operation);

/* Appends text in which HTML's special characters are replaced by entities. */
tess_status template_escape(template_text text, tess_buffer *out);

/* ---- template_numbers.c ---- */
/* Reads a whole text as an integer, like Python's int(text, base). *too_big: it does not fit 64 bits. False: the text
 * is not an integer, or there is no such base. */
bool template_read_int(template_text text, int64_t base, int64_t *out, bool *too_big);
/* Reads a whole text as a number, like Python's float(text). False: it is not a number. */
bool template_read_real(template_text text, double *out);

/* ---- template_parts.c ---- */
/* Look up value.name and value[key] as jinja2's sandbox does. */
tess_status template_attribute(template_run *run, const template_value *value, template_text name, template_value *out);
tess_status template_item(template_run *run, const template_value *value, const template_value *key,
                          template_value *out);

/* ---- template_text.c ---- */
bool template_is_space(uint32_t code_point); /* like str.isspace */
size_t template_characters(template_text text);
/* Returns the number of bytes before character `n`, at most all. */
size_t template_offset(template_text text, int64_t n);
typedef enum template_side { SIDE_LEFT = 1, SIDE_RIGHT = 2, SIDE_BOTH = 3 } template_side;
/* Removes the characters of `set` from the sides; data NULL: removes spaces. */
template_text template_strip(template_text text, template_text set, template_side side);
/* Find the first occurrence of `needle` at or after `from`, and the last one before `end`. SIZE_MAX: none. */
size_t template_find_text(template_text text, template_text needle, size_t from);
size_t template_find_last(template_text text, template_text needle, size_t end);
/* Returns the line that begins at *at, and moves *at after its end, like str.splitlines. False: there is no further
 * line. */
bool template_next_line(template_text text, size_t *at, template_text *line, size_t *with_end);
bool template_is_letter(uint32_t code_point);
bool template_is_upper(uint32_t code_point);
bool template_is_lower(uint32_t code_point);
/* Whether there are letters with a case, and all of them are upper or lower. */
bool template_is_case(template_text text, bool lower);
bool template_is_digit(uint32_t code_point);
/* Decodes one character of valid UTF-8. Returns its number of bytes. */
int template_decode(template_text text, size_t at, uint32_t *code_point);

/* ---- template_case.c ---- */
typedef enum template_case { CASE_UPPER, CASE_LOWER, CASE_TITLE, CASE_CAPITAL, CASE_SWAP } template_case;
tess_status template_change_case(template_run *run, template_text text, template_case how, template_value *out);

/* ---- template_print.c ---- */
tess_status template_print(template_run *run, const template_value *value, tess_buffer *out); /* str() */
tess_status template_repr(template_run *run, const template_value *value, tess_buffer *out);
/* Like template_print, but returns the text as a value. */
tess_status template_str(template_run *run, const template_value *value, template_value *out);
const char *template_float(double value, char *text, size_t size); /* repr() of a float */

/* ---- template_json.c ---- */
tess_status template_tojson(template_run *run, const template_value *value, const template_args *args,
                            template_value *out);

/* ---- template_scope.c ---- */
tess_status template_scope_new(template_run *run, template_scope *parent, template_scope **scope);
tess_status template_scope_set(template_run *run, template_scope *scope, template_text name,
                               const template_value *value);
const template_value *template_scope_find(template_run *run, const template_scope *scope, template_text name);

/* ---- template_args.c ---- */
/* Returns the argument at position `place`, or with the name `name`; NULL: not given. */
const template_value *template_arg(const template_args *args, size_t place, const char *name);

/* ---- template_use.c ---- */
/* Returns the row of this name; NULL: the set has no such row. */
const template_builtin *template_find(const template_run *run, template_set set, template_text name);
/* Checks the arguments and calls the row's function. */
tess_status template_use_row(template_run *run, const template_builtin *row, const template_value *value,
                             const template_args *args, template_value *out);
/* Finds the row of a name, and calls it like template_use_row. TESS_E_UNSUPPORTED: the set has no such row. */
tess_status template_use_name(template_run *run, template_set set, template_text name, const template_value *value,
                              const template_args *args, template_value *out);

/* ---- template_methods.c ---- */
/* "..." % values */
tess_status template_format(template_run *run, template_text format, const template_value *values, template_value *out);

/* ---- template_call.c ---- */
tess_status template_call(template_run *run, const template_value *function, const template_args *args,
                          template_value *out);

/* ---- template_evaluate.c ---- */
tess_status template_evaluate(template_run *run, template_scope *scope, const template_node *node, template_value *out);
/* Applies a filter node to `value`, which is passed to the innermost filter. The node's arguments are evaluated in
 * `scope`. */
tess_status template_apply_filters(template_run *run, template_scope *scope, const template_node *node,
                                   const template_value *value, template_value *out);
tess_status template_collect_args(template_run *run, template_scope *scope, const template_node *list,
                                  template_args *args);

/* ---- template_run.c ---- */
/* Runs the statements and writes to run->out. The caller sets the arena, the buffer and now_s before. */
tess_status template_run_all(template_run *run, template_scope *globals, const template_node *root,
                             tess_chat_spans *spans);

#endif
