/* The pager's list of ranges, and the two threads that move them. A range is in the list from the request that fetches
 * it until its release is complete:
 *
 *     WANTED -> COMING -> HERE -> LEAVING -> GOING -> (gone)
 *
 * The reader thread moves a range from WANTED to HERE; the writer thread moves it from LEAVING to its end. Requests do
 * all other transitions, under the lock. A request during COMING or GOING sets a flag (then_leave, then_want) that
 * takes effect when the move ends. */
#include "base/mem/pager.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/os/os.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22 /* Linux 5.14; the C library's headers may be older */
#define MADV_POPULATE_WRITE 23
#endif

enum {
    PIECE = 8 << 20, /* bytes per step: large enough for full speed, small enough that writing back starts early */
    UNDER_WAY = 2,   /* number of pieces whose writing has begun before the pager waits for the oldest */
    LARGEST_FOLIO = 2 << 20,
    ZEROES = 1 << 20,
    NAME_BYTES = 256
};

typedef struct pager_file {
    struct pager_file *next;
    char *base;
    size_t bytes;
    int fd;
    uint64_t offset;
    char name[NAME_BYTES];
} pager_file;

typedef enum range_state { NEW, WANTED, COMING, HERE, LEAVING, GOING } range_state;

typedef struct pager_range {
    struct pager_range *next;
    const pager_file *file;
    char *begin, *end;
    range_state state;
    tess_page_use use; /* the use of the first fetch; a later fetch may turn a read into an update */
    bool is_dirty;     /* the range may have been written */
    bool is_urgent;    /* a caller waits for the range */
    bool counted;      /* the range is among the resident bytes */
    bool then_leave;   /* the range was released while it was COMING */
    bool then_want;    /* the range was fetched again while it was GOING */
} pager_range;

struct tess_pager {
    tess_mem *mem;
    size_t limit, at_once, page;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t reader, writer;
    bool stop;
    pager_file *files;
    pager_range *first, **end; /* the ranges, oldest fetch or oldest release first */
    tess_pager_stats stats;
    int failed; /* errno of the first write that failed; 0: none has failed */
    char failed_name[NAME_BYTES];
};

/* ---- The list ---- */
static void append(tess_pager *p, pager_range *r)
{
    r->next = NULL;
    *p->end = r;
    p->end = &r->next;
}

static void take_out(tess_pager *p, pager_range *r)
{
    pager_range **at = &p->first;
    while (*at != r)
        at = &(*at)->next;
    *at = r->next;
    if (p->end == &r->next)
        p->end = at;
}

/* Returns the first byte at or after `at` that belongs to no counted range other than `r`; r->end: there is none. */
static const char *next_alone(const tess_pager *p, const pager_range *r, const char *at)
{
    bool moved = true;
    while (moved) {
        moved = false;
        for (const pager_range *other = p->first; other != NULL; other = other->next)
            if (other != r && other->counted && other->begin <= at && other->end > at) {
                at = other->end;
                moved = true;
            }
    }
    return at < r->end ? at : r->end;
}

/* Returns the first byte after `at` where a counted range other than `r` begins; r->end: there is none. */
static const char *next_shared(const tess_pager *p, const pager_range *r, const char *at)
{
    const char *next = r->end;
    for (const pager_range *other = p->first; other != NULL; other = other->next)
        if (other != r && other->counted && other->begin > at && other->begin < next)
            next = other->begin;
    return next;
}

/* Counts the bytes of a range that are in no other counted range. Ranges overlap because a unit and its tensors are
 * ranges of the same memory. */
static size_t bytes_alone(const tess_pager *p, const pager_range *r)
{
    size_t bytes = 0;
    for (const char *at = next_alone(p, r, r->begin), *end; at < r->end; at = next_alone(p, r, end)) {
        end = next_shared(p, r, at);
        bytes += (size_t)(end - at);
    }
    return bytes;
}

static void count(tess_pager *p, pager_range *r, bool here)
{
    if (r->counted == here)
        return;
    size_t bytes = bytes_alone(p, r);
    r->counted = here;
    p->stats.resident += here ? bytes : -bytes;
    if (p->stats.resident > p->stats.peak)
        p->stats.peak = p->stats.resident;
    tess_mem_count(p->mem, TESS_POOL_COMM, here ? (int64_t)bytes : -(int64_t)bytes);
}

