/* The data files of the project that are part of the binary (tools/embed.cmake). */
#ifndef TESS_DOCTOR_DATA_H
#define TESS_DOCTOR_DATA_H

#include <stddef.h>

/* The embedded files of log/errors. */
/* clang-format off */
#define TESS_DOCTOR_ERRORS(X) \
    X(torch) \
    X(nccl) \
    X(fabric) \
    X(cuda) \
    X(drivers) \
    X(host) \
    X(storage) \
    X(mpi) \
    X(ucx) \
    X(frameworks) \
    X(tensorflow) \
    X(trainers) \
    X(gradients) \
    X(settings) \
    X(compile) \
    X(accelerators) \
    X(neuron) \
    X(ascend) \
    X(jax) \
    X(schedulers) \
    X(kubernetes) \
    X(ray) \
    X(spark) \
    X(engines) \
    X(files) \
    X(scripts) \
    X(endings) \
    X(languages) \
    X(nccl_parts) \
    X(python) \
    X(tessera)

/* The embedded files of env/variables. */
#define TESS_DOCTOR_VARIABLES(X) \
    X(nccl) \
    X(nccl_source) \
    X(nccl_plugins) \
    X(rccl) \
    X(nccl_gone) \
    X(pytorch) \
    X(trainers) \
    X(cuda) \
    X(ucx) \
    X(ucc) \
    X(libfabric) \
    X(sharp) \
    X(nvshmem) \
    X(infiniband) \
    X(openmpi) \
    X(mpich) \
    X(threads)
/* clang-format on */

#define X(subject)                                           \
    extern const unsigned char tess_data_errors_##subject[]; \
    extern const size_t tess_data_errors_##subject##_size;
TESS_DOCTOR_ERRORS(X)
#undef X

#define X(subject)                                              \
    extern const unsigned char tess_data_variables_##subject[]; \
    extern const size_t tess_data_variables_##subject##_size;
TESS_DOCTOR_VARIABLES(X)
#undef X

/* The tables env/variables/families.yaml and conflicts.yaml. */
extern const unsigned char tess_data_families[], tess_data_conflicts[];
extern const size_t tess_data_families_size, tess_data_conflicts_size;

/* Tables of what programs do, log/errors/phases.yaml, and of the checks of a host, probe/checks.yaml. They end with
 * NUL. */
extern const unsigned char tess_data_phases[], tess_data_checks[];

#endif
