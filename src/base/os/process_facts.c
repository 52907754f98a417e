#include "base/os/process_facts.h"

#include <dirent.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/os/machine.h"
#include "base/os/os.h"
#include "base/os/syscalls.h"

enum { MOST_THREADS = 64 };

/* ---- Small files of proc(5) ---- */
static bool read_of_process(int pid, const char *name, char *text, size_t size)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
    return tess_os_read_text(path, text, size) > 0;
}

static bool read_of_thread(int pid, int tid, const char *name, char *text, size_t size)
{
    char path[80];
    snprintf(path, sizeof(path), "/proc/%d/task/%d/%s", pid, tid, name);
    return tess_os_read_text(path, text, size) > 0;
}

/* Returns the number after "key" at the beginning of a line; `missing` if no line begins with it. */
static int64_t number_of(const char *text, const char *key, int64_t missing)
{
    size_t length = strlen(key);
    for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, key, length) == 0)
            return strtoll(line + length, NULL, 10);
    }
    return missing;
}

/* ---- A thread ---- */
/* Parses /proc/PID/syscall: "running", "-1 0xSP 0xPC" (in the kernel without a call: a page fault), or "NUMBER 0xARG *
 * 6 0xSP 0xPC". */
static void find_call(int pid, tess_thread_facts *thread)
{
    char text[256], *at;
    thread->call = -1;
    thread->kind = TESS_CALL_UNKNOWN;
    if (!read_of_thread(pid, thread->tid, "syscall", text, sizeof(text)))
        return;
    thread->kind = TESS_CALL_NONE;
    if (strncmp(text, "running", 7) == 0)
        return;
    long number = strtol(text, &at, 10);
    if (number < 0)
        return;
    thread->call = (int)number;
    thread->kind = TESS_CALL_OTHER;
    for (int i = 0; i < TESS_CALL_ARGUMENTS; i++)
        thread->arguments[i] = strtoull(at, &at, 16);
    const tess_syscall *call = tess_syscall_find(thread->call);
    if (call == NULL) {
        snprintf(thread->call_name, sizeof(thread->call_name), "system call %d", thread->call);
        return;
    }
    thread->kind = call->kind;
    snprintf(thread->call_name, sizeof(thread->call_name), "%s", call->name);
}

static void look_at_thread(int pid, int tid, tess_thread_facts *thread)
{
    char text[1024];
    *thread = (tess_thread_facts){.call = -1, .kind = TESS_CALL_UNKNOWN};
    if (!read_of_thread(pid, tid, "stat", text, sizeof(text)))
        return;
    const char *behind_name = strrchr(text, ')');
    if (behind_name == NULL || sscanf(behind_name, ") %c", &thread->state) != 1)
        return;
    thread->tid = tid;
    if (read_of_thread(pid, tid, "schedstat", text, sizeof(text))) {
        char *at;
        thread->cpu_ns = strtoull(text, &at, 10);
        thread->waiting_ns = strtoull(at, &at, 10);
    }
    if (thread->state == 'Z' || thread->state == 'X')
        return;
    find_call(pid, thread);
    read_of_thread(pid, tid, "wchan", thread->wchan, sizeof(thread->wchan));
    if (strcmp(thread->wchan, "0") == 0)
        thread->wchan[0] = '\0';
}

/* Ranks a thread by how well it explains why its process is stuck. Matters only when the main thread waits for other
 * threads. */
static int how_telling(const tess_thread_facts *thread)
{
    if (thread->state == 'D')
        return 4;
    if (thread->kind == TESS_CALL_FILE)
        return 3;
    if (thread->state == 'R')
        return 2;
    return thread->kind == TESS_CALL_SLEEP;
}

static void look_at_threads(tess_process_facts *facts)
{
    char path[32];
    snprintf(path, sizeof(path), "/proc/%d/task", facts->pid);
    DIR *folder = opendir(path);
    if (folder == NULL)
        return;
    bool main_waits = facts->main.kind == TESS_CALL_FUTEX && facts->main.state != 'T' && facts->main.state != 't';
    for (struct dirent *entry; facts->n_threads < MOST_THREADS && (entry = readdir(folder)) != NULL;) {
        int tid = atoi(entry->d_name);
        tess_thread_facts other;
        if (tid <= 0)
            continue;
        facts->n_threads++;
        if (tid == facts->pid) {
            facts->cpu_ns += facts->main.cpu_ns;
            continue;
        }
        look_at_thread(facts->pid, tid, &other);
        facts->cpu_ns += other.cpu_ns;
        if (main_waits && how_telling(&other) > how_telling(&facts->thread))
            facts->thread = other;
    }
    closedir(folder);
}

