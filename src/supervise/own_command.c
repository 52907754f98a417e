#include "supervise/own_command.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

tess_status tess_own_path(char *path, size_t size)
{
    ssize_t n = readlink("/proc/self/exe", path, size - 1);
    TESS_CHECK(n > 0, TESS_E_IO, "/proc/self/exe: %s", strerror(errno));
    path[n] = '\0';
    return TESS_OK;
}

tess_status tess_own_command_of(int argc, char *const *argv, tess_own_command *words)
{
    TESS_TRY_CTX(tess_own_path(words->program, sizeof(words->program)), "cannot start ranks");
    TESS_CHECK(argc + 2 + TESS_OWN_COMMAND_WORDS_SPARE <= TESS_OWN_COMMAND_WORDS, TESS_E_INVALID,
               "cannot start ranks: too many words");
    words->word[0] = words->program;
    for (int i = 0; i < argc; i++)
        words->word[1 + i] = argv[i];
    words->word[argc + 1] = NULL;
    words->n = argc + 1;
    return TESS_OK;
}
