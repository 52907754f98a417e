/* Made by tools/make_loss_scale_fixture.py: torch.amp.GradScaler, whose scale begins at 65536.0 and grows after 4
 * steps: which steps overflow, and the scale after each. */
#ifndef TESS_TESTS_TRAIN_LOSS_SCALE_TORCH_H
#define TESS_TESTS_TRAIN_LOSS_SCALE_TORCH_H

enum { SCALE_STEPS = 48, SCALE_INTERVAL = 4 };
static const double scale_begin = 65536.0;
static const bool scale_overflows[SCALE_STEPS] = {1, 1, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1,
                                                  1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0,
                                                  0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
static const double scale_after[SCALE_STEPS] = {
    32768.0, 16384.0, 8192.0,  8192.0,  8192.0,  8192.0,  16384.0, 16384.0, 16384.0, 8192.0,  8192.0,   8192.0,
    8192.0,  16384.0, 16384.0, 8192.0,  4096.0,  4096.0,  4096.0,  4096.0,  8192.0,  4096.0,  4096.0,   4096.0,
    4096.0,  8192.0,  8192.0,  8192.0,  8192.0,  16384.0, 8192.0,  8192.0,  8192.0,  8192.0,  16384.0,  16384.0,
    16384.0, 16384.0, 32768.0, 32768.0, 32768.0, 32768.0, 65536.0, 65536.0, 65536.0, 65536.0, 131072.0, 131072.0};

#endif
