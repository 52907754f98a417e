/* Persistent memory: regions by name, named blocks, and which blocks a launch takes over. */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/os/os.h"
#include "job/persist/persist.h"
#include "base/mem/disk.h"
#include "support/test.h"

static tess_persist_set make_set(int n, const char *folder, uint64_t identity)
{
    tess_persist_set set;
    EXPECT_OK(tess_persist_set_create(test_mem(), n, folder, identity, &set));
    return set;
}

static tess_persist *open_block(const tess_persist_set *set, int rank)
{
    tess_persist *persist;
    EXPECT_OK(tess_persist_open(test_mem(), set->fds[rank], &persist));
    return persist;
}

static float *region(tess_persist *persist, const char *name, size_t n, bool expect_found)
{
    void *address;
    bool found;
    EXPECT_OK(tess_persist_region(persist, name, n * sizeof(float), &address, &found));
    EXPECT_INT(found, expect_found);
    return address;
}

static void a_region_is_found_again_with_its_content_by_another_mapping(void)
{
    enum { N = 3 << 20 };
    tess_persist_set set = make_set(2, NULL, 7);
    tess_persist *first = open_block(&set, 1);
    float *a = region(first, "a", N, false), *b = region(first, "b", 10, false);
    EXPECT(a[0] == 0 && a[N - 1] == 0 && b[9] == 0);
    a[0] = 1;
    a[N - 1] = 2;
    b[9] = 3;
    tess_persist_close(&first);

    tess_persist *second = open_block(&set, 1), *other = open_block(&set, 0);
    a = region(second, "a", N, true);
    EXPECT(a[0] == 1 && a[N - 1] == 2);
    EXPECT(region(second, "b", 10, true)[9] == 3);
    EXPECT(region(other, "b", 10, false)[9] == 0);
    tess_persist_close(&second);
    tess_persist_close(&other);
    tess_persist_set_destroy(&set, true);
}

/* The pool on disk alone: what it has is found again, as what is in memory, and counted apart. */
static void pools_on_disk_outlive_a_rank_too(void)
{
    enum { BYTES = 3 << 20 };
    tess_mem *mem = test_mem();
    tess_persist_set set = make_set(1, NULL, 7);
    EXPECT_OK(tess_persist_set_add_disk(&set, test_folder(), 7));
    for (int life = 0; life < 3; life++) {
        float *a, *b, *c;
        bool found;
        tess_persist *block = open_block(&set, 0), *on_disk;
        tess_mem_disk disk = {.pools = 1u << TESS_POOL_OPTIMIZER};
        tess_pager *pager;
        tess_disk *files;
        EXPECT_OK(tess_persist_open(mem, set.disk_fds[0], &on_disk));
        EXPECT_OK(tess_pager_create(mem, BYTES, &pager));
        EXPECT_OK(tess_disk_create(mem, test_folder(), pager, &files));
        tess_disk_attach(files, &disk);
        EXPECT_OK(tess_persist_attach_disk(on_disk, &disk));
        tess_persist_attach(block, mem);
        tess_mem_set_disk(mem, &disk);
        EXPECT_OK(tess_mem_alloc_named(mem, TESS_POOL_PARAMS, "a", BYTES, (void **)&a, &found));
        EXPECT_INT(found, life > 0);
        EXPECT_OK(tess_mem_alloc_named(mem, TESS_POOL_OPTIMIZER, "b", BYTES, (void **)&b, &found));
        EXPECT_INT(found, life == 1);
        EXPECT_OK(tess_mem_alloc_private(mem, TESS_POOL_OPTIMIZER, "c", BYTES, (void **)&c));
        EXPECT(a[1] == (life > 0 ? 1 : 0) && b[1] == (life == 1 ? 2 : 0) && c[1] == 0);
        EXPECT_INT(tess_mem_stats(mem, TESS_POOL_OPTIMIZER).bytes, 0);
        EXPECT_INT(tess_mem_disk_bytes(mem, TESS_POOL_OPTIMIZER), 2 * BYTES);
        tess_pager_fetch(pager, b, BYTES, TESS_PAGE_UPDATE);
        EXPECT_OK(tess_pager_wait(pager, b, BYTES));
        a[1] = 1;
        b[1] = 2;
        c[1] = 3;
        tess_pager_release(pager, b, BYTES);
        tess_mem_free_named(mem, TESS_POOL_PARAMS, BYTES, a);
        tess_mem_free_named(mem, TESS_POOL_OPTIMIZER, BYTES, b);
        tess_mem_free_private(mem, TESS_POOL_OPTIMIZER, BYTES, c);
        EXPECT_INT(tess_mem_disk_bytes(mem, TESS_POOL_OPTIMIZER), 0);
        tess_mem_set_disk(mem, NULL);
        tess_disk_destroy(&files);
        tess_pager_destroy(&pager);
        tess_persist_attach(NULL, mem);
        if (life == 1)
            tess_persist_clear(on_disk);
        tess_persist_close(&on_disk);
        tess_persist_close(&block);
        EXPECT_OK(tess_persist_set_next(&set, 7));
    }
    tess_persist_set_destroy(&set, true);
}

