/* v_exp, v_log, v_sigmoid and v_erf on 16 floats (two __m256), and the operations that they are written in. */
#ifndef TESS_DEVICE_CPU_VMATH_AVX2_H
#define TESS_DEVICE_CPU_VMATH_AVX2_H

#include "device/cpu/vec_avx2.h"
#include "device/vmath.h"

#endif