static void forget(tess_pager *p, pager_range *r)
{
    count(p, r, false);
    take_out(p, r);
    tess_mem_free(p->mem, r);
}

static const pager_file *file_of(const tess_pager *p, const void *at)
{
    const char *address = at;
    const pager_file *f = p->files;
    while (f != NULL && (address < f->base || address >= f->base + f->bytes))
        f = f->next;
    return f;
}

static pager_range *find(const tess_pager *p, const char *begin, const char *end)
{
    pager_range *r = p->first;
    while (r != NULL && (r->begin != begin || r->end != end))
        r = r->next;
    return r;
}

/* NULL: the address is in no file, or there is no memory for the list entry. Then only the prefetch is lost. */
static pager_range *find_or_add(tess_pager *p, const void *at, size_t bytes)
{
    char *begin = (char *)at;
    const pager_file *file = bytes > 0 ? file_of(p, at) : NULL;
    pager_range *r = file != NULL ? find(p, begin, begin + bytes) : NULL;
    if (file == NULL || r != NULL)
        return r;
    if (TESS_NEW(p->mem, 1, "pager", &r) != TESS_OK) {
        tess_error_clear();
        return NULL;
    }
    *r = (pager_range){.file = file, .begin = begin, .end = begin + bytes, .state = NEW};
    append(p, r);
    return r;
}

/* ---- Moving ---- */
static char *page_down(const tess_pager *p, char *at)
{
    return (char *)((uintptr_t)at / p->page * p->page);
}

static char *page_up(const tess_pager *p, char *at)
{
    return page_down(p, at + p->page - 1);
}

static uint64_t place_of(const pager_file *f, const char *at)
{
    return f->offset + (uint64_t)(at - f->base);
}

/* If the system cannot populate pages, reads a byte of each page; writers then take the page faults themselves. */
static void populate(const tess_pager *p, char *from, char *to, int how)
{
    if (madvise(from, (size_t)(to - from), how) != 0 && errno == EINVAL)
        for (volatile char *at = from; at < to; at += p->page)
            (void)*at;
}

/* Populates for reading first, because the kernel reads ahead, in large folios, only for reads. */
static void bring_piece(const tess_pager *p, char *from, char *to, bool write)
{
    populate(p, from, to, MADV_POPULATE_READ);
    if (write)
        populate(p, from, to, MADV_POPULATE_WRITE);
}

/* Overwrites the range with zeroes in the file's page cache. Pages that are written as a whole are not read first, and
 * get large folios. This reaches 1.2 to 1.4 GB/s on ext4; extents zeroed by FALLOC_FL_ZERO_RANGE reached 0.2. If a
 * write fails the old content stays, which nobody reads. */
static void drop_content(const pager_file *f, char *from, char *to)
{
    static const char zeroes[ZEROES];
    for (char *at = from; at < to; at += ZEROES)
        (void)!pwrite(f->fd, zeroes, to - at < ZEROES ? (size_t)(to - at) : ZEROES, (off_t)place_of(f, at));
}

static void bring(const tess_pager *p, const pager_range *r, tess_page_use use)
{
    char *begin = page_down(p, r->begin), *end = page_up(p, r->end);
    char *first_whole = page_up(p, r->begin), *last_whole = page_down(p, r->end);
    for (char *from = begin; from < end; from += PIECE) {
        char *to = end - from < PIECE ? end : from + PIECE;
        if (use == TESS_PAGE_OVERWRITE) {
            drop_content(r->file, from > first_whole ? from : first_whole, to < last_whole ? to : last_whole);
            populate(p, from, to, MADV_POPULATE_WRITE);
        } else {
            bring_piece(p, from, to, use == TESS_PAGE_UPDATE);
        }
    }
}

/* Waits until [from, to) is written to disk, if it `was_written`, and drops its pages from memory. A folio is dropped
 * only as a whole, so the range is extended down to where the largest folio may begin. Pages in use there are mapped,
 * and stay. */
static int drop(const pager_file *f, bool was_written, char *from, char *to)
{
    uint64_t begin = place_of(f, from), end = place_of(f, to), low = begin / LARGEST_FOLIO * LARGEST_FOLIO;
    int failed = 0;
    if (was_written &&
        sync_file_range(f->fd, (off_t)begin, (off_t)(end - begin),
                        SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER) != 0)
        failed = errno;
    (void)madvise(from, (size_t)(to - from), MADV_DONTNEED);
    (void)posix_fadvise(f->fd, (off_t)low, (off_t)(end - low), POSIX_FADV_DONTNEED);
    return failed;
}

