// Checkpoints from C++: a linear map, sharded by rows, is fitted with AdamW, saved next to the training, and goes on
// where it stopped with any number of ranks.
//
//     tessera run -n 2 -- ./embed_ckpt out 20     trains to step 20, saving every fifth step in the folder `out`
//     ./embed_ckpt out 40                         goes on alone: the losses are those of any other number of ranks
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <tessera/ckpt.h>

namespace
{

constexpr int64_t rows = 7, columns = 5; // no number of ranks divides 7
constexpr int batch = 6, micro_batches = 4, save_every = 5;

void check(tess_status status)
{
    if (status != TESS_OK)
        throw std::runtime_error(tess_error_message());
}

// Owns a handle of the library.
template <typename T, void (*destroy)(T **)> struct destroyer {
    void operator()(T *handle) const
    {
        destroy(&handle);
    }
};
template <typename T, void (*destroy)(T **)> using owned = std::unique_ptr<T, destroyer<T, destroy>>;

using runtime_handle = owned<tess_runtime, tess_runtime_destroy>;
using mesh_handle = owned<tess_mesh, tess_mesh_destroy>;
using fsdp_handle = owned<tess_fsdp, tess_fsdp_destroy>;
using optimizer_handle = owned<tess_optimizer, tess_optimizer_destroy>;
using saver_handle = owned<tess_checkpoint_saver, tess_checkpoint_saver_destroy>;

// Calls a function of the library whose last argument receives a handle.
template <typename T, typename F> T made(F &&create)
{
    typename T::pointer handle = nullptr;
    check(create(&handle));
    return T(handle);
}

// A number in [-1, 1) that depends on its arguments alone.
float noise(uint64_t stream, uint64_t index)
{
    uint64_t x = stream * 0x9e3779b97f4a7c15u + index * 0xbf58476d1ce4e5b9u + 1;
    for (int round = 0; round < 3; round++)
        x = (x ^ x >> 31) * 0x94d049bb133111ebu;
    return float(x >> 40) / 8388608.0f - 1;
}

tess_status init_rows(void *, const char *, const tess_shape *shape, const tess_box *box, float *dst)
{
    const int64_t row = shape->dim[1];
    for (int64_t i = 0; i < box->size[0] * row; i++)
        dst[i] = noise(1, uint64_t(box->begin[0] * row + i));
    return TESS_OK;
}

struct model {
    runtime_handle runtime = made<runtime_handle>([](auto out) { return tess_runtime_create(nullptr, out); });
    mesh_handle mesh = made<mesh_handle>([this](auto out) {
        const tess_axis axis{"dp_shard", -1};
        return tess_mesh_create(runtime.get(), &axis, 1, out);
    });
    fsdp_handle fsdp = made<fsdp_handle>([this](auto out) {
        tess_fsdp_policy policy{};
        policy.strategy = TESS_STRATEGY_FULL;
        policy.reshard_after_forward = 1;
        return tess_fsdp_create(mesh.get(), &policy, out);
    });
    tess_unit *unit = nullptr; // belongs to fsdp
    optimizer_handle optimizer;
    int rank = tess_runtime_rank(runtime.get()), world = tess_runtime_world(runtime.get());

    model()
    {
        tess_param_desc weight{};
        weight.name = "map.weight";
        weight.shape = {2, {rows, columns}};
        weight.trainable = weight.decay = weight.hidden = true;
        check(tess_fsdp_add_unit(fsdp.get(), "map", &weight, 1, &unit));
        check(tess_fsdp_materialize(fsdp.get(), init_rows, nullptr));
        optimizer = made<optimizer_handle>([this](auto out) {
            tess_optimizer_options options{};
            options.beta1 = 0.9f;
            options.beta2 = 0.999f;
            options.eps = 1e-8f;
            options.weight_decay = 0.01f;
            return tess_fsdp_optimizer_create(fsdp.get(), &options, out);
        });
    }

