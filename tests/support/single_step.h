/* Stops a process after every instruction, to see the state it would leave if it ended there. */
#ifndef TESS_TESTS_SUPPORT_SINGLE_STEP_H
#define TESS_TESTS_SUPPORT_SINGLE_STEP_H

#include <stddef.h>

enum { SINGLE_STEP_AREAS = 4 };

typedef struct single_step {
    void (*body)(void *context); /* runs in a separate process; its changes of private memory are lost */
    void (*look)(void *context); /* after an instruction that changed an area; may change areas: they are put back */
    void *context;
    struct {
        void *address; /* address of memory that both processes share */
        size_t bytes;
    } areas[SINGLE_STEP_AREAS]; /* bytes 0: none */
    long most;                  /* instructions, after which the process is killed; 0: it goes to its end */
} single_step;

/* Returns the number of instructions; -1: this system does not allow tracing. `look` may be NULL. */
long single_step_run(const single_step *run);

#endif
