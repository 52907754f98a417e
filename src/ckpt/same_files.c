#include "ckpt/same_files.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/os/os.h"
#include "base/text/text.h"
#include "comm/agree.h"

enum { PROBE_BYTES = 64 << 10, PATH_SIZE = 4096 };

/* The record that hosts compare for a path, as 64-bit words. */
typedef struct digest {
    int64_t there, bytes, hash;
} digest;

static tess_status digest_file(const char *path, digest *f)
{
    tess_mapping file;
    TESS_TRY(tess_os_map(path, &file));
    size_t n = file.size < PROBE_BYTES ? file.size : PROBE_BYTES;
    uint64_t hash = XXH3_64bits(file.data, n);
    if (n > 0)
        hash = XXH3_64bits_withSeed(file.data + file.size - n, n, hash);
    *f = (digest){.there = 1, .bytes = (int64_t)file.size, .hash = (int64_t)hash};
    tess_os_unmap(&file);
    return TESS_OK;
}

typedef struct folder_walk {
    const char *path;
    digest *sum;
} folder_walk;

/* Whether ranks read the file from a model folder: descriptions of a model, and weights in any format. */
static bool is_read_by_ranks(const char *name)
{
    static const char *const names[] = {"config.json", ".metadata", "manifest.json"};
    static const char *const endings[] = {".safetensors", ".bin", ".pt", ".pth", ".distcp"};
    bool is = false;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        is |= strcmp(name, names[i]) == 0;
    for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++)
        is |= tess_text_ends_with(name, endings[i]);
    return is;
}

/* Adds a file of a folder to the folder's digest. It is a sum, so the order in which a folder lists its files does not
 * matter. */
static tess_status add_file(void *context, const char *name)
{
    folder_walk *walk = context;
    char path[PATH_SIZE];
    digest f;
    if (!is_read_by_ranks(name))
        return TESS_OK;
    TESS_TRY(tess_os_join(path, sizeof(path), walk->path, name));
    TESS_TRY(digest_file(path, &f));
    uint64_t hash = XXH3_64bits_withSeed(name, strlen(name), (uint64_t)f.hash);
    walk->sum->bytes += f.bytes;
    walk->sum->hash = (int64_t)((uint64_t)walk->sum->hash + hash);
    return TESS_OK;
}

/* Computes the digest of a path. A path that cannot be read counts as missing: the message then names the host, and
 * opening the file reports the cause. */
static void digest_path(const char *path, digest *f)
{
    folder_walk walk = {path, f};
    *f = (digest){.there = tess_os_is_dir(path)};
    tess_status status = f->there ? tess_os_list(path, add_file, &walk) : digest_file(path, f);
    if (status != TESS_OK) {
        tess_error_clear();
        *f = (digest){0};
    }
}

static tess_status compare(const tess_ckpt_hosts *hosts, int host, const digest *a, const digest *b, const char *path,
                           const char *what)
{
    char first[TESS_CKPT_HOST_TEXT], other[TESS_CKPT_HOST_TEXT];
    tess_ckpt_hosts_format(hosts, 0, first);
    tess_ckpt_hosts_format(hosts, host, other);
    TESS_CHECK(a->there && b->there, TESS_E_NOT_FOUND,
               "%s: %s cannot be read on %s: every rank reads it on its own host; put it there under the same path",
               what, path, a->there ? other : first);
    TESS_CHECK(a->bytes == b->bytes, TESS_E_INVALID,
               "%s: %s is not the same on all hosts: %" PRId64 " bytes on %s, %" PRId64
               " on %s: copy one of them to all hosts",
               what, path, a->bytes, first, b->bytes, other);
    TESS_CHECK(
        a->hash == b->hash, TESS_E_INVALID,
        "%s: %s is not the same on all hosts: %s and %s have other bytes in it, as many: copy one of them to all "
        "hosts",
        what, path, first, other);
    return TESS_OK;
}

tess_status tess_ckpt_check_same_files(const tess_ckpt_hosts *hosts, const char *const *paths, int n, const char *what)
{
    digest *mine;
    TESS_AUTO(tess_mem_drop) digest *all = NULL;
    size_t world = (size_t)tess_team_size(hosts->all);
    if (hosts->n == 1 || n == 0)
        return TESS_OK;
    TESS_TRY(TESS_NEW(hosts->mem, (world + 1) * (size_t)n, "files of hosts", &all));
    mine = all + world * (size_t)n;
    for (int i = 0; i < n && tess_ckpt_hosts_is_first(hosts); i++)
        digest_path(paths[i], &mine[i]);
    TESS_TRY(tess_all_gather(hosts->all, mine, all, (size_t)n * sizeof(*mine) / sizeof(int64_t), TESS_I64, NULL));
    for (int i = 0; i < n; i++)
        for (int host = 0; host < hosts->n; host++)
            TESS_TRY(compare(hosts, host, &all[i], &all[hosts->first[host] * n + i], paths[i], what));
    return TESS_OK;
}
