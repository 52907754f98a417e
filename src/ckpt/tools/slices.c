#include "ckpt/tools/slices.h"

void tess_slices_begin(tess_slices *s, int n_dims, const tess_box *whole, int64_t most)
{
    int64_t inner = 1; /* elements behind dimension `cut` */
    *s = (tess_slices){.n_dims = n_dims, .whole = *whole, .box = *whole};
    s->left = tess_box_count(n_dims, whole);
    s->cut = n_dims - 1;
    while (s->cut > 0 && s->whole.size[s->cut] <= most / inner) {
        inner *= s->whole.size[s->cut] > 0 ? s->whole.size[s->cut] : 1;
        s->cut--;
    }
    s->most = most / inner > 1 ? most / inner : 1;
    for (int d = 0; d < s->cut; d++)
        s->box.size[d] = 1;
    if (n_dims > 0)
        s->box.size[s->cut] = 0;
}

/* The next range along `cut`; behind the last of them the next row of the dimensions before it. */
static void advance(tess_slices *s)
{
    int d = s->cut;
    s->box.begin[d] += s->box.size[d];
    while (d > 0 && s->box.begin[d] == s->whole.begin[d] + s->whole.size[d]) {
        s->box.begin[d] = s->whole.begin[d];
        s->box.begin[--d]++;
    }
    int64_t rest = s->whole.begin[s->cut] + s->whole.size[s->cut] - s->box.begin[s->cut];
    s->box.size[s->cut] = rest < s->most ? rest : s->most;
}

bool tess_slices_next(tess_slices *s)
{
    s->first += s->n;
    if (s->left == 0)
        return false;
    if (s->n_dims > 0)
        advance(s);
    s->n = tess_box_count(s->n_dims, &s->box);
    s->left -= s->n;
    return true;
}
