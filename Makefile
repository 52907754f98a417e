# The front door. `make` builds build/tessera and installs nothing; `make run` and `make test` set up all that they need.
BUILD ?= build
TEST_BUILD ?= build/test
JOBS ?= $(shell nproc)
TEST_JOBS ?= $(shell expr 2 '*' $$(nproc)) # most tests wait half of their time
TEXT = out/kjv.txt
EMULATED = ^test_(device_(emulated|gemm|attention|norm|glu|rope|reduce|adamw|convert|cross_entropy|embedding|moments|fp8|select)|nn_rows|nn_points|golden_(llama|mistral|qwen2|qwen3|gpt2)$$)

.PHONY: all run rl chat needle bench tests-built test test-bare test-ranks test-layouts test-matrices test-far test-ptx test-emulated test-slurm test-gpu test-gpu-libraries test-deploy test-kubernetes test-copies test-readers bench-gpu install deb tarball wheels image clean

all: $(BUILD)/build.ninja
	@cmake --build $(BUILD) --parallel $(JOBS) --target tessera

$(BUILD)/build.ninja:
	@command -v ninja >/dev/null || { echo "cmake, ninja or libraries are missing: run tools/deps first"; exit 1; }
	@cmake -G Ninja -S . -B $(BUILD) -DCMAKE_BUILD_TYPE=Release -DTESS_TESTS=OFF >/dev/null

# Trains a model on the King James Bible with two ranks and prints a sample: about three minutes.
run:
	@tools/deps run
	@$(MAKE) --no-print-directory all
	@mkdir -p out
	@test -s $(TEXT) || bible -f gen1:1-rev22:21 > $(TEXT)
	@$(BUILD)/tessera train examples/kjv.yaml -n 2

# Teaches a small model the form of an answer, then lets it learn from grades (docs/rl.md): about four minutes.
rl:
	@tools/deps build
	@$(MAKE) --no-print-directory all
	@mkdir -p out/signs
	@awk -v folder=out/signs -f examples/signs.awk
	@$(BUILD)/tessera train examples/signs_sft.yaml -n 2
	@$(BUILD)/tessera rl examples/signs_rl.yaml -n 2

# Teaches a small model to answer questions on what it has read (docs/howto/conversations.md): about three minutes.
chat:
	@tools/deps build
	@$(MAKE) --no-print-directory all
	@awk -v folder=out/places -f examples/places.awk
	@$(BUILD)/tessera train examples/places_base.yaml -n 2
	@$(BUILD)/tessera train examples/places_sft.yaml -n 2
	@for model in base/model chat/best; do echo "$$model on conversations that are held out:"; \
	    $(BUILD)/tessera eval out/places/$$model --data out/places/held_out.jsonl --chat-template examples/places.jinja || exit 1; done
	@echo "tessera chat out/places/chat/best"

# Teaches a small model to find facts in long texts, and asks it in longer ones (docs/howto/long-context.md): some minutes.
needle:
	@tools/deps build
	@$(MAKE) --no-print-directory all
	@bash examples/needle.sh $(BUILD)/tessera

# What this machine can do and what Tessera makes of it, beside oneDNN, OpenBLAS and MPI: some minutes.
bench:
	@tools/deps bench
	@cmake -G Ninja -S . -B $(BUILD) -DCMAKE_BUILD_TYPE=Release -DTESS_TESTS=OFF >/dev/null
	@cmake --build $(BUILD) --parallel $(JOBS)
	@for bench in machine kernels comm step; do $(BUILD)/tessera bench $$bench || exit 1; done

tests-built:
	@tools/deps test
	@cmake -G Ninja -S . -B $(TEST_BUILD) -DCMAKE_BUILD_TYPE=Release -DTESS_TESTS=ON >/dev/null
	@cmake --build $(TEST_BUILD) --parallel $(JOBS)

test: tests-built
	@ctest --test-dir $(TEST_BUILD) --parallel $(TEST_JOBS) --output-on-failure --no-label-summary --no-tests=error; code=$$?; \
	sed -n '/^Command:/d; s/.*SKIPPED: //p' $(TEST_BUILD)/Testing/Temporary/LastTest.log | sort | uniq -c | \
	    sed 's/^ *\([0-9]*\) /SKIPPED \1 of the tests: /'; exit $$code