/* ---- The file ---- */
static void name_descriptor(tess_process_facts *facts, int fd)
{
    char path[64], text[256];
    snprintf(path, sizeof(path), "/proc/%d/fd/%d", facts->pid, fd);
    ssize_t n = readlink(path, facts->file, sizeof(facts->file) - 1);
    facts->file[n > 0 ? n : 0] = '\0';
    snprintf(path, sizeof(path), "fdinfo/%d", fd);
    if (read_of_process(facts->pid, path, text, sizeof(text)))
        facts->position = number_of(text, "pos:", -1);
}

/* Reads the path that the process is about to open. The memory belongs to that process, so it may hold anything. */
static void name_path(tess_process_facts *facts, uint64_t address)
{
    char path[sizeof(facts->file)];
    size_t size = sizeof(path) - 1, to_page_end = 4096 - address % 4096;
    if (to_page_end < size && !tess_os_read_process(facts->pid, path, address, size))
        size = to_page_end;
    if (!tess_os_read_process(facts->pid, path, address, size))
        return;
    path[size] = '\0';
    for (char *at = path; *at != '\0'; at++)
        if ((unsigned char)*at < ' ')
            *at = '?';
    snprintf(facts->file, sizeof(facts->file), "%s", path);
}

static void name_file(tess_process_facts *facts)
{
    const tess_thread_facts *thread = &facts->thread;
    const tess_syscall *call = tess_syscall_find(thread->call);
    if (call == NULL)
        return;
    struct pollfd first;
    if (call->fd >= 0)
        name_descriptor(facts, (int)thread->arguments[call->fd]);
    else if (call->path >= 0)
        name_path(facts, thread->arguments[call->path]);
    else if (call->number != SYS_ppoll && strcmp(call->name, "poll") != 0)
        return;
    else if (thread->arguments[1] > 0 && tess_os_read_process(facts->pid, &first, thread->arguments[0], sizeof(first)))
        name_descriptor(facts, first.fd);
}

/* ---- The process ---- */
static void read_counters(tess_process_facts *facts)
{
    char text[4096];
    if (read_of_process(facts->pid, "status", text, sizeof(text))) {
        facts->tracer = (int)number_of(text, "TracerPid:", 0);
        facts->rss_bytes = (uint64_t)number_of(text, "VmRSS:", 0) * 1024;
        facts->switches = (uint64_t)number_of(text, "voluntary_ctxt_switches:", 0);
    }
    if (read_of_process(facts->pid, "io", text, sizeof(text)))
        facts->io_bytes = (uint64_t)number_of(text, "rchar:", 0) + (uint64_t)number_of(text, "wchar:", 0);
    facts->oom_score = read_of_process(facts->pid, "oom_score", text, sizeof(text)) ? atoi(text) : -1;
}

void tess_os_process_facts(int pid, tess_process_facts *facts)
{
    *facts = (tess_process_facts){.pid = pid, .time_ns = tess_os_now_ns(), .position = -1, .oom_score = -1};
    look_at_thread(pid, pid, &facts->main);
    facts->here = facts->main.tid != 0;
    if (!facts->here)
        return;
    facts->thread = facts->main;
    look_at_threads(facts);
    name_file(facts);
    read_counters(facts);
}

static bool keep_call(const tess_thread_facts *earlier, tess_thread_facts *thread)
{
    if (thread->tid == 0 || thread->call != SYS_restart_syscall || earlier->tid != thread->tid || earlier->call < 0)
        return false;
    thread->kind = earlier->kind;
    thread->call = earlier->call;
    memcpy(thread->call_name, earlier->call_name, sizeof(thread->call_name));
    memcpy(thread->arguments, earlier->arguments, sizeof(thread->arguments));
    memcpy(thread->wchan, earlier->wchan, sizeof(thread->wchan));
    return true;
}

void tess_os_facts_keep_call(const tess_process_facts *earlier, tess_process_facts *facts)
{
    keep_call(&earlier->main, &facts->main);
    if (!keep_call(&earlier->thread, &facts->thread))
        return;
    memcpy(facts->file, earlier->file, sizeof(facts->file));
    facts->position = earlier->position;
}

const char *tess_os_facts_report(const tess_process_facts *facts, char *text, size_t size)
{
    const tess_thread_facts *thread = &facts->thread;
    if (!facts->here) {
        snprintf(text, size, "no longer there");
        return text;
    }
    const char *wchan = thread->state == 'R' ? "" : thread->wchan;
    char where[sizeof(thread->wchan) + 16] = "";
    if (wchan[0] != '\0')
        snprintf(where, sizeof(where), ", wchan %s", wchan);
    if (thread->call_name[0] != '\0')
        snprintf(text, size, "in %s%s%s (state %c%s)", thread->call_name, facts->file[0] != '\0' ? " of " : "",
                 facts->file, thread->state, where);
    else
        snprintf(text, size, "%s (state %c%s)", thread->state == 'R' ? "running" : "not running", thread->state, where);
    return text;
}
