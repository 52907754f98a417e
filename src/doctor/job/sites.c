#include "doctor/job/sites.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/os/objects.h"
#include "doctor/table/clean.h"
#include "trace/call_site.h"

static bool is_older(const char *path, uint64_t wall_ns)
{
    struct stat file;
    return stat(path, &file) == 0 && S_ISREG(file.st_mode) &&
           (uint64_t)file.st_mtim.tv_sec * 1000000000u + (uint64_t)file.st_mtim.tv_nsec <= wall_ns;
}

/* Opens the symbols of a file, unless the file was rebuilt since the job ran: its calls would be elsewhere.
 * `object`: the build id that the job recorded; 0: the program. */
static void open_symbols(const char *path, uint32_t object, uint64_t wall_ns, tess_symbols *symbols)
{
    if (tess_symbols_open(path, symbols) != TESS_OK) {
        tess_error_clear();
        return;
    }
    bool has_ids = object != 0 && symbols->id != 0;
    if (has_ids ? symbols->id != object : !is_older(path, wall_ns))
        tess_symbols_close(symbols);
}

/* Returns the index of the file; -1: too many other files are open. */
static int find_file(tess_sites *sites, const char *path, uint32_t object, uint64_t wall_ns)
{
    for (int i = 0; i < sites->n_files; i++)
        if (sites->files[i].object == object && strcmp(sites->files[i].path, path) == 0)
            return i;
    if (sites->n_files == TESS_SITES_FILES)
        return -1;
    struct tess_site_file *file = &sites->files[sites->n_files];
    snprintf(file->path, sizeof(file->path), "%s", path);
    file->object = object;
    open_symbols(path, object, wall_ns, &file->symbols);
    return sites->n_files++;
}

static void look_up(const struct tess_site_file *file, uint64_t call_site, char *text)
{
    char name[TESS_SITE_BYTES];
    bool in_object = tess_call_site_object(call_site) != 0;
    tess_symbols_report(&file->symbols, in_object ? file->path : "", tess_call_site_offset(call_site), text,
                        TESS_SITE_BYTES);
    if (text[0] != '\0' || !in_object)
        return;
    const char *file_name = tess_object_file_name(file->path);
    tess_clean(file_name, strlen(file_name), name, sizeof(name) - 20);
    tess_call_site_format(call_site, name, text, TESS_SITE_BYTES);
}

static const char *find_text(tess_sites *sites, int file, uint64_t call_site)
{
    void *memory;
    if (sites->texts == NULL) {
        if (tess_mem_alloc_array(sites->mem, TESS_POOL_MISC, TESS_SITES_MOST, sizeof(sites->texts[0]), "call sites",
                                 &memory) != TESS_OK)
            return "";
        sites->texts = memory;
    }
    for (int i = 0; i < sites->n_texts; i++)
        if (sites->texts[i].call_site == call_site && sites->texts[i].file == file)
            return sites->texts[i].text;
    if (sites->n_texts == TESS_SITES_MOST)
        return "";
    struct tess_site_text *text = &sites->texts[sites->n_texts++];
    text->call_site = call_site;
    text->file = file;
    look_up(&sites->files[file], call_site, text->text);
    return text->text;
}

void tess_sites_report(tess_sites *sites, const tess_sites_source *source, uint64_t call_site, char *text, size_t size)
{
    uint32_t object = tess_call_site_object(call_site);
    /* true: the call site is neither in a shared object nor a bare address */
    bool in_program = tess_call_site_offset(call_site) == call_site;
    const char *path = in_program    ? source->owner.program
                       : object != 0 ? tess_trace_objects_find(&source->objects, object)
                                     : "";
    text[0] = '\0';
    if (call_site == 0 || path[0] == '\0')
        return;
    int file = find_file(sites, path, object, source->owner.wall_ns);
    if (file >= 0)
        snprintf(text, size, "%s", find_text(sites, file, call_site));
}

void tess_sites_close(tess_sites *sites)
{
    for (int i = 0; i < sites->n_files; i++)
        tess_symbols_close(&sites->files[i].symbols);
    tess_mem_free(sites->mem, sites->texts);
    *sites = (tess_sites){.mem = sites->mem};
}
