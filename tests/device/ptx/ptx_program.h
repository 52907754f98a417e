/* PTX, NVIDIA's assembly language, in decoded form: the modules, kernels and instructions that the interpreter runs.
 * The names are those of NVIDIA's manual "PTX ISA". */
#ifndef TESS_TESTS_DEVICE_PTX_PTX_PROGRAM_H
#define TESS_TESTS_DEVICE_PTX_PTX_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PTX_WARP = 32, PTX_MOST_OUT = 8, PTX_MOST_IN = 16, PTX_NO_SLOT = -1 };

/* Addresses of the generic space. Global memory has the host's addresses, which are below all windows. */
#define PTX_SHARED_WINDOW (UINT64_C(1) << 61)
#define PTX_LOCAL_WINDOW (UINT64_C(2) << 61)
#define PTX_PARAM_WINDOW (UINT64_C(3) << 61)
#define PTX_WINDOW_MASK (UINT64_C(3) << 61)

typedef enum ptx_space { PTX_GENERIC, PTX_GLOBAL, PTX_CONST, PTX_SHARED, PTX_LOCAL, PTX_PARAM } ptx_space;

typedef enum ptx_type_kind {
    PTX_NO_TYPE,
    PTX_BITS,
    PTX_UNSIGNED,
    PTX_SIGNED,
    PTX_FLOAT,
    PTX_BF16,
    PTX_PREDICATE
} ptx_type_kind;

/* `packed`: number of elements of a register, 1 or 2. */
typedef struct ptx_type {
    ptx_type_kind kind;
    int bits, packed;
} ptx_type;

/* The way in which an instruction runs. */
typedef enum ptx_kind {
    PTX_COMPUTE, /* a function of the sources, in each lane */
    PTX_PACK,    /* sources become parts of one register */
    PTX_UNPACK,
    PTX_LOAD,
    PTX_STORE,
    PTX_ATOMIC, /* `atom` and `red` */
    PTX_BRANCH,
    PTX_BRANCH_INDEXED,
    PTX_EXIT,
    PTX_BARRIER, /* all threads of a block */
    PTX_WARP_BARRIER,
    PTX_SHUFFLE,
    PTX_VOTE,
    PTX_MULTIPLY, /* `mma` */
    PTX_LOAD_MATRIX,
    PTX_COPY,        /* `cp.async` */
    PTX_COPY_COMMIT, /* `cp.async.commit_group` */
    PTX_COPY_WAIT,   /* `cp.async.wait_group` */
    PTX_NOTHING      /* fences and hints, which order what the interpreter does in order anyway */
} ptx_kind;

/* The classes in which instructions are counted. */
typedef enum ptx_class {
    PTX_CLASS_INTEGER,
    PTX_CLASS_FLOAT,
    PTX_CLASS_DOUBLE,
    PTX_CLASS_SPECIAL, /* roots, quotients, exponentials and logarithms */
    PTX_CLASS_CONVERT,
    PTX_CLASS_MOVE,
    PTX_CLASS_MEMORY,
    PTX_CLASS_WARP, /* shuffles, votes, ldmatrix */
    PTX_CLASS_TENSOR,
    PTX_CLASS_CONTROL,
    PTX_CLASS_COUNT
} ptx_class;

typedef enum ptx_rounding {
    PTX_NEAREST,
    PTX_TO_ZERO,
    PTX_DOWN,
    PTX_UP,
    PTX_NEAREST_INTEGER,
    PTX_TO_ZERO_INTEGER,
    PTX_DOWN_INTEGER,
    PTX_UP_INTEGER
} ptx_rounding;

typedef struct ptx_instruction ptx_instruction;

/* Computes one lane's result of a PTX_COMPUTE. Sources that the instruction lacks are 0. */
typedef uint64_t ptx_compute(const ptx_instruction *i, uint64_t a, uint64_t b, uint64_t c);

struct ptx_instruction {
    ptx_kind kind;
    ptx_class class_;
    ptx_compute *compute;
    ptx_compute *also;     /* the logical operation of setp.CMP.BOOL, or the operation of an atomic */
    const char *name;      /* such as "ld.global.v4.b32" */
    int line;              /* line of the PTX text */
    int file, source_line; /* named by the newest .loc; 0: none */
    int guard;             /* slot of the predicate, or PTX_NO_SLOT */
    bool guard_negated;
    ptx_type type, from; /* first and last type of the name; equal where there is one */
    ptx_rounding rounding;
    bool flush, saturate; /* .ftz, .sat */
    bool approximate;     /* .approx */
    bool wide, high, transposed, with_nan;
    int comparison; /* a ptx_comparison */
    char mode;      /* shfl: u, d, b, i; vote: a (all), y (any), u (uni), b (ballot) */
    int n_out, out[PTX_MOST_OUT];
    int n_in, in[PTX_MOST_IN];
    ptx_space space;
    int base;       /* slot of the address, or PTX_NO_SLOT */
    int64_t offset; /* added to the address */
    int from_base;  /* cp.async: the source */
    int64_t from_offset;
    int bytes;                   /* size of an element in memory; cp.async: bytes written */
    int vector;                  /* number of elements */
    int target;                  /* index of the instruction that a branch goes to */
    int first_target, n_targets; /* brx.idx: a part of the kernel's `targets` */
};

typedef struct ptx_variable {
    char *name;
    ptx_space space;
    uint64_t offset; /* place in its space; PTX_GLOBAL, PTX_CONST: the host's address */
    uint64_t bytes;  /* 0: dynamic shared memory */
    uint32_t align;
} ptx_variable;

/* Registers hold 64 bits. Slot s >= 0 is a register; slot s < PTX_NO_SLOT is constants[-2 - s]. */
typedef struct ptx_kernel {
    char *name;
    ptx_instruction *code;
    int n_code;
    int n_registers;
    int tid, ctaid, ntid, nctaid, laneid, warpid; /* slots of special registers, or PTX_NO_SLOT */
    uint64_t (*constants)[PTX_WARP];              /* the same in all lanes */
    int n_constants;
    ptx_variable *parameters;
    int n_parameters;
    uint64_t parameter_bytes, shared_bytes, local_bytes; /* shared_bytes: without dynamic memory */
    int dynamic_align;
    int max_threads;   /* .maxntid; 0: not stated */
    bool approximates; /* has instructions that are approximations */
    int granule;       /* smallest access to shared or global memory, in bytes */
    int *targets;      /* targets of brx.idx */
    int n_targets;
} ptx_kernel;

typedef struct ptx_module {
    int target;        /* such as 90 */
    char *target_name; /* such as "sm_90a" */
    ptx_kernel *kernels;
    int n_kernels;
    ptx_variable *variables; /* the module's own */
    int n_variables;
    uint64_t shared_bytes; /* size of the module's shared variables */
    char **files;          /* (n_files) from .file; NULL: no such number */
    int n_files;
    struct ptx_memory *memory; /* everything above */
} ptx_module;

/* Parses the text of a module. Returns NULL after an error and writes it to `error`, with the line. The text may come
 * from anywhere. */
ptx_module *ptx_module_parse(const char *text, size_t bytes, char *error, size_t error_size);
void ptx_module_free(ptx_module *m);
/* Returns NULL if the module has no such kernel. */
const ptx_kernel *ptx_module_kernel(const ptx_module *m, const char *name);

#endif
