#include "page/page_series.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem/make_room.h"

/* ---- Buckets ---- */
/* Values beyond this count as infinite, so that differences of values are finite. */
static const double most = 1e300;

static bool is_usable(double value)
{
    return fabs(value) <= most;
}

static void see(page_bucket *b, int64_t step, double value)
{
    if (!is_usable(value)) {
        b->n_bad++;
        return;
    }
    if (b->n == 0 || value < b->low) {
        b->low = value;
        b->low_at = step;
    }
    if (b->n == 0 || value > b->high) {
        b->high = value;
        b->high_at = step;
    }
    b->sum += value;
    b->n++;
}

static page_bucket join(const page_bucket *a, const page_bucket *b)
{
    page_bucket both = a->n > 0 ? *a : *b;
    both.first = a->first;
    both.n = a->n + b->n;
    both.n_bad = a->n_bad + b->n_bad;
    both.sum = (a->n > 0 ? a->sum : 0) + (b->n > 0 ? b->sum : 0);
    if (a->n > 0 && b->n > 0 && b->low < a->low) {
        both.low = b->low;
        both.low_at = b->low_at;
    }
    if (a->n > 0 && b->n > 0 && b->high > a->high) {
        both.high = b->high;
        both.high_at = b->high_at;
    }
    return both;
}

static void halve(page_series *s)
{
    for (size_t i = 0; i < s->n; i += 2)
        s->buckets[i / 2] = i + 1 < s->n ? join(&s->buckets[i], &s->buckets[i + 1]) : s->buckets[i];
    s->n = (s->n + 1) / 2;
    s->per_bucket *= 2;
}

/* Drops what a resumed run repeats. A bucket that also holds earlier values stays. */
static void drop_from(page_series *s, int64_t step)
{
    s->n_bad = 0;
    while (s->n > 0 && s->buckets[s->n - 1].first >= step)
        s->n--;
    for (size_t i = 0; i < s->n; i++)
        s->n_bad += s->buckets[i].n_bad;
    s->is_straddled = s->n > 0;
}

static tess_status add(tess_mem *mem, page_series *s, int64_t step, double value)
{
    if (s->n > 0 && step <= s->newest)
        drop_from(s, step);
    page_bucket *last = s->n > 0 ? &s->buckets[s->n - 1] : NULL;
    if (last == NULL || s->is_straddled || last->n + last->n_bad >= s->per_bucket) {
        if (s->n == PAGE_BUCKETS)
            halve(s);
        TESS_TRY(tess_mem_make_room(mem, TESS_POOL_MISC, s->n, sizeof(*s->buckets), "a curve", &s->room, &s->buckets));
        s->buckets[s->n++] = (page_bucket){.first = step};
        s->is_straddled = false;
    }
    see(&s->buckets[s->n - 1], step, value);
    s->n_bad += !is_usable(value);
    s->newest = step;
    if (is_usable(value)) {
        s->last = value;
        s->last_at = step;
    }
    return TESS_OK;
}

/* ---- Curves ---- */
static page_series *find(const page_curves *curves, const char *key)
{
    for (size_t i = 0; i < curves->n; i++) {
        page_series *s = &curves->series[(curves->next + i) % curves->n];
        if (strcmp(s->key, key) == 0)
            return s;
    }
    return NULL;
}

tess_status page_curves_add(page_curves *curves, const char *key, int64_t step, double value)
{
    page_series *s = find(curves, key);
    if (s == NULL && curves->n == PAGE_SERIES) {
        curves->n_left_out++;
        return TESS_OK;
    }
    if (s == NULL) {
        TESS_TRY(tess_mem_make_room(curves->mem, TESS_POOL_MISC, curves->n, sizeof(*s), "curves", &curves->room,
                                    &curves->series));
        s = &curves->series[curves->n++];
        *s = (page_series){.per_bucket = 1, .last = NAN};
        snprintf(s->key, sizeof(s->key), "%s", key);
    }
    curves->next = (size_t)(s - curves->series) + 1;
    return add(curves->mem, s, step, value);
}

const page_series *page_curves_find(const page_curves *curves, const char *key)
{
    return find(curves, key);
}

void page_curves_free(page_curves *curves)
{
    for (size_t i = 0; i < curves->n; i++)
        tess_mem_drop(&curves->series[i].buckets);
    tess_mem_drop(&curves->series);
    *curves = (page_curves){.mem = curves->mem};
}

bool page_series_range(const page_series *s, double *low, double *high, int64_t *first, int64_t *last)
{
    bool any = false;
    for (size_t i = 0; i < s->n; i++) {
        const page_bucket *b = &s->buckets[i];
        if (b->n == 0)
            continue;
        const int64_t from = b->low_at < b->high_at ? b->low_at : b->high_at;
        const int64_t to = b->low_at < b->high_at ? b->high_at : b->low_at;
        *low = !any || b->low < *low ? b->low : *low;
        *high = !any || b->high > *high ? b->high : *high;
        *first = !any || from < *first ? from : *first;
        *last = !any || to > *last ? to : *last;
        any = true;
    }
    return any;
}

double page_series_mean(const page_series *s, int64_t from, int64_t to)
{
    double sum = 0;
    int64_t n = 0;
    for (size_t i = 0; i < s->n; i++)
        if (s->buckets[i].first >= from && s->buckets[i].first < to) {
            sum += s->buckets[i].sum;
            n += s->buckets[i].n;
        }
    return n > 0 ? sum / (double)n : NAN;
}
