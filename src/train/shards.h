// How a run's parameters, optimiser state and gradients lie on its ranks: whole on each, or a slice on each. No number
// of a run depends on it (docs/parallelism.md).
#pragma once

#include <memory>
#include <string_view>

#include "device/host_buffer.h"
#include "dist/communicator.h"
#include "dist/sliced_collectives.h"
#include "nn/parameters.h"
#include "tensor/transforms.h"

namespace isotone::train {

/// Which of them are cut among the ranks. Zero1 and zero2 (Rajbhandari et al., 2020) are one here: no rank ever holds
/// the whole sum of the gradients, because reducing it gives each rank its slice.
enum class DataMode { replicated, zero1, zero2, zero3 };
DataMode parse_data_mode(std::string_view name);
std::vector<std::string> data_mode_names();

class Shards {
 public:
  /// `shared`: the parameter whose two uses have gradients of their own (specs.size(): none). Holds a reference to
  /// `ranks`.
  Shards(std::vector<nn::ParameterSpec> specs, std::size_t shared, DataMode mode, dist::Communicator& ranks);

  [[nodiscard]] const std::vector<nn::ParameterSpec>& specs() const { return specs_; }

  [[nodiscard]] dist::Communicator& ranks() const { return ranks_; }
  [[nodiscard]] int rank() const { return ranks_.rank(); }
  [[nodiscard]] int size() const { return ranks_.size(); }
  /// Whether this rank holds slices only: of parameters, of the moments, of the reduced gradients.
  [[nodiscard]] bool cut_parameters() const { return size() > 1 && mode_ == DataMode::zero3; }
  [[nodiscard]] bool cut_optimiser() const { return size() > 1 && mode_ != DataMode::replicated; }

  /// Elements [begin, end) of parameter `i` that are this rank's.
  [[nodiscard]] Span slice(std::size_t i) const { return layout_.slice(i, rank()); }
  /// A copy of this rank's slice of a whole parameter `i`.
  [[nodiscard]] Tensor slice_of(std::size_t i, const Tensor& whole) const;
  [[nodiscard]] Tensor slice_of(std::size_t i, std::span<const std::byte> whole) const;
  /// +0, as parameter `i`'s moments lie here.
  [[nodiscard]] Tensor zero_moment(std::size_t i) const;

  /// The tree of a round's grains and what of it each rank computes.
  [[nodiscard]] dist::TreeParts parts_of(std::int64_t grains) const;
  /// The sum over a round's grains, by uses. `values(node)` gives a node's; one rank has them whole, several their
  /// slices.
  [[nodiscard]] Tensors reduce(std::int64_t grains, const std::function<Tensors(Span)>& values) const;
  /// Whole tensors from every rank's slices, one of each parameter. They share one block of memory, which the next call
  /// takes over once nobody holds them.
  [[nodiscard]] Tensors gather(const Tensors& slices);
  [[nodiscard]] nn::Parameters gather(const nn::Parameters& slices);

  /// The rank that verifies and saves parameter `i` and its moments: about as many bytes each.
  [[nodiscard]] int owner(std::size_t i) const { return owners_[i]; }
  /// Whole tensors of the parameters that this rank owns, from every rank's slices.
  [[nodiscard]] nn::Parameters gather_owned(const nn::Parameters& slices) const;

  /// Bytes that this rank sends in a step of `rounds` rounds.
  [[nodiscard]] std::size_t bytes_sent(std::int64_t rounds, std::int64_t grains) const;
  /// Of this rank: elements of all its slices of parameters, and of gradients by uses.
  [[nodiscard]] std::int64_t elements() const { return layout_.pack_elements(rank()); }
  [[nodiscard]] std::int64_t uses_elements() const { return uses_.elements(); }  ///< of all ranks
  [[nodiscard]] std::int64_t gradient_elements() const { return uses_.pack_elements(rank()); }

 private:
  [[nodiscard]] Tensor cut(const float* values, Span part) const;

  std::vector<nn::ParameterSpec> specs_;
  DataMode mode_;
  dist::Communicator& ranks_;
  dist::SliceLayout layout_;  // of the parameters
  dist::SliceLayout uses_;    // of the gradients: those, and the second use of a shared one
  std::vector<int> owners_;
  std::shared_ptr<device::HostBuffer> block_;
};

}  // namespace isotone::train
