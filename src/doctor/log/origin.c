/* Finds the process that printed a line: its rank, host, pid or actor, from the prefixes of launchers and loggers. */
#include "doctor/log/log_impl.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/core/rng.h"

/* Returns the number at text[at..size); -1: there is none, or it is too large for a rank. */
static int number_at(const char *text, size_t size, size_t at, size_t *end)
{
    int number = -1;
    size_t i = at;
    for (; i < size && i < at + 6 && isdigit((unsigned char)text[i]); i++)
        number = (number < 0 ? 0 : number) * 10 + (text[i] - '0');
    *end = i;
    return number < LOG_MOST_RANKS ? number : -1;
}

/* Returns a process id or rank of up to 9 digits; 0: none. */
static int number_wide(const char *text, size_t size)
{
    int number = 0;
    for (size_t i = 0; i < size && i < 9 && isdigit((unsigned char)text[i]); i++)
        number = number * 10 + (text[i] - '0');
    return number;
}

/* Returns the number after `word` (in upper or lower case) if the character `behind` follows the number; '\0': any
 * character may follow. -1: none. */
static int number_behind(const char *text, size_t size, const char *word, char behind)
{
    size_t n = strlen(word), end;
    for (size_t at = 0; at + n < size; at++) {
        if (strncasecmp(text + at, word, n) != 0)
            continue;
        int rank = number_at(text, size, at + n, &end);
        if (rank >= 0 && (behind == '\0' || (end < size && text[end] == behind)))
            return rank;
    }
    return -1;
}

/* ---- Prefixes ---- */
static void copy(char *out, size_t out_size, const char *text, size_t size)
{
    snprintf(out, out_size, "%.*s", (int)(size < out_size ? size : out_size - 1), text);
}

/* Copies the beginning of a line as a string, without NULs. Returns its length. */
static size_t copy_head(const char *line, size_t size, char *head, size_t head_size)
{
    size_t n = size < head_size - 1 ? size : head_size - 1;
    for (size_t i = 0; i < n; i++)
        head[i] = line[i] != '\0' ? line[i] : '?';
    head[n] = '\0';
    return n;
}

static bool is_host_char(char c)
{
    return isalnum((unsigned char)c) || c == '-' || c == '.' || c == '_';
}

/* Whether the text is the name of a file: "train.py", "run.sh", "net_ib.cc", "64-linux-gnu.so". */
static bool is_file(const char *text, size_t size)
{
    return tess_text_has(text, size, TESS_WORD_ENDS, ".py|.sh|.c|.cc|.cpp|.cu|.h|.go|.so|.log");
}

/* Whether the text is the name of a program or driver that prints its name before messages: "nvidia-container-cli",
 * "systemd-oomd", "mlx5". */
static bool is_program(const char *text, size_t size)
{
    bool is_family =
        tess_text_has(text, size, TESS_WORD_BEGINS, "nvidia-|nv-|enroot-|systemd-|docker-|kube-|container-|mount.");
    for (size_t i = 0; i < size; i++)
        is_family &= isdigit((unsigned char)text[i]) == 0;
    return is_family || (size >= 4 && memcmp(text, "mlx", 3) == 0);
}

/* Whether a name in capital letters is a host: "NODE6E", "DGX-04". It must begin with a word that is usual for
 * hosts, and continue with a number. */
static bool is_numbered_host(const char *text, size_t size)
{
    static const char *const words[] = {"NODE", "HOST", "WORKER", "MASTER", "SERVER", "DGX", "HGX"};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        size_t n = strlen(words[i]);
        if (size <= n || strncasecmp(text, words[i], n) != 0)
            continue;
        n += text[n] == '-' && n + 1 < size;
        if (isdigit((unsigned char)text[n]))
            return true;
    }
    return false;
}

/* Whether the text is the name of a Python module or of an exception: "torch.distributed.run", "zlib.error". */
static bool is_module(const char *text, size_t size)
{
    if (tess_text_has(text, size, TESS_WORD_BEGINS,
                      "torch.|jax.|jaxlib.|ray.|vllm.|sglang.|paddle.|tensorflow.|lightning.|deepspeed.|megatron.|"
                      "accelerate.|transformers.|horovod.|nemo.|mindspore.|composer.|distributed.|datasets.|"
                      "torchtitan."))
        return true;
    const char *dot = memrchr(text, '.', size);
    size_t n = dot != NULL ? (size_t)(text + size - dot) : 0;
    return n > 5 && memcmp(text + size - 5, "error", 5) == 0; /* a type: "zlib.error", "socket.gaierror" */
}

/* Whether the text may be a host: "node-a", "worker3", "10.0.0.2". A plain word, a program or a file name is not. */
static bool is_host(const char *text, size_t size)
{
    int n_digits = 0, n_marks = 0, n_letters = 0;
    if (size < 2 || size > 63 || !isalnum((unsigned char)text[0]) || is_file(text, size) || is_program(text, size) ||
        is_module(text, size) || (size >= 6 && memcmp(text, "python", 6) == 0))
        return false;
    if (memmem(text, size, ".so.", 4) != NULL) /* a library: "libfoo.so.11" */
        return false;
    bool is_rank = strncmp(text, "rank", 4) == 0 && 4 + strspn(text + 4, "0123456789-") >= size;
    if (is_rank)
        return false;
    bool may_be_upper = is_numbered_host(text, size);
    for (size_t i = 0; i < size; i++) {
        if (!is_host_char(text[i]) || text[i] == '_' || (isupper((unsigned char)text[i]) && !may_be_upper))
            return false;
        n_digits += isdigit((unsigned char)text[i]) != 0;
        n_letters += isalpha((unsigned char)text[i]) != 0;
        n_marks += text[i] == '-' || text[i] == '.';
    }
    if (n_letters == 1 && n_digits >= 4 && n_marks == 0) /* "c000001", "n0042"; "a100" is a kind of GPU */
        return islower((unsigned char)text[0]);
    return n_letters > 0 ? n_digits + n_marks > 0 && n_digits < (int)size - 1 : n_marks == 3;
}

