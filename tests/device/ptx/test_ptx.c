/* The interpreter of PTX itself, without nvcc: instructions one by one, ways that lanes take, fragments of matrices,
 * what is counted, and kernels with one planted fault each. */
#include <math.h>
#include <stdlib.h>

#include "device/ptx/ptx_heap.h"
#include "device/ptx/ptx_machine.h"
#include "support/test.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static char *read_file(const char *name, size_t *bytes)
{
    char path[128];
    snprintf(path, sizeof(path), "device/ptx/%s", name);
    FILE *f = fopen(test_path(path), "rb");
    char *text = malloc(1 << 16);
    EXPECT(f != NULL && text != NULL);
    *bytes = fread(text, 1, 1 << 16, f);
    EXPECT(*bytes > 0 && *bytes < 1 << 16);
    fclose(f);
    return text;
}

static ptx_module *parse(const char *text, size_t bytes)
{
    char error[256];
    ptx_module *m = ptx_module_parse(text, bytes, error, sizeof(error));
    if (m == NULL)
        test_fail(__FILE__, __LINE__, "%s", error);
    return m;
}

static void expect_run(const ptx_launch *launch, ptx_counts *counts)
{
    char fault[1024];
    if (!ptx_run(launch, counts, fault, sizeof(fault)))
        test_fail(__FILE__, __LINE__, "%s", fault);
}

/* ---- Instructions ---- */
/* Runs an instruction that reads %a, %b and %c and writes %d, or the predicate %q, and returns %d. */
static uint64_t run_instruction(const char *text, uint64_t a, uint64_t b, uint64_t c)
{
    static const char form[] = ".version 8.0\n.target sm_80\n.address_size 64\n"
                               ".visible .entry one(.param .u64 x)\n{\n"
                               ".reg .b64 %%x, %%a, %%b, %%c, %%d; .reg .pred %%q, %%t;\n"
                               "ld.param.u64 %%x, [x];\nld.global.b64 %%a, [%%x];\nld.global.b64 %%b, [%%x+8];\n"
                               "ld.global.b64 %%c, [%%x+16];\nsetp.ne.u64 %%t, %%c, 0;\nsetp.ne.u64 %%q, 0, 0;\n"
                               "mov.b64 %%d, 0;\n%s;\n@%%q mov.b64 %%d, 1;\nst.global.b64 [%%x+24], %%d;\nret;\n}\n";
    char program[2048];
    uint64_t *x = malloc(4 * sizeof(*x));
    EXPECT(x != NULL);
    memcpy(x, (const uint64_t[]){a, b, c, 0}, 4 * sizeof(*x));
    snprintf(program, sizeof(program), form, text);
    ptx_module *m = parse(program, strlen(program));
    void *arguments[] = {&x};
    expect_run(&(ptx_launch){m, &m->kernels[0], 1, 1, 0, arguments}, NULL);
    const uint64_t result = x[3];
    ptx_module_free(m);
    free(x);
    return result;
}

