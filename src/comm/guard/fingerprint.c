#include "comm/guard/fingerprint.h"

#include <link.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "trace/label.h"

_Static_assert(sizeof(tess_fingerprint) == 64, "a fingerprint is one cache line");
_Static_assert(offsetof(tess_fingerprint, label) == offsetof(tess_fingerprint, root) + 16,
               "the digest takes all between");

static int first_object(struct dl_phdr_info *info, size_t size, void *context)
{
    (void)size;
    tess_program *program = context;
    program->begin = info->dlpi_addr;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        uintptr_t end = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz;
        if (info->dlpi_phdr[i].p_type == PT_LOAD && end > program->end)
            program->end = end;
    }
    return 1; /* the program comes first; nothing else is asked for */
}

tess_program tess_program_find(void)
{
    tess_program program = {0};
    dl_iterate_phdr(first_object, &program);
    return program;
}

uint64_t tess_call_site(const tess_program *program, const void *address)
{
    uintptr_t at = (uintptr_t)address;
    if (at >= program->begin && at < program->end)
        return at - program->begin;
    return (uint64_t)at | (UINT64_C(1) << 63);
}

uint64_t tess_fingerprint_digest(const tess_fingerprint *fp)
{
    /* A product with an odd number loses nothing, so that no change of one word is lost; the sum waits for no product.
     */
    static const uint64_t odd[] = {0x9e3779b97f4a7c15, 0xbf58476d1ce4e5b9, 0x94d049bb133111eb, 0xd6e8feb86659fd93,
                                   0xa0761d6478bd642f, 0xe7037ed1a0b428db, 0x8ebc6af09c88c6e3};
    uint64_t rest[2];
    memcpy(rest, &fp->root, sizeof(rest)); /* root, kind, dtypes, op; flags */
    return fp->team * odd[0] + fp->sequence * odd[1] + fp->count * odd[2] + fp->tag * odd[3] + fp->label * odd[4] +
           rest[0] * odd[5] + rest[1] * odd[6];
}

bool tess_fingerprint_equal(const tess_fingerprint *a, const tess_fingerprint *b)
{
    return a->team == b->team && a->sequence == b->sequence && a->count == b->count && a->tag == b->tag &&
           a->root == b->root && a->kind == b->kind && a->dtype == b->dtype && a->in_dtype == b->in_dtype &&
           a->op == b->op && a->flags == b->flags && a->label == b->label;
}

static bool reduces(int kind)
{
    return kind == TESS_TRACE_REDUCE_SCATTER || kind == TESS_TRACE_ALL_REDUCE;
}

static bool has_data(int kind)
{
    return kind != TESS_TRACE_NONE && kind != TESS_TRACE_BARRIER && kind != TESS_TRACE_TEAM_SPLIT && kind < TESS_TRACE_WINDOW_ALLOC;
}

static size_t clamp(int written, size_t size)
{
    return written < 0 ? 0 : (size_t)written < size ? (size_t)written : size - 1;
}

const char *tess_fingerprint_format(const tess_fingerprint *fp, const char *team, char *text, size_t size)
{
    static const char *const ops[] = {"sum", "max", "min", "avg"};
    char label[32];
    int kind = fp->kind;
    size_t at = clamp(
        snprintf(text, size, "%s #%llu of team '%s'", tess_trace_op_name(kind), (unsigned long long)fp->sequence, team),
        size);
    if (fp->label != 0)
        at += clamp(snprintf(text + at, size - at, " for '%s'", tess_label_text(fp->label, label, sizeof(label))),
                    size - at);
    if (has_data(kind)) {
        at += clamp(snprintf(text + at, size - at, ": %llu %s", (unsigned long long)fp->count,
                             fp->dtype < TESS_DTYPE_COUNT ? tess_dtype_name((tess_dtype)fp->dtype) : "?"),
                    size - at);
        if (fp->in_dtype != fp->dtype && fp->in_dtype < TESS_DTYPE_COUNT)
            at +=
                clamp(snprintf(text + at, size - at, " from %s", tess_dtype_name((tess_dtype)fp->in_dtype)), size - at);
    } else if (kind >= TESS_TRACE_WINDOW_ALLOC) {
        at += clamp(snprintf(text + at, size - at, ": %llu bytes", (unsigned long long)fp->count), size - at);
    }
    if (reduces(kind) && fp->op < 4)
        at += clamp(snprintf(text + at, size - at, ", %s", ops[fp->op]), size - at);
    if (kind == TESS_TRACE_SEND || kind == TESS_TRACE_RECV)
        at += clamp(snprintf(text + at, size - at, ", %s %d, tag %llu", kind == TESS_TRACE_SEND ? "to" : "from",
                             fp->root, (unsigned long long)fp->tag),
                    size - at);
    else if (fp->root >= 0)
        at += clamp(snprintf(text + at, size - at, ", root %d", fp->root), size - at);
    if (kind == TESS_TRACE_ALL_GATHER_PIECES || kind == TESS_TRACE_REDUCE_SCATTER_PIECES)
        at += clamp(snprintf(text + at, size - at, ", pieces %08llx%s", (unsigned long long)(fp->tag & 0xffffffff),
                             (fp->flags & 1) != 0 ? ", accumulate" : ""),
                    size - at);
    if (fp->call_site != 0)
        snprintf(text + at, size - at,
                 (fp->call_site >> 63) != 0 ? " (called at 0x%llx)" : " (called at program+0x%llx)",
                 (unsigned long long)(fp->call_site & ~(UINT64_C(1) << 63)));
    return text;
}

