/* Fetches and releases spans on disk. Everything that an update will use is requested at once and in order, so that
 * the pager (base/mem/pager.h) can read as far in advance as memory allows. Afterwards it is released. For spans in
 * memory nothing happens. */
#include "optim/optim_impl.h"

typedef struct touched {
    const void *at;
    size_t bytes;
    tess_page_use use;
} touched;

enum { ARRAYS = 3 };

static void list(const optim_update *u, const tess_span *spans, int i, optim_touch touch, touched arrays[ARRAYS])
{
    const optim_param *p = &u->optimizer->params[i];
    size_t bytes = p->rule != OPTIM_FROZEN ? (size_t)p->n * sizeof(float) : 0;
    arrays[0] = (touched){spans[i].grad, spans[i].grad != NULL ? bytes : 0, TESS_PAGE_READ};
    arrays[1] = (touched){u->optimizer->state + p->values[0], p->state_bytes,
                          touch == OPTIM_WEIGHTS ? TESS_PAGE_READ : TESS_PAGE_UPDATE};
    arrays[2] = (touched){spans[i].param, touch != OPTIM_MOMENTA ? bytes : 0, TESS_PAGE_UPDATE};
}

void optim_page_fetch(const optim_update *u, const tess_span *spans, int i, optim_touch touch)
{
    touched arrays[ARRAYS];
    list(u, spans, i, touch, arrays);
    for (int k = 0; k < ARRAYS && u->optimizer->pager != NULL; k++)
        tess_pager_fetch(u->optimizer->pager, arrays[k].at, arrays[k].bytes, arrays[k].use);
}

tess_status optim_page_wait(const optim_update *u, const tess_span *spans, int i, optim_touch touch)
{
    touched arrays[ARRAYS];
    list(u, spans, i, touch, arrays);
    for (int k = 0; k < ARRAYS && u->optimizer->pager != NULL; k++)
        if (arrays[k].bytes > 0)
            TESS_TRY(tess_pager_wait(u->optimizer->pager, arrays[k].at, arrays[k].bytes));
    return TESS_OK;
}

void optim_page_release(const optim_update *u, const tess_span *spans, int i, optim_touch touch)
{
    touched arrays[ARRAYS];
    list(u, spans, i, touch, arrays);
    for (int k = 0; k < ARRAYS && u->optimizer->pager != NULL; k++)
        tess_pager_release(u->optimizer->pager, arrays[k].at, arrays[k].bytes);
}
