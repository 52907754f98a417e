#include "comm/shm/shm_impl.h"

const shm_collective shm_barrier = {.may_be_inline = true};
