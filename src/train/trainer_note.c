/* The calls that a trainer offers its task: the parts of the run, notes and warnings, paths. */
#include "train/trainer_impl.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/os/os.h"

tess_runtime *tess_trainer_runtime(const tess_trainer *t)
{
    return t->runtime;
}

tess_team *tess_trainer_team(const tess_trainer *t)
{
    return t->team;
}

const tess_config *tess_trainer_config(const tess_trainer *t)
{
    return &t->config;
}

const tess_tokenizer *tess_trainer_tokenizer_of(const tess_trainer *t)
{
    return t->tokenizer;
}

const char *tess_trainer_tokenizer_path(const tess_trainer *t)
{
    return t->tokenizer_path;
}

const tess_model_config *tess_trainer_model(const tess_trainer *t)
{
    return &t->model_config;
}

const tess_chat *tess_trainer_chat(const tess_trainer *t)
{
    return &t->chat.how;
}

void tess_trainer_end_here(tess_trainer *t)
{
    t->ends_here = true;
}

void tess_trainer_note(const tess_trainer *t, const char *format, ...)
{
    char text[1024];
    va_list args;
    if (t->observer == NULL || t->observer->note == NULL || t->rank != 0)
        return;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    t->observer->note(t->observer->self, text);
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
