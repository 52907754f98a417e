/* A libcublasLt.so for tests without a GPU: matrices are the host's memory. A product whose rows are not contiguous
 * (the gradient of a weight) may be split along k, with work space. Of the other ways that it proposes, one has rows
 * that depend on how many there are, one needs work space, and one has bits of its own: a program that takes the first
 * which is proposed gives itself away. fake_cublas_calls counts by way. CUBLAS_FAKE=none: it proposes nothing; variant:
 * only what is not to be taken; many: nothing for few rows. CUBLAS_FAKE_SLOW=WAY: that one takes 20 ms more for 20
 * or 65 rows, which no proof has. CUBLAS_FAKE_LOG=FILE: products are not computed; FILE gets a line for each: its m, n
 * and k, the bytes of an element of its result, whether it adds, and "splits" if k is split.
 * CUBLAS_FAKE_REFUSE=WAY:ROWS:ERROR: that one gives the error for this many rows. */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "device/bf16.h"
#include "device/cuda/cublas_lt.h"
#include "device/cuda_fake/fake_work.h"

#define EXPORT __attribute__((visibility("default")))
enum { INVALID = 7, WAYS = 8 };

enum { VARIANT = 1, GREEDY, ASCENDING, DESCENDING, FEW, SPLITS }; /* ways; FEW has the bits of ASCENDING */

EXPORT int fake_cublas_calls[WAYS];

struct cublas_product_desc {
    int32_t trans_a, trans_b;
    const uint16_t *bias;
};

struct cublas_matrix_desc {
    int type;
    int64_t rows, columns, ld;
};

struct cublas_preference_desc {
    size_t workspace;
    uint32_t reductions, alignment[4];
};

#define X(type, name, symbol, parameters) EXPORT type fake_##name parameters __asm__(symbol);
CUBLAS_LT_LIST(X)
#undef X

size_t fake_version(void)
{
    return 130099;
}

int fake_create(cublas_handle *handle)
{
    *handle = getenv("CUBLAS_FAKE_BROKEN") == NULL ? malloc(1) : NULL;
    return *handle != NULL ? 0 : 1;
}

int fake_destroy(cublas_handle handle)
{
    free(handle);
    return 0;
}

int fake_desc_create(cublas_desc *desc, int compute, int scale)
{
    *desc = calloc(1, sizeof(**desc));
    return compute == CUBLAS_COMPUTE_F32 && scale == CUBLAS_TYPE_F32 ? 0 : INVALID;
}

int fake_desc_destroy(cublas_desc desc)
{
    free(desc);
    return 0;
}

int fake_desc_set(cublas_desc desc, int which, const void *value, size_t bytes)
{
    if (which == CUBLAS_DESC_TRANS_A && bytes == sizeof(int32_t))
        memcpy(&desc->trans_a, value, bytes);
    else if (which == CUBLAS_DESC_TRANS_B && bytes == sizeof(int32_t))
        memcpy(&desc->trans_b, value, bytes);
    else if (which == CUBLAS_DESC_BIAS && bytes == sizeof(void *))
        memcpy(&desc->bias, value, bytes);
    else if (which != CUBLAS_DESC_EPILOGUE || bytes != sizeof(uint32_t))
        return INVALID;
    return 0;
}

int fake_matrix_create(cublas_matrix *matrix, int type, uint64_t rows, uint64_t columns, int64_t ld)
{
    *matrix = malloc(sizeof(**matrix));
    **matrix = (struct cublas_matrix_desc){type, (int64_t)rows, (int64_t)columns, ld};
    return ld >= (int64_t)rows ? 0 : INVALID;
}

int fake_matrix_destroy(cublas_matrix matrix)
{
    free(matrix);
    return 0;
}

int fake_preference_create(cublas_preference *preference)
{
    *preference = calloc(1, sizeof(**preference));
    (*preference)->workspace = (size_t)-1;
    (*preference)->reductions = ~0u;
    return 0;
}

int fake_preference_destroy(cublas_preference preference)
{
    free(preference);
    return 0;
}

