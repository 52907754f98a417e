#include "job/find.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/os/os.h"
#include "base/os/process_handle.h"

static const char memory_name[] = "/memfd:tessera";

/* ---- Inspecting a descriptor ---- */
typedef enum memory_kind { NO_JOB, OTHER_VERSION, A_JOB } memory_kind;

/* Whether the parts of the memory are inside the file. A broken program may have written the header. */
static bool fits(const tess_job_header *h, uint64_t file_bytes)
{
    /* a rank has more than a page */
    return h->world >= 1 && h->world <= file_bytes / JOB_PAGE && h->world <= INT32_MAX && h->n_hosts >= 1 &&
           h->n_hosts <= JOB_MAX_HOSTS && h->host < h->n_hosts && h->bytes == file_bytes && h->heap <= h->bytes &&
           h->heap == tess_job_layout_of((int)h->world).heap;
}

/* Reads the header before mapping: a job that is still being created, or other memory, need not be mapped. */
static memory_kind inspect(int fd, uint64_t file_bytes, tess_job_header *header)
{
    if (file_bytes < sizeof(*header) || pread(fd, header, sizeof(*header), 0) != (ssize_t)sizeof(*header) ||
        memcmp(header->magic, JOB_MAGIC, sizeof(header->magic)) != 0)
        return NO_JOB;
    if (header->version != JOB_VERSION)
        return OTHER_VERSION;
    return fits(header, file_bytes) ? A_JOB : NO_JOB;
}

static bool map(int fd, const tess_job_header *header, tess_live_job *live)
{
    void *base = mmap(NULL, header->heap, PROT_READ, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (base == MAP_FAILED)
        return false;
    live->job = (tess_job){.header = base, .base = base, .bytes = header->heap, .fd = -1};
    if (tess_job_attach(&live->job, (int)header->world) != TESS_OK) {
        tess_job_close(&live->job, false);
        return false;
    }
    live->world = (int)header->world;
    live->n_hosts = (int)header->n_hosts;
    live->host = (int)header->host;
    return true;
}

/* ---- The search ---- */
typedef struct job_search {
    int pid;            /* process that was asked for; 0: any */
    const char *folder; /* folder that was asked for; NULL: any */
    bool own_only;      /* skip jobs of other users */
    int n;
    int other_version; /* process of a job of another version; 0: none */
    bool wanted[TESS_LIVE_MAX];
    tess_live_job jobs[TESS_LIVE_MAX];
} job_search;

/* True when the job holds the lock of `folder` (control/supervise/folder_lock.c), also if it keeps no traces. */
static bool locks(const tess_live_job *live, const char *folder)
{
    char path[4096], host[256] = "", here[256] = "";
    int pid = 0;
    if (snprintf(path, sizeof(path), "%s/job.lock", folder) >= (int)sizeof(path))
        return false;
    FILE *file = fopen(path, "re");
    bool read = file != NULL && fscanf(file, "%d %255s", &pid, host) == 2;
    if (file != NULL)
        fclose(file);
    gethostname(here, sizeof(here) - 1);
    return read && strcmp(host, here) == 0 &&
           (pid == live->job.header->launcher_pid || pid == atomic_load(&live->job.rows[0].pid));
}

static bool traces_to(const tess_live_job *live, const char *folder)
{
    char text[JOB_FOLDER_BYTES + 1], below[4096];
    if (locks(live, folder))
        return true;
    memcpy(text, live->job.header->trace_folder, JOB_FOLDER_BYTES);
    text[JOB_FOLDER_BYTES] = '\0';
    if (text[0] == '\0')
        return false;
    return tess_os_same_file(text, folder) ||
           (tess_os_join(below, sizeof(below), folder, "trace") == TESS_OK && tess_os_same_file(text, below));
}

/* Records that `pid` holds the memory of job `i`. */
static void note_holder(job_search *s, int i, int pid)
{
    tess_live_job *live = &s->jobs[i];
    int launcher = live->job.header->launcher_pid;
    if (live->pid == 0 || pid == launcher || (pid < live->pid && live->pid != launcher))
        live->pid = pid;
    if (s->pid != 0)
        s->wanted[i] |= pid == s->pid || launcher == s->pid;
}

static void add_job(job_search *s, int fd, const struct stat *info, int pid)
{
    tess_live_job *live = &s->jobs[s->n];
    tess_job_header *header = malloc(sizeof(*header));
    memory_kind what = header != NULL ? inspect(fd, (uint64_t)info->st_size, header) : NO_JOB;
    *live = (tess_live_job){.pid_fd = -1, .device = info->st_dev, .inode = info->st_ino};
    bool added = what == A_JOB && map(fd, header, live);
    free(header);
    if (what == OTHER_VERSION && s->folder == NULL && (s->pid == 0 || s->pid == pid))
        s->other_version = pid;
    if (added)
        s->wanted[s->n++] = s->pid == 0 && (s->folder == NULL || traces_to(live, s->folder));
}

static void see_descriptor(job_search *s, int fds, const char *name, int pid)
{
    char target[64];
    struct stat info;
    ssize_t n = readlinkat(fds, name, target, sizeof(target) - 1);
    target[n > 0 ? n : 0] = '\0';
    if (strncmp(target, memory_name, sizeof(memory_name) - 1) != 0 || fstatat(fds, name, &info, 0) != 0 ||
        (s->own_only && info.st_uid != geteuid()))
        return;
    int i = 0;
    while (i < s->n && (s->jobs[i].inode != info.st_ino || s->jobs[i].device != info.st_dev))
        i++;
    if (i == s->n && s->n < TESS_LIVE_MAX) {
        int fd = openat(fds, name, O_RDONLY | O_CLOEXEC);
        if (fd >= 0)
            add_job(s, fd, &info, pid);
        tess_os_close(&fd);
    }
    if (i < s->n)
        note_holder(s, i, pid);
}

static void see_process(job_search *s, int pid)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/fd", pid);
    DIR *fds = opendir(path); /* opening another user's folder is refused */
    if (fds == NULL)
        return;
    for (struct dirent *entry; (entry = readdir(fds)) != NULL;)
        if (entry->d_name[0] != '.')
            see_descriptor(s, dirfd(fds), entry->d_name, pid);
    closedir(fds);
}

