/* Implements the functions that a trainer offers its task: access to parts of the run, notes and warnings, paths. */
#include "train/trainer_impl.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/os/os.h"
#include "engine/model/exclude.h"

tess_runtime *tess_trainer_runtime(const tess_trainer *t)
{
    return t->runtime;
}

tess_team *tess_trainer_team(const tess_trainer *t)
{
    return t->ordered != NULL ? t->ordered : t->team;
}

const tess_config *tess_trainer_config(const tess_trainer *t)
{
    return &t->config;
}

const tess_model_config *tess_trainer_model(const tess_trainer *t)
{
    return &t->model_config;
}

const struct tess_program *tess_trainer_program(const tess_trainer *t)
{
    return t->kind->program;
}

bool tess_trainer_goes_on(const tess_trainer *t)
{
    return t->goes_on;
}

bool tess_trainer_leaves_out(const tess_trainer *t, const char *part)
{
    return tess_excludes(&t->without, part);
}

void tess_trainer_end_here(tess_trainer *t)
{
    t->ends_here = true;
}

void tess_trainer_show(const tess_trainer *t, const char *text)
{
    if (t->observer != NULL && t->observer->note != NULL && t->rank == 0)
        t->observer->note(t->observer->self, text);
}

void tess_trainer_note(const tess_trainer *t, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    tess_trainer_show(t, text);
}

void tess_trainer_warn(const tess_trainer *t, const char *format, ...)
{
    char text[1024];
    va_list args;
    if (t->rank != 0)
        return;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    tess_trainer_note(t, "warning: %s", text);
    tess_runtime_warn(t->runtime, text);
}

tess_status tess_trainer_path(const tess_trainer *t, const char *name, char *path, size_t size)
{
    return tess_os_join(path, size, t->config.job.dump_folder, name);
}