# The tests in a bare Debian 12, and once more ten times slower: root, mmdebstrap and hours.
test-bare:
	@tools/test-bare

# The bits of one rank on 1 to 8 ranks, with every strategy, dtype and recomputation, and the recorded bits with every kernel
# table too: five to fifteen minutes.
test-ranks: all
	@for model in llama mistral qwen2 qwen3 gpt2; do \
	    tests/golden/test_bits.sh $(BUILD)/tessera $(CURDIR) $$model all || exit 1; done
	@tests/cli/test_any_ranks.sh $(BUILD)/tessera $(CURDIR) all
	@tests/cli/test_offload.sh $(BUILD)/tessera $(CURDIR) all

# The bits of one rank under every pipeline schedule, with every strategy and dtype: five to twenty minutes.
test-layouts: all
	@tests/cli/test_layouts.sh $(BUILD)/tessera $(CURDIR) all
	@tests/cli/test_tied_layouts.sh $(BUILD)/tessera $(CURDIR) all
	@tests/cli/test_tensor_layouts.sh $(BUILD)/tessera $(CURDIR) all
	@tests/cli/test_verify_layouts.sh $(BUILD)/tessera $(CURDIR) all

# The matrices of which `make test` runs one case in three: some minutes.
test-matrices: tests-built
	@TESS_TEST_ALL=1 ctest --test-dir $(TEST_BUILD) -L matrix --parallel $(TEST_JOBS) --output-on-failure --no-label-summary \
	    --no-tests=error

# Copies of checkpoints under 500 random faults of their places: five minutes, most of them waits.
test-copies: tests-built
	@TESS_TEST_FAULTS=500 $(TEST_BUILD)/tests/test_ckpt_copies

# Programs that read what Tessera writes, each with a short run (tests/readers/run): TensorBoard, W&B, MLflow, Aim, Prometheus, a
# browser. Installs Debian packages, and Python packages in the build folder. Under ten minutes.
test-readers: all
	@tools/deps readers
	@tests/readers/run $(BUILD)

# More tests with the model on the far device: waits and fetches that only a GPU would miss. Some minutes.
test-far: tests-built
	@ctest --test-dir $(TEST_BUILD) -C far -R "test_(far|resident)_" --parallel $(TEST_JOBS) --output-on-failure --no-label-summary \
	    --no-tests=error

# The kernels for GPUs as nvcc compiles them, for every architecture, on an interpreter of PTX. Skipped without nvcc. Some minutes.
test-ptx: tests-built
	@cmake -S . -B $(TEST_BUILD) -DTESS_PTX=ON >/dev/null
	@cmake --build $(TEST_BUILD) --parallel $(JOBS)
	@TESS_PTX_LARGE=1 bash tests/device/ptx/interpret.sh $(TEST_BUILD) all; code=$$?; [ $$code = 77 ] || exit $$code
	@bash tests/device/ptx/planted.sh $(TEST_BUILD); code=$$?; [ $$code = 77 ] || exit $$code

# The kernels of AVX-512 and AMX on a machine that has neither, computed with AVX2 (tools/emulate): their products, attention and
# rows against the definition, in any batch, and the recorded bits of every model. About fifteen minutes.
test-emulated:
	@tools/deps test
	@cmake -G Ninja -S . -B $(BUILD)/emulated -DCMAKE_BUILD_TYPE=Release -DTESS_EMULATE=ON -DTESS_MPI=OFF -DTESS_CUDA=OFF \
	    -DTESS_BENCH_PEERS=OFF >/dev/null
	@cmake --build $(BUILD)/emulated --parallel $(JOBS)
	@ctest --test-dir $(BUILD)/emulated -R '$(EMULATED)' --parallel $(JOBS) --output-on-failure --no-label-summary --no-tests=error