static void set_rank(log_who *who, int rank)
{
    if (rank < 0 || who->n_ranks > 0)
        return;
    who->ranks[0] = rank;
    who->n_ranks = 1;
}

/* Returns the offset after a time at the beginning: "2025-01-01T10:00:00.123Z ", "2025-01-01 10:00:00,123 " or "Tue
 * Jul 25 14:01:57 2017" (Open MPI, directly before its tag), "704.7s\t1451\t" (Kaggle: seconds and the line's number);
 * 0: the text begins with no such time. */
static size_t skip_time(const char *text, size_t size)
{
    static const char form[] = "0000-00-00?00:00:00";
    enum { CTIME = 24 };
    size_t n = sizeof(form) - 1, seconds = strspn(text, "0123456789.");
    if (seconds > 2 && strncmp(text + seconds, "s\t", 2) == 0) {
        size_t number = strspn(text + seconds + 2, "0123456789");
        return number > 0 && text[seconds + 2 + number] == '\t' ? seconds + number + 3 : 0;
    }
    if (size <= n)
        return 0;
    if (size > CTIME && isupper((unsigned char)text[0]) && text[13] == ':' && text[16] == ':' && text[CTIME] == '[')
        return CTIME;
    for (size_t i = 0; i < n; i++)
        if (form[i] == '0' ? !isdigit((unsigned char)text[i]) : form[i] != '?' && text[i] != form[i])
            return 0;
    while (n < size && text[n] != '\0' && strchr("0123456789.,:+-Z", text[n]) != NULL)
        n++;
    return n < size && text[n] == ' ' ? n + 1 : 0;
}

/* Returns the offset after "[...]", "[...]:" or "[...]<stderr>:", or after "(...)" of a process or of a raylet; 0:
 * the text begins with none of these. */
static size_t skip_bracket(const char *text, size_t size)
{
    enum { MOST = 100 };
    if (size < 3 || (text[0] != '[' && text[0] != '('))
        return 0;
    const char *close = memchr(text, text[0] == '[' ? ']' : ')', size < MOST ? size : MOST);
    size_t n = close != NULL ? (size_t)(close - text) + 1 : 0;
    if (text[0] == '(')
        return n > 7 && (memmem(text, n, "pid=", 4) != NULL || memcmp(text, "(raylet", 7) == 0) ? n : 0;
    if (n > 0 && n + 3 < size && text[n] == '<' &&
        (close = memchr(text + n, '>', size - n < 12 ? size - n : 12)) != NULL)
        n = (size_t)(close - text) + 1;
    return n > 0 && n < size && text[n] == ':' ? n + 1 : n;
}

