/* Pages of file mappings on their way to and from disk. */
#include "base/mem/pager.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/core/rng.h"
#include "base/os/disk_files.h"
#include "base/os/os.h"
#include "base/os/threads.h"
#include "support/test.h"

/* A file in memory's place, and its pager. */
typedef struct paged {
    tess_pager *pager;
    uint32_t *words;
    size_t bytes;
    int fd;
} paged;

static paged make(size_t bytes, size_t resident)
{
    void *base;
    paged d = {.bytes = bytes};
    EXPECT_OK(tess_os_open_disk(test_folder(), bytes, &d.fd));
    EXPECT_OK(tess_os_reserve_disk(d.fd, 0, bytes, "the test's file"));
    EXPECT_OK(tess_os_map_shared(d.fd, 0, bytes, &base));
    EXPECT_OK(tess_pager_create(test_mem(), resident, &d.pager));
    EXPECT_OK(tess_pager_add(d.pager, base, bytes, d.fd, 0, "the test's file"));
    d.words = base;
    return d;
}

static void destroy(paged *d)
{
    tess_pager_destroy(&d->pager);
    tess_os_unmap_shared(d->words, d->bytes);
    tess_os_close(&d->fd);
    EXPECT_INT(tess_mem_stats(test_mem(), TESS_POOL_COMM).bytes, 0);
}

static void write_words(paged *d, size_t first, size_t n, uint32_t seed)
{
    tess_pager_fetch(d->pager, d->words + first, n * 4, TESS_PAGE_UPDATE);
    EXPECT_OK(tess_pager_wait(d->pager, d->words + first, n * 4));
    for (size_t i = first; i < first + n; i++)
        d->words[i] = (uint32_t)i * 2654435761u + seed;
    tess_pager_release(d->pager, d->words + first, n * 4);
}

static size_t first_wrong(const paged *d, size_t first, size_t n, uint32_t seed)
{
    size_t i = first;
    while (i < first + n && d->words[i] == (uint32_t)i * 2654435761u + seed)
        i++;
    return i - first;
}

static void what_was_released_is_found_again(void)
{
    enum { N = 5 << 20 }; /* more than two pieces */
    paged d = make((size_t)4 * N, 64 << 20);
    write_words(&d, 0, N, 1);
    tess_pager_drain(d.pager);
    EXPECT_INT(tess_pager_get_stats(d.pager).resident, 0);
    EXPECT_INT(tess_pager_get_stats(d.pager).written_bytes, 4 * N);
    tess_pager_fetch(d.pager, d.words, 4 * N, TESS_PAGE_READ);
    EXPECT_OK(tess_pager_wait(d.pager, d.words, 4 * N));
    EXPECT_INT(tess_pager_get_stats(d.pager).resident, 4 * N);
    EXPECT_INT(tess_mem_stats(test_mem(), TESS_POOL_COMM).bytes, 4 * N);
    EXPECT_INT(first_wrong(&d, 0, N, 1), N);
    destroy(&d);
}

static size_t pages_in_memory(const paged *d)
{
    size_t n = d->bytes / 4096, in = 0;
    unsigned char *seen = malloc(n);
    EXPECT(mincore(d->words, d->bytes, seen) == 0);
    for (size_t i = 0; i < n; i++)
        in += seen[i] & 1;
    free(seen);
    return in;
}

static void released_pages_leave_memory(void)
{
    paged d = make(24 << 20, 64 << 20);
    write_words(&d, 0, d.bytes / 4, 3);
    EXPECT_INT(pages_in_memory(&d), d.bytes / 4096);
    tess_pager_drain(d.pager);
    if (tess_os_check_disk(test_folder(), "the test") == TESS_OK)
        EXPECT(pages_in_memory(&d) <= 512);
    tess_error_clear();
    destroy(&d);
}

