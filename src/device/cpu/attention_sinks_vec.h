/* The gradient of attention's sinks, on the `vec` of the header that was included before: lanes are heads. Each row
 * adds -p delta to its head, where p = exp(sink - lse) is the sink's probability. Rows are added as the reference does.
 */
#ifndef TESS_DEVICE_CPU_ATTENTION_SINKS_VEC_H
#define TESS_DEVICE_CPU_ATTENTION_SINKS_VEC_H

#include "device/cpu/attention_impl.h"
#include "device/cpu/vec_typed.h"

_Static_assert(ATTENTION_SINKS == 16, "a vector of heads");

static vec sink_gradients_of(const attention_sinks_job *job, int64_t h, int64_t n)
{
    const tess_attention *a = &job->g->forward;
    const vec sink = v_get(a->sinks, h, n, a->dtype);
    vec sum = v_set(0);
    for (int64_t i = 0; i < a->n_seqs; i++)
        for (int64_t first = 0; first < a->seqs[i].q_len; first += TESS_NORM_BLOCK) {
            vec block = v_set(0);
            for (int64_t r = first; r < min64(first + TESS_NORM_BLOCK, a->seqs[i].q_len); r++) {
                const int64_t at = (a->seqs[i].q_begin + r) * a->n_heads + h;
                block = v_fnma(v_exp(v_sub(sink, v_load(a->lse + at, n))), v_load(job->delta + at, n), block);
            }
            sum = v_add(sum, block);
        }
    return sum;
}

static void sink_gradients(void *context, int64_t begin, int64_t end, TESS_UNUSED int worker)
{
    const attention_sinks_job *job = context;
    for (int64_t group = begin; group < end; group++) {
        const int64_t h = job->head + group * ATTENTION_SINKS, n = min64(ATTENTION_SINKS, job->head_end - h);
        v_store(job->g->dsinks + h, sink_gradients_of(job, h, n), n);
    }
}

#endif