/* Reads host, process, thread and device, as NCCL writes them: "node-a:100:200 [5] ...". */
static void read_nccl(const char *line, size_t size, log_who *who)
{
    for (size_t at = 1; at + 6 < size; at++) {
        if (line[at] != ':' || !is_host_char(line[at - 1]) || !isdigit((unsigned char)line[at + 1]))
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
        while (begin > 0 && is_host_char(line[begin - 1]))
            begin--;
        if (begin > 3 && line[begin - 1] == ':' && isdigit((unsigned char)line[begin - 2]) && at - begin > 3 &&
            isdigit((unsigned char)line[begin]) && isdigit((unsigned char)line[begin + 1]) &&
            isalpha((unsigned char)line[begin + 2]))
            begin += 2; /* the end of a time with a zone, "-07:00node-a:7:8", as CloudWatch joins the two */
        copy(who->host, sizeof(who->host), line + begin, at - begin);
        copy(who->gpu, sizeof(who->gpu), line + gpu, end - gpu);
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

/* Reads prefixes of Ray, "(Worker pid=5120, ip=192.0.2.14)" and "(raylet, ip=192.0.2.14)", of vLLM, "(VllmWorker rank=1
 * pid=77)", and of SkyPilot, "(task-name, pid=77)". */
static void read_worker(const char *line, size_t size, log_who *who)
{
    line = last_worker(line, &size);
    const char *close = size > 0 && line[0] == '(' ? memchr(line, ')', size) : NULL;
    size_t n = close != NULL ? (size_t)(close - line) : 0;
    const char *at = n >= 8 ? memmem(line, n, "pid=", 4) : NULL;
    if (at == NULL && !(n > 8 && memcmp(line, "(raylet,", 8) == 0))
        return;
    if (at != NULL) {
        who->pid = number_wide(at + 4, (size_t)(close - at) - 4);
        size_t name = at > line + 1 ? (size_t)(at - line) - 2 : 0; /* the name may have blanks: "VllmWorker TP0" */
        const char *rank = memmem(line + 1, name, " rank=", 6), *comma = memchr(line + 1, ',', name);
        name = rank != NULL ? (size_t)(rank - line) - 1 : comma != NULL ? (size_t)(comma - line) - 1 : name;
        who->noun = line[1 + name] == ',' && name > 0 ? "task" : NULL;
        copy(who->actor, sizeof(who->actor), line + 1, name < n ? name : n - 1);
    }
    if ((at = memmem(line, n, "rank=", 5)) != NULL)
        set_rank(who, number_wide(at + 5, (size_t)(close - at) - 5));
    if ((at = memmem(line, n, "ip=", 3)) != NULL)
        copy(who->host, sizeof(who->host), at + 3, strspn(at + 3, "0123456789abcdefABCDEF.:"));
}

/* Reads run, step, task and process of Metaflow: "[177/train/578 (pid 28936)] ". */
static void read_task(const char *line, size_t size, log_who *who)
{
    const char *close = size > 0 && line[0] == '[' ? memchr(line, ']', size) : NULL;
    const char *at = close != NULL ? memmem(line, (size_t)(close - line), " (pid ", 6) : NULL;
    if (at != NULL)
        who->pid = number_wide(at + 6, (size_t)(close - at) - 6);
}

/* Reads process and thread of Neuron's runtime: "2025-Jan-10 11:43:09.0123 77:78 ERROR  NRT:nrt_init ". */
static void read_neuron(const char *line, log_who *who)
{
    int pid = 0, end = 0;
    (void)sscanf(line, "%*4d-%*3[A-Za-z]-%*2d %*2d:%*2d:%*[0-9.] %9d:%*d %*1[A-Z]%n", &pid, &end);
    if (end > 0)
        who->pid = pid;
}

/* Reads the process before a line of oneCCL, "2025:01:10-11:43:09:(77) |CCL_ERROR| ". */
static void read_oneccl(const char *line, log_who *who)
{
    int pid = 0, end = 0;
    if (strncmp(line, "20", 2) != 0 || memchr(line, ':', 5) == NULL)
        return;
    (void)sscanf(line, "%*4d:%*2d:%*2d-%*2d:%*2d:%*2d:(%9d) |CCL_%n", &pid, &end);
    if (end > 0 && who->pid == 0)
        who->pid = pid;
}

/* Reads the process before a line of PyTorch's Python code, "W0110 11:43:09.123000 77 torch/distributed/run.py:793] ".
 * Some versions print the number of a thread there, which is larger than any process id. */
static void read_torch(const char *line, log_who *who)
{
    enum { MOST_PID = 1 << 22 };
    int pid = 0, path = 0, end = 0;
    (void)sscanf(line, "%*1[IWECDV]%*4d %*2d:%*2d:%*[0-9.] %9d %*[^] :]%n:%*d]%n", &pid, &path, &end);
    if (end > 0 && memcmp(line + path - 3, ".py", 3) == 0 && pid <= MOST_PID && who->pid == 0)
        who->pid = pid;
}

/* Reads the process before a line of Ray's native code, "[2025-01-10 11:43:09,123 I 77 78] main.cc:12: ". */
static void read_ray(const char *line, log_who *who)
{
    int pid = 0, end = 0;
    (void)sscanf(line, "[%*4d-%*2d-%*2d %*2d:%*2d:%*[0-9,.] %*1[DIWECF] %9d %*d]%n", &pid, &end);
    if (end > 0 && who->pid == 0)
        who->pid = pid;
}

/* Reads the device in a label at the beginning of a line: "[GPU3] ", "[GPU 3]: ", "GPU 3: ", "[cuda:3] ", or "[3]
 * file.cc:1 NCCL" of a line of NCCL that has lost its host and process. */
static void read_gpu(const char *line, log_who *who)
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

/* Reads the prefix of SGLang, "[2025-01-10 11:43:09 DP1 TP3] ": the ranks in its groups are the name of a scheduler. */
static void read_scheduler(const char *line, size_t size, log_who *who)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ_", digits[] = "0123456789";
    size_t begin = size > 1 && line[0] == '[' ? 1 + skip_time(line + 1, size - 1) : 0, end = begin;
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
        copy(who->actor, sizeof(who->actor), line + begin, strcspn(line + begin, "]"));
}

/* Reads the host of syslog, which stands before the program: "Jan 10 11:43:09 n1 kernel: ", "Jan 10 11:43:09 n1
 * kubelet[77]: ". */
static void read_syslog(const char *line, size_t size, log_who *who)
{
    int host = 0, end_of_host = 0, end = 0;
    (void)sscanf(line, "%*3[A-Za-z] %*2d %*2d:%*2d:%*2d %n%*63[A-Za-z0-9._-]%n %*63[A-Za-z0-9._@-][%*d]:%n", &host,
                 &end_of_host, &end);
    if (end > 0) {
        copy(who->host, sizeof(who->host), line + host, (size_t)(end_of_host - host));
        return;
    }
    /* months in other languages: "11月 15 14:15:47 n1 systemd[1]: ", "jan. 29 20:50:17 n1 kernel: " */
    enum { MOST_DATE = 16 };
    for (size_t at = 4; at < MOST_DATE && at + 10 < size; at++) {
        if (line[at] != ':' || line[at + 3] != ':' || !isdigit((unsigned char)line[at - 1]) || line[at - 3] != ' ' ||
            line[at + 6] != ' ')
            continue;
        (void)sscanf(line + at + 3, ":%*2d %n%*63[A-Za-z0-9._-]%n %*63[A-Za-z0-9._@-]%n", &host, &end_of_host, &end);
        const char *after = line + at + 3 + end;
        if (end > 0 && (after[0] == '[' || after[0] == ':') && is_host_char(line[at + 3 + host])) {
            copy(who->host, sizeof(who->host), line + at + 3 + host, (size_t)(end_of_host - host));
            return;
        }
        break;
    }
    const char *at = memmem(line, size, " kernel: ", 9), *begin = at;
    while (begin != NULL && begin > line && is_host_char(begin[-1]))
        begin--;
    bool is_behind_a_time = begin != NULL && begin - line > 1 && begin[-1] == ' ' &&
                            (isdigit((unsigned char)begin[-2]) || begin[-2] == 'Z');
    if (is_behind_a_time && isalpha((unsigned char)*begin))
        copy(who->host, sizeof(who->host), begin, (size_t)(at - begin));
}

/* Reads the host of a journal, which stands between a time and the program: "2025-01-10T11:43:09+0000 n1 python[77]: ".
 */
static void read_journal(const char *text, log_who *who)
{
    int host = 0, end = 0;
    (void)sscanf(text, "%*63[A-Za-z0-9._-]%n %*63[A-Za-z0-9._@-][%*d]:%n", &host, &end);
    if (end > 0)
        copy(who->host, sizeof(who->host), text, (size_t)host);
}

/* Returns the offset after the time that UCX writes, "[1767225600.123456] "; 0: the text has another form. */
static size_t skip_ucx_time(const char *text)
{
    int n = 0;
    (void)sscanf(text, "[%*10[0-9].%*6[0-9]] %n", &n);
    return (size_t)n;
}

/* Returns the offset after Open MPI's tag, "[1,6]<stderr>:", or SageMaker's, "[1,mpirank:6,algo-2]<stderr>:"; 0: the
 * text has another form. */
static size_t skip_tag(const char *text)
{
    int n = 0;
    (void)sscanf(text, "[%*[0-9a-z@,:.-]]<std%*3[a-z]>:%n", &n);
    return (size_t)n;
}

/* Reads host and number of a worker of a TPU, as xla_dist writes them after a time: "192.0.2.8 [14] ". */
static void read_tpu_worker(const char *text, size_t is_after_time, log_who *who)
{
    int host = 0, worker = 0, end = 0;
    (void)sscanf(text, "%*63[0-9.]%n [%9d] %n", &host, &worker, &end);
    if (is_after_time == 0 || end == 0 || host < 7 || worker < 0)
        return;
    copy(who->host, sizeof(who->host), text, (size_t)host);
    who->ranks[0] = worker;
    who->is_task = true;
    who->n_ranks = worker < LOG_MOST_RANKS;
}

/* Reads host and process before a crash report of Open MPI, "[node-a:04242] ", or UCX, "[node-a:4242 :0:4242] ". */
static void read_crash(const char *line, size_t size, log_who *who)
{
    size_t n = 1;
    while (n < size && is_host_char(line[n]))
        n++;
    int pid = line[0] == '[' && n + 2 < size && line[n] == ':' ? number_wide(line + n + 1, size - n - 1) : 0;
    size_t end = pid != 0 ? n + 1 + strspn(line + n + 1, "0123456789") : 0;
    bool is_ucx =
        end > 0 && isalpha((unsigned char)line[1]) && line[end] == ':' && isdigit((unsigned char)line[end + 1]);
    if (pid == 0 || !(is_ucx || is_host(line + 1, n - 1)) || strchr("]: ", line[end]) == NULL ||
        (line[end] == ']' && line[end + 1] != ' ')) /* "[node-a:3]text" names a rank */
        return;
    copy(who->host, sizeof(who->host), line + 1, n - 1);
    who->pid = pid;
}

/* Reads the host of SageMaker's tag, "[1,mpirank:6,algo-2]<stderr>:". */
static void read_tag(const char *line, log_who *who)
{
    int host = 0, end = 0;
    (void)sscanf(line, "[%*[0-9a-z@],mpirank:%*9d,%n%*63[0-9a-zA-Z.-]]%n", &host, &end);
    if (end > host + 1)
        copy(who->host, sizeof(who->host), line + host, (size_t)(end - host) - 1);
}

/* Reads a host in brackets, "[node-3] ". Only names that are usual for hosts count: others are loggers or jobs. */
static void read_bracketed_host(const char *text, size_t size, log_who *who)
{
    size_t n = 1;
    while (n < size && is_host_char(text[n]))
        n++;
    bool is_bracket = size > 4 && text[0] == '[' && n + 1 < size && text[n] == ']' && strchr(" :", text[n + 1]) != NULL;
    if (is_bracket && is_numbered_host(text + 1, n - 1) && is_host(text + 1, n - 1))
        copy(who->host, sizeof(who->host), text + 1, n - 1);
}

/* Reads the host from a logger's field: "host=gpu-4", "hostname=gpu-4". */
static void read_field(const char *line, log_who *who)
{
    static const char *const words[] = {" host=", " hostname=", " node="};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]) && who->host[0] == '\0'; i++) {
        const char *at = strstr(line, words[i]);
        size_t n = 0;
        for (at = at != NULL ? at + strlen(words[i]) : ""; is_host_char(at[n]);)
            n++;
        if (is_host(at, n))
            copy(who->host, sizeof(who->host), at, n);
    }
}

