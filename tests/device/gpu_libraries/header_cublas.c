/* Compares our declarations of cublasLt with its own header: sizes, numbers, and functions that take what we give
 * them. It compiles if they agree. */
#include "device/cuda/cublas_lt.h"

#include <cublasLt.h>
#include <stddef.h>

#define SAME_NUMBER(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #ours)
#define SAME_PLACE(ours, theirs)                                                                                   \
    _Static_assert(offsetof(cublas_proposal, ours) == offsetof(cublasLtMatmulHeuristicResult_t, theirs), #theirs); \
    _Static_assert(sizeof(((cublas_proposal *)0)->ours) == sizeof(((cublasLtMatmulHeuristicResult_t *)0)->theirs), \
                   #theirs)

_Static_assert(sizeof(cublas_algorithm) == sizeof(cublasLtMatmulAlgo_t), "cublasLtMatmulAlgo_t");
_Static_assert(sizeof(cublas_proposal) == sizeof(cublasLtMatmulHeuristicResult_t), "cublasLtMatmulHeuristicResult_t");
SAME_PLACE(algorithm, algo);
SAME_PLACE(workspace_bytes, workspaceSize);
SAME_PLACE(state, state);
SAME_PLACE(waves, wavesCount);
SAME_NUMBER(CUBLAS_SUCCESS, CUBLAS_STATUS_SUCCESS);
SAME_NUMBER(CUBLAS_INVALID_VALUE, CUBLAS_STATUS_INVALID_VALUE);
SAME_NUMBER(CUBLAS_ARCH_MISMATCH, CUBLAS_STATUS_ARCH_MISMATCH);
SAME_NUMBER(CUBLAS_NOT_SUPPORTED, CUBLAS_STATUS_NOT_SUPPORTED);
SAME_NUMBER(CUBLAS_COMPUTE_F32, CUBLAS_COMPUTE_32F);
SAME_NUMBER(CUBLAS_TYPE_F32, CUDA_R_32F);
SAME_NUMBER(CUBLAS_TYPE_BF16, CUDA_R_16BF);
SAME_NUMBER(CUBLAS_DESC_TRANS_A, CUBLASLT_MATMUL_DESC_TRANSA);
SAME_NUMBER(CUBLAS_DESC_TRANS_B, CUBLASLT_MATMUL_DESC_TRANSB);
SAME_NUMBER(CUBLAS_DESC_EPILOGUE, CUBLASLT_MATMUL_DESC_EPILOGUE);
SAME_NUMBER(CUBLAS_DESC_BIAS, CUBLASLT_MATMUL_DESC_BIAS_POINTER);
SAME_NUMBER(CUBLAS_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_BIAS);
SAME_NUMBER(CUBLAS_PREFERENCE_WORKSPACE, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
SAME_NUMBER(CUBLAS_PREFERENCE_REDUCTIONS, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK);
SAME_NUMBER(CUBLAS_PREFERENCE_ALIGNMENT, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
SAME_NUMBER(CUBLAS_PREFERENCE_ALIGNMENT + 1, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES);
SAME_NUMBER(CUBLAS_PREFERENCE_ALIGNMENT + 2, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES);
SAME_NUMBER(CUBLAS_PREFERENCE_ALIGNMENT + 3, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
SAME_NUMBER(0, CUBLASLT_REDUCTION_SCHEME_NONE);

/* Each function of our table, with our parameters, by the library's declaration. */
#define X(type, name, symbol, parameters) type check_##name parameters;
CUBLAS_LT_LIST(X)
#undef X
size_t check_version(void)
{
    return cublasLtGetVersion();
}
int check_create(cublas_handle *handle)
{
    return cublasLtCreate((cublasLtHandle_t *)handle);
}
int check_destroy(cublas_handle handle)
{
    return cublasLtDestroy(handle);
}
int check_desc_create(cublas_desc *desc, int compute, int scale)
{
    return cublasLtMatmulDescCreate((cublasLtMatmulDesc_t *)desc, (cublasComputeType_t)compute, (cudaDataType_t)scale);
}
int check_desc_destroy(cublas_desc desc)
{
    return cublasLtMatmulDescDestroy((cublasLtMatmulDesc_t)desc);
}
int check_desc_set(cublas_desc desc, int which, const void *value, size_t bytes)
{
    return cublasLtMatmulDescSetAttribute((cublasLtMatmulDesc_t)desc, (cublasLtMatmulDescAttributes_t)which, value,
                                          bytes);
}
int check_matrix_create(cublas_matrix *matrix, int type, uint64_t rows, uint64_t columns, int64_t ld)
{
    return cublasLtMatrixLayoutCreate((cublasLtMatrixLayout_t *)matrix, (cudaDataType)type, rows, columns, ld);
}
int check_matrix_destroy(cublas_matrix matrix)
{
    return cublasLtMatrixLayoutDestroy((cublasLtMatrixLayout_t)matrix);
}
int check_preference_create(cublas_preference *preference)
{
    return cublasLtMatmulPreferenceCreate((cublasLtMatmulPreference_t *)preference);
}
int check_preference_destroy(cublas_preference preference)
{
    return cublasLtMatmulPreferenceDestroy((cublasLtMatmulPreference_t)preference);
}
int check_preference_set(cublas_preference preference, int which, const void *value, size_t bytes)
{
    return cublasLtMatmulPreferenceSetAttribute((cublasLtMatmulPreference_t)preference,
                                                (cublasLtMatmulPreferenceAttributes_t)which, value, bytes);
}
int check_propose(cublas_handle handle, cublas_desc desc, cublas_matrix a, cublas_matrix b, cublas_matrix c,
                  cublas_matrix d, cublas_preference preference, int most, cublas_proposal *proposals, int *n)
{
    return cublasLtMatmulAlgoGetHeuristic(handle, (cublasLtMatmulDesc_t)desc, (cublasLtMatrixLayout_t)a,
                                          (cublasLtMatrixLayout_t)b, (cublasLtMatrixLayout_t)c,
                                          (cublasLtMatrixLayout_t)d, (cublasLtMatmulPreference_t)preference, most,
                                          (cublasLtMatmulHeuristicResult_t *)proposals, n);
}
int check_multiply(cublas_handle handle, cublas_desc desc, const void *alpha, const void *a, cublas_matrix a_matrix,
                   const void *b, cublas_matrix b_matrix, const void *beta, const void *c, cublas_matrix c_matrix,
                   void *d, cublas_matrix d_matrix, const cublas_algorithm *algorithm, void *workspace,
                   size_t workspace_bytes, cuda_queue queue)
{
    return cublasLtMatmul(handle, (cublasLtMatmulDesc_t)desc, alpha, a, (cublasLtMatrixLayout_t)a_matrix, b,
                          (cublasLtMatrixLayout_t)b_matrix, beta, c, (cublasLtMatrixLayout_t)c_matrix, d,
                          (cublasLtMatrixLayout_t)d_matrix, (const cublasLtMatmulAlgo_t *)algorithm, workspace,
                          workspace_bytes, queue);
}
