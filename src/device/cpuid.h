/* Finds the instructions that the CPU has and the system's kernel allows. */
#ifndef TESS_DEVICE_CPUID_H
#define TESS_DEVICE_CPUID_H

#include <stdbool.h>
#include <stddef.h>

typedef enum cpu_level { CPU_REF, CPU_AVX2, CPU_AVX512, CPU_AVX512_BF16, CPU_AMX, CPU_LEVEL_COUNT } cpu_level;

/* Returns true if this process may run code of the level. Otherwise `missing` names the features that are missing
 * ("avx512bw, amx_tile"). For CPU_AMX it requests permission for the tile registers from the kernel, for all present
 * and future threads of the process. */
bool tess_cpu_supports(cpu_level level, char *missing, size_t size);

/* Returns false if this CPU computes bfloat16 products faster with the level below. Only valid for a level that the CPU
 * supports. */
bool tess_cpu_gains(cpu_level level);

#endif
