/* A model of a POSIX disk for tests of power cuts: changes that were not synced may be there or not.
 *
 * Calls are recorded as changes of nodes (files and folders). After a cut, every change since the last sync of its
 * node is kept or dropped: of a write maybe only the beginning; a change of names as a whole, and only if earlier
 * changes of the same names are kept. */
#ifndef TESS_TESTS_CKPT_DISK_MODEL_H
#define TESS_TESTS_CKPT_DISK_MODEL_H

#include <stdlib.h>
#include <sys/stat.h>

#include "base/core/rng.h"
#include "ckpt/store/io.h"
#include "files.h"

enum { DISK_NODES = 512, DISK_CHANGES = 2048, DISK_NAMES = 24, DISK_NAME = 40 };

typedef enum disk_kind { DISK_ADD, DISK_DROP, DISK_RENAME, DISK_EXCHANGE, DISK_SIZE, DISK_WRITE, DISK_SYNC } disk_kind;

typedef struct disk_change {
    disk_kind kind;
    int node; /* the folder whose names, or the file whose bytes are changed */
    int call; /* number of the call that it is a part of */
    int target;
    char name[DISK_NAME], to[DISK_NAME];
    size_t offset, size;
    uint8_t *data;
} disk_change;

typedef struct disk_node {
    bool folder;
    int n; /* names in it */
    char name[DISK_NAMES][DISK_NAME];
    int target[DISK_NAMES];
    uint8_t *bytes; /* bytes of a file after a crash */
    size_t size;
} disk_node;

typedef struct disk {
    char root[512];
    int n_nodes, n_changes, n_calls;
    disk_node nodes[DISK_NODES]; /* the view of processes; node 0 is `root`, and was always there */
    disk_change changes[DISK_CHANGES];
} disk;

/* ---- Names */
static inline int disk_find(const disk_node *folder, const char *name)
{
    for (int i = 0; i < folder->n; i++)
        if (strcmp(folder->name[i], name) == 0)
            return i;
    return -1;
}

static inline void disk_put(disk_node *folder, const char *name, int target)
{
    int i = disk_find(folder, name);
    if (i < 0)
        i = folder->n++;
    EXPECT(i < DISK_NAMES);
    snprintf(folder->name[i], DISK_NAME, "%s", name);
    folder->target[i] = target;
}

static inline int disk_take(disk_node *folder, const char *name)
{
    int i = disk_find(folder, name);
    EXPECT(i >= 0);
    int target = folder->target[i];
    folder->n--;
    memmove(folder->name[i], folder->name[folder->n], DISK_NAME);
    folder->target[i] = folder->target[folder->n];
    return target;
}

/* Changes names. Changes of bytes do not concern the recorded processes. */
static inline void disk_apply_names(disk_node *nodes, const disk_change *c)
{
    disk_node *folder = &nodes[c->node];
    if (c->kind == DISK_ADD) {
        disk_put(folder, c->name, c->target);
    } else if (c->kind == DISK_DROP) {
        disk_take(folder, c->name);
    } else if (c->kind == DISK_RENAME) {
        disk_put(folder, c->to, disk_take(folder, c->name));
    } else if (c->kind == DISK_EXCHANGE) {
        int from = disk_take(folder, c->name), to = disk_take(folder, c->to);
        disk_put(folder, c->to, from);
        disk_put(folder, c->name, to);
    }
}

/* ---- Recording */
static inline disk_change *disk_note(disk *d, disk_kind kind, int node)
{
    EXPECT(d->n_changes < DISK_CHANGES);
    disk_change *c = &d->changes[d->n_changes++];
    *c = (disk_change){.kind = kind, .node = node, .call = d->n_calls};
    return c;
}

static inline int disk_add(disk *d, int folder, const char *name, bool is_folder)
{
    EXPECT(d->n_nodes < DISK_NODES);
    disk_change *c = disk_note(d, DISK_ADD, folder);
    c->target = d->n_nodes++;
    d->nodes[c->target] = (disk_node){.folder = is_folder};
    snprintf(c->name, DISK_NAME, "%s", name);
    disk_apply_names(d->nodes, c);
    return c->target;
}

/* The folder of `path`, and its last component. An unknown parent has just been made, too. */
static inline int disk_parent(disk *d, const char *path, char name[DISK_NAME])
{
    int at = 0;
    EXPECT(strncmp(path, d->root, strlen(d->root)) == 0);
    for (path += strlen(d->root) + 1;; path += strlen(name) + 1) {
        snprintf(name, DISK_NAME, "%.*s", (int)strcspn(path, "/"), path);
        if (path[strlen(name)] == '\0')
            return at;
        int i = disk_find(&d->nodes[at], name);
        at = i >= 0 ? d->nodes[at].target[i] : disk_add(d, at, name, true);
    }
}