// clang-format off
static const struct { const char *text; uint64_t a, b, c, want; } instructions[] = {
    {"add.s32 %d, %a, %b",                 0xffffffff, 2, 0, 1},
    {"sub.s64 %d, %a, %b",                 1, 2, 0, UINT64_MAX},
    {"mul.lo.s32 %d, %a, %b",              0xffffffff, 3, 0, 0xfffffffd},
    {"mul.wide.s32 %d, %a, %b",            0xffffffff, 3, 0, (uint64_t)-3},
    {"mul.wide.u16 %d, %a, %b",            0xffff, 0xffff, 0, 0xfffe0001},
    {"mul.hi.u64 %d, %a, %b",              UINT64_MAX, 16, 0, 15},
    {"mul.hi.s32 %d, %a, %b",              0x80000000, 2, 0, 0xffffffff},
    {"mad.lo.s32 %d, %a, %b, %c",          5, 7, 0xffffffff, 34},
    {"mad.wide.u32 %d, %a, %b, %c",        0xffffffff, 2, 3, 0x200000001},
    {"div.s32 %d, %a, %b",                 (uint32_t)-7, 2, 0, (uint32_t)-3},
    {"rem.s64 %d, %a, %b",                 (uint64_t)-7, 2, 0, (uint64_t)-1},
    {"rem.u64 %d, %a, %b",                 100, 7, 0, 2},
    {"min.s32 %d, %a, %b",                 0xffffffff, 1, 0, 0xffffffff},
    {"max.u32 %d, %a, %b",                 0xffffffff, 1, 0, 0xffffffff},
    {"shl.b32 %d, %a, %b",                 1, 32, 0, 0},
    {"shr.s32 %d, %a, %b",                 0x80000000, 40, 0, 0xffffffff},
    {"shr.u64 %d, %a, %b",                 UINT64_MAX, 60, 0, 15},
    {"shf.l.wrap.b32 %d, %a, %b, %c",      0x80000000, 1, 1, 3},
    {"shf.r.clamp.b32 %d, %a, %b, %c",     0x80000000, 1, 33, 1},
    {"prmt.b32 %d, %a, %b, %c",            0x33221100, 0x77665544, 0x7610, 0x77661100},
    {"prmt.b32 %d, %a, %b, %c",            0x800000ff, 0, 0x8b8b, 0xffffffff},
    {"bfe.u32 %d, %a, %b, %c",             0xabcd1234, 8, 8, 0x12},
    {"bfe.s32 %d, %a, %b, %c",             0x0000f000, 12, 4, 0xffffffff},
    {"lop3.b32 %d, %a, %b, %c, 0x96",      0xff, 0x0f, 0x01, 0xf1},
    {"clz.b32 %d, %a",                     1, 0, 0, 31},
    {"popc.b64 %d, %a",                    0xff, 0, 0, 8},
    {"brev.b32 %d, %a",                    1, 0, 0, 0x80000000},
    {"not.b32 %d, %a",                     0, 0, 0, 0xffffffff},
    {"selp.b32 %d, %a, %b, %t",            4, 5, 1, 4},
    {"selp.b32 %d, %a, %b, %t",            4, 5, 0, 5},
    {"setp.lt.s32 %q, %a, %b",             0xffffffff, 0, 0, 1},
    {"setp.lo.u32 %q, %a, %b",             0xffffffff, 0, 0, 0},
    {"setp.lt.and.s32 %q, %a, %b, %t",     1, 2, 0, 0},
    {"setp.eq.s16 %q, %a, %b",             0x10001, 1, 0, 1},
    {"setp.lt.f32 %q, %a, %b",             0x7fc00000, 0x3f800000, 0, 0},
    {"setp.ltu.f32 %q, %a, %b",            0x7fc00000, 0x3f800000, 0, 1},
    {"setp.ne.f32 %q, %a, %b",             0x7fc00000, 0x3f800000, 0, 0},
    {"setp.neu.f32 %q, %a, %b",            0x7fc00000, 0x3f800000, 0, 1},
    {"setp.nan.f32 %q, %a, %b",            0x7fc00000, 0x3f800000, 0, 1},
    {"setp.num.f64 %q, %a, %b",            0x3ff0000000000000, 0, 0, 1},
    {"add.rn.f32 %d, %a, %b",              0x3f800000, 0x33800000, 0, 0x3f800000}, /* a tie goes to even */
    {"sub.rn.f32 %d, %a, %b",              0x7f800000, 0x7f800000, 0, 0x7fffffff}, /* the NaN of a GPU */
    {"mul.f32 %d, %a, %b",                 0x00800000, 0x3f000000, 0, 0x00400000}, /* subnormal results remain */
    {"mul.ftz.f32 %d, %a, %b",             0x00800000, 0x3f000000, 0, 0},
    {"fma.rn.f32 %d, %a, %b, %c",          0x3f800001, 0x3f800001, 0xbf800002, 0x28800000}, /* exact product */
    {"fma.rn.f64 %d, %a, %a, %c",          0x3ff0000000000001, 0, 0xbff0000000000002, UINT64_C(0x397) << 52},
    {"min.f32 %d, %a, %b",                 0x7fc00000, 0x3f800000, 0, 0x3f800000},
    {"max.f32 %d, %a, %b",                 0x80000000, 0, 0, 0},
    {"neg.f32 %d, %a",                     0x3f800000, 0, 0, 0xbf800000},
    {"abs.f64 %d, %a",                     0xbff0000000000000, 0, 0, 0x3ff0000000000000},
    {"div.rn.f32 %d, %a, %b",              0x3f800000, 0x40400000, 0, 0x3eaaaaab},
    {"sqrt.rn.f32 %d, %a",                 0x40000000, 0, 0, 0x3fb504f3},
    {"rcp.rn.f32 %d, %a",                  0x40400000, 0, 0, 0x3eaaaaab},
    {"ex2.approx.ftz.f32 %d, %a",          0xc3000000, 0, 0, 0}, /* subnormal */
    {"cvt.rn.f32.s32 %d, %a",              0xffffffff, 0, 0, 0xbf800000},
    {"cvt.rn.f32.u64 %d, %a",              UINT64_MAX, 0, 0, 0x5f800000},
    {"cvt.rzi.s32.f32 %d, %a",             0xbfc00000, 0, 0, 0xffffffff}, /* -1.5 to -1 */
    {"cvt.rni.s32.f32 %d, %a",             0x40200000, 0, 0, 2}, /* 2.5 to 2 */
    {"cvt.rzi.s32.f32 %d, %a",             0x7fc00000, 0, 0, 0},
    {"cvt.rzi.u32.f32 %d, %a",             0x4f800000, 0, 0, 0xffffffff}, /* 2^32 is clamped */
    {"cvt.rpi.f32.f32 %d, %a",             0x3f800001, 0, 0, 0x40000000},
    {"cvt.f64.f32 %d, %a",                 0x3f800000, 0, 0, 0x3ff0000000000000},
    {"cvt.rn.f32.f64 %d, %a",              0x3ff0000010000000, 0, 0, 0x3f800000},
    {"cvt.s64.s32 %d, %a",                 0xffffffff, 0, 0, UINT64_MAX},
    {"cvt.u16.u32 %d, %a",                 0x12345, 0, 0, 0x2345},
    {"cvt.sat.u8.s32 %d, %a",              300, 0, 0, 255},
    {"cvt.rn.bf16x2.f32 %d, %a, %b",       0x3f808000, 0x40000000, 0, 0x3f804000}, /* the first source is above */
    {"cvt.rn.bf16.f32 %d, %a",             0x7f800001, 0, 0, 0x7fff},
    {"cvt.rn.f16.f32 %d, %a",              0x33000001, 0, 0, 1}, /* the least subnormal */
    {"cvt.f32.bf16 %d, %a",                0xc000, 0, 0, 0xc0000000},
    {"add.rn.bf16x2 %d, %a, %b",           0x3f803f80, 0x3f804000, 0, 0x40004040},
    {"mov.b64 {%a, %b}, %c; mov.b64 %d, {%b, %a}", 0, 0, 0x1111111122222222, 0x2222222211111111},
};
// clang-format on

