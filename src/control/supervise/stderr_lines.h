/* Reporters that print on standard error, where the command and its supervisor report to the user. */
#ifndef TESS_CONTROL_SUPERVISE_STDERR_LINES_H
#define TESS_CONTROL_SUPERVISE_STDERR_LINES_H

#include "base/core/reporter.h"

/* Writes "tessera: LINE" at once. */
extern const tess_reporter tess_stderr_lines;
/* Writes the line unchanged, such as a command line that is run, in the form of a shell. */
extern const tess_reporter tess_stderr_plain_lines;

#endif