static tess_status see_name(void *context, const char *name)
{
    if (isdigit((unsigned char)name[0]))
        see_process(context, atoi(name));
    return TESS_OK;
}

/* Reads the command line, and removes the program's folder. */
static void read_command(int pid, char *text, size_t size)
{
    char path[64], words[4096];
    snprintf(path, sizeof(path), "/proc/%d/cmdline", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, words, sizeof(words) - 1) : 0;
    tess_os_close(&fd);
    while (n > 0 && words[n - 1] == '\0')
        n--;
    words[n > 0 ? n : 0] = '\0';
    const char *slash = strrchr(words, '/');
    ssize_t from = slash != NULL ? slash + 1 - words : 0;
    for (ssize_t i = from; i < n; i++)
        if ((unsigned char)words[i] < ' ' || words[i] == 127)
            words[i] = ' ';
    snprintf(text, size, "%s", words + from);
}

static void describe_process(tess_live_job *live)
{
    double age_s = tess_os_age_of_process_s(live->pid);
    uint64_t now_ns = tess_os_now_ns(), age_ns = (uint64_t)(age_s * 1e9);
    live->start_ns = age_s > 0 && age_ns < now_ns ? now_ns - age_ns : 0;
    live->pid_fd = tess_os_process_handle(live->pid);
    read_command(live->pid, live->command, sizeof(live->command));
}

static int by_pid(const void *a, const void *b)
{
    const tess_live_job *x = a, *y = b;
    return (x->pid > y->pid) - (x->pid < y->pid);
}

/* Returns the requested jobs in `jobs` and closes the rest. */
static int take(job_search *s, tess_live_job *jobs, int max)
{
    int n = 0;
    for (int i = 0; i < s->n; i++) {
        if (!s->wanted[i] || n == max) {
            tess_live_close(&s->jobs[i]);
            continue;
        }
        jobs[n] = s->jobs[i];
        describe_process(&jobs[n++]);
    }
    qsort(jobs, (size_t)n, sizeof(jobs[0]), by_pid);
    return n;
}