static void instructions_have_the_results_of_the_manual(void)
{
    for (size_t k = 0; k < COUNT(instructions); k++) {
        const uint64_t got =
            run_instruction(instructions[k].text, instructions[k].a, instructions[k].b, instructions[k].c);
        if (got != instructions[k].want)
            test_fail(__FILE__, __LINE__, "%s gives %llx, expected %llx", instructions[k].text, (unsigned long long)got,
                      (unsigned long long)instructions[k].want);
    }
}

static void what_is_unknown_is_named_with_its_line(void)
{
    static const struct {
        const char *statement, *error;
    } cases[] = {
        {"wgmma.fence.sync.aligned;", "PTX line 4: an unknown instruction: 'wgmma.fence.sync.aligned'"},
        {"add.rz.f32 %a, %a, %a;", "PTX line 4: a rounding that the interpreter does not have"},
        {"add.s32 %a, %a;", "PTX line 4: unexpected operands"},
        {"ld.global.evil.b32 %a, [%a];", "PTX line 4: an unknown instruction"},
        {"mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32 %a, %a, %a, %a;", "PTX line 4: an unknown instruction"},
        {"bra $nowhere;", "PTX line 4: no label '$nowhere'"},
        {"mov.u32 %a, %clock;", "PTX line 4: no register '%clock'"},
        {"mov.u32 %a, 0x;", "PTX line 4: '0x' is no number"},
        {".shared .align 3 .b8 x[4];", "PTX line 4: the alignment 3"},
        {".local .align 4 .b8 x[9999999];", "too large variables"},
    };
    for (size_t k = 0; k < COUNT(cases); k++) {
        char text[512], error[256] = "";
        snprintf(text, sizeof(text), ".target sm_80\n.entry f() {\n.reg .b32 %%a;\n%s\nret; }\n", cases[k].statement);
        EXPECT(ptx_module_parse(text, strlen(text), error, sizeof(error)) == NULL);
        EXPECT_CONTAINS(error, cases[k].error);
    }
}

