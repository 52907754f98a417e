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
    TESS_AUTO(log_stacks_free) log_stacks stacks = {.mem = mem};
    const log_stack *odd;
    char verdict[640];
    for (const char *line = text; *line != '\0'; line += line[0] == '\n') {
        size_t n = strcspn(line, "\n");
        TESS_TRY(log_stacks_take(&stacks, line, n, -1));
        line += n;
    }
    if (stacks.n > 0) {
        log_stacks_judge(&stacks, verdict, sizeof(verdict), &odd);
        TESS_TRY(tess_buffer_printf(out, "%s\n\n", verdict));
    }
    return tess_buffer_printf(out, "%s", text);
}

tess_status tess_python_report(tess_mem *mem, const char *pid, tess_buffer *out)
{
    enum { MOST = 1 << 20 };
    static const double timeout_s = 30;
    char words[3][12] = {"py-spy", "dump", "--pid"}, number[12];
    char *argv[] = {words[0], words[1], words[2], number, NULL};
    TESS_AUTO(tess_mem_drop) char *text = NULL;
    snprintf(number, sizeof(number), "%s", pid);
    TESS_TRY(TESS_NEW(mem, MOST, "stacks", &text));
    tess_status status = tess_os_capture(argv, timeout_s, text, MOST);
    TESS_CHECK(status != TESS_E_NOT_FOUND, TESS_E_UNSUPPORTED,
               "%s is a Python process and no job of tessera; py-spy shows its stacks: pip install py-spy, then "
               "`tessera trace %s` again",
               pid, pid);
    TESS_CHECK(status != TESS_E_IO, TESS_E_UNSUPPORTED,
               "%s is a Python process and no job of tessera; `py-spy dump --pid %s` failed: it needs the rights of a "
               "debugger (root, or CAP_SYS_PTRACE in a container)",
               pid, pid);
    TESS_TRY(status);
    return judge(mem, text, out);
}
