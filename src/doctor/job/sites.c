#include "doctor/job/sites.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static const uint64_t elsewhere = UINT64_C(1) << 63;

/* A program that was built again since has its calls in other places. */
static bool is_as_it_was(const char *program, uint64_t wall_ns)
{
    struct stat file;
    return stat(program, &file) == 0 && S_ISREG(file.st_mode) &&
           (uint64_t)file.st_mtim.tv_sec * 1000000000u + (uint64_t)file.st_mtim.tv_nsec <= wall_ns;
}

static bool open_program(tess_sites *sites, const char *program, uint64_t wall_ns)
{
    if (strcmp(sites->program, program) == 0)
        return sites->symbols.dwfl != NULL;
    tess_sites_close(sites);
    snprintf(sites->program, sizeof(sites->program), "%s", program);
    if (!is_as_it_was(program, wall_ns) || tess_symbols_open(program, &sites->symbols) != TESS_OK) {
        sites->symbols = (tess_symbols){0};
        return false;
    }
    if (tess_mem_alloc_array(sites->mem, TESS_POOL_MISC, TESS_SITES_MOST, sizeof(sites->texts[0]), "call sites",
                             (void **)&sites->texts) != TESS_OK)
        tess_sites_close(sites);
    return sites->texts != NULL;
}

void tess_sites_tell(tess_sites *sites, const char *program, uint64_t wall_ns, uint64_t call_site, char *text,
                     size_t size)
{
    text[0] = '\0';
    if (program[0] == '\0' || call_site == 0 || (call_site & elsewhere) != 0 || !open_program(sites, program, wall_ns))
        return;
    int i = 0;
    while (i < sites->n_texts && sites->texts[i].call_site != call_site)
        i++;
    if (i == TESS_SITES_MOST)
        return;
    if (i == sites->n_texts) {
        sites->texts[i].call_site = call_site;
        tess_symbols_tell(&sites->symbols, call_site, sites->texts[i].text, TESS_SITE_BYTES);
        sites->n_texts++;
    }
    snprintf(text, size, "%s", sites->texts[i].text);
}

void tess_sites_close(tess_sites *sites)
{
    if (sites->symbols.dwfl != NULL)
        tess_symbols_close(&sites->symbols);
    tess_mem_free(sites->mem, sites->texts);
    sites->symbols = (tess_symbols){0};
    sites->texts = NULL;
    sites->n_texts = 0;
    sites->program[0] = '\0';
}
