/* Declares training on text as a kind of task. */
#ifndef TESS_TRAIN_TEXT_TEXT_TASK_H
#define TESS_TRAIN_TEXT_TEXT_TASK_H

#include "train/task.h"

extern const tess_task_kind tess_text_task_kind;

#endif