static void a_region_of_another_size_is_new_and_zero(void)
{
    tess_persist_set set = make_set(1, NULL, 7);
    tess_persist *persist = open_block(&set, 0);
    size_t bytes;
    region(persist, "a", 1000, false)[5] = 5;
    float *a = region(persist, "a", 2000, false);
    EXPECT(a[5] == 0);
    a[6] = 6;
    EXPECT(tess_persist_find(persist, "a", &bytes) == a);
    EXPECT_INT(bytes, 2000 * sizeof(float));
    EXPECT(tess_persist_find(persist, "b", &bytes) == NULL);
    tess_persist_clear(persist);
    EXPECT(tess_persist_find(persist, "a", &bytes) == NULL);
    EXPECT(region(persist, "a", 2000, false)[6] == 0);
    tess_persist_close(&persist);
    tess_persist_set_destroy(&set, true);
}

static void more_than_a_block_holds_is_refused_by_name(void)
{
    tess_persist_set set = make_set(1, NULL, 7);
    tess_persist *persist = open_block(&set, 0);
    void *address;
    bool found;
    EXPECT_FAILS(tess_persist_region(persist, "vast", SIZE_MAX / 2, &address, &found), TESS_E_NOMEM, "'vast'");
    tess_persist_close(&persist);
    tess_persist_set_destroy(&set, true);
}

static void named_blocks_are_taken_over_by_the_next_launch_of_the_same_job_alone(void)
{
    char folder[1024];
    snprintf(folder, sizeof(folder), "%s/copies", test_folder());
    tess_persist_set set = make_set(2, folder, 7), second;
    tess_persist *persist = open_block(&set, 1);
    region(persist, "a", 10, false)[3] = 4;
    EXPECT_INT(tess_persist_launch(persist), 1);
    EXPECT_FAILS(tess_persist_set_create(test_mem(), 2, folder, 7, &second), TESS_E_INVALID, "another launch");
    tess_persist_close(&persist);
    tess_persist_set_destroy(&set, false);

    set = make_set(2, folder, 7);
    persist = open_block(&set, 1);
    EXPECT_INT(tess_persist_launch(persist), 2);
    EXPECT(region(persist, "a", 10, true)[3] == 4);
    tess_persist_close(&persist);
    tess_persist_set_destroy(&set, false);

    set = make_set(2, folder, 8); /* another job */
    persist = open_block(&set, 1);
    EXPECT_INT(tess_persist_launch(persist), 1);
    EXPECT(region(persist, "a", 10, false)[3] == 0);
    tess_persist_close(&persist);
    tess_persist_set_destroy(&set, true);
    EXPECT(!tess_os_is_dir(folder));
}

