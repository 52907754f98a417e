/* The instructions that the CPU and the system's kernel let us use. */
#ifndef TESS_DEVICE_CPUID_H
#define TESS_DEVICE_CPUID_H

#include <stdbool.h>
#include <stddef.h>

typedef enum cpu_level { CPU_REF, CPU_AVX2, CPU_AVX512, CPU_AVX512_BF16, CPU_AMX, CPU_LEVEL_COUNT } cpu_level;

/* True when this process may run the level; otherwise `missing` says what is lacking ("avx512bw, amx_tile"). For
 * CPU_AMX it asks the kernel for the tile registers, for all threads of the process, present and future. */
bool tess_cpu_supports(cpu_level level, char *missing, size_t size);

#endif
