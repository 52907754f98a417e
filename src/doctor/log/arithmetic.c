/* Computes whether the size of a collective explains how long it took. */
#include "doctor/log/log_impl.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* Logs do not name the element type. Sizes are reported for elements of 4 bytes; conclusions hold for elements of up
 * to 16 bytes. */
enum { ELEMENT_BYTES = 4, LARGEST_ELEMENT_BYTES = 16 };
static const double slow_network = 110e6; /* payload in bytes per second of 1 Gb/s Ethernet */

/* Returns the bytes that each rank sends in a ring of n ranks, as a multiple of the larger buffer. */
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

/* Formats a size in decimal units with `digits` digits: "1.87 GB". */
static const char *format_size(double bytes, int digits, char text[24])
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB", "PB"};
    int unit = 0, decimals = digits - 1;
    while (bytes >= 999.5 && unit < 5) {
        bytes /= 1000;
        unit++;
    }
    for (double scale = 9.95; bytes >= scale && decimals > 0; scale *= 10)
        decimals--;
    snprintf(text, 24, "%.*f %s", unit == 0 ? 0 : decimals, bytes, units[unit]);
    return text;
}

/* Formats a time: "30 s", "0.03 s", "less than 1 ms". */
static const char *format_needed(double seconds, char text[24])
{
    if (seconds < 0.001)
        snprintf(text, 24, "less than 1 ms");
    else
        snprintf(text, 24, "%.*f s", seconds < 1 ? 3 : seconds < 10 ? 1 : 0, seconds);
    return text;
}

void log_do_arithmetic(tess_log_diagnosis *v, char *text, size_t size)
{
    int64_t count = v->work.numel_in > v->work.numel_out ? v->work.numel_in : v->work.numel_out;
    int64_t waited_ms = v->work.elapsed_ms > 0 ? v->work.elapsed_ms : v->work.timeout_ms;
    int n = v->world > 1 ? v->world : 2;
    char digits[32], all[24], each[24], speed[24], slow[24], fast[24];
    text[0] = '\0';
    if (count < 0 || waited_ms <= 0)
        return;
    v->bytes = (double)count * ELEMENT_BYTES;
    v->traffic_bytes = traffic_factor(v->work.op, n) * v->bytes;
    v->mb_per_s = v->traffic_bytes / ((double)waited_ms * 1e-3) / 1e6;
    double needed_s = v->traffic_bytes / slow_network, largest = LARGEST_ELEMENT_BYTES / ELEMENT_BYTES;
    size_t at = tess_text_add(
        text, size, 0,
        "%s element%s of %d bytes %s %s, %s through each of %d ranks%s in a ring; over %.0f s that is %s/s",
        format_count(count, digits), count == 1 ? "" : "s", ELEMENT_BYTES, count == 1 ? "is" : "are",
        format_size(v->bytes, 3, all), format_size(v->traffic_bytes, 3, each), n,
        v->world_known ? "" : " (or more: --world N tells how many)", (double)waited_ms * 1e-3,
        format_size(v->mb_per_s * 1e6, 2, speed));
    if (v->mb_per_s * 1e6 * largest < slow_network / 2)
        tess_text_add(text, size, at, ". Size cannot be the cause: 1 Gb/s Ethernet needs %s for it",
                      format_needed(needed_s, slow));
    else
        tess_text_add(text, size, at,
                      ". On a slow network size may be the cause: 1 Gb/s Ethernet needs %s, 100 Gb/s %s, and more "
                      "if elements are larger",
                      format_needed(needed_s, slow), format_needed(needed_s / 100, fast));
}
