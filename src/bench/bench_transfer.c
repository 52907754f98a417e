/* `tessera bench transfer` measures copies between the host's memory and a device's, from and to pinned memory and
 * memory that is not pinned. Offload to the host and shards of the host move such bytes (docs/howto/offload.md). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/variables.h"
#include "base/mem/scoped.h"
#include "base/os/os.h"
#include "bench/bench.h"
#include "bench/samples.h"
#include "device/device.h"
#include "tessera/devices.h"

enum { MOST_ROUNDS = 100, PAGE = 4096 };

/* Copies from the host to the device and back, with pinned memory and without. */
enum { TO_DEVICE, FROM_DEVICE, DIRECTIONS };
enum { UNPINNED, PINNED, KINDS };

static const char *const direction_names[DIRECTIONS] = {"to device", "from device"};
static const char *const kind_names[KINDS] = {"unpinned", "pinned"};

typedef struct copy_bench {
    tess_device *device;
    tess_stream *stream;
    size_t bytes;
    void *there;       /* memory of the device */
    void *here[KINDS]; /* memory of the host, whole pages */
    int rounds;
    double seconds[DIRECTIONS][KINDS][MOST_ROUNDS], pin_s[MOST_ROUNDS];
} copy_bench;

/* Fills memory with words that depend on their place and the kind, so that a copy that moves nothing is seen. */
static void fill(const copy_bench *b, int kind)
{
    uint64_t *words = b->here[kind];
    for (size_t i = 0; i < b->bytes / sizeof(*words); i++)
        words[i] = i * 0x9e3779b97f4a7c15u + (uint64_t)kind;
}

static tess_status check(const copy_bench *b, int kind)
{
    const uint64_t *words = b->here[kind];
    for (size_t i = 0; i < b->bytes / sizeof(*words); i++)
        TESS_CHECK(words[i] == i * 0x9e3779b97f4a7c15u + (uint64_t)kind, TESS_E_INTERNAL,
                   "device %s: byte %zu of a copy from %s memory is wrong", tess_device_get_properties(b->device)->name,
                   i * sizeof(*words), kind_names[kind]);
    return TESS_OK;
}

static tess_status time_copy(const copy_bench *b, void *to, const void *from, double *seconds)
{
    const double begin_s = tess_os_now_s();
    TESS_TRY(tess_stream_copy(b->stream, to, from, b->bytes));
    TESS_TRY(tess_stream_synchronize(b->stream));
    *seconds = tess_os_now_s() - begin_s;
    return TESS_OK;
}

static tess_status measure_round(copy_bench *b, int round)
{
    for (int kind = 0; kind < KINDS; kind++) {
        fill(b, kind);
        TESS_TRY(time_copy(b, b->there, b->here[kind], &b->seconds[TO_DEVICE][kind][round]));
        memset(b->here[kind], 0, b->bytes);
        TESS_TRY(time_copy(b, b->here[kind], b->there, &b->seconds[FROM_DEVICE][kind][round]));
        TESS_TRY(check(b, kind));
    }
    return TESS_OK;
}

/* Pins memory that exists already, in each round anew, and measures copies while it is pinned. */
static tess_status measure_rounds(copy_bench *b)
{
    for (int round = 0; round < b->rounds; round++) {
        const double begin_s = tess_os_now_s();
        TESS_TRY_CTX(tess_device_pin(b->device, b->here[PINNED], b->bytes), "pin %zu bytes", b->bytes);
        b->pin_s[round] = tess_os_now_s() - begin_s;
        const tess_status status = measure_round(b, round);
        tess_device_unpin(b->device, b->here[PINNED]);
        TESS_TRY(status);
    }
    return TESS_OK;
}

