/* Reads the process that printed a line from the prefixes of libraries and engines: NCCL, Ray, vLLM, SGLang, Metaflow,
 * Neuron, oneCCL, PyTorch, UCX. */
#include "doctor/log/origin/origin_impl.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void origin_read_nccl(const char *line, size_t size, log_who *who)
{
    for (size_t at = 1; at + 6 < size; at++) {
        if (line[at] != ':' || !log_is_host_char(line[at - 1]) || !isdigit((unsigned char)line[at + 1]))
            continue;
        size_t begin = at, i = at + 1, pid_end;
        while (i < size && isdigit((unsigned char)line[i]))
            i++;
        pid_end = i;
        if (i == size || line[i++] != ':')
            continue;
        while (i < size && isdigit((unsigned char)line[i]))
            i++;
        if (i + 3 >= size || line[i] != ' ' || line[i + 1] != '[' || !isdigit((unsigned char)line[i + 2]))
            continue;
        size_t gpu = i + 2, end = gpu;
        while (end < size && isdigit((unsigned char)line[end]))
            end++;
        if (end == size || line[end] != ']')
            continue;
        while (begin > 0 && log_is_host_char(line[begin - 1]))
            begin--;
        if (begin > 3 && line[begin - 1] == ':' && isdigit((unsigned char)line[begin - 2]) && at - begin > 3 &&
            isdigit((unsigned char)line[begin]) && isdigit((unsigned char)line[begin + 1]) &&
            isalpha((unsigned char)line[begin + 2]))
            begin += 2; /* the end of a time with a zone, "-07:00node-a:7:8", as CloudWatch joins the two */
        if (log_is_host(line + begin, at - begin, LOG_HOST_EXPECTED))
            origin_copy(who->host, sizeof(who->host), line + begin, at - begin);
        origin_copy(who->gpu, sizeof(who->gpu), line + gpu, end - gpu);
        who->pid = (int)strtol(line + at + 1, NULL, 10) * (pid_end - at < 10);
        return;
    }
}

/* Returns the last of several prefixes such as "(APIServer pid=7) (EngineCore_0 pid=8) (Worker pid=9)", in which each
 * process passes on what the next one printed. */
static const char *last_worker(const char *line, size_t *size)
{
    const char *end = line + *size;
    for (const char *close; *line == '(' && (close = memchr(line, ')', (size_t)(end - line))) != NULL;) {
        const char *next = close + 1 + strspn(close + 1, " ");
        const char *next_close = *next == '(' ? memchr(next, ')', (size_t)(end - next)) : NULL;
        if (next_close == NULL || memmem(next, (size_t)(next_close - next), "pid=", 4) == NULL)
            break;
        line = next;
    }
    *size = (size_t)(end - line);
    return line;
}

void origin_read_worker(const char *line, size_t size, log_who *who)
{
    line = last_worker(line, &size);
    const char *close = size > 0 && line[0] == '(' ? memchr(line, ')', size) : NULL;
    size_t n = close != NULL ? (size_t)(close - line) : 0;
    const char *at = n >= 8 ? memmem(line, n, "pid=", 4) : NULL;
    if (at == NULL && !(n > 8 && memcmp(line, "(raylet,", 8) == 0))
        return;
    if (at != NULL) {
        who->pid = origin_number_wide(at + 4, (size_t)(close - at) - 4);
        size_t name = at > line + 1 ? (size_t)(at - line) - 2 : 0; /* the name may have blanks: "VllmWorker TP0" */
        const char *rank = memmem(line + 1, name, " rank=", 6), *comma = memchr(line + 1, ',', name);
        name = rank != NULL ? (size_t)(rank - line) - 1 : comma != NULL ? (size_t)(comma - line) - 1 : name;
        who->noun = line[1 + name] == ',' && name > 0 ? "task" : NULL;
        origin_copy(who->actor, sizeof(who->actor), line + 1, name < n ? name : n - 1);
    }
    if ((at = memmem(line, n, "rank=", 5)) != NULL)
        origin_set_rank(who, origin_number_wide(at + 5, (size_t)(close - at) - 5));
    if ((at = memmem(line, n, "ip=", 3)) != NULL)
        origin_copy(who->host, sizeof(who->host), at + 3, strspn(at + 3, "0123456789abcdefABCDEF.:"));
}