int fake_preference_set(cublas_preference preference, int which, const void *value, size_t bytes)
{
    if (which == CUBLAS_PREFERENCE_WORKSPACE && bytes == sizeof(size_t))
        memcpy(&preference->workspace, value, bytes);
    else if (which == CUBLAS_PREFERENCE_REDUCTIONS && bytes == sizeof(uint32_t))
        memcpy(&preference->reductions, value, bytes);
    else if (which >= CUBLAS_PREFERENCE_ALIGNMENT && which < CUBLAS_PREFERENCE_ALIGNMENT + 4 &&
             bytes == sizeof(uint32_t))
        memcpy(&preference->alignment[which - CUBLAS_PREFERENCE_ALIGNMENT], value, bytes);
    else
        return INVALID;
    return 0;
}

/* Rows of ours are columns here. */
int fake_propose(cublas_handle handle, cublas_desc desc, cublas_matrix a, cublas_matrix b, cublas_matrix c,
                 cublas_matrix d, cublas_preference preference, int most, cublas_proposal *proposals, int *n)
{
    static const int many[] = {VARIANT, GREEDY, ASCENDING}, few[] = {DESCENDING, FEW};
    const char *wish = getenv("CUBLAS_FAKE");
    const int *ways = d->columns > 64 ? many : few;
    const size_t parts_bytes = 2 * sizeof(float) * (size_t)(d->rows * d->columns);
    int n_ways = d->columns > 64 ? 3 : 2;
    (void)handle, (void)a, (void)b, (void)c;
    if ((preference->workspace != 0) != (desc->trans_b != 0) || preference->alignment[3] != 16 ||
        preference->reductions != (desc->trans_b ? CUBLAS_REDUCTION_IN_WORKSPACE : 0u))
        return INVALID;
    if (wish != NULL && strcmp(wish, "many") == 0)
        n_ways = ways == many ? 3 : 0;
    else if (wish != NULL)
        n_ways = strcmp(wish, "none") == 0 ? 0 : 1;
    *n = 0;
    if (wish == NULL && desc->trans_b && parts_bytes <= preference->workspace)
        proposals[(*n)++] = (cublas_proposal){.algorithm = {{SPLITS}}, .workspace_bytes = parts_bytes};
    for (int i = 0; i < n_ways && *n < most; i++)
        proposals[(*n)++] =
            (cublas_proposal){.algorithm = {{(uint64_t)ways[i]}}, .workspace_bytes = ways[i] == GREEDY ? SIZE_MAX : 0};
    return 0;
}

static float at(const uint16_t *x, const struct cublas_matrix_desc *m, bool trans, int64_t i, int64_t j)
{
    return tess_bf16_to_float(x[trans ? j + i * m->ld : i + j * m->ld]);
}

static int refusal(int way, int64_t rows)
{
    const char *text = getenv("CUBLAS_FAKE_REFUSE");
    int refused, error;
    long of_rows;
    bool refuses =
        text != NULL && sscanf(text, "%d:%ld:%d", &refused, &of_rows, &error) == 3 && way == refused && rows == of_rows;
    return refuses ? error : 0;
}

/* Appends a product to the log. Returns false if there is none. */
static bool log_product(int64_t m, int64_t n, int64_t k, int type, bool adds, bool splits)
{
    const char *path = getenv("CUBLAS_FAKE_LOG");
    if (path == NULL)
        return false;
    FILE *log = fopen(path, "ae");
    if (log == NULL)
        abort();
    setvbuf(log, NULL, _IOFBF, BUFSIZ);
    fprintf(log, "product %lld %lld %lld %d %d%s\n", (long long)m, (long long)n, (long long)k,
            type == CUBLAS_TYPE_F32 ? 4 : 2, adds ? 1 : 0, splits ? " splits" : "");
    fclose(log);
    return true;
}

/* A product in a queue. */
typedef struct product {
    struct cublas_product_desc desc;
    struct cublas_matrix_desc a_matrix, b_matrix, d_matrix;
    const uint16_t *a, *b;
    void *d;
    float *parts; /* work space for each part of k */
    float start;
    int way;
} product;

