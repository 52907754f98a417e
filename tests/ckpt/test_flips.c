/* One flipped byte in any record of a zip archive is found before its values are used, in every format that consists of
 * such archives. */
#include <fcntl.h>
#include <unistd.h>

#include "base/os/os.h"
#include "ckpt/checkpoint_values.h"
#include "ckpt/files.h"
#include "support/test.h"

enum { MAX_FILES = 16, MAX_RECORDS = 512 };

/* The files of a copied fixture. */
typedef struct copied {
    char path[MAX_FILES][1024];
    int n_files;
} copied;

static void copy_folder(copied *c, const char *from, const char *to)
{
    struct dirent *entry;
    DIR *dir = opendir(from);
    EXPECT(dir != NULL);
    EXPECT_OK(tess_os_make_dirs(to));
    while ((entry = readdir(dir)) != NULL) {
        char *data;
        size_t n;
        const char *source = path_in(from, entry->d_name), *target = path_in(to, entry->d_name);
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        if (tess_os_is_dir(source)) {
            copy_folder(c, source, target);
            continue;
        }
        EXPECT_OK(tess_os_read(test_mem(), source, 1 << 20, &data, &n));
        put_file(target, data, n);
        tess_mem_free(test_mem(), data);
        EXPECT(c->n_files < MAX_FILES);
        snprintf(c->path[c->n_files++], sizeof(c->path[0]), "%s", target);
    }
    closedir(dir);
}

static uint64_t number(const char *data, int n)
{
    uint64_t value = 0;
    for (int i = n; i-- > 0;)
        value = value << 8 | (uint8_t)data[i];
    return value;
}

/* A byte in the middle of the data of each record that has a CRC. Local headers and directory records come in the same
 * order, also where a file has several archives. */
static int list_records(const char *data, size_t size, size_t at[MAX_RECORDS])
{
    size_t local[MAX_RECORDS];
    int n_locals = 0, n_central = 0, n = 0;
    for (size_t i = 0; i + 46 < size; i++) {
        if (memcmp(data + i, "PK\3\4", 4) == 0) {
            EXPECT(n_locals < MAX_RECORDS);
            local[n_locals++] = i;
        } else if (memcmp(data + i, "PK\1\2", 4) == 0) {
            EXPECT(n_central < n_locals);
            const char *header = data + local[n_central++];
            size_t begin = (size_t)(header - data) + 30 + number(header + 26, 2) + number(header + 28, 2);
            uint64_t stored = number(data + i + 20, 4);
            if (stored > 0 && number(data + i + 16, 4) != 0)
                at[n++] = begin + stored / 2;
        }
    }
    EXPECT_INT(n_central, n_locals);
    return n;
}

/* Reads every tensor of a checkpoint whose file is damaged: each has its values or fails. */
static void expect_values_or_failure(const tess_catalog *whole, const tess_catalog *damaged, const char *what)
{
    for (int i = 0; i < whole->n_tensors; i++) {
        const tess_catalog_tensor *t = &whole->tensors[i];
        const void *mapped;
        tess_box box = tess_catalog_whole(t);
        uint64_t bytes = tess_catalog_tensor_bytes(t);
        uint8_t *a = calloc(bytes + 1, 1), *b = calloc(bytes + 1, 1);
        EXPECT_OK(tess_catalog_read(whole, t, &box, a));
        const tess_catalog_request request = {&damaged->tensors[i], box, false, b};
        if (tess_catalog_map(damaged, &damaged->tensors[i], &mapped) == TESS_OK && mapped != NULL)
            EXPECT(memcmp(a, mapped, bytes) == 0);
        if (tess_catalog_read_all(damaged, NULL, &request, 1) == TESS_OK && memcmp(a, b, bytes) != 0)
            test_fail(__FILE__, __LINE__, "%s: '%s' is read with other values", what, t->name);
        free(a);
        free(b);
    }
}

static void flip(const char *path, size_t at)
{
    char byte;
    int fd = open(path, O_RDWR);
    EXPECT(fd >= 0 && pread(fd, &byte, 1, (off_t)at) == 1);
    byte ^= 4;
    EXPECT(pwrite(fd, &byte, 1, (off_t)at) == 1 && close(fd) == 0);
}

/* Flips one byte of every record of the file. Returns how many. */
static int flip_each(const char *checkpoint, const tess_catalog *whole, const char *path)
{
    char *data, what[1200];
    size_t size, at[MAX_RECORDS];
    tess_catalog *damaged;
    EXPECT_OK(tess_os_read(test_mem(), path, 1 << 20, &data, &size));
    int n = list_records(data, size, at);
    for (int i = 0; i < n; i++) {
        flip(path, at[i]);
        snprintf(what, sizeof(what), "%s, byte %zu", path, at[i]);
        if (tess_catalog_open(test_mem(), checkpoint, &damaged) == TESS_OK) {
            expect_values_or_failure(whole, damaged, what);
            if (tess_catalog_verify(damaged, NULL) == TESS_OK)
                test_fail(__FILE__, __LINE__, "%s: verifying finds nothing", what);
            tess_catalog_destroy(&damaged);
        }
        flip(path, at[i]);
    }
    tess_mem_free(test_mem(), data);
    return n;
}

/* Damages a copy of the fixture, a folder; or of `file` in it. */
static void expect_found(const char *name, const char *file)
{
    char relative[256], folder[1024];
    copied c = {0};
    tess_catalog *whole;
    int n = 0;
    snprintf(relative, sizeof(relative), "ckpt/fixtures/%s", name);
    snprintf(folder, sizeof(folder), "%s/copied", test_folder());
    copy_folder(&c, test_path(relative), folder);
    const char *checkpoint = file != NULL ? path_in(folder, file) : folder;
    EXPECT_OK(
        tess_catalog_open(test_mem(), file != NULL ? path_in(test_path(relative), file) : test_path(relative), &whole));
    for (int i = 0; i < c.n_files; i++)
        if (file == NULL || strcmp(c.path[i], checkpoint) == 0)
            n += flip_each(checkpoint, whole, c.path[i]);
    tess_catalog_destroy(&whole);
    EXPECT_OK(tess_os_remove_tree(folder));
    EXPECT(n >= 3);
}

static void a_flipped_byte_of_deepspeed_is_found(void)
{
    static const char *const names[] = {"deepspeed0", "deepspeed1", "deepspeed2", "deepspeed3",
                                        "zero1",      "zero2",      "zero3"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        expect_found(names[i], NULL);
}

static void a_flipped_byte_of_torch_save_is_found(void)
{
    static const char *const files[] = {"dtypes.pt", "nested.pt", "packed.pt", "small_dtypes.pt", "strided.pt"};
    static const char *const folders[] = {"model", "ranks", "grid", "sharded_tensor"};
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
        expect_found("torch", files[i]);
    for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++)
        expect_found(folders[i], NULL);
}

static void a_flipped_byte_of_a_distributed_checkpoint_is_found(void)
{
    static const char *const names[] = {"dcp", "megatron"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        expect_found(names[i], NULL);
}

static const test_case cases[] = {
    CASE(a_flipped_byte_of_deepspeed_is_found),
    CASE(a_flipped_byte_of_torch_save_is_found),
    CASE(a_flipped_byte_of_a_distributed_checkpoint_is_found),
};

TEST_MAIN(cases)