/* Reads the host from the logger's name of a test harness: "lisa.env[e1].node[0].cmd[3].stdout ". */
static void read_harness(const char *line, log_who *who)
{
    const char *at = strstr(line, ".node[");
    size_t n = at != NULL ? strspn(at + 6, "0123456789") : 0;
    if (n > 0 && at[6 + n] == ']' && at[7 + n] == '.')
        copy(who->host, sizeof(who->host), at + 1, n + 6);
}

/* Whether argparse printed the text after a program's name: "fairseq-train: error: unrecognized arguments: ". */
static bool is_of_arguments(const char *text, size_t size)
{
    return tess_text_has(text, size, TESS_WORD_BEGINS,
                         "error: unrecognized arguments:|error: argument |error: ambiguous option:|"
                         "error: the following arguments are required:");
}

/* Returns the rank in a label at the beginning of a line, "rank3: ", "rank_3: " or "rank-3 | "; -1: none. */
static int rank_in_label(const char *line, size_t size)
{
    if (size < 7 || strncasecmp(line, "rank", 4) != 0)
        return -1;
    size_t at = 4 + (strchr("_-", line[4]) != NULL && line[4] != '\0'), end;
    int rank = number_at(line, size, at, &end);
    bool colon = end + 1 < size && line[end] == ':' && line[end + 1] == ' ';
    bool bar = end + 2 < size && line[end] == ' ' && line[end + 1] == '|' && line[end + 2] == ' ';
    return colon || bar ? rank : -1;
}