static inline int disk_node_at(disk *d, const char *path)
{
    char name[DISK_NAME];
    size_t n = strlen(path);
    if (n > 3 && strcmp(path + n - 3, "/..") == 0)
        return 0; /* the only one of which that is asked */
    int folder = disk_parent(d, path, name), i = disk_find(&d->nodes[folder], name);
    return i >= 0 ? d->nodes[folder].target[i] : disk_add(d, folder, name, true);
}

static inline void disk_note_removal(disk *d, int folder, const char *name)
{
    int i = disk_find(&d->nodes[folder], name);
    if (i < 0)
        return;
    int node = d->nodes[folder].target[i];
    while (d->nodes[node].n > 0)
        disk_note_removal(d, node, d->nodes[node].name[0]);
    disk_change *c = disk_note(d, DISK_DROP, folder);
    memmove(c->name, name, DISK_NAME); /* it may be the one that goes */
    disk_apply_names(d->nodes, c);
}

static inline void disk_note_names(disk *d, disk_kind kind, const tess_io_call *call)
{
    char name[DISK_NAME];
    int folder = disk_parent(d, call->path, name);
    disk_change *c = disk_note(d, kind, folder);
    snprintf(c->name, DISK_NAME, "%s", name);
    EXPECT_INT(disk_parent(d, call->to, c->to), folder);
    disk_apply_names(d->nodes, c);
}

static inline void disk_note_bytes(disk *d, disk_kind kind, const tess_io_call *call)
{
    disk_change *c = disk_note(d, kind, disk_node_at(d, call->path));
    c->offset = call->offset;
    c->size = call->size;
    if (kind != DISK_WRITE)
        return;
    c->data = malloc(call->size);
    memcpy(c->data, call->data, call->size);
}

/* A tess_io.made. */
static inline void disk_record(void *self, const tess_io_call *call)
{
    disk *d = self;
    char name[DISK_NAME];
    switch (call->change) {
    case TESS_IO_MADE_FOLDER:
    case TESS_IO_CREATED: {
        int folder = disk_parent(d, call->path, name);
        disk_add(d, folder, name, call->change == TESS_IO_MADE_FOLDER);
        break;
    }
    case TESS_IO_REMOVED: {
        int folder = disk_parent(d, call->path, name);
        disk_note_removal(d, folder, name);
        break;
    }
    case TESS_IO_RENAMED:
        disk_note_names(d, DISK_RENAME, call);
        break;
    case TESS_IO_EXCHANGED:
        disk_note_names(d, DISK_EXCHANGE, call);
        break;
    case TESS_IO_SIZED:
        disk_note_bytes(d, DISK_SIZE, call);
        break;
    case TESS_IO_WRITTEN:
        disk_note_bytes(d, DISK_WRITE, call);
        break;
    case TESS_IO_SYNCED:
    case TESS_IO_LISTED:
        disk_note(d, DISK_SYNC, disk_node_at(d, call->path));
        break;
    }
    d->n_calls++;
}

static inline void disk_clear(disk *d, const char *root)
{
    for (int i = 0; i < d->n_changes; i++)
        free(d->changes[i].data);
    memset(d, 0, sizeof(*d));
    snprintf(d->root, sizeof(d->root), "%s", root);
    d->nodes[0].folder = true;
    d->n_nodes = 1;
}

/* ---- After a power cut */
/* The fate of unsynced changes. Change `one` (-1: none) gets the opposite of all others. */
typedef struct disk_fate {
    enum { DISK_ALL_KEPT, DISK_ALL_DROPPED, DISK_DRAWN } rule;
    int one;
    uint64_t seed;
} disk_fate;

typedef struct disk_cut {
    const disk *d;
    int n;                      /* changes that were made before it */
    bool durable[DISK_CHANGES]; /* synced after */
    bool dropped[DISK_CHANGES];
    int n_open; /* changes that are not durable */
    int open[DISK_CHANGES];
} disk_cut;

/* Cuts before change `n`. `lies` (may be NULL): whether the disk only claimed to have done a sync. */
static inline void disk_cut_at(const disk *d, int n, bool (*lies)(const disk *d, int change), disk_cut *cut)
{
    static bool synced[DISK_NODES];
    memset(synced, 0, sizeof(synced));
    cut->d = d, cut->n = n, cut->n_open = 0;
    for (int i = n - 1; i >= 0; i--) {
        const disk_change *c = &d->changes[i];
        cut->durable[i] = synced[c->node];
        if (c->kind == DISK_SYNC)
            synced[c->node] |= lies == NULL || !lies(d, i);
        else if (!cut->durable[i])
            cut->open[cut->n_open++] = i;
    }
}