static void the_next_launch_of_the_same_launcher_has_what_is_whole(void)
{
    uint64_t wild = 1;
    tess_persist_set set = make_set(2, NULL, 7);
    for (int r = 0; r < 2; r++) {
        tess_persist *persist = open_block(&set, r);
        region(persist, "a", 10, false)[3] = 4;
        tess_persist_close(&persist);
    }
    EXPECT_OK(tess_os_write_at(set.fds[1], 0, &wild, sizeof(wild), "a block"));
    EXPECT_OK(tess_persist_set_next(&set, 7));
    tess_persist *whole = open_block(&set, 0), *damaged = open_block(&set, 1);
    EXPECT_INT(tess_persist_launch(whole), 2);
    EXPECT(region(whole, "a", 10, true)[3] == 4);
    EXPECT_INT(tess_persist_launch(damaged), 1);
    EXPECT(region(damaged, "a", 10, false)[3] == 0);
    tess_persist_close(&whole);
    tess_persist_close(&damaged);
    tess_persist_set_destroy(&set, true);
}

static void damaged_blocks_are_begun_anew(void)
{
    char folder[1024], path[1100];
    snprintf(folder, sizeof(folder), "%s/copies", test_folder());
    snprintf(path, sizeof(path), "%s/rank-00000.keep", folder);
    for (uint64_t at = 8; at < 400; at += 8) { /* every word of the header and of the first entries */
        tess_persist_set set = make_set(1, folder, 7);
        tess_persist *persist = open_block(&set, 0);
        size_t bytes;
        if (tess_persist_find(persist, "a", &bytes) == NULL)
            region(persist, "a", 10, false)[3] = 4;
        tess_persist_close(&persist);
        tess_persist_set_destroy(&set, false);
        int fd;
        uint64_t wild = UINT64_C(0x7fffffffffffffff);
        EXPECT_OK(tess_os_open_shared(path, &fd));
        EXPECT_OK(tess_os_write_at(fd, at, &wild, sizeof(wild), path));
        tess_os_close(&fd);
        set = make_set(1, folder, 7); /* whatever it finds, it neither fails nor reads outside */
        persist = open_block(&set, 0);
        tess_persist_find(persist, "a", &bytes);
        tess_persist_clear(persist);
        tess_persist_close(&persist);
        tess_persist_set_destroy(&set, true);
    }
}

static float *named(tess_mem *mem, size_t n, bool expect_found)
{
    void *memory;
    bool found;
    EXPECT_OK(tess_mem_alloc_named(mem, TESS_POOL_PARAMS, "a", n * sizeof(float), &memory, &found));
    EXPECT_INT(found, expect_found);
    EXPECT_INT(tess_mem_stats(mem, TESS_POOL_PARAMS).bytes, n * sizeof(float));
    return memory;
}

static void what_is_allocated_by_name_is_found_in_a_block_and_nowhere_else(void)
{
    enum { N = 1000, BYTES = N * sizeof(float) };
    tess_persist_set set = make_set(1, NULL, 7);
    tess_persist *persist = open_block(&set, 0);
    tess_mem *mem = test_mem();
    for (int round = 0; round < 2; round++) {
        EXPECT(!tess_mem_has_store(mem));
        float *a = named(mem, N, false);
        EXPECT(a[N - 1] == 0);
        a[N - 1] = 1;
        tess_mem_free_named(mem, TESS_POOL_PARAMS, BYTES, a);
        tess_persist_attach(persist, mem);
        EXPECT(tess_mem_has_store(mem));
        a = named(mem, N, round == 1);
        EXPECT(a[N - 1] == (round == 1 ? 2 : 0));
        a[N - 1] = 2;
        tess_mem_free_named(mem, TESS_POOL_PARAMS, BYTES, a);
        tess_persist_attach(NULL, mem);
    }
    EXPECT_INT(tess_mem_stats(mem, TESS_POOL_PARAMS).bytes, 0);
    tess_persist_close(&persist);
    tess_persist_set_destroy(&set, true);
}

static const test_case cases[] = {
    CASE(a_region_is_found_again_with_its_content_by_another_mapping),
    CASE(pools_on_disk_outlive_a_rank_too),
    CASE(a_region_of_another_size_is_new_and_zero),
    CASE(more_than_a_block_holds_is_refused_by_name),
    CASE(named_blocks_are_taken_over_by_the_next_launch_of_the_same_job_alone),
    CASE(the_next_launch_of_the_same_launcher_has_what_is_whole),
    CASE(damaged_blocks_are_begun_anew),
    CASE(what_is_allocated_by_name_is_found_in_a_block_and_nowhere_else),
};

TEST_MAIN(cases)