/* Writes a range to disk and drops its pages. Returns the errno of a write that failed, or 0. Pages at the ends may
 * also belong to neighbouring ranges, which then read them again. */
static int send_away(const tess_pager *p, const pager_range *r, bool was_written)
{
    char *begin = page_down(p, r->begin), *end = page_up(p, r->end), *behind = begin;
    int failed = 0;
    for (char *from = begin; from < end || behind < end; from += PIECE) {
        if (from < end && was_written)
            (void)sync_file_range(r->file->fd, (off_t)place_of(r->file, from), end - from < PIECE ? end - from : PIECE,
                                  SYNC_FILE_RANGE_WRITE);
        if (from - behind < (ptrdiff_t)UNDER_WAY * PIECE && from < end)
            continue;
        char *to = end - behind < PIECE ? end : behind + PIECE;
        int error = drop(r->file, was_written, behind, to);
        failed = failed != 0 ? failed : error;
        behind = to;
    }
    return failed;
}

/* ---- The two threads ---- */
static bool is_leaving(const tess_pager *p)
{
    const pager_range *r = p->first;
    while (r != NULL && r->state != LEAVING && r->state != GOING && !r->then_leave)
        r = r->next;
    return r != NULL;
}

static bool has_room(const tess_pager *p, const pager_range *r)
{
    return p->stats.resident == 0 || r->counted || p->stats.resident + bytes_alone(p, r) <= p->limit;
}

/* Whether a prefetch of the range has room. It leaves `at_once` bytes free for ranges that callers wait for. */
static bool has_room_ahead(const tess_pager *p, const pager_range *r)
{
    return p->stats.resident == 0 || r->counted || p->stats.resident + bytes_alone(p, r) + p->at_once <= p->limit;
}

static pager_range *next_in(const tess_pager *p, range_state state, bool urgent)
{
    pager_range *r = p->first;
    while (r != NULL && (r->state != state || (urgent && !r->is_urgent)))
        r = r->next;
    return r;
}

static pager_range *next_to_bring(const tess_pager *p)
{
    pager_range *r = next_in(p, WANTED, true);
    if (r != NULL)
        return has_room(p, r) || !is_leaving(p) ? r : NULL;
    r = next_in(p, WANTED, false);
    return r != NULL && has_room_ahead(p, r) ? r : NULL;
}

static void to_end(tess_pager *p, pager_range *r, range_state state)
{
    take_out(p, r);
    append(p, r);
    r->state = state;
}

static void bring_next(tess_pager *p, pager_range *r)
{
    tess_page_use use = r->use;
    r->state = COMING;
    count(p, r, true);
    pthread_mutex_unlock(&p->lock);
    uint64_t began = tess_os_now_ns();
    bring(p, r, use);
    uint64_t took = tess_os_now_ns() - began;
    pthread_mutex_lock(&p->lock);
    p->stats.read_ns += took;
    p->stats.read_bytes += use != TESS_PAGE_OVERWRITE ? (uint64_t)(r->end - r->begin) : 0;
    r->is_urgent = false;
    r->state = HERE;
    if (r->then_leave)
        to_end(p, r, LEAVING);
    r->then_leave = false;
}

static void send_next(tess_pager *p, pager_range *r)
{
    bool was_written = r->is_dirty;
    r->state = GOING;
    pthread_mutex_unlock(&p->lock);
    uint64_t began = tess_os_now_ns();
    int failed = send_away(p, r, was_written);
    uint64_t took = tess_os_now_ns() - began;
    pthread_mutex_lock(&p->lock);
    p->stats.write_ns += took;
    p->stats.written_bytes += was_written ? (uint64_t)(r->end - r->begin) : 0;
    if (failed != 0 && p->failed == 0) {
        p->failed = failed;
        memcpy(p->failed_name, r->file->name, sizeof(p->failed_name));
    }
    count(p, r, false);
    if (!r->then_want) {
        forget(p, r);
        return;
    }
    r->then_want = false;
    r->is_dirty = r->use != TESS_PAGE_READ;
    to_end(p, r, WANTED);
}

