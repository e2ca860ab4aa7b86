#include "models/load.h"

#include <cstring>
#include <exception>
#include <mutex>

#include "base/error.h"
#include "base/parallel.h"
#include "formats/dequantise.h"

namespace isotone::models {

namespace {

struct Job {
  const nn::ParameterSpec* spec;
  std::vector<TensorView> views;  // the parameter's tensors in the files, one or a slice each
  DType to;
  std::shared_ptr<std::vector<std::byte>> owned;  // where a copy was needed
  const void* data = nullptr;
};

/// The compute dtype of a file taken as it is: f32 unless its matrices are bf16.
DType native_compute(const ModelFiles& files, const std::vector<nn::ParameterSpec>& specs) {
  for (const nn::ParameterSpec& s : specs) {
    const std::string& name = s.slices.empty() ? s.name : s.slices.front();
    if (s.shape.size() >= 2 && files.contains(name)) {
      return files.tensor(name).dtype == DType::bf16 ? DType::bf16 : DType::f32;
    }
  }
  return DType::f32;
}

/// The elements of `view` in the dtype `to`.
void convert(const TensorView& view, DType to, std::byte* out) {
  const auto elements = view.elements();
  if (view.dtype == to) {
    std::memcpy(out, view.data.data(), storage_bytes(to, elements));
  } else if (to == DType::f32) {
    dequantise(view.dtype, view.data, {reinterpret_cast<float*>(out), static_cast<std::size_t>(elements)});
  } else {
    std::vector<float> wide(static_cast<std::size_t>(elements));
    dequantise(view.dtype, view.data, wide);
    auto* narrow = reinterpret_cast<bf16*>(out);
    for (std::size_t i = 0; i < wide.size(); ++i) {
      narrow[i] = bf16(wide[i]);
    }
  }
}

void convert(Job& job) {
  const TensorView& first = job.views.front();
  const bool aligned = reinterpret_cast<std::uintptr_t>(first.data.data()) % 16 == 0;
  if (job.spec->slices.empty() && first.dtype == job.to && (aligned || is_quantised(job.to))) {
    job.data = first.data.data();
    return;
  }
  job.owned = std::make_shared<std::vector<std::byte>>(Type{job.to, job.spec->shape}.bytes());
  std::byte* out = job.owned->data();
  for (const TensorView& view : job.views) {
    convert(view, job.to, out);
    out += storage_bytes(job.to, view.elements());
  }
  job.data = job.owned->data();
}

}  // namespace

WeightDtype parse_weight_dtype(std::string_view text) {
  if (text == "f32") {
    return WeightDtype::f32;
  }
  if (text == "bf16") {
    return WeightDtype::bf16;
  }
  require(text == "native", "dtype '{}' is not offered; choose f32, bf16 or native", text);
  return WeightDtype::native;
}

LoadedWeights load_weights(const ModelFiles& files, WeightDtype dtype, bool constant) {
  const ModelConfig& config = files.config();
  const std::vector<nn::ParameterSpec> specs = architecture_of(config).parameters(config);
  LoadedWeights out;
  out.compute = dtype == WeightDtype::f32    ? DType::f32
                : dtype == WeightDtype::bf16 ? DType::bf16
                                             : native_compute(files, specs);
  std::vector<Job> jobs(specs.size());
  std::mutex mutex;
  std::exception_ptr failure;
  // Largest parameters are spread by handing out one at a time.
  parallel_for(static_cast<std::int64_t>(specs.size()), 1, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t i = begin; i < end; ++i) {
      try {
        Job& job = jobs[static_cast<std::size_t>(i)];
        job.spec = &specs[static_cast<std::size_t>(i)];
        for (const nn::StoredTensor& t : nn::stored_tensors(*job.spec)) {
          require(files.contains(t.name), "the model's files lack the tensor '{}'", t.name);
          job.views.push_back(files.tensor(t.name));
          require(job.views.back().shape == t.shape, "tensor '{}' is {}, but the configuration asks for {}", t.name,
                  ir::to_string(job.views.back().shape), ir::to_string(t.shape));
        }
        const DType stored = job.views.front().dtype;
        job.to =
            dtype == WeightDtype::native && is_quantised(stored) && job.spec->shape.size() == 2 ? stored : out.compute;
        convert(job);
      } catch (...) {
        const std::lock_guard lock(mutex);
        failure = std::current_exception();
      }
    }
  });
  if (failure != nullptr) {
    std::rethrow_exception(failure);
  }
  for (Job& job : jobs) {
    std::shared_ptr<const void> keep =
        job.owned != nullptr ? std::shared_ptr<const void>(job.owned) : job.views.front().owner;
    out.parameters.set(job.spec->name, Tensor::adopt(job.data, {job.to, job.spec->shape}, std::move(keep), constant));
  }
  add_tables(config, out.parameters);
  return out;
}

}  // namespace isotone::models
