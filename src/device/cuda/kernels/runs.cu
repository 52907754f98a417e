/* Processes many runs of values in one launch. Runs are cut into parts of equal size, and each block of threads takes
 * one part after the other. The runs are arguments of the launch, so nothing is uploaded. */
#include <math.h>

#include "device/cuda/cuda_rows.h"
#include "device/cuda/cuda_types.h"

/* LEVELS is enough for 2^(LEVELS - 1) inputs */
enum { THREADS = 256, PART = 4096, RUNS = 64, EQUAL_RUNS = 240, MAX_INPUTS = 64, LEVELS = 7 };

/* The runs of a launch: their lengths, and the number of parts before each. */
typedef struct run_parts {
    int64_t first[RUNS + 1], length[RUNS];
    int n;
} run_parts;

static void add_run(run_parts *p, int64_t length)
{
    p->first[p->n + 1] = p->first[p->n] + (length + PART - 1) / PART;
    p->length[p->n++] = length;
}

/* The run that a part belongs to, and the part's begin and end in it. */
typedef struct run_part {
    int run;
    int64_t begin, end;
} run_part;

static __device__ run_part find_part(const run_parts &p, int64_t part)
{
    int low = 0, high = p.n - 1;
    /* Finds the last run that begins at or before the part. A run without parts begins at the same part as the next. */
    while (low < high) {
        int middle = (low + high + 1) / 2;
        if (p.first[middle] <= part)
            low = middle;
        else
            high = middle - 1;
    }
    int64_t begin = (part - p.first[low]) * PART, end = begin + PART < p.length[low] ? begin + PART : p.length[low];
    run_part found = {low, begin, end};
    return found;
}

static unsigned blocks_of(const run_parts *p)
{
    return tess_cuda_blocks(p->first[p->n], 1);
}

/* ---- Conversions ---- */
typedef struct convert_call {
    const void *x[RUNS];
    void *y[RUNS];
    run_parts parts;
    tess_dtype from, to;
} convert_call;

static __global__ void convert_runs_kernel(convert_call c)
{
    for (int64_t part = blockIdx.x; part < c.parts.first[c.parts.n]; part += gridDim.x) {
        run_part p = find_part(c.parts, part);
        for (int64_t i = p.begin + threadIdx.x; i < p.end; i += blockDim.x)
            tess_put_float(c.y[p.run], c.to, (size_t)i, tess_get_float(c.x[p.run], c.from, (size_t)i));
    }
}

template <typename W> static __device__ void copy_part(void *y, const void *x, int64_t begin, int64_t end)
{
    for (int64_t i = begin + threadIdx.x; i < end; i += blockDim.x)
        ((W *)y)[i] = ((const W *)x)[i];
}

template <typename W> static __global__ void copy_runs_kernel(convert_call c)
{
    for (int64_t part = blockIdx.x; part < c.parts.first[c.parts.n]; part += gridDim.x) {
        run_part p = find_part(c.parts, part);
        copy_part<W>(c.y[p.run], c.x[p.run], p.begin, p.end);
    }
}

/* Copies of one length need no list of parts, so a launch takes more of them: keys and values of a token for each of
 * 120 texts. */
typedef struct equal_copies {
    const void *x[EQUAL_RUNS];
    void *y[EQUAL_RUNS];
    int64_t n, length;
} equal_copies;

static_assert(sizeof(equal_copies) <= 4000, "CUDA before 12.1 passes 4096 bytes to a kernel");

static __host__ __device__ inline int64_t parts_of_copy(const equal_copies *c)
{
    return (c->length + PART - 1) / PART;
}

template <typename W> static __global__ void copy_equal_runs_kernel(equal_copies c)
{
    const int64_t parts = parts_of_copy(&c);
    for (int64_t part = blockIdx.x; part < c.n * parts; part += gridDim.x) {
        const int64_t run = part / parts, begin = part % parts * PART;
        copy_part<W>(c.y[run], c.x[run], begin, begin + PART < c.length ? begin + PART : c.length);
    }
}

/* Returns f(word), where `word` has the type that copies a value. */
template <typename F> static tess_status with_word_of(tess_dtype dtype, F f)
{
    switch (dtype) {
    case TESS_I64:
        return f(uint64_t());
    case TESS_F32:
    case TESS_I32:
        return f(uint32_t());
    case TESS_BF16:
    case TESS_F16:
        return f(uint16_t());
    default:
        return f(uint8_t());
    }
}

static tess_status launch_convert(tess_stream *s, const convert_call *c)
{
    const unsigned blocks = blocks_of(&c->parts);
    if (c->parts.first[c->parts.n] == 0)
        return TESS_OK;
    if (c->from != c->to)
        return TESS_CUDA_LAUNCH(convert_runs_kernel, blocks, THREADS, 0, s, *c);
    return with_word_of(c->from, [&](auto word) {
        return TESS_CUDA_LAUNCH(copy_runs_kernel<decltype(word)>, blocks, THREADS, 0, s, *c);
    });
}