static inline bool disk_is_of_names(const disk_change *c)
{
    return c->kind <= DISK_EXCHANGE;
}

static inline bool disk_same_names(const disk_change *a, const disk_change *b)
{
    return a->node == b->node && disk_is_of_names(a) && disk_is_of_names(b) &&
           (strcmp(a->name, b->name) == 0 || strcmp(a->name, b->to) == 0 || strcmp(a->to, b->name) == 0 ||
            (a->to[0] != '\0' && strcmp(a->to, b->to) == 0));
}

/* The part of a change that is kept: 0 nothing, 1 all. */
static inline double disk_kept(disk_cut *cut, const disk_fate *fate, int i)
{
    const disk_change *c = &cut->d->changes[i];
    uint64_t word = tess_rng_u64(fate->seed, TESS_RNG_TEST, 1, (uint64_t)i);
    double kept = fate->rule == DISK_ALL_KEPT ? 1 : fate->rule == DISK_ALL_DROPPED ? 0 : (double)(word % 2);
    if (i == fate->one)
        kept = 1 - kept;
    if (fate->rule == DISK_DRAWN && c->kind == DISK_WRITE && word % 3 == 0)
        kept = (double)(word / 3 % 1000) / 1000;
    for (int k = cut->n_open - 1; k >= 0 && cut->open[k] < i; k--)
        if (cut->dropped[cut->open[k]] && disk_same_names(&cut->d->changes[cut->open[k]], c))
            kept = 0;
    cut->dropped[i] = kept == 0;
    return kept;
}

static inline void disk_resize(disk_node *file, size_t size)
{
    file->bytes = realloc(file->bytes, size + 1);
    if (size > file->size)
        memset(file->bytes + file->size, 0, size - file->size);
    file->size = size;
}

static inline void disk_apply(disk_node *nodes, const disk_change *c, double kept)
{
    disk_node *node = &nodes[c->node];
    size_t n = (size_t)((double)c->size * kept);
    if (kept == 0 || c->kind == DISK_SYNC)
        return;
    if (disk_is_of_names(c)) {
        disk_apply_names(nodes, c);
    } else if (c->kind == DISK_SIZE) {
        disk_resize(node, c->size);
    } else {
        if (node->size < c->offset + n)
            disk_resize(node, c->offset + n);
        memcpy(node->bytes + c->offset, c->data, n);
    }
}

/* The nodes (DISK_NODES) after a cut; disk_forget frees their content. */
static inline void disk_after(disk_cut *cut, const disk_fate *fate, disk_node *nodes)
{
    for (int i = 0; i < cut->d->n_nodes; i++)
        nodes[i] = (disk_node){.folder = cut->d->nodes[i].folder};
    for (int i = 0; i < cut->n; i++)
        disk_apply(nodes, &cut->d->changes[i], cut->durable[i] ? 1 : disk_kept(cut, fate, i));
}

static inline void disk_forget(disk_node *nodes, int n)
{
    for (int i = 0; i < n; i++)
        free(nodes[i].bytes);
}

/* Equal for equal trees. */
static inline uint64_t disk_hash(const disk_node *nodes, int node)
{
    uint64_t sum = 0;
    if (!nodes[node].folder)
        return tess_hash_bytes(nodes[node].bytes, nodes[node].size, 1 + nodes[node].size);
    for (int i = 0; i < nodes[node].n; i++)
        sum +=
            tess_hash_bytes(nodes[node].name[i], strlen(nodes[node].name[i]), disk_hash(nodes, nodes[node].target[i]));
    return sum + 7;
}

/* Makes the tree at `path`. */
static inline void disk_lay_out(const disk_node *nodes, int node, const char *path)
{
    if (!nodes[node].folder) {
        FILE *file = fopen(path, "w");
        EXPECT(file != NULL && fwrite(nodes[node].bytes, 1, nodes[node].size, file) == nodes[node].size);
        EXPECT(fclose(file) == 0);
        return;
    }
    EXPECT(mkdir(path, 0777) == 0);
    for (int i = 0; i < nodes[node].n; i++) {
        char inner[1024];
        EXPECT_OK(tess_os_join(inner, sizeof(inner), path, nodes[node].name[i]));
        disk_lay_out(nodes, nodes[node].target[i], inner);
    }
}

#endif