    // One micro-batch: forward, the summed square error, backward. The target is another linear map.
    float run(uint64_t micro)
    {
        float loss = 0, error[batch][rows];
        check(tess_unit_pre_forward(unit));
        const float *w = static_cast<const float *>(tess_unit_param(unit, 0));
        for (int t = 0; t < batch; t++)
            for (int64_t r = 0; r < rows; r++) {
                error[t][r] = 0;
                for (int64_t c = 0; c < columns; c++)
                    error[t][r] += (w[r * columns + c] - noise(2, uint64_t(r * columns + c))) * input(micro, t, c);
                loss += error[t][r] * error[t][r];
            }
        check(tess_unit_post_forward(unit));
        check(tess_unit_pre_backward(unit));
        float *gradient = tess_unit_grad(unit, 0);
        for (int64_t r = 0; r < rows; r++)
            for (int64_t c = 0; c < columns; c++) {
                float sum = 0;
                for (int t = 0; t < batch; t++)
                    sum += 2 * error[t][r] * input(micro, t, c);
                gradient[r * columns + c] = sum;
            }
        check(tess_unit_post_backward(unit));
        return loss;
    }

    // The mean loss of a step, added in the order of the micro-batches: the same sum on any number of ranks.
    float step(int64_t number)
    {
        const int n_local = micro_batches / world;
        std::vector<float> local(size_t(n_local), 0), all(micro_batches, 0);
        check(tess_fsdp_step_begin(fsdp.get(), n_local));
        for (int s = 0; s < n_local; s++) {
            check(tess_fsdp_micro_begin(fsdp.get(), s));
            local[size_t(s)] = run(uint64_t(number * micro_batches + s * world + rank));
        }
        check(tess_fsdp_step_end(fsdp.get()));
        check(tess_fsdp_optimizer_step(fsdp.get(), optimizer.get(), number, 0.03f,
                                       1.0f / (micro_batches * batch * rows)));
        check(tess_all_gather(tess_runtime_team(runtime.get()), local.data(), all.data(), size_t(n_local), TESS_F32,
                              nullptr));
        float loss = 0;
        for (int i = 0; i < micro_batches; i++)
            loss += all[size_t(i % world * n_local + i / world)];
        return loss / (micro_batches * batch * rows);
    }

    static float input(uint64_t micro, int t, int64_t c)
    {
        return noise(100 + micro, uint64_t(t * columns + c));
    }
};

void train(const char *folder, int64_t last_step)
{
    model m;
    if (micro_batches % m.world != 0)
        throw std::runtime_error(std::to_string(m.world) + " ranks do not divide 4 micro-batches");
    tess_checkpoint_state state{};
    state.fsdp = m.fsdp.get();
    state.optimizer = m.optimizer.get();
    int64_t step = 0;
    check(tess_checkpoint_resume(m.runtime.get(), folder, &state, &step));
    const auto saver = made<saver_handle>([&](auto out) {
        return tess_checkpoint_saver_create(m.runtime.get(), &state, 2, out);
    }); // keeps the newest two
    while (step < last_step) {
        const float loss = m.step(++step);
        if (m.rank == 0)
            std::printf("step %lld, loss %.9g\n", static_cast<long long>(step), double(loss));
        if (step % save_every == 0) // copies; the next steps run while the copy is written
            check(tess_checkpoint_save_start(saver.get(), folder, step, &state, "{\"example\": \"embed_ckpt\"}"));
    }
    check(tess_checkpoint_save_wait(saver.get()));
}

} // namespace

int main(int argc, char **argv)
{
    if (argc != 3)
        return std::fprintf(stderr, "embed_ckpt FOLDER LAST_STEP\n"), 2;
    try {
        train(argv[1], std::atoll(argv[2]));
    } catch (const std::exception &failure) {
        return std::fprintf(stderr, "embed_ckpt: %s\n", failure.what()), 1;
    }
    return 0;
}