/* Everything is asked for at once, in order. */
static void memory_holds_no_more_than_it_may(void)
{
    enum { RANGES = 16, N = 1 << 18, RANGE = 4 * N };
    paged d = make((size_t)RANGES * RANGE, 4 * RANGE);
    for (int i = 0; i < RANGES; i++)
        tess_pager_fetch(d.pager, d.words + i * N, RANGE, TESS_PAGE_UPDATE);
    for (int i = 0; i < RANGES; i++)
        write_words(&d, (size_t)i * N, N, 5);
    tess_pager_drain(d.pager);
    EXPECT(tess_pager_get_stats(d.pager).peak <= 4 * RANGE);
    EXPECT_INT(tess_pager_get_stats(d.pager).resident, 0);
    EXPECT_INT(first_wrong(&d, 0, (size_t)RANGES * N, 5), RANGES * N);
    destroy(&d);
}

static void what_is_waited_for_comes_even_where_memory_is_too_small(void)
{
    enum { N = 1 << 18 };
    paged d = make(8 * N, N);
    write_words(&d, 0, N, 1);
    tess_pager_fetch(d.pager, d.words, 4 * N, TESS_PAGE_READ);
    tess_pager_fetch(d.pager, d.words + N, 4 * N, TESS_PAGE_UPDATE);
    EXPECT_OK(tess_pager_wait(d.pager, d.words + N, 4 * N));
    EXPECT_OK(tess_pager_wait(d.pager, d.words, 4 * N));
    EXPECT_INT(first_wrong(&d, 0, N, 1), N);
    destroy(&d);
}

static void an_overwritten_range_is_zero_and_is_not_read(void)
{
    enum { N = 3 << 18 };
    paged d = make(4 * N, 64 << 20);
    write_words(&d, 0, N, 9);
    tess_pager_drain(d.pager);
    tess_pager_fetch(d.pager, d.words + 1024, 4 * (N - 2048), TESS_PAGE_OVERWRITE);
    EXPECT_OK(tess_pager_wait(d.pager, d.words + 1024, 4 * (N - 2048)));
    EXPECT_INT(tess_pager_get_stats(d.pager).read_bytes, 4 * N);
    EXPECT_INT(first_wrong(&d, 0, 1024, 9), 1024);
    EXPECT_INT(first_wrong(&d, N - 1024, 1024, 9), 1024);
    destroy(&d);
}

/* The same memory may be read and then begin anew in one list of requests. */
static void what_is_read_first_is_not_dropped(void)
{
    enum { N = 3 << 18 };
    paged d = make(12 * N, 4 * N);
    write_words(&d, 0, N, 9);
    tess_pager_fetch(d.pager, d.words, 4 * N, TESS_PAGE_UPDATE);
    tess_pager_fetch(d.pager, d.words, 4 * N, TESS_PAGE_OVERWRITE);
    EXPECT_OK(tess_pager_wait(d.pager, d.words, 4 * N));
    EXPECT_INT(first_wrong(&d, 0, N, 9), N);
    tess_pager_release(d.pager, d.words, 4 * N);
    tess_pager_drain(d.pager);
    write_words(&d, 2 * N, N, 9); /* stays: no room for the other until it is waited for */
    tess_pager_fetch(d.pager, d.words + 2 * N, 4 * N, TESS_PAGE_READ);
    tess_pager_fetch(d.pager, d.words, 4 * N, TESS_PAGE_READ);
    tess_pager_fetch(d.pager, d.words, 4 * N, TESS_PAGE_OVERWRITE);
    EXPECT_OK(tess_pager_wait(d.pager, d.words, 4 * N));
    EXPECT_INT(first_wrong(&d, 0, N, 9), N);
    destroy(&d);
}

static void neighbours_may_share_pages(void)
{
    enum { N = 12345 };
    paged d = make((4 * 3 * N / 4096 + 1) * 4096, 64 << 20);
    for (int i = 0; i < 3; i++)
        write_words(&d, (size_t)i * N, N, 7);
    tess_pager_fetch(d.pager, d.words + N, 4 * N, TESS_PAGE_OVERWRITE);
    write_words(&d, N, N, 7);
    tess_pager_drain(d.pager);
    EXPECT_INT(first_wrong(&d, 0, 3 * N, 7), 3 * N);
    destroy(&d);
}