static const tess_fingerprint *post(const void *posts, size_t stride, int r)
{
    return (const void *)((const char *)posts + (size_t)r * stride);
}

/* "rank 2" or "ranks 0 1 3" that asked the same as rank `like`. */
static size_t list_ranks(const void *posts, size_t stride, int n, const int *ranks, int like, char *text, size_t size)
{
    int members = 0;
    for (int r = 0; r < n; r++)
        members += tess_fingerprint_equal(post(posts, stride, r), post(posts, stride, like));
    size_t at = clamp(snprintf(text, size, members == 1 ? "rank" : "ranks"), size);
    for (int r = 0; r < n; r++)
        if (tess_fingerprint_equal(post(posts, stride, r), post(posts, stride, like)))
            at += clamp(snprintf(text + at, size - at, " %d", ranks[r]), size - at);
    return at;
}

tess_status tess_fingerprint_compare(const void *posts, size_t stride, int n, const int *ranks, const char *team,
                                     int *guilty)
{
    *guilty = -1;
    int r = 1;
    while (r < n && tess_fingerprint_equal(post(posts, stride, r), post(posts, stride, 0)))
        r++;
    if (r >= n)
        return TESS_OK;

    /* The largest group is taken to be right; two of that size are a tie. */
    int best = 0, best_members = 0, n_best = 0;
    for (int i = 0; i < n; i++) {
        int members = 0, first = -1;
        for (int j = 0; j < n; j++) {
            if (tess_fingerprint_equal(post(posts, stride, i), post(posts, stride, j))) {
                members++;
                if (first < 0)
                    first = j;
            }
        }
        if (first != i)
            continue; /* this variant was counted at its first rank */
        if (members > best_members) {
            best = i;
            best_members = members;
            n_best = 1;
        } else if (members == best_members) {
            n_best++;
        }
    }

    char text[768], asked[256];
    size_t at = 0;
    text[0] = '\0';
    for (int i = 0; i < n; i++) {
        bool seen = false;
        for (int j = 0; j < i && !seen; j++)
            seen = tess_fingerprint_equal(post(posts, stride, i), post(posts, stride, j));
        if (seen)
            continue;
        at += clamp(snprintf(text + at, sizeof(text) - at, at > 0 ? "; " : ""), sizeof(text) - at);
        at += list_ranks(posts, stride, n, ranks, i, text + at, sizeof(text) - at);
        at += clamp(snprintf(text + at, sizeof(text) - at, " called %s",
                             tess_fingerprint_format(post(posts, stride, i), team, asked, sizeof(asked))),
                    sizeof(text) - at);
    }
    if (n_best > 1)
        return TESS_FAIL(TESS_E_MISMATCH, "team '%s': ranks disagree, a tie: %s", team, text);
    char odd[128];
    size_t odd_at = 0;
    int n_odd = 0;
    for (int i = 0; i < n; i++) {
        if (!tess_fingerprint_equal(post(posts, stride, i), post(posts, stride, best))) {
            odd_at += clamp(snprintf(odd + odd_at, sizeof(odd) - odd_at, " %d", ranks[i]), sizeof(odd) - odd_at);
            *guilty = ranks[i];
            n_odd++;
        }
    }
    if (n_odd > 1)
        *guilty = -1;
    return TESS_FAIL(TESS_E_MISMATCH, "team '%s': ranks disagree, the odd one%s out: rank%s%s: %s", team,
                     n_odd > 1 ? "s" : "", n_odd > 1 ? "s" : "", odd, text);
}
