/* `tessera bench offload` measures how fast training moves state between disk and memory (base/mem/pager.h). It
 * compares this with the speed of the disk itself: O_DIRECT, 8 MiB at a time, with one thread. */
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem/pager.h"
#include "base/os/disk_files.h"
#include "base/os/os.h"
#include "bench/bench.h"
#include "bench/samples.h"

enum { MAX_ROUNDS = 100, RAW_BLOCK = 8 << 20, PAGE = 4096, UNIT = 32 << 20, RESIDENT = 8 * UNIT };

/* Kinds of transfers. An update reads and writes every byte at the same time; its limit is the time of reading plus
 * the time of writing. */
typedef enum transfer { READ, WRITE, UPDATE, N_TRANSFERS } transfer;

static const char *const transfer_names[N_TRANSFERS] = {"read", "write", "update"};
static const tess_page_use transfer_uses[N_TRANSFERS] = {TESS_PAGE_READ, TESS_PAGE_OVERWRITE, TESS_PAGE_UPDATE};

typedef struct transfer_bench {
    const char *folder;
    tess_pager *pager;
    char *base; /* the file, mapped */
    void *block;
    size_t bytes;
    int fd, raw_fd; /* raw_fd: descriptor with O_DIRECT; -1: the file system does not support it */
    int rounds;
    double seconds[N_TRANSFERS][MAX_ROUNDS], raw[N_TRANSFERS][MAX_ROUNDS], waited[N_TRANSFERS][MAX_ROUNDS];
} transfer_bench;

/* ---- The pager ---- */
/* Prefetches all data in order, and goes over it unit by unit, as an optimizer does. */
static tess_status pass(const transfer_bench *b, transfer t)
{
    for (size_t at = 0; at < b->bytes; at += UNIT)
        tess_pager_fetch(b->pager, b->base + at, b->bytes - at < UNIT ? b->bytes - at : UNIT, transfer_uses[t]);
    for (size_t at = 0; at < b->bytes; at += UNIT) {
        size_t n = b->bytes - at < UNIT ? b->bytes - at : UNIT;
        TESS_TRY(tess_pager_wait(b->pager, b->base + at, n));
        for (size_t i = at; t != READ && i < at + n; i += PAGE)
            b->base[i]++;
        tess_pager_release(b->pager, b->base + at, n);
    }
    tess_pager_drain(b->pager);
    return TESS_OK;
}

static tess_status time_pass(transfer_bench *b, transfer t, int round)
{
    uint64_t waited_ns = tess_pager_get_stats(b->pager).waited_ns;
    double begin_s = tess_os_now_s();
    TESS_TRY(pass(b, t));
    b->seconds[t][round] = tess_os_now_s() - begin_s;
    b->waited[t][round] = (double)(tess_pager_get_stats(b->pager).waited_ns - waited_ns) * 1e-9;
    return TESS_OK;
}

/* ---- The disk ---- */
static tess_status time_raw(transfer_bench *b, transfer t, int round)
{
    double begin_s = tess_os_now_s();
    for (size_t at = 0; at < b->bytes; at += RAW_BLOCK) {
        size_t n = b->bytes - at < RAW_BLOCK ? b->bytes - at : RAW_BLOCK;
        TESS_TRY(t == READ ? tess_os_read_at(b->raw_fd, at, b->block, n, b->folder)
                           : tess_os_write_at(b->raw_fd, at, b->block, n, b->folder));
    }
    b->raw[t][round] = tess_os_now_s() - begin_s;
    return TESS_OK;
}

/* Opens the same file a second time, with O_DIRECT. */
static void open_raw(transfer_bench *b)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", b->fd);
    b->raw_fd = open(path, O_RDWR | O_CLOEXEC | O_DIRECT);
}

/* ---- A size ---- */
static tess_status measure_rounds(transfer_bench *b)
{
    open_raw(b);
    for (int round = 0; round < b->rounds; round++) {
        for (transfer t = WRITE; b->raw_fd >= 0; t = READ) { /* reads follow writes of the same bytes */
            TESS_TRY(time_raw(b, t, round));
            if (t == READ)
                break;
        }
        for (int t = 0; t < N_TRANSFERS; t++)
            TESS_TRY(time_pass(b, (transfer)t, round));
        if (b->raw_fd < 0)
            b->raw[READ][round] = b->raw[WRITE][round] = NAN;
        b->raw[UPDATE][round] = b->raw[READ][round] + b->raw[WRITE][round];
    }
    return TESS_OK;
}

