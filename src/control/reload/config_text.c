#include "control/reload/config_text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/core/variables.h"
#include "base/os/os.h"

enum { CONFIG_LIMIT = 1 << 20 };

#define CONFIG_COPY "/proc/self/fd/%d" /* path of the memory that holds the configuration's text */

static tess_status read_text(tess_mem *mem, const tess_config_source *source, const char *path, tess_config_text *read)
{
    char *text = NULL;
    if (path != NULL)
        TESS_TRY_CTX(tess_os_read(mem, path, CONFIG_LIMIT, &text, &read->bytes), "configuration");
    read->text = malloc(read->bytes + 1);
    TESS_CHECK(read->text != NULL, TESS_E_NOMEM, "no memory for the configuration");
    if (read->bytes > 0)
        memcpy(read->text, text, read->bytes);
    tess_mem_free(mem, text);
    return tess_config_parse_over(mem, source->defaults, read->text, read->bytes, path != NULL ? path : "defaults",
                                  source->overrides, source->n_overrides, &read->config);
}

tess_status tess_config_text_read(const tess_config_source *source, const char *path, tess_config_text **read)
{
    TESS_AUTO(tess_mem_destroy) tess_mem *mem = NULL;
    *read = NULL;
    TESS_TRY(tess_mem_create(&mem));
    tess_config_text *made = calloc(1, sizeof(*made));
    TESS_CHECK(made != NULL, TESS_E_NOMEM, "no memory for the configuration");
    tess_status status = read_text(mem, source, path, made);
    if (status == TESS_OK)
        *read = made;
    else
        tess_config_text_free(&made);
    return status;
}

void tess_config_text_free(tess_config_text **text)
{
    if (*text == NULL)
        return;
    tess_config_free(&(*text)->config);
    free((*text)->text);
    free(*text);
    *text = NULL;
}

static tess_status copy(const tess_config_text *text, int *fd)
{
    TESS_TRY(tess_os_memfd("tessera-config", text->bytes, fd));
    tess_status status = tess_os_write_at(*fd, 0, text->text, text->bytes, "the configuration's copy");
    if (status != TESS_OK)
        tess_os_close(fd);
    return status;
}

tess_status tess_config_text_share(const tess_config_text *text)
{
    char name[32];
    int fd = -1;
    TESS_TRY(copy(text, &fd));
    tess_os_inherit(fd);
    snprintf(name, sizeof(name), CONFIG_COPY, fd);
    setenv(tess_variable_name(TESS_VAR_CONFIG), name, 1);
    return TESS_OK;
}

tess_status tess_config_text_share_again(const tess_config_text *text)
{
    int fd = -1, shared;
    const char *name = tess_variable_value(TESS_VAR_CONFIG);
    TESS_CHECK(name != NULL && sscanf(name, CONFIG_COPY, &shared) == 1, TESS_E_NOT_FOUND,
               "the ranks have no copy of the configuration");
    TESS_TRY(copy(text, &fd));
    const bool replaced = dup2(fd, shared) == shared; /* the number stays, and ranks inherit it */
    const int error = errno;
    tess_os_close(&fd);
    TESS_CHECK(replaced, TESS_E_IO, "the ranks' copy of the configuration: %s", strerror(error));
    return TESS_OK;
}