/* Whether compose named the container: its name ends with the number of the replica, "algo-1-X7YK_1", "trainer_1", or
 * is in small letters and is padded, "engine  |". */
static bool is_container(const char *text, size_t size)
{
    size_t n = size;
    if (size > 2 && strspn(text, "abcdefghijklmnopqrstuvwxyz_-") == size && strncmp(text + size, "  ", 2) == 0)
        return true;
    while (n > 0 && isdigit((unsigned char)text[n - 1]))
        n--;
    if (size > 63 || n == size || n < 3 || (text[n - 1] != '_' && text[n - 1] != '-') || is_file(text, size))
        return false;
    return isalpha((unsigned char)text[0]) && rank_in_label(text, size) < 0;
}

void log_note_label(tess_survey *s, const char *line, size_t size)
{
    size_t n = 0, blanks = 0;
    while (n < size && (islower((unsigned char)line[n]) || line[n] == '_' || line[n] == '-'))
        n++;
    while (n > 2 && n + blanks < size && line[n + blanks] == ' ')
        blanks++;
    if (blanks < 2 || n + blanks == size || line[n + blanks] != '|')
        return;
    uint64_t name = tess_hash_bytes(line, n, 0);
    log_label *label = &s->labels[name % LOG_LABELS];
    if (label->name != name)
        *label = (log_label){.name = name};
    label->n++;
}

void log_drop_label(const tess_survey *s, log_who *who)
{
    enum { FEWEST = 3 };
    size_t n = strlen(who->actor);
    uint64_t name = tess_hash_bytes(who->actor, n, 0);
    const log_label *label = &s->labels[name % LOG_LABELS];
    bool is_padded =
        who->noun != NULL && strcmp(who->noun, "container") == 0 && n > 0 && !isdigit((unsigned char)who->actor[n - 1]);
    if (is_padded && (label->name != name || label->n < FEWEST)) {
        who->actor[0] = '\0';
        who->noun = NULL;
    }
}

/* Returns the length of the name of a stream after a source, " [stderr] " or " [stdout] "; 0: the text has another
 * form.
 */
static size_t stream_at(const char *text, size_t size)
{
    static const char *const names[] = {" [stderr] ", " [stdout] "};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (tess_text_has(text, size, TESS_WORD_BEGINS, names[i]))
            return strlen(names[i]);
    return 0;
}

/* Reads the host in a prefix of kubectl, "[pod/job-worker-3/pytorch] ", compose, "job-worker-3  | ", pdsh,
 * "node-a: ", or a launcher that names the stream, "job.node-a [stderr] ", or the container that compose names,
 * "trainer_1  | ". */
static void read_host(const char *line, size_t size, log_who *who)
{
    const char *at = size > 5 && memcmp(line, "[pod/", 5) == 0 ? line + 5 : line;
    size_t n = 0, left = size - (size_t)(at - line);
    while (n < left && is_host_char(at[n]))
        n++;
    size_t end = n;
    while (at == line && end < left && at[end] == ' ')
        end++;
    bool prefix = at > line ? end < left && at[end] == '/'
                            : stream_at(at + n, left - n) > 0 ||
                                  (end + 1 < left && ((end == n && at[end] == ':' && at[end + 1] == ' ') ||
                                                      (end > n && at[end] == '|' && at[end + 1] == ' ')));
    bool is_test = at == line && end == n && left > end + 2 &&
                   tess_text_has(at + end + 2, left - end - 2, TESS_WORD_BEGINS, "Test NCCL failure|Test CUDA failure");
    bool is_compose = at == line && line[end] == '|' && strcspn(line, "0123456789") >= n; /* its hosts have numbers */
    if (prefix && !is_compose && (is_host(at, n) || is_test) &&
        !(at == line && is_of_arguments(at + end + 2, left - end - 2)))
        copy(who->host, sizeof(who->host), at, n);
    else if (prefix && at == line && line[end] == '|' && (is_compose || is_container(at, n)) && who->actor[0] == '\0') {
        copy(who->actor, sizeof(who->actor), at, n);
        who->noun = "container";
    }
}

/* Returns the rank in a prefix: "[1,6]<stderr>:", "[job@1,6]<stdout>:" (Open MPI), "[6] " (mpiexec -prepend-rank),
 * "[trainer6]:" (roles of torchrun). */
