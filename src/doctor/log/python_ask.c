#include "doctor/log/python_ask.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/os/program.h"
#include "doctor/log/python_stacks.h"

bool tess_python_is(const char *pid)
{
    char link[64], path[PATH_MAX];
    size_t n = strlen(pid);
    if (n == 0 || n > 9 || strspn(pid, "0123456789") != n)
        return false;
    snprintf(link, sizeof(link), "/proc/%s/exe", pid);
    ssize_t size = readlink(link, path, sizeof(path) - 1);
    path[size > 0 ? size : 0] = '\0';
    const char *slash = strrchr(path, '/');
    return slash != NULL && strncmp(slash + 1, "python", 6) == 0;
}

static tess_status judge(tess_mem *mem, const char *text, tess_buffer *out)
{
    log_stacks stacks = {.mem = mem};
    const log_stack *odd;
    char verdict[640];
    tess_status status = TESS_OK;
    for (const char *line = text; status == TESS_OK && *line != '\0'; line += line[0] == '\n') {
        size_t n = strcspn(line, "\n");
        status = log_stacks_take(&stacks, line, n, -1);
        line += n;
    }
    if (status == TESS_OK && stacks.n > 0) {
        log_stacks_judge(&stacks, verdict, sizeof(verdict), &odd);
        status = tess_buffer_printf(out, "%s\n\n", verdict);
    }
    log_stacks_free(&stacks);
    return status == TESS_OK ? tess_buffer_printf(out, "%s", text) : status;
}

tess_status tess_python_report(tess_mem *mem, const char *pid, tess_buffer *out)
{
    enum { MOST = 1 << 20 };
    static const double timeout_s = 30;
    char words[3][12] = {"py-spy", "dump", "--pid"}, number[12];
    char *argv[] = {words[0], words[1], words[2], number, NULL};
    void *text;
    snprintf(number, sizeof(number), "%s", pid);
    TESS_TRY(tess_mem_alloc(mem, TESS_POOL_MISC, MOST, "stacks", &text));
    tess_status status = tess_os_capture(argv, timeout_s, text, MOST);
    if (status == TESS_OK)
        status = judge(mem, text, out);
    else if (status == TESS_E_NOT_FOUND)
        status = TESS_FAIL(TESS_E_UNSUPPORTED,
                           "%s is a Python process and no job of tessera; py-spy shows its stacks: pip install py-spy, "
                           "then `tessera trace %s` again",
                           pid, pid);
    else if (status == TESS_E_IO)
        status = TESS_FAIL(TESS_E_UNSUPPORTED,
                           "%s is a Python process and no job of tessera; `py-spy dump --pid %s` failed: it needs the "
                           "rights of a debugger (root, or CAP_SYS_PTRACE in a container)",
                           pid, pid);
    tess_mem_free(mem, text);
    return status;
}