/* ---- Lanes ---- */
/* Each lane counts down from its number in a loop, and adds its turns over the warp afterwards. */
static const char loop[] =
    ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry f(.param .u64 out)\n{\n"
    ".reg .b32 %r<8>; .reg .b64 %rd<4>; .reg .pred %p<3>;\n"
    "ld.param.u64 %rd1, [out];\nmov.u32 %r1, %tid.x;\nmov.u32 %r2, %r1;\nmov.u32 %r3, 0;\n"
    "$loop:\nsetp.eq.u32 %p1, %r2, 0;\n@%p1 bra $end;\nadd.u32 %r2, %r2, -1;\nadd.u32 %r3, %r3, 2;\n"
    "bra $loop;\n$end:\nshfl.sync.bfly.b32 %r4|%p2, %r3, 31, 31, -1;\nadd.u32 %r3, %r3, %r4;\n"
    "mul.wide.u32 %rd2, %r1, 4;\nadd.s64 %rd3, %rd1, %rd2;\nst.global.u32 [%rd3], %r3;\nret;\n}\n";

static void lanes_that_diverge_meet_again(void)
{
    uint32_t *out = malloc(64 * sizeof(*out));
    EXPECT(out != NULL);
    ptx_module *m = parse(loop, strlen(loop));
    void *arguments[] = {&out};
    expect_run(&(ptx_launch){m, &m->kernels[0], 1, 64, 0, arguments}, NULL);
    for (uint32_t t = 0; t < 64; t++)
        EXPECT_INT(out[t], 2 * t + 2 * (t ^ 31));
    ptx_module_free(m);
    free(out);
}

/* ---- Fragments of matrices ---- */
static uint16_t bf16_of(int x)
{
    float value = (float)x;
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return (uint16_t)(bits >> 16);
}

/* The number of elements that differ from the product, of whole numbers. */
static int wrong_elements(const char *kernel)
{
    size_t bytes;
    char *text = read_file("fragments.ptx", &bytes);
    ptx_module *m = parse(text, bytes);
    float *c = malloc(16 * 8 * sizeof(*c));
    uint16_t *a = malloc(16 * 16 * sizeof(*a)), *b = malloc(8 * 16 * sizeof(*b));
    int wrong = 0;
    EXPECT(c != NULL && a != NULL && b != NULL);
    for (int k = 0; k < 256; k++)
        a[k] = bf16_of(k * 7 % 13 - 6);
    for (int k = 0; k < 128; k++)
        b[k] = bf16_of(k * 5 % 11 - 5);
    void *arguments[] = {&c, &a, &b};
    expect_run(&(ptx_launch){m, ptx_module_kernel(m, kernel), 1, 32, 0, arguments}, NULL);
    for (int i = 0; i < 16; i++)
        for (int j = 0; j < 8; j++) {
            int sum = 0;
            for (int k = 0; k < 16; k++)
                sum += ((i * 16 + k) * 7 % 13 - 6) * ((j * 16 + k) * 5 % 11 - 5);
            wrong += c[i * 8 + j] != (float)sum;
        }
    free(a);
    free(b);
    free(c);
    ptx_module_free(m);
    free(text);
    return wrong;
}

static void fragments_are_those_of_the_manual(void)
{
    EXPECT_INT(wrong_elements("right"), 0);
    EXPECT(wrong_elements("wrong") > 64);
}

/* ---- Planted faults ---- */
static const struct {
    const char *name;
    unsigned blocks;
    const char *fault;
} planted[] = {
    {"missing_barrier", 1, "race: it reads shared memory"},
    {"off_by_one", 1, "out of range: 4 bytes"},
    {"misaligned", 1, "misaligned: 16 bytes"},
    {"unwritten_shared", 1, "no value: a stored value comes from memory"},
    {"unwritten_register", 1, "no value: a stored value"},
    {"divergent_barrier", 1, "divergence: "},
    {"barrier_count", 1, "divergence: the barrier is for 32 threads, and the block has 64"},
    {"race_of_warps", 1, "race: it writes global memory at 0, which was written by thread 0 of block 0"},
    {"race_of_blocks", 2, "race: it "},
    {"shuffle_mask", 1, "divergence: the mask 0000ffff does not name the lane itself"},
    {"copy_without_wait", 1, "asynchronous copy: shared memory at 0"},
    {"division_by_0", 1, "a division by 0"},
};

static int line_of_fault(const char *text)
{
    int line = 1;
    const char *fault = strstr(text, "// fault");
    EXPECT(fault != NULL);
    for (const char *c = text; c < fault; c++)
        line += *c == '\n';
    return line;
}

static void each_planted_fault_is_found_with_its_line(void)
{
    for (size_t k = 0; k < COUNT(planted); k++) {
        size_t bytes;
        char name[64], fault[1024] = "", line[32];
        snprintf(name, sizeof(name), "planted/%s.ptx", planted[k].name);
        char *text = read_file(name, &bytes);
        ptx_module *m = parse(text, bytes);
        float *out = malloc(64 * sizeof(*out)), *in = malloc(64 * sizeof(*in));
        EXPECT(out != NULL && in != NULL);
        void *arguments[] = {&out, &in};
        EXPECT(!ptx_run(&(ptx_launch){m, &m->kernels[0], planted[k].blocks, 64, 0, arguments}, NULL, fault,
                        sizeof(fault)));
        EXPECT_CONTAINS(fault, planted[k].fault);
        EXPECT_CONTAINS(fault, "planted.cu:");
        text[bytes] = '\0';
        snprintf(line, sizeof(line), "PTX line %d (", line_of_fault(text));
        if (strcmp(planted[k].name, "race_of_blocks") != 0) /* the next block's load finds it */
            EXPECT_CONTAINS(fault, line);
        free(out);
        free(in);
        ptx_module_free(m);
        free(text);
    }
}

/* Memory that holds no value, and memory of the host when a driver has told which is a GPU's. */
static void unwritten_global_memory_is_found(void)
{
    static const char text[] = ".target sm_80\n.entry f(.param .u64 p) {\n.reg .b64 %a, %b;\nld.param.u64 %a, [p];\n"
                               "ld.global.b64 %b, [%a+8];\nst.global.b64 [%a], %b;\nret; }\n";
    char fault[1024] = "";
    uint64_t *x = malloc(2 * sizeof(*x)), *of_gpu = malloc(2 * sizeof(*x));
    ptx_module *m = parse(text, strlen(text));
    void *arguments[] = {&x};
    const ptx_launch launch = {m, &m->kernels[0], 1, 1, 0, arguments};
    EXPECT(x != NULL && of_gpu != NULL);
    x[1] = 5;
    expect_run(&launch, NULL);
    EXPECT_INT(x[0], 5);
    ptx_heap_forget(x, 2 * sizeof(*x));
    EXPECT(!ptx_run(&launch, NULL, fault, sizeof(fault)));
    EXPECT_CONTAINS(fault, "such as byte 8 of an allocation, which PTX line 5 loads");
    ptx_heap_learn(x, 2 * sizeof(*x));
    expect_run(&launch, NULL);
    ptx_heap_is_of_gpu(of_gpu);
    EXPECT(!ptx_run(&launch, NULL, fault, sizeof(fault)));
    EXPECT_CONTAINS(fault, "is memory of the host");
    ptx_module_free(m);
    free(x);
    free(of_gpu);
}

/* ---- Counts ---- */
/* 64 threads load every `step`-th float, and store it to shared memory with the same step. */
static ptx_counts count_with_step(int step)
{
    char text[1024];
    ptx_counts counts = {0};
    float *x = calloc((size_t)(64 * step), sizeof(*x));
    EXPECT(x != NULL);
    snprintf(
        text, sizeof(text),
        ".target sm_80\n.entry f(.param .u64 p) {\n.reg .b64 %%a, %%b; .reg .b32 %%t, %%s, %%o; .reg .f32 %%f;\n"
        ".shared .align 4 .b8 room[%d];\nld.param.u64 %%a, [p];\nmov.u32 %%t, %%tid.x;\nmul.lo.u32 %%t, %%t, %d;\n"
        "cvt.u64.u32 %%b, %%t;\nadd.s64 %%a, %%a, %%b;\nld.global.f32 %%f, [%%a];\nfma.rn.f32 %%f, %%f, %%f, %%f;\n"
        "mov.u32 %%s, room;\nadd.u32 %%o, %%s, %%t;\nst.shared.f32 [%%o], %%f;\nbar.sync 0;\nret; }\n",
        64 * 4 * step, 4 * step);
    ptx_module *m = parse(text, strlen(text));
    void *arguments[] = {&x};
    expect_run(&(ptx_launch){m, &m->kernels[0], 1, 64, 0, arguments}, &counts);
    ptx_module_free(m);
    free(x);
    return counts;
}

static void bytes_sectors_and_conflicts_are_counted(void)
{
    const ptx_counts near = count_with_step(1), far = count_with_step(8);
    EXPECT_INT(near.read_bytes, 256);
    EXPECT(near.read_sectors >= 8 && near.read_sectors <= 10); /* 2 more if the memory begins within a sector */
    EXPECT_INT(near.written_bytes, 0);
    EXPECT_INT(near.shared_accesses, 2);
    EXPECT_INT(near.bank_conflicts, 0);
    EXPECT_INT(near.barriers, 1);
    EXPECT_INT(near.fused, 64);
    EXPECT_INT(near.warp_instructions, 2 * 12);
    EXPECT_INT(far.read_bytes, 256);
    EXPECT_INT(far.read_sectors, 64);
    EXPECT_INT(far.bank_conflicts, 2 * 7);
}

static const test_case cases[] = {
    CASE(instructions_have_the_results_of_the_manual),
    CASE(what_is_unknown_is_named_with_its_line),
    CASE(lanes_that_diverge_meet_again),
    CASE(fragments_are_those_of_the_manual),
    CASE(each_planted_fault_is_found_with_its_line),
    CASE(unwritten_global_memory_is_found),
    CASE(bytes_sectors_and_conflicts_are_counted),
};

TEST_MAIN(cases)
