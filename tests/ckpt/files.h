/* Helpers for files and folders of tests. */
#ifndef TESS_TESTS_CKPT_FILES_H
#define TESS_TESTS_CKPT_FILES_H

#include <dirent.h>
#include <stdlib.h>

#include "base/os/os.h"
#include "support/test.h"

/* "<folder>/<name>" in one of a few static buffers. */
static inline const char *path_in(const char *folder, const char *name)
{
    static char paths[32][1024];
    static int next;
    char *path = paths[next++ % 32];
    EXPECT_OK(tess_os_join(path, sizeof(paths[0]), folder, name));
    return path;
}

static inline int compare_names(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* The sorted names in a folder, separated by spaces; "": it is empty, "-": there is no such folder. */
static inline const char *names_in(const char *folder)
{
    static char text[4096];
    char names[64][60];
    size_t n = 0;
    DIR *dir = opendir(folder);
    if (dir == NULL)
        return "-";
    for (struct dirent *entry; n < 64 && (entry = readdir(dir)) != NULL;)
        if (entry->d_name[0] != '.' || strlen(entry->d_name) > 2)
            snprintf(names[n++], sizeof(names[0]), "%.59s", entry->d_name);
    closedir(dir);
    qsort(names, n, sizeof(names[0]), compare_names);
    text[0] = '\0';
    for (size_t i = 0; i < n; i++)
        sprintf(text + strlen(text), "%s%s", i > 0 ? " " : "", names[i]);
    return text;
}

static inline void expect_same_file(const char *a, const char *b)
{
    char *x, *y;
    size_t n, m;
    EXPECT_OK(tess_os_read(test_mem(), a, 64 << 20, &x, &n));
    EXPECT_OK(tess_os_read(test_mem(), b, 64 << 20, &y, &m));
    EXPECT_INT(n, m);
    EXPECT_SAME(x, y, n);
    tess_mem_free(test_mem(), x);
    tess_mem_free(test_mem(), y);
}

static inline void put_file(const char *path, const void *data, size_t size)
{
    EXPECT_OK(tess_os_write_atomic(path, data, size));
}

#endif