static tess_status measure(copy_bench *b)
{
    tess_status status = TESS_OK;
    for (int kind = 0; kind < KINDS && status == TESS_OK; kind++)
        if (posix_memalign(&b->here[kind], PAGE, b->bytes) != 0)
            status = TESS_FAIL(TESS_E_NOMEM, "no memory for transfers of %zu bytes: set a smaller --max", b->bytes);
    if (status == TESS_OK)
        status = tess_device_alloc(b->device, TESS_POOL_MISC, b->bytes, "transfers", &b->there);
    if (status == TESS_OK)
        status = measure_rounds(b);
    if (b->there != NULL)
        tess_device_free(b->device, b->there);
    b->there = NULL;
    for (int kind = 0; kind < KINDS; kind++) {
        free(b->here[kind]);
        b->here[kind] = NULL;
    }
    return status;
}

static tess_status report_size(const tess_bench_options *options, const copy_bench *b, int64_t mb,
                               tess_bench_report *report)
{
    for (int direction = 0; direction < DIRECTIONS; direction++)
        for (int kind = 0; kind < KINDS; kind++) {
            char name[64];
            const double *seconds = b->seconds[direction][kind];
            const double values[] = {
                1e3 * tess_bench_median(seconds, b->rounds),
                1e-9 * (double)b->bytes / tess_bench_median(seconds, b->rounds),
                tess_bench_median_ratio(b->seconds[direction][UNPINNED], seconds, b->rounds),
                kind == PINNED && direction == TO_DEVICE ? 1e3 * tess_bench_median(b->pin_s, b->rounds) : NAN};
            snprintf(name, sizeof(name), "%s, %s %lld MB", direction_names[direction], kind_names[kind], (long long)mb);
            if (tess_bench_wanted(options, name))
                TESS_TRY(tess_bench_report_row(report, name, values));
        }
    return TESS_OK;
}

static tess_status run_sizes(const tess_bench_options *options, copy_bench *b, tess_bench_report *report)
{
    static const int64_t sizes_mb[] = {10, 50, 100, 500, 1000, 2000};
    for (size_t i = 0; i < sizeof(sizes_mb) / sizeof(sizes_mb[0]); i++) {
        if (options->common.quick ? i > 0 : sizes_mb[i] * 1000000 > options->transfer.max_bytes)
            continue;
        b->bytes = (size_t)sizes_mb[i] * 1000000 / PAGE * PAGE;
        TESS_TRY(measure(b));
        TESS_TRY(report_size(options, b, sizes_mb[i], report));
    }
    return TESS_OK;
}

static tess_status run_on(const tess_bench_options *options, copy_bench *b, tess_bench_report *report)
{
    const tess_device_properties *p = tess_device_get_properties(b->device);
    TESS_CHECK(
        !p->host_memory, TESS_E_INVALID,
        "--device %s: its memory is the host's, so nothing is copied: name a GPU (cuda), or far to try the bench",
        p->name);
    TESS_TRY(tess_device_stream(b->device, 1, NULL, &b->stream));
    TESS_TRY(tess_bench_report_fact(report, "device", "%s", p->name));
    TESS_TRY(tess_bench_report_table(report, "medians; gain: by unpinned; pin: once",
                                     "<time[ms], >rate[GB/s], >gain, <pin[ms]"));
    tess_status status = run_sizes(options, b, report);
    tess_stream_destroy(&b->stream);
    return status;
}

static tess_status run(tess_mem *mem, const tess_bench_options *options, tess_bench_report *report)
{
    copy_bench b = {.rounds = tess_bench_rounds(options, 5, 1)};
    const char *name = options->transfer.device;
    TESS_CHECK(b.rounds <= MOST_ROUNDS, TESS_E_INVALID, "--repeat: at most %d", MOST_ROUNDS);
    TESS_TRY(tess_device_open(mem, name[0] != '\0' ? name : NULL, 0, &b.device));
    tess_status status = run_on(options, &b, report);
    tess_device_close(&b.device);
    return status;
}

const tess_bench tess_bench_transfer = {"transfer", "copies between the host's memory and a GPU's, pinned and not", run,
                                        NULL};
