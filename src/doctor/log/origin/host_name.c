/* Decides what is the name of a host, and reads it from the name of a log file. */
#include "doctor/log/origin/origin_impl.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

bool log_is_file(const char *text, size_t size)
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

bool log_is_numbered_host(const char *text, size_t size)
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

/* Whether the text is a word that can be no name of another host: a loopback address, a level of a logger, a missing
 * value, a program, a file, a module or a rank. */
static bool is_never_host(const char *text, size_t size)
{
    static const char words[] =
        "info|warning|warn|error|debug|critical|fatal|trace|notice|none|null|unknown|true|false|"
        "localhost|line|file|step|epoch|rank|host|hostname|node|stdout|stderr|traceback";
    bool is_rank = strncmp(text, "rank", 4) == 0 && 4 + strspn(text + 4, "0123456789-") >= size;
    return size == 0 || is_rank || tess_text_has(text, size, TESS_WORD_IS + TESS_WORD_CASELESS, words) ||
           tess_text_has(text, size, TESS_WORD_BEGINS, "127.|0.0.0.0|localhost|::1|[::|python") ||
           log_is_file(text, size) || is_program(text, size) || is_module(text, size) ||
           memmem(text, size, ".so.", 4) != NULL; /* a library: "libfoo.so.11" */
}

bool log_is_host(const char *text, size_t size, log_host_place place)
{
    int n_digits = 0, n_marks = 0, n_letters = 0;
    if (is_never_host(text, size))
        return false;
    if (place == LOG_HOST_EXPECTED)
        return true;
    if (size < 2 || size > 63 || !isalnum((unsigned char)text[0]))
        return false;
    bool may_be_upper = log_is_numbered_host(text, size);
    for (size_t i = 0; i < size; i++) {
        if (!log_is_host_char(text[i]) || text[i] == '_' || (isupper((unsigned char)text[i]) && !may_be_upper))
            return false;
        n_digits += isdigit((unsigned char)text[i]) != 0;
        n_letters += isalpha((unsigned char)text[i]) != 0;
        n_marks += text[i] == '-' || text[i] == '.';
    }
    if (n_letters == 1 && n_digits >= 4 && n_marks == 0) /* "c000001", "n0042"; "a100" is a kind of GPU */
        return islower((unsigned char)text[0]);
    return n_letters > 0 ? n_digits + n_marks > 0 && n_digits < (int)size - 1 : n_marks == 3;
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
            origin_copy(host, size, name, n);
            return true;
        }
    }
    return false;
}