static void other_memory_is_left_alone(void)
{
    int32_t here[4] = {1, 2, 3, 4};
    paged d = make(1 << 20, 1 << 20);
    for (int i = 0; i < 2; i++) {
        tess_pager *pager = i == 0 ? d.pager : NULL;
        tess_pager_fetch(pager, here, sizeof(here), TESS_PAGE_OVERWRITE);
        EXPECT_OK(tess_pager_wait(pager, here, sizeof(here)));
        tess_pager_release(pager, here, sizeof(here));
        tess_pager_drain(pager);
        tess_pager_remove(pager, here);
    }
    EXPECT(here[0] == 1 && here[3] == 4);
    EXPECT_INT(tess_pager_get_stats(d.pager).read_bytes, 0);
    destroy(&d);
}

/* Requests of all kinds, also on ranges that are under way, compared with what the words should be. */
static void words_are_right_whatever_is_asked_for(void)
{
    enum { RANGES = 24, N = 40001, ROUNDS = 1500 };
    uint32_t seeds[RANGES] = {0};
    paged d = make((4 * RANGES * N / 4096 + 1) * 4096, 6 * 4 * N);
    for (int i = 0; i < RANGES; i++)
        write_words(&d, (size_t)i * N, N, 0);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        uint32_t bits = (uint32_t)tess_hash_bytes(&round, sizeof(round), 11);
        int i = (int)(bits % RANGES);
        uint32_t *at = d.words + (size_t)i * N;
        switch (bits >> 8 & 7) {
        case 0:
        case 1:
            tess_pager_fetch(d.pager, at, 4 * N, TESS_PAGE_READ);
            break;
        case 2:
            tess_pager_fetch(d.pager, at, 4 * N, TESS_PAGE_UPDATE);
            break;
        case 3:
        case 4:
            tess_pager_release(d.pager, at, 4 * N);
            break;
        case 5:
            write_words(&d, (size_t)i * N, N, seeds[i] = round);
            break;
        default:
            EXPECT_INT(first_wrong(&d, (size_t)i * N, N, seeds[i]), N);
        }
    }
    for (int i = 0; i < RANGES; i++)
        tess_pager_release(d.pager, d.words + (size_t)i * N, 4 * N);
    tess_pager_drain(d.pager);
    EXPECT_INT(tess_pager_get_stats(d.pager).resident, 0);
    for (int i = 0; i < RANGES; i++)
        EXPECT_INT(first_wrong(&d, (size_t)i * N, N, seeds[i]), N);
    destroy(&d);
}

static void a_mapping_leaves_while_its_pages_move(void)
{
    enum { N = 4 << 20 };
    paged d = make(4 * N, 64 << 20);
    tess_pager_fetch(d.pager, d.words, 2 * N, TESS_PAGE_UPDATE);
    tess_pager_fetch(d.pager, d.words + N / 2, 2 * N, TESS_PAGE_READ);
    tess_pager_release(d.pager, d.words, 2 * N);
    tess_pager_remove(d.pager, d.words);
    EXPECT_INT(tess_pager_get_stats(d.pager).resident, 0);
    tess_pager_fetch(d.pager, d.words, 2 * N, TESS_PAGE_READ);
    EXPECT_INT(tess_pager_get_stats(d.pager).resident, 0);
    destroy(&d);
}

enum { MAPPINGS = 24, MAPPING = 16 << 20 };

typedef struct removal {
    paged *d;
    int mapping;
} removal;

static char *base_of(const paged *d, int mapping)
{
    return (char *)d->words + (size_t)mapping * MAPPING;
}

static void *remove_mapping(void *context)
{
    const removal *r = context;
    tess_pager_remove(r->d->pager, base_of(r->d, r->mapping));
    return NULL;
}

/* A thread waits for the pages of a mapping that it removes, while another removes the mapping's neighbour in the list.
 */
