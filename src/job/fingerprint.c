#include "job/fingerprint.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/os/objects.h"
#include "base/text/text.h"
#include "job/job_memory.h"
#include "trace/call_site.h"
#include "trace/label.h"
#include "diagnosis/majority.h"
#include "diagnosis/sentence.h"

_Static_assert(sizeof(tess_fingerprint) == 64, "a fingerprint is one cache line");
_Static_assert(offsetof(tess_fingerprint, label) == offsetof(tess_fingerprint, root) + 16,
               "the digest takes all between");

uint64_t tess_fingerprint_digest(const tess_fingerprint *fp)
{
    /* Multiplying by an odd number is a bijection, so a change of one word always changes the sum. The products are
     * independent of each other. */
    static const uint64_t odd[] = {0x9e3779b97f4a7c15, 0xbf58476d1ce4e5b9, 0x94d049bb133111eb, 0xd6e8feb86659fd93,
                                   0xa0761d6478bd642f, 0xe7037ed1a0b428db, 0x8ebc6af09c88c6e3};
    uint64_t rest[2];
    memcpy(rest, &fp->root, sizeof(rest)); /* root, kind, dtypes, op; flags */
    return fp->team * odd[0] + fp->sequence * odd[1] + fp->count * odd[2] + fp->tag * odd[3] + fp->label * odd[4] +
           rest[0] * odd[5] + rest[1] * odd[6];
}

uint32_t tess_fingerprint_site(const tess_fingerprint *fp)
{
    bool says_nothing = fp->label != 0 || tess_call_site_is_address(fp->call_site);
    return says_nothing ? 0 : (uint32_t)(fp->call_site * UINT64_C(0x9e3779b97f4a7c15) >> 33) << 1;
}

static bool equal(const tess_fingerprint *a, const tess_fingerprint *b)
{
    return a->team == b->team && a->sequence == b->sequence && a->count == b->count && a->tag == b->tag &&
           a->root == b->root && a->kind == b->kind && a->dtype == b->dtype && a->in_dtype == b->in_dtype &&
           a->op == b->op && a->flags == b->flags && a->label == b->label;
}

const char *tess_fingerprint_format(const tess_fingerprint *fp, const char *team, char *text, size_t size)
{
    static const char *const ops[] = {"sum", "max", "min", "avg"};
    char label[32];
    int kind = fp->kind;
    if (kind == TESS_TRACE_NONE) { /* a plan that has ended */
        snprintf(text, size, "nothing more");
        return text;
    }
    size_t at = tess_text_add(text, size, 0, "%s #%llu of team '%s'", tess_trace_op_name(kind),
                              (unsigned long long)fp->sequence, team);
    if (fp->label != 0)
        at = tess_text_add(text, size, at, " for '%s'", tess_label_text(fp->label, label, sizeof(label)));
    if (kind != TESS_TRACE_BARRIER && kind != TESS_TRACE_TEAM_SPLIT && kind < TESS_TRACE_WINDOW_ALLOC) {
        at = tess_text_add(text, size, at, ": %llu %s", (unsigned long long)fp->count,
                           fp->dtype < TESS_DTYPE_COUNT ? tess_dtype_name((tess_dtype)fp->dtype) : "?");
        if (fp->in_dtype != fp->dtype && fp->in_dtype < TESS_DTYPE_COUNT)
            at = tess_text_add(text, size, at, " from %s", tess_dtype_name((tess_dtype)fp->in_dtype));
    } else if (kind >= TESS_TRACE_WINDOW_ALLOC) {
        at = tess_text_add(text, size, at, ": %llu bytes", (unsigned long long)fp->count);
    }
    if ((kind == TESS_TRACE_REDUCE_SCATTER || kind == TESS_TRACE_ALL_REDUCE) && fp->op < 4)
        at = tess_text_add(text, size, at, ", %s", ops[fp->op]);
    if ((kind == TESS_TRACE_SEND || kind == TESS_TRACE_RECV) && fp->root >= 0)
        at = tess_text_add(text, size, at, ", %s %d, tag %llu", kind == TESS_TRACE_SEND ? "to" : "from", fp->root,
                           (unsigned long long)fp->tag);
    else if (fp->root >= 0)
        at = tess_text_add(text, size, at, ", root %d", fp->root);
    if (kind == TESS_TRACE_ALL_GATHER_PIECES || kind == TESS_TRACE_REDUCE_SCATTER_PIECES)
        at = tess_text_add(text, size, at, ", pieces %08llx%s", (unsigned long long)(fp->tag & 0xffffffff),
                           (fp->flags & TESS_FINGERPRINT_ACCUMULATE) != 0 ? ", accumulate" : "");
    if (kind == TESS_TRACE_ALL_REDUCE && fp->tag != 0)
        at = tess_text_add(text, size, at, ", tag %llx", (unsigned long long)fp->tag);
    if ((fp->flags & TESS_FINGERPRINT_DEVICE) != 0)
        at = tess_text_add(text, size, at, ", %s",
                           (fp->flags & TESS_FINGERPRINT_WINDOWS) != 0 ? "device windows" : "device memory");
    if (fp->call_site != 0) {
        char name[128], where[160];
        tess_object_name(tess_call_site_object(fp->call_site), name, sizeof(name));
        tess_text_add(text, size, at, " (called at %s)",
                      tess_call_site_format(fp->call_site, name, where, sizeof(where)));
    }
    return text;
}

