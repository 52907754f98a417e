/* Curves of a run with bounded memory. A curve of any number of values is kept as buckets of consecutive values; when
 * all buckets are used, each two become one. A bucket keeps its lowest and highest value, so that spikes stay visible,
 * and the mean. */
#ifndef TESS_PAGE_PAGE_SERIES_H
#define TESS_PAGE_PAGE_SERIES_H

#include "base/mem/scoped.h"

enum { PAGE_BUCKETS = 512, PAGE_SERIES = 256, PAGE_KEY = 120 };

typedef struct page_bucket {
    int64_t first, low_at, high_at; /* steps of the first, lowest and highest value */
    double low, high, sum;          /* lowest, highest and sum of the finite values */
    int32_t n, n_bad;               /* finite values, and others (NaN, infinities) */
} page_bucket;

typedef struct page_series {
    char key[PAGE_KEY]; /* "loss", "time_s.total" */
    page_bucket *buckets;
    size_t n, room;
    int64_t per_bucket; /* values that a bucket holds */
    int64_t newest;     /* step of the newest value */
    double last;        /* newest finite value; NaN: none */
    int64_t last_at;    /* its step */
    int64_t n_bad;      /* values that are not finite */
    bool is_straddled;  /* the newest bucket holds values that a resumed run repeats: it takes no more */
} page_series;

typedef struct page_curves {
    tess_mem *mem;
    page_series *series; /* (n) in the order in which their keys came */
    size_t n, room;
    size_t next;        /* index at which a search begins: lines have their keys in the same order */
    int64_t n_left_out; /* values of keys beyond the first PAGE_SERIES */
} page_curves;

/* Adds a value of a step. If the step is not after the newest one, the run was resumed: later values are dropped. */
tess_status page_curves_add(page_curves *curves, const char *key, int64_t step, double value);
/* Returns NULL if no value has this key. */
const page_series *page_curves_find(const page_curves *curves, const char *key);
void page_curves_free(page_curves *curves);

/* Lowest and highest finite value and step of a series. Returns false if it has no finite value. */
bool page_series_range(const page_series *series, double *low, double *high, int64_t *first, int64_t *last);
/* Mean of the values of buckets that begin in [from, to); NaN: there are none. */
double page_series_mean(const page_series *series, int64_t from, int64_t to);

#endif
