// How a run's parameters, optimiser state and gradients lie on its ranks: a model's ranks hold parts of them, and of
// each part the data ranks hold all, or a slice each. No number of a run depends on it (docs/parallelism.md).
#pragma once

#include <memory>
#include <string_view>

#include "device/host_buffer.h"
#include "dist/communicator.h"
#include "dist/sliced_collectives.h"
#include "nn/parameters.h"
#include "tensor/transforms.h"
#include "train/grid.h"

namespace isotone::train {

/// Which of them are cut among the ranks. Zero1 and zero2 (Rajbhandari et al., 2020) are one here: no rank ever holds
/// the whole sum of the gradients, because reducing it gives each rank its slice.
enum class DataMode { replicated, zero1, zero2, zero3 };
DataMode parse_data_mode(std::string_view name);
std::vector<std::string> data_mode_names();

class Shards {
 public:
  /// `shared`: the parameter whose two uses have gradients of their own (specs.size(): none). Holds a reference to
  /// `grid`.
  Shards(std::vector<nn::ParameterSpec> specs, std::size_t shared, DataMode mode, const Grid& grid);

  /// The whole parameters, and where their parts lie on the model's ranks.
  [[nodiscard]] const std::vector<nn::ParameterSpec>& specs() const { return specs_; }
  [[nodiscard]] const ir::Placement& placement(std::size_t i) const { return placements_[i]; }

  /// All ranks of the run.
  [[nodiscard]] dist::Communicator& ranks() const { return grid_.world(); }
  [[nodiscard]] const Grid& grid() const { return grid_; }
  /// Among the data ranks.
  [[nodiscard]] int rank() const { return grid_.data().rank(); }
  [[nodiscard]] int size() const { return grid_.data().size(); }
  /// Whether this rank holds slices only: of parameters, of the moments, of the reduced gradients.
  [[nodiscard]] bool cut_parameters() const { return size() > 1 && mode_ == DataMode::zero3; }
  [[nodiscard]] bool cut_optimiser() const { return size() > 1 && mode_ != DataMode::replicated; }

  /// Elements [begin, end) of this rank's part of parameter `i` that are in its slice.
  [[nodiscard]] Span slice(std::size_t i) const { return layout_.slice(i, rank()); }
  /// A copy of this rank's slice of its part.
  [[nodiscard]] Tensor slice_of(std::size_t i, const Tensor& part) const;
  /// Copies of what this rank keeps of a whole parameter `i`, or of one of its moments.
  [[nodiscard]] Tensor parameter_from(std::size_t i, std::span<const std::byte> whole) const;
  [[nodiscard]] Tensor moment_from(std::size_t i, std::span<const std::byte> whole) const;
  /// +0, as parameter `i`'s moments lie here.
  [[nodiscard]] Tensor zero_moment(std::size_t i) const;

  /// The tree of a round's grains and what of it each rank computes.
  [[nodiscard]] dist::TreeParts parts_of(std::int64_t grains) const;
  /// The sum over a round's grains, by uses. `values(node)` gives a node's; one rank has them whole, several their
  /// slices.
  [[nodiscard]] Tensors reduce(std::int64_t grains, const std::function<Tensors(Span)>& values) const;
  /// The parts from every data rank's slices, one of each parameter. They share one block of memory, which the next
  /// call takes over once nobody holds them.
  [[nodiscard]] Tensors gather(const Tensors& slices);
  [[nodiscard]] nn::Parameters gather(const nn::Parameters& slices);
  /// Whole tensors from the parts of the model's ranks.
  [[nodiscard]] nn::Parameters join_parts(const nn::Parameters& parts) const;

  /// Whether this rank of all verifies and saves parameter `i` and its moments: about as many bytes each.
  [[nodiscard]] bool owns(std::size_t i) const { return owners_[i] == grid_.world().rank(); }
  /// Whole tensors of the parameters that this rank owns, from what every rank keeps: of parameters, or of moments.
  [[nodiscard]] nn::Parameters owned_parameters(const nn::Parameters& kept) const;
  [[nodiscard]] nn::Parameters owned_moments(const nn::Parameters& kept) const;
  /// Whether this rank's gradient of parameter `i` counts in sums over all ranks: each element does on one rank.
  [[nodiscard]] bool counts(std::size_t i) const { return grid_.speaks_for(placements_[i], grid_.model().rank()); }

  /// Bytes that this rank sends in a step of `rounds` rounds.
  [[nodiscard]] std::size_t bytes_sent(std::int64_t rounds, std::int64_t grains) const;
  /// Of this rank: elements of all its slices of parameters, and of gradients by uses.
  [[nodiscard]] std::int64_t elements() const { return layout_.pack_elements(rank()); }
  [[nodiscard]] std::int64_t uses_elements() const { return uses_.elements(); }  ///< of all ranks
  [[nodiscard]] std::int64_t gradient_elements() const { return uses_.pack_elements(rank()); }

 private:
  [[nodiscard]] Tensor cut(const float* values, Span part) const;
  [[nodiscard]] Tensor kept_from(std::size_t i, std::span<const std::byte> whole, bool sliced) const;
  [[nodiscard]] nn::Parameters owned(const nn::Parameters& kept, bool sliced) const;

  std::vector<nn::ParameterSpec> specs_;
  DataMode mode_;
  const Grid& grid_;
  std::vector<ir::Placement> placements_;  // on the model's mesh
  std::vector<nn::ParameterSpec> parts_;   // the specs with the shapes of this rank's parts
  dist::SliceLayout layout_;               // of the parts
  dist::SliceLayout uses_;                 // of the gradients: those, and the second use of a shared one
  std::vector<int> owners_;
  std::shared_ptr<device::HostBuffer> block_;
};

}  // namespace isotone::train