static int rank_in_bracket(const char *line, size_t size)
{
    size_t end, at = 1;
    const char *std = memmem(line, size, "]<std", 5);
    const char *comma = std != NULL ? memrchr(line, ',', (size_t)(std - line)) : NULL;
    int mpirank = comma != NULL ? number_behind(line, (size_t)(comma - line) + 1, ",mpirank:", ',') : -1;
    if (comma != NULL)
        return mpirank >= 0 ? mpirank : number_at(line, size, (size_t)(comma - line) + 1, &end);
    /* NCCL's brackets hold a device, not a rank: "host:pid:tid [device] file NCCL WARN" */
    const char *nccl = memmem(line, size, " NCCL ", 6);
    const char *behind = memmem(line, size, "] ", 2);
    bool is_nccl = nccl != NULL && behind != NULL && nccl > behind;
    if (is_nccl && (nccl == behind + 1 || memchr(behind + 2, ' ', (size_t)(nccl - behind) - 2) == NULL))
        return -1;
    while (at < size && (isalpha((unsigned char)line[at]) || line[at] == '_'))
        at++;
    int rank = number_at(line, size, at, &end);
    return rank >= 0 && end + 1 < size && line[end] == ']' &&
                   (line[end + 1] == (at > 1 ? ':' : ' ') || (end + 3 < size && strncmp(line + end + 1, ":  ", 3) == 0))
               ? rank
               : -1;
}

int log_rank_of_line(const char *line, size_t size)
{
    static const char *const brackets[] = {"[rank", "[rank ", " rank ", "[rank:", "[rank=", "[rank: ", "[default"};
    enum { MOST_BLANKS = 5 };
    size_t end, at = 0;
    if (size > LOG_HEAD)
        size = LOG_HEAD;
    for (size_t i = 0; i < sizeof(brackets) / sizeof(brackets[0]); i++) {
        int rank = number_behind(line, size, brackets[i], ']');
        if (rank >= 0)
            return rank;
    }
    while (at < size && at < MOST_BLANKS && line[at] == ' ')
        at++;
    int label = rank_in_label(line + at, size - at);
    if (label >= 0)
        return label;
    int task = number_at(line, size, at, &end); /* "6: ", "  6: " of srun -l */
    bool labelled = task >= 0 && end + 1 < size && line[end] == ':' && line[end + 1] == ' ';
    at = labelled ? end + 2 : 0;
    int rank = at + 2 < size && line[at] == '[' ? rank_in_bracket(line + at, size - at) : -1;
    return rank < 0 && labelled ? task : rank;
}

/* Whether the rank of a line is that of torchrun's prefix "[default3]:", which counts the processes of one host. */
static bool names_only_local_rank(const char *line, size_t size)
{
    return size > 8 && memcmp(line, "[default", 8) == 0 && memmem(line, size, "ank ", 4) == NULL &&
           memmem(line, size, "[rank", 5) == NULL;
}

/* Returns the offset after a number or time that a collector of logs puts before a bar, "132 | " or "|
 * 2025-01-10T11:43:09Z | "; 0: the text has another form. */
static size_t skip_column(const char *text)
{
    size_t begin = text[0] == '|' ? 1 + strspn(text + 1, " ") : 0;
    size_t n = strspn(text + begin, "0123456789-:.,TZ+");
    return n > 0 && isdigit((unsigned char)text[begin]) && strncmp(text + begin + n, " | ", 3) == 0 ? begin + n + 3 : 0;
}

log_who log_origin_of_line(const char *line, size_t size)
{
    char head[LOG_HEAD + 1];
    log_who who = {.n_ranks = 0};
    size_t n = copy_head(line, size, head, sizeof(head)), at = skip_time(head, n), blanks = strspn(head, " ");
    at = at == 0 && skip_column(head + blanks) > 0 ? blanks + skip_column(head + blanks) : at;
    set_rank(&who, log_rank_of_line(head + at, n - at));
    who.is_local = who.n_ranks > 0 && names_only_local_rank(head + at, n - at);
    read_worker(head + at, n - at, &who);
    read_scheduler(head + at, n - at, &who);
    read_task(head + at, n - at, &who);
    read_neuron(head + at, &who);
    read_ray(head, &who);
    read_oneccl(head + at, &who);
    read_tpu_worker(head + at, at, &who);
    read_gpu(head + at, &who);
    read_torch(head + at + skip_bracket(head + at, n - at), &who);
    if (who.host[0] == '\0')
        read_nccl(head, n, &who);
    if (who.host[0] == '\0')
        read_syslog(head, n, &who);
    if (who.host[0] == '\0' && at > 0)
        read_journal(head + at, &who);
    if (who.host[0] == '\0') {
        size_t after = at + skip_tag(head + at);
        after += skip_ucx_time(head + after);
        read_crash(head + after, n - after, &who);
    }
    if (who.host[0] == '\0')
        read_tag(head + at, &who);
    if (who.host[0] == '\0')
        read_host(head + at, n - at, &who);
    if (who.host[0] == '\0')
        read_bracketed_host(head + at, n - at, &who);
    if (who.host[0] == '\0')
        read_field(head, &who);
    if (who.host[0] == '\0')
        read_harness(head, &who);
    return who;
}

