/* The order in which units are used. An engine repeats it in each pass, so that the last pass predicts this one. */
#include "parallel/fsdp/fsdp_impl.h"

int tess_fsdp_order_predict(const tess_fsdp_order *order, int n_units, int ahead, tess_fsdp_use *use)
{
    int now = order->n_now - 1;
    if (now < 0)
        return -1;
    *use = (tess_fsdp_use)(order->now[now] % 2);
    if (now < order->n_last && order->last[now] == order->now[now]) {
        if (now + ahead >= order->n_last)
            return -1;
        *use = (tess_fsdp_use)(order->last[now + ahead] % 2);
        return order->last[now + ahead] / 2;
    }
    int unit = order->now[now] / 2 + (*use == TESS_FSDP_FORWARD ? ahead : -ahead);
    return unit >= 0 && unit < n_units ? unit : -1;
}

tess_status tess_fsdp_order_add(tess_fsdp_order *order, tess_mem *mem, int unit, tess_fsdp_use use)
{
    enum { FIRST_CAPACITY = 64 };
    const int now = 2 * unit + (int)use;
    if (order->n_now > 0 && order->now[order->n_now - 1] == now)
        return TESS_OK;
    if (order->n_now == order->capacity) {
        int capacity = order->capacity == 0 ? FIRST_CAPACITY : 2 * order->capacity;
        size_t bytes = (size_t)capacity * sizeof(int);
        TESS_TRY(tess_mem_grow(mem, TESS_POOL_MISC, bytes, "order of units", (void **)&order->now));
        TESS_TRY(tess_mem_grow(mem, TESS_POOL_MISC, bytes, "order of units", (void **)&order->last));
        order->capacity = capacity;
    }
    order->now[order->n_now++] = now;
    return TESS_OK;
}

void tess_fsdp_order_restart(tess_fsdp_order *order)
{
    int *now = order->now;
    if (order->n_now == 0)
        return;
    order->now = order->last;
    order->last = now;
    order->n_last = order->n_now;
    order->n_now = 0;
}

void tess_fsdp_order_free(tess_fsdp_order *order, tess_mem *mem)
{
    tess_mem_free(mem, order->now);
    tess_mem_free(mem, order->last);
}
