#include "supervise/own_command.h"

#include "base/os/os.h"

tess_status tess_own_command_of(int argc, char *const *argv, tess_own_command *words)
{
    TESS_TRY_CTX(tess_os_own_path(words->program, sizeof(words->program)), "cannot start ranks");
    TESS_CHECK(argc + 2 + TESS_OWN_COMMAND_WORDS_SPARE <= TESS_OWN_COMMAND_WORDS, TESS_E_INVALID,
               "cannot start ranks: too many words");
    words->word[0] = words->program;
    for (int i = 0; i < argc; i++)
        words->word[1 + i] = argv[i];
    words->word[argc + 1] = NULL;
    words->n = argc + 1;
    return TESS_OK;
}