void origin_read_task(const char *line, size_t size, log_who *who)
{
    const char *close = size > 0 && line[0] == '[' ? memchr(line, ']', size) : NULL;
    const char *at = close != NULL ? memmem(line, (size_t)(close - line), " (pid ", 6) : NULL;
    if (at != NULL)
        who->pid = origin_number_wide(at + 6, (size_t)(close - at) - 6);
}

void origin_read_neuron(const char *line, log_who *who)
{
    int pid = 0, end = 0;
    (void)sscanf(line, "%*4d-%*3[A-Za-z]-%*2d %*2d:%*2d:%*[0-9.] %9d:%*d %*1[A-Z]%n", &pid, &end);
    if (end > 0)
        who->pid = pid;
}

void origin_read_oneccl(const char *line, log_who *who)
{
    int pid = 0, end = 0;
    if (strncmp(line, "20", 2) != 0 || memchr(line, ':', 5) == NULL)
        return;
    (void)sscanf(line, "%*4d:%*2d:%*2d-%*2d:%*2d:%*2d:(%9d) |CCL_%n", &pid, &end);
    if (end > 0 && who->pid == 0)
        who->pid = pid;
}

void origin_read_torch(const char *line, log_who *who)
{
    enum { MOST_PID = 1 << 22 };
    int pid = 0, path = 0, end = 0;
    (void)sscanf(line, "%*1[IWECDV]%*4d %*2d:%*2d:%*[0-9.] %9d %*[^] :]%n:%*d]%n", &pid, &path, &end);
    if (end > 0 && memcmp(line + path - 3, ".py", 3) == 0 && pid <= MOST_PID && who->pid == 0)
        who->pid = pid;
}

void origin_read_ray(const char *line, log_who *who)
{
    int pid = 0, end = 0;
    (void)sscanf(line, "[%*4d-%*2d-%*2d %*2d:%*2d:%*[0-9,.] %*1[DIWECF] %9d %*d]%n", &pid, &end);
    if (end > 0 && who->pid == 0)
        who->pid = pid;
}

void origin_read_gpu(const char *line, log_who *who)
{
    static const char *const forms[] = {"[GPU%*[ :]%d]%n", "[GPU%d]%n",   "GPU %d:%n",
                                        "GPU%d:%n",        "[cuda:%d]%n", "[%d] %*[a-z_./]:%*d NCCL%n"};
    if (line[0] != '[' && line[0] != 'G')
        return;
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        int gpu = -1, end = 0;
        (void)sscanf(line, forms[i], &gpu, &end);
        if (end > 0 && gpu >= 0 && gpu < 1024 && (line[end] == ' ' || line[end] == ':'))
            snprintf(who->gpu, sizeof(who->gpu), "%d", gpu);
    }
}

void origin_read_scheduler(const char *line, size_t size, log_who *who)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ_", digits[] = "0123456789";
    size_t begin = size > 1 && line[0] == '[' ? 1 + origin_skip_time(line + 1, size - 1) : 0, end = begin;
    for (size_t n = 0; begin > 1; end += n) {
        size_t name = strspn(line + end, letters);
        n = name + strspn(line + end + name, digits);
        if (name < 2 || n == name)
            return;
        if (line[end + n] == ']')
            break;
        n += line[end + n] == ' ';
    }
    if (begin > 1)
        origin_copy(who->actor, sizeof(who->actor), line + begin, strcspn(line + begin, "]"));
}

void origin_read_crash(const char *line, size_t size, log_who *who)
{
    size_t n = 1;
    while (n < size && log_is_host_char(line[n]))
        n++;
    int pid = line[0] == '[' && n + 2 < size && line[n] == ':' ? origin_number_wide(line + n + 1, size - n - 1) : 0;
    size_t end = pid != 0 ? n + 1 + strspn(line + n + 1, "0123456789") : 0;
    bool is_ucx =
        end > 0 && isalpha((unsigned char)line[1]) && line[end] == ':' && isdigit((unsigned char)line[end + 1]);
    if (pid == 0 || !log_is_host(line + 1, n - 1, is_ucx ? LOG_HOST_EXPECTED : LOG_HOST_ANYWHERE) ||
        strchr("]: ", line[end]) == NULL ||
        (line[end] == ']' && line[end + 1] != ' ')) /* "[node-a:3]text" names a rank */
        return;
    origin_copy(who->host, sizeof(who->host), line + 1, n - 1);
    who->pid = pid;
}