static pager_range *next_to_send(const tess_pager *p)
{
    return next_in(p, LEAVING, false);
}

/* Runs one thread: moves ranges until the pager stops. */
static void move_all(tess_pager *p, pager_range *(*next)(const tess_pager *), void (*move)(tess_pager *, pager_range *))
{
    pthread_mutex_lock(&p->lock);
    while (!p->stop) {
        pager_range *r = next(p);
        if (r == NULL) {
            pthread_cond_wait(&p->changed, &p->lock);
            continue;
        }
        move(p, r);
        pthread_cond_broadcast(&p->changed);
    }
    pthread_mutex_unlock(&p->lock);
}

static void *read_ahead(void *self)
{
    move_all(self, next_to_bring, bring_next);
    return NULL;
}

static void *write_behind(void *self)
{
    move_all(self, next_to_send, send_next);
    return NULL;
}

/* ---- Creation ---- */
tess_status tess_pager_create(tess_mem *mem, size_t resident, tess_pager **out)
{
    tess_pager *p;
    *out = NULL;
    TESS_TRY(TESS_NEW(mem, 1, "pager", &p));
    *p = (tess_pager){.mem = mem, .limit = resident, .page = (size_t)sysconf(_SC_PAGESIZE)};
    p->end = &p->first;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->changed, NULL);
    bool reads = pthread_create(&p->reader, NULL, read_ahead, p) == 0;
    if (reads && pthread_create(&p->writer, NULL, write_behind, p) == 0) {
        *out = p;
        return TESS_OK;
    }
    if (reads) {
        pthread_mutex_lock(&p->lock);
        p->stop = true;
        pthread_cond_broadcast(&p->changed);
        pthread_mutex_unlock(&p->lock);
        pthread_join(p->reader, NULL);
    }
    tess_mem_free(mem, p);
    return TESS_FAIL(TESS_E_NOMEM, "cannot start the threads that move state to and from disk");
}

void tess_pager_make_room(tess_pager *p, size_t resident, size_t at_once)
{
    if (p == NULL)
        return;
    pthread_mutex_lock(&p->lock);
    p->limit = resident > p->limit ? resident : p->limit;
    p->at_once = at_once > p->at_once ? at_once : p->at_once;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
}

void tess_pager_destroy(tess_pager **handle)
{
    tess_pager *p = *handle;
    if (p == NULL)
        return;
    pthread_mutex_lock(&p->lock);
    p->stop = true;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
    pthread_join(p->reader, NULL);
    pthread_join(p->writer, NULL);
    while (p->first != NULL)
        forget(p, p->first);
    while (p->files != NULL) {
        pager_file *f = p->files;
        p->files = f->next;
        tess_mem_free(p->mem, f);
    }
    pthread_cond_destroy(&p->changed);
    pthread_mutex_destroy(&p->lock);
    tess_mem_drop(handle);
}

tess_status tess_pager_add(tess_pager *p, void *base, size_t bytes, int fd, uint64_t offset, const char *name)
{
    pager_file *f;
    TESS_TRY(TESS_NEW(p->mem, 1, "pager", &f));
    *f = (pager_file){.base = base, .bytes = bytes, .fd = fd, .offset = offset};
    strncpy(f->name, name, sizeof(f->name) - 1);
    (void)madvise(base, bytes, MADV_SEQUENTIAL); /* larger reads, starting at the first page of a piece */
    pthread_mutex_lock(&p->lock);
    f->next = p->files;
    p->files = f;
    pthread_mutex_unlock(&p->lock);
    return TESS_OK;
}

/* Drops the requests on a file, except moves under way. Returns whether any move is under way. */
static bool drop_requests(tess_pager *p, const pager_file *f)
{
    bool any_moves = false;
    for (pager_range *r = p->first, *next; r != NULL; r = next) {
        next = r->next;
        if (r->file != f)
            continue;
        bool moves = r->state == COMING || r->state == GOING;
        any_moves |= moves;
        if (moves)
            r->then_leave = r->then_want = false;
        else
            forget(p, r);
    }
    return any_moves;
}

/* Returns the link to the file whose mapping begins at `base`, or the list's end. */
static pager_file **link_of(tess_pager *p, const void *base)
{
    pager_file **at = &p->files;
    while (*at != NULL && (*at)->base != (const char *)base)
        at = &(*at)->next;
    return at;
}