/* Returns the offset after a prefix of glog, "E0110 11:43:09.123456 77 file.cc:12] "; 0: the text has another form. */
static size_t skip_glog(const char *text, size_t size)
{
    size_t digits =
        size > 10 ? strspn(text + 1, "0123456789") : 0; /* month and day, after the year in newer versions */
    if (digits == 0 || strchr("IWEF", text[0]) == NULL || (digits != 4 && digits != 8) || text[digits + 1] != ' ')
        return 0;
    const char *close = memchr(text, ']', size);
    return close != NULL && close[1] == ' ' ? (size_t)(close - text) + 2 : 0;
}

/* Returns the offset after a level: "ERROR 01-10 11:43:09 " or "ERROR 01-10 11:43:09 worker.py:12] " of vLLM, or "-
 * trainer - ERROR - " after a time; 0: the text has another form. */
static size_t skip_level(const char *text)
{
    int n = 0;
    (void)sscanf(text, "- %*80[^ ] - %*10[A-Z] -%n", &n);
    if (n == 0)
        (void)sscanf(text, "%*1[DIWEC]%*[A-Z] %*2d-%*2d %*2d:%*2d:%*2d%n", &n);
    if (n == 0 || text[n] != ' ')
        return 0;
    size_t word = strcspn(text + n + 1, " []");
    bool is_place = word > 0 && text[n + 1 + word] == ']';
    return (size_t)n + 1 + (is_place ? word + 1 : 0);
}

/* Returns the offset after "| ERROR | stderr | ", which follows a time, or after "[rank=1] || "; 0: neither. */
static size_t skip_bars(const char *text, size_t size)
{
    enum { MOST = 120 };
    int n = 0;
    (void)sscanf(text, "| %*10[A-Z] | %*80[^ |] |%n", &n);
    if (n > 0 && text[n] == ' ')
        return (size_t)n + 1;
    const char *bars = memmem(text, size < MOST ? size : MOST, "] || ", 5);
    return bars != NULL ? (size_t)(bars - text) + 5 : 0;
}

/* Returns the offset after "192.0.2.8 [14] " of xla_dist; 0: the text has another form. */
static size_t skip_tpu_worker(const char *text)
{
    int host = 0, end = 0;
    (void)sscanf(text, "%*63[0-9.]%n [%*9d] %n", &host, &end);
    return host >= 7 ? (size_t)end : 0;
}

/* Returns the offset after "3: ", "rank3: ", "node-a: ", "job-worker-3  | " or "trainer_1  | "; 0: none of these. */
static size_t skip_label(const char *text, size_t size)
{
    size_t n = 0, end;
    while (n < size && is_host_char(text[n]))
        n++;
    for (end = n; end < size && text[end] == ' ';)
        end++;
    bool colon = end == n && n + 1 < size && text[n] == ':' && text[n + 1] == ' ';
    bool bar = end > n && end + 1 < size && text[end] == '|' && text[end + 1] == ' ';
    bool number = n > 0 && strspn(text, "0123456789") == n;
    bool known = is_host(text, n) || rank_in_label(text, size) >= 0;
    if (known && stream_at(text + n, size - n) > 0)
        return n + stream_at(text + n, size - n);
    return (colon && (number || known)) || (bar && (known || is_container(text, n))) ? end + 2 : 0;
}

/* Returns the offset after the role and replica that TorchX and NeMo-Run print, "train/0 "; 0: the text has another
 * form. A folder of numbers, "checkpoints/3 ", looks alike, so another prefix must follow. */
static size_t skip_replica(const char *text)
{
    enum { MOST = 40 };
    size_t n = 0, digits;
    while (n < MOST && is_host_char(text[n]))
        n++;
    digits = n > 0 && text[n] == '/' ? strspn(text + n + 1, "0123456789") : 0;
    const char *after = text + n + 1 + digits;
    bool is_followed = digits > 0 && (strncmp(after, " [", 2) == 0 || strncmp(after, " Traceback", 10) == 0 ||
                                      strncmp(after, "   File", 7) == 0);
    return is_followed ? n + 2 + digits : 0;
}

/* Returns the offset after the number that `grep -n` puts before a line, "123:Exception"; 0: the text has another
 * form. */
static size_t skip_grep(const char *text)
{
    size_t n = strspn(text, "0123456789");
    return n > 0 && n < 8 && text[n] == ':' && isalpha((unsigned char)text[n + 1]) ? n + 1 : 0;
}

size_t log_text_begin(const char *line, size_t size)
{
    enum { MOST_PREFIXES = 6 };
    char head[2 * LOG_HEAD + 1];
    size_t n = copy_head(line, size, head, sizeof(head)), at = skip_replica(head);
    at = at > 0 ? at : skip_grep(head);
    for (int i = 0; i < MOST_PREFIXES; i++) {
        size_t blanks = strspn(head + at, " "), left = n - at - blanks, next;
        const char *text = head + at + blanks;
        bool any = (next = skip_time(text, left)) > 0 || (next = skip_glog(text, left)) > 0 ||
                   (next = skip_level(text)) > 0 || (next = skip_column(text)) > 0 ||
                   (next = skip_bars(text, left)) > 0 || (next = skip_bracket(text, left)) > 0 ||
                   (next = skip_label(text, left)) > 0 || (next = skip_tpu_worker(text)) > 0;
        if (!any && blanks >= 2 && strncmp(text, "| ", 2) == 0)
            next = 2; /* the bar that Python draws before the members of an exception group */
        if (next == 0)
            break;
        at += blanks + next;
    }
    return at + strspn(head + at, " \t");
}

