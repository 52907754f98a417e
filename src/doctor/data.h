/* The data files of the project that are part of the binary (tools/embed.cmake). */
#ifndef TESS_DOCTOR_DATA_H
#define TESS_DOCTOR_DATA_H

#include <stddef.h>

extern const unsigned char tess_data_errors[], tess_data_errors_frameworks[], tess_data_variables[];
extern const size_t tess_data_errors_size, tess_data_errors_frameworks_size, tess_data_variables_size;

#endif