/* ---- Disagreement ---- */
typedef struct meeting {
    const char *posts;
    size_t stride;
    int n;
    const int *ranks;
    const char *team;
    bool by_place;
} meeting;

static const tess_fingerprint *asked(const meeting *m, int i)
{
    return (const void *)(m->posts + (size_t)i * m->stride);
}

static bool alike(const void *meeting_, int i, int j)
{
    const meeting *m = meeting_;
    const tess_fingerprint *a = asked(m, i), *b = asked(m, j);
    return equal(a, b) && (!m->by_place || a->call_site == b->call_site);
}

/* Lists the ranks whose request equals that of member `like` (`same`), or differs from it. Returns how many. */
static int take_ranks(const meeting *m, int like, bool same, int *ranks)
{
    int n = 0;
    for (int i = 0; i < m->n; i++)
        if (alike(m, i, like) == same)
            ranks[n++] = m->ranks[i];
    return n;
}

static void report_variants(const meeting *m, int *ranks, char *text, size_t size)
{
    char what[256];
    tess_sentence words = tess_sentence_begin(text, size);
    for (int i = 0; i < m->n; i++) {
        int first = 0; /* the first rank that asked for the same */
        while (first < i && !alike(m, i, first))
            first++;
        if (first < i)
            continue;
        tess_sentence_add(&words, "%s", words.at > 0 ? "; " : "");
        tess_sentence_ranks(&words, ranks, take_ranks(m, i, true, ranks));
        tess_sentence_add(&words, asked(m, i)->kind == TESS_TRACE_NONE ? " planned %s" : " called %s",
                          tess_fingerprint_format(asked(m, i), m->team, what, sizeof(what)));
    }
}

tess_status tess_fingerprint_compare(const void *posts, size_t stride, int n, const int *ranks, const char *team,
                                     bool by_place, int *listed, int *culprit)
{
    const meeting m = {posts, stride, n, ranks, team, by_place};
    const char *in_what = by_place ? TESS_ERROR_BY_PLACE : "";
    char variants[768], who[128];
    *culprit = -1;
    int n_agree = 1;
    while (n_agree < n && alike(&m, n_agree, 0))
        n_agree++;
    if (n_agree >= n)
        return TESS_OK;
    tess_majority right = tess_majority_find(alike, &m, n);
    report_variants(&m, listed, variants, sizeof(variants));
    if (right.tie)
        return TESS_FAIL(TESS_E_MISMATCH, "team '%s': ranks disagree%s, a tie: %s", team, in_what, variants);
    int n_odd = take_ranks(&m, right.first, false, listed);
    tess_sentence words = tess_sentence_begin(who, sizeof(who));
    tess_sentence_ranks(&words, listed, n_odd);
    if (n_odd == 1)
        *culprit = listed[0];
    return TESS_FAIL(TESS_E_MISMATCH, "team '%s': ranks disagree%s, the odd one%s out: %s: %s", team, in_what,
                     n_odd > 1 ? "s" : "", who, variants);
}