/* Ends what a size used. */
static void release(transfer_bench *b)
{
    tess_pager_destroy(&b->pager);
    if (b->base != NULL)
        tess_os_unmap_shared(b->base, b->bytes);
    b->base = NULL;
    tess_os_close(&b->raw_fd);
    tess_os_close(&b->fd);
}

static tess_status measure(tess_mem *mem, transfer_bench *b)
{
    void *base;
    TESS_TRY(tess_os_open_disk(b->folder, b->bytes, &b->fd));
    TESS_TRY(tess_os_reserve_disk(b->fd, 0, b->bytes, b->folder));
    TESS_TRY(tess_os_map_shared(b->fd, 0, b->bytes, &base));
    b->base = base;
    TESS_TRY(tess_pager_create(mem, RESIDENT, &b->pager));
    TESS_TRY(tess_pager_add(b->pager, b->base, b->bytes, b->fd, 0, b->folder));
    return measure_rounds(b);
}

static tess_status report_size(const tess_bench_options *options, const transfer_bench *b, int64_t mb,
                               tess_bench_report *report)
{
    for (int t = 0; t < N_TRANSFERS; t++) {
        char name[48];
        double moved = (double)b->bytes * (t == UPDATE ? 2 : 1), seconds = tess_bench_median(b->seconds[t], b->rounds);
        double raw = tess_bench_median(b->raw[t], b->rounds);
        const double values[] = {seconds * 1e3, moved / seconds * 1e-9, moved / raw * 1e-9,
                                 100 * tess_bench_median_ratio(b->raw[t], b->seconds[t], b->rounds),
                                 tess_bench_median(b->waited[t], b->rounds) * 1e3};
        snprintf(name, sizeof(name), "%s %lld MB", transfer_names[t], (long long)mb);
        if (tess_bench_wanted(options, name))
            TESS_TRY(tess_bench_report_row(report, name, values));
    }
    return TESS_OK;
}

static tess_status run_sizes(tess_mem *mem, const tess_bench_options *options, transfer_bench *b,
                             tess_bench_report *report)
{
    static const int64_t sizes_mb[] = {10, 100, 500, 1000, 2000};
    for (size_t i = 0; i < sizeof(sizes_mb) / sizeof(sizes_mb[0]); i++) {
        if (options->common.quick ? i > 0 : (int64_t)sizes_mb[i] * 1000000 > options->offload.max_bytes)
            continue;
        b->bytes = (size_t)sizes_mb[i] * 1000000 / PAGE * PAGE;
        tess_status status = measure(mem, b);
        release(b);
        TESS_TRY(status);
        TESS_TRY(report_size(options, b, sizes_mb[i], report));
    }
    return TESS_OK;
}

static tess_status run(tess_mem *mem, const tess_bench_options *options, tess_bench_report *report)
{
    transfer_bench b = {
        .folder = options->offload.folder, .fd = -1, .raw_fd = -1, .rounds = tess_bench_rounds(options, 3, 1)};
    TESS_CHECK(b.rounds <= MAX_ROUNDS, TESS_E_INVALID, "--repeat: at most %d", MAX_ROUNDS);
    TESS_TRY(tess_os_check_disk(b.folder, "--folder"));
    TESS_AUTO(tess_malloc_drop) void *block = NULL;
    TESS_CHECK(posix_memalign(&block, PAGE, RAW_BLOCK) == 0, TESS_E_NOMEM, "no memory to write from");
    b.block = memset(block, 0x5a, RAW_BLOCK); /* not zeroes, because a disk that compresses them would look fast */
    TESS_TRY(tess_bench_report_fact(report, "folder", "%s", b.folder));
    TESS_TRY(tess_bench_report_table(
        report, "transfers: medians; disk: O_DIRECT, 8 MiB at a time; an update's is reading, then writing",
        "<time[ms], >rate[GB/s], disk[GB/s], >of disk[%], <waited[ms]"));
    return run_sizes(mem, options, &b, report);
}

const tess_bench tess_bench_offload = {"offload", "moving state between memory and a disk", run, NULL};
