#include "doctor/log/arithmetic.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { ELEMENT_BYTES = 4 };
static const double slow_network = 110e6; /* bytes a second that 1 Gb/s Ethernet carries */

/* What goes through each rank, as a multiple of the larger buffer: a ring over n ranks. */
static double traffic_factor(const char *op, int n)
{
    double share = (double)(n - 1) / n;
    if (strcasestr(op, "ALLREDUCE") != NULL)
        return 2 * share;
    if (strcasestr(op, "GATHER") != NULL || strcasestr(op, "SCATTER") != NULL || strcasestr(op, "ALLTOALL") != NULL)
        return share;
    return 1;
}

static const char *format_count(int64_t count, char text[32])
{
    char digits[24];
    int n = snprintf(digits, sizeof(digits), "%" PRId64, count), at = 0;
    for (int i = 0; i < n; i++) {
        if (i > 0 && (n - i) % 3 == 0)
            text[at++] = ',';
        text[at++] = digits[i];
    }
    text[at] = '\0';
    return text;
}

void log_do_arithmetic(tess_log_verdict *v, char *text, size_t size)
{
    int64_t count = v->work.numel_in > v->work.numel_out ? v->work.numel_in : v->work.numel_out;
    int64_t waited_ms = v->work.elapsed_ms > 0 ? v->work.elapsed_ms : v->work.timeout_ms;
    int n = v->world > 1 ? v->world : 2;
    char digits[32];
    text[0] = '\0';
    if (count < 0 || waited_ms <= 0)
        return;
    v->bytes = (double)count * ELEMENT_BYTES;
    v->traffic_bytes = traffic_factor(v->work.op, n) * v->bytes;
    v->mb_per_s = v->traffic_bytes / ((double)waited_ms * 1e-3) / 1e6;
    double needed_s = v->traffic_bytes / slow_network;
    int at =
        snprintf(text, size,
                 "%s elements of %d bytes are %.3g GB, %.3g GB through each of %d ranks%s in a ring; over %.0f s that "
                 "is %.2g MB/s",
                 format_count(count, digits), ELEMENT_BYTES, v->bytes / 1e9, v->traffic_bytes / 1e9, n,
                 v->world_known ? "" : " (guessed; --world N says it)", (double)waited_ms * 1e-3, v->mb_per_s);
    if (at < 0 || (size_t)at >= size)
        return;
    if (v->mb_per_s * 1e6 < slow_network / 2)
        snprintf(text + at, size - (size_t)at, ". Size cannot be the cause: 1 Gb/s Ethernet needs %.*f s for it",
                 needed_s < 1 ? 3 : 0, needed_s);
    else
        snprintf(text + at, size - (size_t)at,
                 ". On a slow network size may be the cause: 1 Gb/s Ethernet needs %.0f s, 100 Gb/s %.1f s", needed_s,
                 needed_s / 100);
}
