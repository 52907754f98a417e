/* The state of the parser, for its files. */
#ifndef TESS_TESTS_DEVICE_PTX_PARSER_H
#define TESS_TESTS_DEVICE_PTX_PARSER_H

#include <setjmp.h>

#include "device/ptx/ptx_program.h"
#include "device/ptx/ptx_tokens.h"

/* A declaration of registers: %r<15> has the prefix "%r" and 15 of them; a name alone has the count 0. */
typedef struct ptx_registers {
    ptx_token name;
    int count, first_slot, depth;
} ptx_registers;

typedef struct ptx_label {
    ptx_token name;
    int at;
} ptx_label;

typedef enum ptx_operand_kind { PTX_SLOT, PTX_VECTOR, PTX_ADDRESS, PTX_NAME } ptx_operand_kind;

/* An operand as it is written. PTX_NAME: a label or a list of labels. */
typedef struct ptx_operand {
    ptx_operand_kind kind;
    int slot, pair;             /* pair: b of `a|b`; PTX_NO_SLOT: `_`, or no such operand */
    int slots[PTX_MOST_OUT], n; /* the elements of a vector */
    int64_t offset;             /* an address is `slot` plus this */
    ptx_token name;
    bool is_immediate;
    uint64_t immediate;
} ptx_operand;

enum { PTX_MOST_OPERANDS = 6 };

typedef struct ptx_parser {
    ptx_tokens tokens;
    ptx_module *module;
    ptx_kernel *kernel;
    ptx_registers *registers;
    int n_registers;
    ptx_variable *variables; /* the kernel's, in shared and local memory */
    int n_variables;
    ptx_label *labels;
    int n_labels;
    ptx_token *branches;     /* (n_code) names of the targets of branches */
    ptx_token *target_names; /* (n_targets of the kernel) labels of .branchtargets */
    int dynamic_constant;    /* index of the constant that is the address of dynamic memory, or -1 */
    int depth;
    int line, file, source_line; /* line of the instruction; file and line of the newest .loc */
    char *error;
    size_t error_size;
    jmp_buf failed;
} ptx_parser;

_Noreturn void ptx_parse_fail(ptx_parser *p, int line, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Returns memory of the module, of zeros. */
void *ptx_parse_alloc(ptx_parser *p, size_t bytes);
/* The same, in a block of its own: memory that kernels use. */
void *ptx_parse_alloc_alone(ptx_parser *p, size_t bytes);
/* Returns room for element n of an array of n elements, which may move. */
void *ptx_parse_grow(ptx_parser *p, void *array, int n, size_t size);
/* Returns the slot of a constant. */
int ptx_parse_constant(ptx_parser *p, uint64_t value);
/* Copies the text of a token. */
char *ptx_parse_text(ptx_parser *p, const ptx_token *t);
/* Take the next token, which must be a word or this sign. `what` is for the message. */
ptx_token ptx_parse_word(ptx_parser *p, const char *what);
void ptx_parse_sign(ptx_parser *p, const char *sign);
/* Numbers: of a word, the next ones, and the next one if it is at most `most`. */
uint64_t ptx_parse_number_of(ptx_parser *p, const ptx_token *t);
uint64_t ptx_parse_number(ptx_parser *p);
uint64_t ptx_parse_limited(ptx_parser *p, uint64_t most, const char *what);

/* ptx_parse_variables.c: .align 8 .b8 name[24], with any of .ptr and .space between. *element gets the size of one of
 * its elements. */
ptx_variable ptx_parse_declaration(ptx_parser *p, ptx_space space, int *element);
/* Returns the place of a variable after others that end at *end. */
uint64_t ptx_parse_place(uint64_t *end, const ptx_variable *v);
void ptx_parse_module_variable(ptx_parser *p, ptx_space space);
ptx_variable *ptx_parse_kernel_variable(ptx_parser *p, ptx_variable v);
ptx_variable *ptx_parse_find_variable(ptx_variable *list, int n, const ptx_token *t);

/* ptx_parse_operands.c: ptx_parse_new_register returns the first of `count` new slots. The others take the next
 * operand. */
enum { PTX_MOST_REGISTERS = 1 << 16 };
int ptx_parse_new_register(ptx_parser *p, int count);
int ptx_parse_slot(ptx_parser *p);
ptx_operand ptx_parse_operand(ptx_parser *p);

/* Decodes one instruction. Its fields `line`, `guard` and those of the source are set. */
void ptx_decode(ptx_parser *p, const ptx_token *name, const ptx_operand *operands, int n, ptx_instruction *i);

#endif