static tess_status launch_equal_copies(tess_stream *s, const equal_copies *c, tess_dtype dtype)
{
    const unsigned blocks = tess_cuda_blocks(c->n * parts_of_copy(c), 1);
    return with_word_of(dtype, [&](auto word) {
        return TESS_CUDA_LAUNCH(copy_equal_runs_kernel<decltype(word)>, blocks, THREADS, 0, s, *c);
    });
}

static bool are_equal_copies(const tess_convert_runs_args *a)
{
    if (a->from != a->to || a->n_runs == 0 || a->runs[0].n == 0)
        return false;
    for (int64_t i = 1; i < a->n_runs; i++)
        if (a->runs[i].n != a->runs[0].n)
            return false;
    return true;
}

static tess_status copy_equal_runs(tess_stream *s, const tess_convert_runs_args *a)
{
    for (int64_t begin = 0; begin < a->n_runs; begin += EQUAL_RUNS) {
        equal_copies c = {};
        c.length = a->runs[0].n;
        for (int64_t i = begin; i < a->n_runs && c.n < EQUAL_RUNS; i++) {
            c.x[c.n] = a->runs[i].x;
            c.y[c.n++] = a->runs[i].y;
        }
        TESS_TRY(launch_equal_copies(s, &c, a->from));
    }
    return TESS_OK;
}

static tess_status convert_runs(tess_stream *s, const tess_convert_runs_args *a)
{
    TESS_TRY(tess_check_convert_runs(a->from, a->to));
    if (are_equal_copies(a))
        return copy_equal_runs(s, a);
    for (int64_t begin = 0; begin < a->n_runs; begin += RUNS) {
        convert_call c = {};
        c.from = a->from;
        c.to = a->to;
        for (int64_t i = begin; i < a->n_runs && i < begin + RUNS; i++) {
            c.x[c.parts.n] = a->runs[i].x;
            c.y[c.parts.n] = a->runs[i].y;
            add_run(&c.parts, a->runs[i].n);
        }
        TESS_TRY(launch_convert(s, &c));
    }
    return TESS_OK;
}

/* ---- Sums of floats ---- */
typedef struct reduce_runs_call {
    tess_reduction of; /* its arrays x and y are not read */
    const void *x[MAX_INPUTS];
    void *y;
    int64_t from[RUNS], to[RUNS];
    run_parts parts;
} reduce_runs_call;

static __global__ void reduce_runs_kernel(reduce_runs_call r)
{
    for (int64_t part = blockIdx.x; part < r.parts.first[r.parts.n]; part += gridDim.x) {
        run_part p = find_part(r.parts, part);
        for (int64_t i = p.begin + threadIdx.x; i < p.end; i += blockDim.x) {
            size_t from = (size_t)(r.from[p.run] + i), to = (size_t)(r.to[p.run] + i);
            auto input = [&](int64_t k) { return tess_get_float(r.x[k], r.of.dtype, from); };
            float sum = r.of.n_inputs > 0 ? cuda_tree<LEVELS>(r.of.n_inputs, input) : 0.0f;
            if (r.of.divisor != 1)
                sum /= (float)r.of.divisor;
            if (r.of.accumulate)
                sum = sum + ((const float *)r.y)[to];
            tess_put_float(r.y, r.of.y_dtype, to, sum);
            if (r.of.finite != NULL && !isfinite(sum))
                *r.of.finite = false; /* all threads that write store the same value */
        }
    }
}

static tess_status reduce_runs(tess_stream *s, const tess_reduce_runs_args *a)
{
    const tess_reduction *r = &a->of;
    TESS_TRY(tess_check_reduce_runs(r));
    TESS_CHECK(r->n_inputs <= MAX_INPUTS, TESS_E_UNSUPPORTED, "reduce_runs of %d inputs: a GPU takes %d in a call",
               r->n_inputs, (int)MAX_INPUTS);
    for (int64_t begin = 0; begin < a->n_runs; begin += RUNS) {
        reduce_runs_call c = {};
        c.of = *r;
        for (int k = 0; k < r->n_inputs; k++)
            c.x[k] = r->x[k];
        c.y = r->y[0];
        for (int64_t i = begin; i < a->n_runs && i < begin + RUNS; i++) {
            c.from[c.parts.n] = a->runs[i].x;
            c.to[c.parts.n] = a->runs[i].y;
            add_run(&c.parts, a->runs[i].n);
        }
        if (c.parts.first[c.parts.n] > 0)
            TESS_TRY(TESS_CUDA_LAUNCH(reduce_runs_kernel, blocks_of(&c.parts), THREADS, 0, s, c));
    }
    return TESS_OK;
}

void tess_kernels_cuda_runs(tess_kernels *k)
{
    k->convert_runs = convert_runs;
    k->reduce_runs = reduce_runs;
}
