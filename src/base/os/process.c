#include "base/os/os.h"

#include <stdio.h>
#include <string.h>

/* Field 3 of /proc/PID/stat, behind a name in parentheses that may hold anything. */
char tess_os_process_state(int pid)
{
    char path[32], text[512] = "";
    snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return '\0';
    size_t n = fread(text, 1, sizeof(text) - 1, file);
    fclose(file);
    text[n] = '\0';
    const char *at = strrchr(text, ')');
    return at != NULL && at[1] == ' ' ? at[2] : '\0';
}
