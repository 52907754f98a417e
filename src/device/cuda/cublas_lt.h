/* NVIDIA's library cublasLt, opened at run time: declarations of our own for the functions and constants that are used
 * here. */
#ifndef TESS_DEVICE_CUDA_CUBLAS_LT_H
#define TESS_DEVICE_CUDA_CUBLAS_LT_H

#include "device/cuda/cuda_driver.h"

#define CUBLAS_LT_PATTERN "libcublasLt.so.1[0-9]*"
#define CUBLAS_LT_PACKAGES "cuBLAS (NVIDIA's repository: libcublas-13-0; Debian: libcublaslt12; pip: nvidia-cublas)"

typedef struct cublasLtContext *cublas_handle;
typedef struct cublas_product_desc *cublas_desc;
typedef struct cublas_matrix_desc *cublas_matrix;
typedef struct cublas_preference_desc *cublas_preference;

/* The way that a product is computed. Its size is part of the library's interface. */
typedef struct cublas_algorithm {
    uint64_t data[8];
} cublas_algorithm;

typedef struct cublas_proposal {
    cublas_algorithm algorithm;
    size_t workspace_bytes;
    int state; /* the other fields are valid if it is CUBLAS_SUCCESS */
    float waves;
    int reserved[4];
} cublas_proposal;

/* X(return type, our name, the library's name, parameters). Functions that return int return 0 or an error number. */
#define CUBLAS_LT_LIST(X)                                                                                              \
    X(size_t, version, "cublasLtGetVersion", (void))                                                                   \
    X(int, create, "cublasLtCreate", (cublas_handle * handle))                                                         \
    X(int, destroy, "cublasLtDestroy", (cublas_handle handle))                                                         \
    X(int, desc_create, "cublasLtMatmulDescCreate", (cublas_desc * desc, int compute, int scale))                      \
    X(int, desc_destroy, "cublasLtMatmulDescDestroy", (cublas_desc desc))                                              \
    X(int, desc_set, "cublasLtMatmulDescSetAttribute", (cublas_desc desc, int which, const void *value, size_t bytes)) \
    X(int, matrix_create, "cublasLtMatrixLayoutCreate",                                                                \
      (cublas_matrix * matrix, int type, uint64_t rows, uint64_t columns, int64_t ld))                                 \
    X(int, matrix_destroy, "cublasLtMatrixLayoutDestroy", (cublas_matrix matrix))                                      \
    X(int, preference_create, "cublasLtMatmulPreferenceCreate", (cublas_preference * preference))                      \
    X(int, preference_destroy, "cublasLtMatmulPreferenceDestroy", (cublas_preference preference))                      \
    X(int, preference_set, "cublasLtMatmulPreferenceSetAttribute",                                                     \
      (cublas_preference preference, int which, const void *value, size_t bytes))                                      \
    X(int, propose, "cublasLtMatmulAlgoGetHeuristic",                                                                  \
      (cublas_handle handle, cublas_desc desc, cublas_matrix a, cublas_matrix b, cublas_matrix c, cublas_matrix d,     \
       cublas_preference preference, int most, cublas_proposal *proposals, int *n))                                    \
    X(int, multiply, "cublasLtMatmul",                                                                                 \
      (cublas_handle handle, cublas_desc desc, const void *alpha, const void *a, cublas_matrix a_matrix,               \
       const void *b, cublas_matrix b_matrix, const void *beta, const void *c, cublas_matrix c_matrix, void *d,        \
       cublas_matrix d_matrix, const cublas_algorithm *algorithm, void *workspace, size_t workspace_bytes,             \
       cuda_queue queue))

typedef struct cublas_lt {
#define X(type, name, symbol, parameters) type(*name) parameters;
    CUBLAS_LT_LIST(X)
#undef X
    const char *path;
} cublas_lt;

enum {
    CUBLAS_SUCCESS = 0,
    CUBLAS_INVALID_VALUE = 7,
    CUBLAS_ARCH_MISMATCH = 8,
    CUBLAS_NOT_SUPPORTED = 15,
    CUBLAS_COMPUTE_F32 = 68,
    CUBLAS_TYPE_F32 = 0, /* types have the driver's numbers */
    CUBLAS_TYPE_BF16 = 14,
    CUBLAS_DESC_TRANS_A = 3,
    CUBLAS_DESC_TRANS_B = 4,
    CUBLAS_DESC_EPILOGUE = 7,
    CUBLAS_DESC_BIAS = 8,
    CUBLAS_EPILOGUE_BIAS = 4,
    CUBLAS_PREFERENCE_WORKSPACE = 1,
    CUBLAS_PREFERENCE_REDUCTIONS = 3,  /* 0: no product is split along k */
    CUBLAS_REDUCTION_IN_WORKSPACE = 2, /* parts of k have float32 work space, and are added in a separate step */
    CUBLAS_PREFERENCE_ALIGNMENT = 5    /* alignment of a; the numbers after it are for b, c, d */
};

/* Opens the library once per process; it is never closed. TESSERA_CUBLAS=off or own: the library is not used.
 * TESSERA_CUBLAS=PATH: that file is opened, and must exist. Sets *lt to NULL if the library is missing or not wanted.
 * TESS_E_INVALID, TESS_E_UNSUPPORTED: the file is not such a library. */
tess_status tess_cublas_lt_open(const cublas_lt **lt);

#endif
