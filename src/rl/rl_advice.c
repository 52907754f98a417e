/* Advice on the settings, from the figures of the steps that this process has seen. */
#include "rl/rl_advice.h"

#include "base/mem/make_room.h"

tess_status rl_advice_add(tess_mem *mem, rl_advice *a, const tess_tuner_step *step)
{
    TESS_TRY(tess_mem_make_room(mem, TESS_POOL_MISC, a->n, sizeof(*a->steps), "history", &a->room, &a->steps));
    a->steps[a->n++] = *step;
    return TESS_OK;
}

int rl_advice_news(rl_advice *a, const tess_tuner_limits *limits, tess_advice news[TESS_ADVICE_MAX])
{
    unsigned held = 0;
    int n_news = 0;
    if ((int64_t)a->n < limits->window) /* a few steps tell nothing */
        return 0;
    const int n = tess_tuner_diagnose(limits, a->steps, (int64_t)a->n, news);
    for (int i = 0; i < n; i++) {
        const tess_advice advice = news[i];
        held |= 1u << advice.kind;
        if (advice.kind != TESS_ADVICE_STABLE && (a->held & 1u << advice.kind) == 0)
            news[n_news++] = advice;
    }
    a->held = held;
    return n_news;
}

void rl_advice_free(tess_mem *mem, rl_advice *a)
{
    tess_mem_free(mem, a->steps);
    *a = (rl_advice){.n = 0};
}