void tess_pager_remove(tess_pager *p, const void *base)
{
    if (p == NULL)
        return;
    pthread_mutex_lock(&p->lock);
    pager_file **at = link_of(p, base);
    while (*at != NULL && drop_requests(p, *at)) {
        pthread_cond_wait(&p->changed, &p->lock);
        at = link_of(p, base); /* searched again, because other threads may have added or removed files */
    }
    pager_file *f = *at;
    if (f != NULL) {
        *at = f->next;
        tess_mem_free(p->mem, f);
    }
    pthread_cond_broadcast(&p->changed); /* ranges that waited for room may have it now */
    pthread_mutex_unlock(&p->lock);
}

/* ---- Requests ---- */
void tess_pager_fetch(tess_pager *p, const void *at, size_t bytes, tess_page_use use)
{
    if (p == NULL)
        return;
    pthread_mutex_lock(&p->lock);
    pager_range *r = find_or_add(p, at, bytes);
    if (r != NULL) {
        bool is_first = r->state == NEW || (r->state == GOING && !r->then_want);
        if (is_first)
            r->use = use;
        else if (r->use == TESS_PAGE_READ && use != TESS_PAGE_READ)
            r->use = TESS_PAGE_UPDATE; /* not OVERWRITE, which would drop the content that the first fetch reads */
        r->is_dirty |= use != TESS_PAGE_READ;
        r->then_leave = false;
        r->then_want = r->state == GOING;
        if (r->state == NEW)
            r->state = WANTED;
        else if (r->state == LEAVING)
            r->state = HERE;
        pthread_cond_broadcast(&p->changed);
    }
    pthread_mutex_unlock(&p->lock);
}

static bool is_missing(const pager_range *r, const char *begin, const char *end)
{
    return r->begin < end && r->end > begin &&
           (r->state == WANTED || r->state == COMING || (r->state == GOING && r->then_want));
}

/* Marks all missing ranges in [begin, end) as urgent. False: no range is missing. */
static bool hurry(tess_pager *p, const char *begin, const char *end)
{
    bool any = false;
    for (pager_range *r = p->first; r != NULL; r = r->next)
        if (is_missing(r, begin, end))
            any = r->is_urgent = true;
    return any;
}

tess_status tess_pager_wait(tess_pager *p, const void *at, size_t bytes)
{
    const char *begin = at;
    if (p == NULL)
        return TESS_OK;
    pthread_mutex_lock(&p->lock);
    uint64_t began = 0;
    while (hurry(p, begin, begin + bytes)) {
        began = began != 0 ? began : tess_os_now_ns();
        pthread_cond_broadcast(&p->changed);
        pthread_cond_wait(&p->changed, &p->lock);
    }
    p->stats.waited_ns += began != 0 ? tess_os_now_ns() - began : 0;
    int failed = p->failed;
    pthread_mutex_unlock(&p->lock);
    errno = failed; /* the name of the first file that failed never changes again */
    return failed == 0 ? TESS_OK : tess_os_error("write", p->failed_name);
}

void tess_pager_release(tess_pager *p, const void *at, size_t bytes)
{
    if (p == NULL)
        return;
    pthread_mutex_lock(&p->lock);
    pager_range *r = find(p, at, (const char *)at + bytes);
    if (r != NULL) {
        r->then_want = r->is_urgent = false;
        r->then_leave = r->state == COMING;
        if (r->state == WANTED || r->state == HERE)
            to_end(p, r, LEAVING);
        pthread_cond_broadcast(&p->changed);
    }
    pthread_mutex_unlock(&p->lock);
}

void tess_pager_drain(tess_pager *p)
{
    if (p == NULL)
        return;
    pthread_mutex_lock(&p->lock);
    while (is_leaving(p))
        pthread_cond_wait(&p->changed, &p->lock);
    pthread_mutex_unlock(&p->lock);
}

tess_pager_stats tess_pager_get_stats(const tess_pager *pager)
{
    tess_pager *p = (tess_pager *)pager;
    if (p == NULL)
        return (tess_pager_stats){0};
    pthread_mutex_lock(&p->lock);
    tess_pager_stats stats = p->stats;
    stats.limit = p->limit;
    pthread_mutex_unlock(&p->lock);
    return stats;
}