static void mappings_leave_from_several_threads(void)
{
    paged d = make((size_t)MAPPINGS * MAPPING, (size_t)MAPPINGS * MAPPING);
    int n_left = 0;
    tess_pager_remove(d.pager, d.words);
    for (int i = 0; i < MAPPINGS; i++)
        EXPECT_OK(tess_pager_add(d.pager, base_of(&d, i), MAPPING, d.fd, (uint64_t)i * MAPPING, "the test's file"));
    for (int i = 1; i < MAPPINGS; i += 4) {
        pthread_t thread;
        removal waits = {&d, i};
        tess_pager_fetch(d.pager, base_of(&d, i), MAPPING, TESS_PAGE_UPDATE);
        EXPECT(pthread_create(&thread, NULL, remove_mapping, &waits) == 0);
        usleep(1000);
        tess_pager_remove(d.pager, base_of(&d, i + 1));
        pthread_join(thread, NULL);
    }
    for (int i = 0; i < MAPPINGS; i++) {
        tess_pager_fetch(d.pager, base_of(&d, i), MAPPING, TESS_PAGE_READ);
        EXPECT_OK(tess_pager_wait(d.pager, base_of(&d, i), MAPPING));
        n_left += i % 4 == 0 || i % 4 == 3;
        EXPECT_INT(tess_pager_get_stats(d.pager).resident, n_left * MAPPING);
    }
    destroy(&d);
}

/* Both fetches come while the range is on its way to disk. The later one writes, so its pages go to disk again. */
static void a_range_that_is_read_then_overwritten_is_written(void)
{
    enum { BYTES = 32 << 20, ROUNDS = 4 };
    paged d = make(BYTES, BYTES);
    for (int round = 1; round <= ROUNDS; round++) {
        write_words(&d, 0, BYTES / 4, (uint32_t)round);
        usleep(2000); /* the writer begins */
        tess_pager_fetch(d.pager, d.words, BYTES, TESS_PAGE_READ);
        tess_pager_fetch(d.pager, d.words, BYTES, TESS_PAGE_OVERWRITE);
        EXPECT_OK(tess_pager_wait(d.pager, d.words, BYTES));
        EXPECT_INT(first_wrong(&d, 0, BYTES / 4, (uint32_t)round), BYTES / 4);
        uint64_t written = tess_pager_get_stats(d.pager).written_bytes;
        tess_pager_release(d.pager, d.words, BYTES);
        tess_pager_drain(d.pager);
        EXPECT_INT(tess_pager_get_stats(d.pager).written_bytes - written, BYTES);
    }
    destroy(&d);
}

static void a_write_that_fails_is_reported_by_every_later_wait(void)
{
    int ends[2];
    paged d = make(1 << 20, 1 << 20);
    EXPECT(pipe(ends) == 0);
    tess_pager_remove(d.pager, d.words);
    EXPECT_OK(tess_pager_add(d.pager, d.words, d.bytes, ends[0], 0, "no disk at all")); /* cannot be synced */
    write_words(&d, 0, 1000, 1);
    tess_pager_drain(d.pager);
    for (int i = 0; i < 2; i++)
        EXPECT_FAILS(tess_pager_wait(d.pager, d.words, 4), TESS_E_IO, "write no disk at all");
    close(ends[0]);
    close(ends[1]);
    destroy(&d);
}

static void a_folder_in_memory_is_no_disk(void)
{
    EXPECT_FAILS(tess_os_check_disk("", "offload.folder"), TESS_E_INVALID, "offload.folder: a folder on a disk");
    EXPECT_FAILS(tess_os_check_disk(test_path("nowhere"), "offload.folder"), TESS_E_NOT_FOUND,
                 "offload.folder: there is");
    EXPECT_FAILS(tess_os_check_disk("/dev/shm", "offload.folder"), TESS_E_INVALID, "/dev/shm is a tmpfs");
}

static const test_case cases[] = {
    CASE(what_was_released_is_found_again),
    CASE(released_pages_leave_memory),
    CASE(memory_holds_no_more_than_it_may),
    CASE(what_is_waited_for_comes_even_where_memory_is_too_small),
    CASE(an_overwritten_range_is_zero_and_is_not_read),
    CASE(what_is_read_first_is_not_dropped),
    CASE(neighbours_may_share_pages),
    CASE(other_memory_is_left_alone),
    CASE(words_are_right_whatever_is_asked_for),
    CASE(a_mapping_leaves_while_its_pages_move),
    CASE(mappings_leave_from_several_threads),
    CASE(a_range_that_is_read_then_overwritten_is_written),
    CASE(a_write_that_fails_is_reported_by_every_later_wait),
    CASE(a_folder_in_memory_is_no_disk),
};
TEST_MAIN(cases)