/* Whether the word at `at` is part of a longer name: "local_rank=1", "--node-rank=1", "local rank 1". */
static bool is_of_name(const char *line, size_t at)
{
    char before = at > 0 ? line[at - 1] : ' ';
    if (before == '-')
        return at > 1 && isalnum((unsigned char)line[at - 2]);
    return before == '_' || isalnum((unsigned char)before) || (at >= 6 && strncasecmp(line + at - 6, "local ", 6) == 0);
}

int log_rank_text(const char *line, size_t size)
{
    static const char *const words[] = {"rank ", "rank="};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        for (size_t at = 0, n = strlen(words[i]), end; at + n < size; at++) {
            int rank = strncasecmp(line + at, words[i], n) == 0 && !is_of_name(line, at)
                           ? number_at(line, size, at + n, &end)
                           : -1;
            if (rank >= 0)
                return rank;
        }
    return -1;
}

int log_rank_of_path(const char *path)
{
    size_t n = strlen(path), end;
    const char *last = NULL;
    for (const char *at = path; (at = strcasestr(at, "rank")) != NULL; at += 4)
        if (isdigit((unsigned char)at[4 + strspn(at + 4, "-_.")]))
            last = at + 4 + strspn(at + 4, "-_.");
    if (last != NULL)
        return number_at(path, n, (size_t)(last - path), &end);
    const char *name = strrchr(path, '/'), *folder = name;
    if (name == NULL || (strcmp(name, "/stderr.log") != 0 && strcmp(name, "/stdout.log") != 0))
        return -1;
    while (folder > path && folder[-1] != '/')
        folder--;
    int rank = number_at(path, n, (size_t)(folder - path), &end);
    return path + end == name ? rank : -1;
}

bool log_host_of_path(const char *path, char *host, size_t size)
{
    static const char *const words[] = {"worker", "master", "launcher", "node", "host", "trainer"};
    const char *name = strrchr(path, '/');
    name = name != NULL ? name + 1 : path;
    size_t n = strcspn(name, ".");
    host[0] = '\0';
    if (isdigit((unsigned char)name[0])) /* a numbered log, and no host */
        return false;
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        const char *at = strcasestr(name, words[i]);
        const char *digits = at != NULL ? at + strlen(words[i]) : NULL;
        if (digits == NULL || digits >= name + n)
            continue;
        digits += strspn(digits, "-_");
        size_t n_digits = strspn(digits, "0123456789");
        if (n_digits > 0 && digits + n_digits == name + n) {
            copy(host, size, name, n);
            return true;
        }
    }
    return false;
}

static double seconds(int month, int day, int hour, int minute, double second)
{
    static const int before[] = {0, 31, 60, 91, 121, 152, 182, 213, 244, 274, 305, 335};
    if (month < 1 || month > 12 || day < 1 || day > 31 || hour < 0 || hour > 24 || minute < 0 || minute > 60)
        return -1;
    return ((before[month - 1] + day - 1) * 24.0 + hour) * 3600 + minute * 60 + second;
}

/* Reads a time of glog in PyTorch's form, "E717 13:20:49.4": severity, then month and day without leading zero. */
static double glog_time(const char *at)
{
    int date, hour, minute, n = 0;
    double second;
    if (strchr("IWEF", at[0]) == NULL || sscanf(at + 1, "%4d %2d:%2d:%lf%n", &date, &hour, &minute, &second, &n) != 4)
        return -1;
    return seconds(date / 100, date % 100, hour, minute, second);
}

static double iso_time(const char *at)
{
    int year, month, day, hour, minute;
    double second;
    if (sscanf(at, "%4d-%2d-%2d%*1[T_ ]%2d:%2d:%lf", &year, &month, &day, &hour, &minute, &second) == 6)
        return seconds(month, day, hour, minute, second);
    if (sscanf(at, "%2d/%2d/%4d %2d:%2d:%lf", &month, &day, &year, &hour, &minute, &second) == 6)
        return seconds(month, day, hour, minute, second);
    return -1;
}

static double syslog_time(const char *at)
{
    static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    char name[4];
    int day, hour, minute;
    double second;
    if (sscanf(at, "%3[A-Za-z] %2d %2d:%2d:%lf", name, &day, &hour, &minute, &second) != 5)
        return -1;
    const char *found = strstr(months, name);
    return found != NULL && (found - months) % 3 == 0
               ? seconds((int)(found - months) / 3 + 1, day, hour, minute, second)
               : -1;
}

bool log_has_time(const char *line, size_t size)
{
    size_t n = size < LOG_HEAD ? size : LOG_HEAD;
    for (size_t i = 2; i + 4 < n; i++)
        if (line[i] == ':' && line[i + 3] == ':' && isdigit((unsigned char)line[i - 1]) &&
            isdigit((unsigned char)line[i + 1]) && isdigit((unsigned char)line[i + 4]))
            return true;
    return false;
}

double log_time_of_line(const char *line, size_t size)
{
    char head[LOG_HEAD + 1];
    size_t n = size < LOG_HEAD ? size : LOG_HEAD;
    memcpy(head, line, n);
    head[n] = '\0';
    for (size_t i = 0; i < n; i++) {
        char before = i > 0 ? head[i - 1] : ' ';
        if (isalnum((unsigned char)before))
            continue;
        double time = isdigit((unsigned char)head[i]) ? iso_time(head + i) : -1;
        if (time < 0 && isupper((unsigned char)head[i]))
            time = isdigit((unsigned char)head[i + 1]) ? glog_time(head + i) : syslog_time(head + i);
        if (time >= 0)
            return time;
    }
    return -1;
}
