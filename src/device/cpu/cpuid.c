#include "device/cpuid.h"

#include <cpuid.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "device/kernels.h"

/* XCR0 says which register state the operating system saves. */
enum { XCR0_YMM = 0x6, XCR0_ZMM = 0xe0, XCR0_TILES = 0x60000 };
enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 }; /* arch_prctl(2), Linux 5.16 */

typedef enum cpu_register { EAX, EBX, ECX, EDX } cpu_register;

typedef struct feature {
    const char *name; /* name in /proc/cpuinfo */
    unsigned leaf, subleaf;
    cpu_register where;
    int bit;
    cpu_level level; /* the lowest level that needs it; CPU_LEVEL_COUNT: no level, only reported */
} feature;

#define AVX512_FP16                                   \
    {                                                 \
        "avx512_fp16", 7, 0, EDX, 23, CPU_LEVEL_COUNT \
    }

static const feature avx512_fp16 = AVX512_FP16;

static const feature features[] = {
    {"avx", 1, 0, ECX, 28, CPU_AVX2},
    {"fma", 1, 0, ECX, 12, CPU_AVX2},
    {"f16c", 1, 0, ECX, 29, CPU_AVX2},
    {"avx2", 7, 0, EBX, 5, CPU_AVX2},
    {"avx512f", 7, 0, EBX, 16, CPU_AVX512},
    {"avx512dq", 7, 0, EBX, 17, CPU_AVX512},
    {"avx512bw", 7, 0, EBX, 30, CPU_AVX512},
    {"avx512vl", 7, 0, EBX, 31, CPU_AVX512},
    {"avx512_bf16", 7, 1, EAX, 5, CPU_AVX512_BF16},
    {"amx_tile", 7, 0, EDX, 24, CPU_AMX},
    {"amx_bf16", 7, 0, EDX, 22, CPU_AMX},
    {"amx_int8", 7, 0, EDX, 25, CPU_LEVEL_COUNT},
    {"amx_fp16", 7, 1, EAX, 21, CPU_LEVEL_COUNT},
    AVX512_FP16,
    {"avx512_vnni", 7, 0, ECX, 11, CPU_LEVEL_COUNT},
};

enum { N_FEATURES = sizeof(features) / sizeof(features[0]) };

static bool has_feature(const feature *f)
{
    unsigned value[4];
    if (!__get_cpuid_count(f->leaf, f->subleaf, &value[EAX], &value[EBX], &value[ECX], &value[EDX]))
        return false;
    if (f->subleaf > 0) {
        unsigned last_subleaf, ignored[3];
        if (!__get_cpuid_count(f->leaf, 0, &last_subleaf, &ignored[0], &ignored[1], &ignored[2]) ||
            f->subleaf > last_subleaf)
            return false;
    }
    return value[f->where] >> f->bit & 1;
}

static uint64_t read_xcr0(void)
{
    unsigned eax, ebx, ecx, edx;
    if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || !(ecx >> 27 & 1)) /* OSXSAVE */
        return 0;
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

static void append(char *text, size_t size, const char *separator, const char *word)
{
    size_t used = strlen(text);
    if (used < size)
        snprintf(text + used, size - used, "%s%s", used > 0 ? separator : "", word);
}

bool tess_cpu_supports(cpu_level level, char *missing, size_t size)
{
    static const uint64_t xcr0_needed[CPU_LEVEL_COUNT] = {
        [CPU_AVX2] = XCR0_YMM,
        [CPU_AVX512] = XCR0_YMM | XCR0_ZMM,
        [CPU_AVX512_BF16] = XCR0_YMM | XCR0_ZMM,
        [CPU_AMX] = XCR0_YMM | XCR0_ZMM | XCR0_TILES,
    };
#ifdef TESS_EMULATE
    if (level > CPU_AVX2)
        level = CPU_AVX2; /* tools/emulate only needs AVX2 and below */
#endif
    missing[0] = '\0';
    for (int i = 0; i < N_FEATURES; i++)
        if (features[i].level <= level && !has_feature(&features[i]))
            append(missing, size, ", ", features[i].name);
    if (missing[0] == '\0' && (read_xcr0() & xcr0_needed[level]) != xcr0_needed[level])
        append(missing, size, ", ", "the operating system's support for its registers (XCR0)");
    if (missing[0] == '\0' && level == CPU_AMX && syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) != 0)
        append(missing, size, ", ", "the kernel's permission for tile registers (arch_prctl; Linux 5.16 and later)");
    return missing[0] == '\0';
}

static bool is_intel(void)
{
    unsigned most, ebx, ecx, edx;
    return __get_cpuid(0, &most, &ebx, &ecx, &edx) && ebx == signature_INTEL_ebx && edx == signature_INTEL_edx &&
           ecx == signature_INTEL_ecx;
}

bool tess_cpu_gains(cpu_level level)
{
    /* Intel's CPUs since Sapphire Rapids, the first ones with FP16, start a VDPBF16PS every second cycle, but two FMAs
     * every cycle: 87 and 179 GFLOP/s of a core were measured. AMD's start as many of either. */
    return level != CPU_AVX512_BF16 || !is_intel() || !has_feature(&avx512_fp16);
}

const char *tess_cpu_features(char *text, size_t size)
{
    if (size > 0)
        text[0] = '\0';
    for (int i = 0; i < N_FEATURES; i++)
        if (has_feature(&features[i]))
            append(text, size, " ", features[i].name);
    return text;
}