# A Slurm of its own on five hosts of this machine: time limit, lost node, preemption. Root; about five minutes.
test-slurm: all
	@tools/deps deploy
	@tests/deploy/test_slurm.sh $(BUILD)/tessera $(CURDIR); code=$$?; [ $$code = 77 ] || exit $$code

# The chart and manifests for Kubernetes against the published schemas, and their pods on two hosts of this machine. Root; a minute.
test-kubernetes: all
	@tools/deps deploy
	@tests/deploy/test_kubernetes.sh $(BUILD)/tessera $(CURDIR); code=$$?; [ $$code = 77 ] || exit $$code

# What a GPU computes: every row of the kernel table against the definition, collectives on its memory, and whole runs against the recorded bits, with both
# dtypes, 1 to 4 ranks on one GPU, and recomputation, with the shards in the GPU's memory, and a run with the host's. Skipped without a GPU.
test-gpu: tests-built
	@$(TEST_BUILD)/tessera info | grep -q '^gpu 0' || { echo "SKIPPED: no NVIDIA GPU that Tessera can use:"; \
	    $(TEST_BUILD)/tessera info | grep -E '^(driver|plug-in)'; exit 0; }; \
	for test in every_row uploads timed_events; do TESSERA_CUBLAS=off $(TEST_BUILD)/tests/test_device_cuda $$test || exit 1; done; \
	for run in test_device_cuda_tensor "test_device_cuda_products products_are_within" "test_device_cuda_products rows_do_not"; do \
	    TESSERA_CUBLAS=own $(TEST_BUILD)/tests/$$run || exit 1; done; \
	TESS_TEST_DEVICE=cuda TESSERA_CUBLAS=off $(TEST_BUILD)/tests/test_comm_ondevice of_the_host || exit 1; \
	if $(TEST_BUILD)/tessera info | grep -q '^cublas:.*libcublasLt'; then for test in products_are_within rows_do_not; do \
	    $(TEST_BUILD)/tests/test_device_cuda_products $$test || exit 1; done; fi; \
	for model in llama mistral qwen2 qwen3 gpt2; do \
	    TESSERA_SHARDS=device tests/golden/test_cuda_bits.sh $(TEST_BUILD)/tessera $(CURDIR) $$model all || exit 1; done; \
	TESSERA_SHARDS=host tests/golden/test_cuda_bits.sh $(TEST_BUILD)/tessera $(CURDIR) gpt2

# NVIDIA's own cuBLAS and NCCL, of many versions, as PyPI has them: their headers against our declarations, and every call that
# needs no GPU. Keeps 8 GB in the build folder, which take about ten minutes to download; then it takes seconds.
test-gpu-libraries: tests-built
	@tests/device/gpu_libraries/run $(TEST_BUILD)

# Kernels and a step of training on a GPU, against what its maker states and what a copy in its memory reaches. Skipped without a GPU.
bench-gpu: all
	@$(BUILD)/tessera info | grep -q '^gpu 0' || { echo "SKIPPED: no NVIDIA GPU that Tessera can use:"; \
	    $(BUILD)/tessera info | grep -E '^(driver|plug-in)'; exit 0; }; \
	mkdir -p out && $(BUILD)/tessera bench kernels --device cuda --json=out/bench-gpu-kernels.json && \
	$(BUILD)/tessera bench step --device cuda --batch 16 --micro 8 --json=out/bench-gpu-step.json

# PREFIX=/usr/local; DESTDIR= for packages. The installed tree may be moved.
install: all
	@cmake --build $(BUILD) --parallel $(JOBS)
	@cmake --install $(BUILD) $(if $(PREFIX),--prefix $(PREFIX))

# Packages in build/packages (docs/howto/install.md): of Debian, an archive that runs from any folder, wheels, an image.
deb:
	@tools/deps package
	@tools/package/$@

tarball wheels image: deb
	@tools/package/$@

# All packages, each tried in a bare Debian 12, and built twice to the same bytes; Slurm, Kubernetes, the drill of the disaster
# plan. Root, a mirror of Debian, PyPI; under fifteen minutes on two idle cores.
test-deploy:
	@tools/deps package
	@tools/deps deploy
	@tools/package/test-deploy

clean:
	@rm -rf $(BUILD)
