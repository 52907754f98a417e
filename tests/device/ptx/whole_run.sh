#!/usr/bin/env bash
# whole_run.sh TESSERA PROJECT BUILD TARGET MODEL...: five steps of `tessera train` in float32, whose kernels run on the
# interpreter of PTX behind the driver that plays a GPU, have the losses, gradient norms and weights of the table `ref`.
# The device has the shards, so the norm and AdamW run there, too. The models are those of tests/golden/bits.sh.
. "$(dirname "$0")/../../cli/support.sh"
. "$project/tests/golden/bits.sh"
ptx=$3/tests/ptx fake=$3/tests/cuda_fake target=$4
shift 4
on_interpreter() {
    LD_PRELOAD=$ptx/libtess_ptx.so LD_LIBRARY_PATH=$fake TESSERA_CUDA=$ptx/libtessera_cuda.so TESSERA_CUBLAS=off TESSERA_DEVICE=cuda \
        TESSERA_SHARDS=device TESS_PTX_TARGET=$target bits "$@"
}
for model in "$@"; do
    prepare "$model"
    sed -i -e 's/steps: 30/steps: 5/' -e 's/global_batch_size: 8/global_batch_size: 2/' -e 's/seq_len: 67/seq_len: 19/' run.yaml
    name="$model, float32, $target"
    if ! bits ref float32 1 none none >wanted || [ "$(wc -l <wanted)" != 6 ]; then
        fail "$name: ref: $(tail -n 3 log)"
    elif ! on_interpreter ref float32 1 none none >got; then
        fail "$name: $(tail -n 3 log)"
    elif ! grep -q "^device cuda" log || ! grep -q "lie in the device's memory" log; then
        fail "$name: it did not run there: $(head -n 3 log)"
    elif cmp -s wanted got; then
        pass "$name: $(sed -n 5p got | cut -d ' ' -f 2-)"
    else
        fail "$name: $(diff wanted got | head -n 4)"
    fi
done
finish
