/* One row against weights stored (k,n), as in generation with GPT-2. The weights are read once, in place, in whole
 * rows. Vectors do what TDPBF16PS does, in its order and with zeros for denormals, so the bits are those of tiles:
 * within a step of 32 k, even and odd products are summed separately, then added, then added to the sum. Floor: the
 * weights' bytes. */
#include "device/bf16.h"
#include "device/cpu/gemm_amx_impl.h"

/* Each worker keeps its column sums in L1. */
enum { PIECE = 2 * GEMM_SPAN, VECTORS = PIECE / 16, DENORMALS_ARE_ZERO = 0x8040 };

typedef struct one_row {
    const tess_gemm *g;
    float *sums; /* (n rounded up to whole pieces) */
} one_row;

/* part += a * 64 columns of a row of B */
static inline void add_row(__m512 a, const uint16_t *b, __mmask32 first, __mmask32 second, __m512 part[VECTORS])
{
    __m512i x = _mm512_maskz_loadu_epi16(first, b), y = _mm512_maskz_loadu_epi16(second, b + GEMM_SPAN);
    part[0] = _mm512_fmadd_ps(a, tess_gemm_widen(_mm512_castsi512_si256(x)), part[0]);
    part[1] = _mm512_fmadd_ps(a, tess_gemm_widen(_mm512_extracti64x4_epi64(x, 1)), part[1]);
    part[2] = _mm512_fmadd_ps(a, tess_gemm_widen(_mm512_castsi512_si256(y)), part[2]);
    part[3] = _mm512_fmadd_ps(a, tess_gemm_widen(_mm512_extracti64x4_epi64(y, 1)), part[3]);
}

/* Prefetches the same piece of the next step. */
static inline void ask(const uint16_t *piece)
{
    _mm_prefetch((const char *)piece, _MM_HINT_T1);
    _mm_prefetch((const char *)piece + 64, _MM_HINT_T1);
}

/* Adds a piece of columns over n_k rows of B (at most one step) to the sums. */
static inline void add_step(const float *a, const uint16_t *b, int64_t ldb, int64_t n_k, int64_t columns, float *sums)
{
    __mmask32 first = tess_gemm_columns(columns),
              second = columns > GEMM_SPAN ? tess_gemm_columns(columns - GEMM_SPAN) : 0;
    __m512 even[VECTORS], odd[VECTORS];
    for (int v = 0; v < VECTORS; v++)
        even[v] = odd[v] = _mm512_setzero_ps();
    for (int64_t p = 0; p < n_k; p += 2) {
        const uint16_t *row = b + p * ldb;
        ask(row + GEMM_STEP * ldb);
        add_row(_mm512_set1_ps(a[p]), row, first, second, even);
        if (p + 1 == n_k)
            break;
        ask(row + (GEMM_STEP + 1) * ldb);
        add_row(_mm512_set1_ps(a[p + 1]), row + ldb, first, second, odd);
    }
    for (int v = 0; v < VECTORS; v++) {
        /* Tiles add zero products up to a whole step, which turns the -0 of a flushed sum into 0. Does the same. */
        if (n_k < GEMM_STEP - 1)
            even[v] = _mm512_add_ps(even[v], _mm512_setzero_ps());
        if (n_k < GEMM_STEP)
            odd[v] = _mm512_add_ps(odd[v], _mm512_setzero_ps());
        _mm512_store_ps(sums + 16 * v, _mm512_add_ps(_mm512_load_ps(sums + 16 * v), _mm512_add_ps(even[v], odd[v])));
    }
}

/* Computes pieces [begin, end) of C. */
static void multiply_pieces(void *context, int64_t begin, int64_t end, TESS_UNUSED int worker)
{
    const one_row *x = context;
    const tess_gemm *g = x->g;
    const uint16_t *a = g->a, *b = g->b;
    float *sums = x->sums + begin * PIECE, step[GEMM_STEP];
    int64_t first = begin * PIECE, last = end * PIECE < g->n ? end * PIECE : g->n;
    unsigned mode = _mm_getcsr();
    for (int64_t i = 0; i < (end - begin) * PIECE; i++)
        sums[i] = 0;
    _mm_setcsr(mode | DENORMALS_ARE_ZERO);
    for (int64_t k = 0; k < g->k; k += GEMM_STEP) {
        int64_t n_k = g->k - k < GEMM_STEP ? g->k - k : GEMM_STEP;
        for (int64_t p = 0; p < n_k; p++)
            step[p] = tess_bf16_to_float(a[(k + p) * (g->trans_a ? g->lda : 1)]);
        for (int64_t j = first; j < last; j += PIECE)
            add_step(step, b + k * g->ldb + j, g->ldb, n_k, last - j, sums + j - first);
    }
    _mm_setcsr(mode);
    for (int64_t j = first; j < last; j += GEMM_SPAN)
        tess_gemm_store_rows_amx(g, NULL, j, last - j, sums + j - first);
}

tess_status tess_gemm_one_row_amx(tess_stream *s, const tess_gemm *g)
{
    TESS_TRY(tess_gemm_check(g));
    int64_t n_pieces = (g->n + PIECE - 1) / PIECE;
    void *sums;
    TESS_TRY_CTX(tess_stream_scratch(s, (size_t)(n_pieces * PIECE) * sizeof(float), &sums), "gemm");
    one_row x = {g, sums};
    const bool parallel = 2.0 * (double)g->n * (double)g->k > 1e6;
    tess_threads_run(s->threads, multiply_pieces, &x, n_pieces, parallel ? 1 : n_pieces);
    return TESS_OK;
}