static tess_status not_found(const job_search *s, const char *what)
{
    TESS_CHECK(s->other_version == 0, TESS_E_UNSUPPORTED,
               "the job of process %d is of another version of tessera: look at it with the program that started it",
               s->other_version);
    TESS_CHECK(what != NULL, TESS_E_NOT_FOUND, "no job of yours runs on this machine");
    if (s->folder != NULL)
        return TESS_FAIL(TESS_E_NOT_FOUND,
                         "no job that runs on this machine writes to %s; `tessera trace %s` shows one that has ended",
                         what, what);
    if (tess_os_process_state(s->pid) == '\0')
        return TESS_FAIL(TESS_E_NOT_FOUND, "there is no process %d", s->pid);
    return TESS_FAIL(TESS_E_NOT_FOUND,
                     "process %d has no part in a job (or the job is just starting, or another user's)", s->pid);
}

/* Reads what was asked for. A number is a process, unless a folder has that name. */
static tess_status read_what(const char *what, job_search *s)
{
    char *end;
    *s = (job_search){.own_only = what == NULL};
    if (what == NULL)
        return TESS_OK;
    if (tess_os_is_dir(what)) {
        s->folder = what;
        return TESS_OK;
    }
    errno = 0;
    long pid = strtol(what, &end, 10);
    TESS_CHECK(*what != '\0' && *end == '\0' && errno == 0 && pid > 0 && pid <= INT32_MAX, TESS_E_NOT_FOUND,
               "'%.200s' is neither a process nor a folder", what);
    s->pid = (int)pid;
    return TESS_OK;
}

tess_status tess_live_find(const char *what, tess_live_job *jobs, int max, int *n_jobs)
{
    job_search s;
    *n_jobs = 0;
    TESS_TRY(read_what(what, &s));
    TESS_TRY(tess_os_list("/proc", see_name, &s));
    *n_jobs = take(&s, jobs, max);
    return *n_jobs > 0 ? TESS_OK : not_found(&s, what);
}

void tess_live_find_each(const char *const *folders, int n, tess_live_job *jobs, bool *found)
{
    job_search s = {0};
    memset(found, 0, (size_t)n * sizeof(*found));
    if (tess_os_list("/proc", see_name, &s) != TESS_OK)
        tess_error_clear();
    for (int i = 0; i < s.n; i++) {
        int f = 0;
        while (f < n && (found[f] || !traces_to(&s.jobs[i], folders[f])))
            f++;
        if (f == n) {
            tess_live_close(&s.jobs[i]);
            continue;
        }
        jobs[f] = s.jobs[i];
        found[f] = true;
        describe_process(&jobs[f]);
    }
}

static tess_status close_if_job(TESS_UNUSED void *self, const char *name)
{
    char link[64], target[64];
    snprintf(link, sizeof(link), "/proc/self/fd/%.20s", name);
    const ssize_t n = isdigit((unsigned char)name[0]) ? readlink(link, target, sizeof(target) - 1) : 0;
    target[n > 0 ? n : 0] = '\0';
    if (strcmp(target, "/memfd:tessera (deleted)") == 0)
        close(atoi(name));
    return TESS_OK;
}

void tess_live_let_go(void)
{
    if (tess_os_list("/proc/self/fd", close_if_job, NULL) != TESS_OK)
        tess_error_clear();
}

void tess_live_close(tess_live_job *live)
{
    tess_job_close(&live->job, false);
    tess_os_close(&live->pid_fd);
}

bool tess_live_running(const tess_live_job *live)
{
    struct pollfd wait = {.fd = live->pid_fd, .events = POLLIN};
    if (live->pid_fd < 0) {
        char state = tess_os_process_state(live->pid);
        return state != '\0' && state != 'Z';
    }
    return poll(&wait, 1, 0) == 0;
}
