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
  TensorView view;
  DType to;
  std::shared_ptr<std::vector<std::byte>> owned;  // where a conversion was needed
  const void* data = nullptr;
};

/// The compute dtype of a file taken as it is: f32 unless its matrices are bf16.
DType native_compute(const ModelFiles& files, const std::vector<nn::ParameterSpec>& specs) {
  for (const nn::ParameterSpec& s : specs) {
    if (s.shape.size() == 2 && files.contains(s.name)) {
      return files.tensor(s.name).dtype == DType::bf16 ? DType::bf16 : DType::f32;
    }
  }
  return DType::f32;
}

void convert(Job& job) {
  const bool aligned = reinterpret_cast<std::uintptr_t>(job.view.data.data()) % 16 == 0;
  if (job.view.dtype == job.to && (aligned || is_quantised(job.to))) {
    job.data = job.view.data.data();
    return;
  }
  const auto elements = job.view.elements();
  job.owned = std::make_shared<std::vector<std::byte>>(storage_bytes(job.to, elements));
  if (job.view.dtype == job.to) {
    std::memcpy(job.owned->data(), job.view.data.data(), job.owned->size());
  } else if (job.to == DType::f32) {
    dequantise(job.view.dtype, job.view.data,
               {reinterpret_cast<float*>(job.owned->data()), static_cast<std::size_t>(elements)});
  } else {
    std::vector<float> wide(static_cast<std::size_t>(elements));
    dequantise(job.view.dtype, job.view.data, wide);
    auto* to = reinterpret_cast<bf16*>(job.owned->data());
    for (std::size_t i = 0; i < wide.size(); ++i) {
      to[i] = bf16(wide[i]);
    }
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
        require(files.contains(job.spec->name), "the model's files lack the tensor '{}'", job.spec->name);
        job.view = files.tensor(job.spec->name);
        require(job.view.shape == job.spec->shape, "tensor '{}' is {}, but the configuration asks for {}",
                job.spec->name, ir::to_string(job.view.shape), ir::to_string(job.spec->shape));
        job.to = dtype == WeightDtype::native && is_quantised(job.view.dtype) && job.spec->shape.size() == 2
                     ? job.view.dtype
                     : out.compute;
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
    std::shared_ptr<const void> keep = job.owned != nullptr ? std::shared_ptr<const void>(job.owned) : job.view.owner;
    out.parameters.set(job.spec->name, Tensor::adopt(job.data, {job.to, job.spec->shape}, std::move(keep), constant));
  }
  add_tables(config, out.parameters);
  return out;
}

}  // namespace isotone::models