/* Returns the sum over `begin` to `end` of k. */
static float sum_of(const product *p, int64_t i, int64_t j, int64_t k, int64_t begin, int64_t end)
{
    const bool backwards = p->way == DESCENDING || (p->way == VARIANT && p->d_matrix.columns % 2 != 0);
    float sum = 0;
    for (int64_t l = begin; l < end; l++) {
        const int64_t at_k = backwards ? k - 1 - l : l;
        sum = fmaf(at(p->a, &p->a_matrix, p->desc.trans_a, i, at_k), at(p->b, &p->b_matrix, p->desc.trans_b, at_k, j),
                   sum);
    }
    return sum;
}

static bool run(void *self)
{
    const product *p = self;
    const struct cublas_matrix_desc *d_matrix = &p->d_matrix;
    const int64_t m = d_matrix->rows, n = d_matrix->columns,
                  k = p->desc.trans_a ? p->a_matrix.rows : p->a_matrix.columns;
    const char *slow = getenv("CUBLAS_FAKE_SLOW");
    if (slow != NULL && atoi(slow) == p->way && (n == 20 || n == 65))
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < m; i++) {
            float sum = sum_of(p, i, j, k, 0, p->parts != NULL ? k / 2 : k);
            if (p->parts != NULL) {
                float *const part = p->parts + 2 * (i + j * m);
                part[0] = sum;
                part[1] = sum_of(p, i, j, k, k / 2, k);
                sum = part[0] + part[1];
            }
            tess_dtype dtype = d_matrix->type == CUBLAS_TYPE_F32 ? TESS_F32 : TESS_BF16;
            size_t place = (size_t)(i + j * d_matrix->ld);
            if (p->start != 0)
                sum += p->start * tess_get_float(p->d, dtype, place);
            if (p->desc.bias != NULL)
                sum += tess_bf16_to_float(p->desc.bias[i]);
            tess_put_float(p->d, dtype, place, sum);
        }
    return true;
}

int fake_multiply(cublas_handle handle, cublas_desc desc, const void *alpha, const void *a, cublas_matrix a_matrix,
                  const void *b, cublas_matrix b_matrix, const void *beta, const void *c, cublas_matrix c_matrix,
                  void *d, cublas_matrix d_matrix, const cublas_algorithm *algorithm, void *workspace,
                  size_t workspace_bytes, cuda_queue queue)
{
    const int way = (int)algorithm->data[0];
    const int64_t n = d_matrix->columns, k = desc->trans_a ? a_matrix->rows : a_matrix->columns;
    const fake_enqueue enqueue = fake_find_enqueue();
    const size_t parts_bytes = 2 * sizeof(float) * (size_t)(d_matrix->rows * n);
    (void)handle;
    if ((way == SPLITS) != (workspace != NULL) || (way == SPLITS && workspace_bytes < parts_bytes))
        return INVALID;
    if (*(const float *)alpha != 1 || c != d || c_matrix != d_matrix || queue == NULL || way == GREEDY ||
        enqueue == NULL || a_matrix->type != CUBLAS_TYPE_BF16 ||
        k != (desc->trans_b ? b_matrix->columns : b_matrix->rows))
        return INVALID;
    if (refusal(way, n) != 0)
        return refusal(way, n);
    fake_cublas_calls[way]++;
    if (log_product(d_matrix->rows, n, k, d_matrix->type, *(const float *)beta != 0, way == SPLITS))
        return 0;
    product *p = malloc(sizeof(*p));
    *p = (product){*desc, *a_matrix, *b_matrix, *d_matrix, a, b, d, workspace, *(const float *)beta, way};
    const fake_operand operands[] = {{a, 0, FAKE_READS, 0},
                                     {b, 0, FAKE_READS, 1},
                                     {desc->bias, 0, FAKE_READS, 2},
                                     {d, 0, FAKE_WRITES, 3},
                                     {workspace, 0, FAKE_WRITES, 4}};
    const int error = enqueue(queue, &(fake_work){"cublasLtMatmul", NULL, run, free, p, operands, 5});
    if (error != 0)
        free(p);
    return error != 0 ? 14 : 0; /* CUBLAS_STATUS_INTERNAL_ERROR */
}
