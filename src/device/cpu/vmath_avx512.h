/* v_exp, v_log, v_sigmoid and v_erf on 16 floats (__m512), and the operations that they are written in. */
#ifndef TESS_DEVICE_CPU_VMATH_AVX512_H
#define TESS_DEVICE_CPU_VMATH_AVX512_H

#include "device/cpu/vec_avx512.h"
#include "device/vmath.h"

#endif
