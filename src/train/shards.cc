#include "train/shards.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

#include "base/error.h"
#include "nn/plan.h"
#include "train/parts.h"

namespace isotone::train {
namespace {

constexpr std::array<std::string_view, 4> kModes{"replicated", "zero1", "zero2", "zero3"};

std::int64_t elements_of(const nn::ParameterSpec& s) {
  return Type{DType::f32, s.shape}.elements();
}

/// Room for a tensor in a block of many, each at a multiple of 64 bytes.
std::size_t aligned_bytes(const nn::ParameterSpec& s) {
  return (Type{DType::f32, s.shape}.bytes() + 63) / 64 * 64;
}

std::vector<std::int64_t> lengths_of(const std::vector<nn::ParameterSpec>& specs, std::size_t shared) {
  std::vector<std::int64_t> out;
  for (const nn::ParameterSpec& s : specs) {
    out.push_back(elements_of(s));
  }
  if (shared < specs.size()) {
    out.push_back(out[shared]);
  }
  return out;
}

std::vector<ir::Placement> places_of(const std::vector<nn::ParameterSpec>& specs, const ir::Mesh& mesh) {
  nn::Plan plan;
  for (const ir::MeshAxis& axis : mesh.axes()) {
    if (axis.name != "context") {  // which cuts no parameter
      plan.merge(nn::ready_plan(axis.name));
    }
  }
  std::vector<ir::Placement> out;
  for (const nn::ParameterSpec& s : specs) {
    out.push_back(nn::place(s, plan, mesh));
  }
  return out;
}

std::vector<nn::ParameterSpec> parts_of_specs(std::vector<nn::ParameterSpec> specs,
                                              const std::vector<ir::Placement>& placements,
                                              const std::vector<int>& coordinates) {
  for (std::size_t i = 0; i < specs.size(); ++i) {
    specs[i].shape = ir::local_type({DType::f32, specs[i].shape}, placements[i], coordinates).shape;
  }
  return specs;
}

/// Largest first, each to the rank with the least so far.
std::vector<int> share_out(const std::vector<nn::ParameterSpec>& specs, int ranks) {
  std::vector<std::size_t> order(specs.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return elements_of(specs[a]) > elements_of(specs[b]); });
  std::vector<std::int64_t> load(static_cast<std::size_t>(ranks), 0);
  std::vector<int> owners(specs.size());
  for (const std::size_t i : order) {
    const auto least = std::min_element(load.begin(), load.end());
    owners[i] = static_cast<int>(least - load.begin());
    *least += elements_of(specs[i]);
  }
  return owners;
}

/// The elements of an f32 tensor in the host's memory; `kept` holds a copy where the device has it elsewhere.
std::span<const float> floats_of(const Tensor& t, std::vector<dist::Floats>& kept) {
  if (const void* host = t.host(); host != nullptr) {
    return {static_cast<const float*>(host), static_cast<std::size_t>(t.type().elements())};
  }
  return kept.emplace_back(t.to_floats());
}

}  // namespace

DataMode parse_data_mode(std::string_view name) {
  const auto at = std::find(kModes.begin(), kModes.end(), name);
  require(at != kModes.end(), "parallel.data is '{}'; choose one of: {}", name, fmt::join(kModes, ", "));
  return static_cast<DataMode>(at - kModes.begin());
}

std::vector<std::string> data_mode_names() {
  return {kModes.begin(), kModes.end()};
}

Shards::Shards(std::vector<nn::ParameterSpec> specs, std::size_t shared, DataMode mode, const Grid& grid)
    : specs_(std::move(specs)),
      mode_(mode),
      grid_(grid),
      placements_(places_of(specs_, grid.mesh())),
      parts_(parts_of_specs(specs_, placements_, grid.coordinates(grid.model().rank()))),
      layout_(lengths_of(parts_, parts_.size()), grid.data().size()),
      uses_(lengths_of(parts_, shared), grid.data().size()),
      owners_(share_out(specs_, grid.world().size())) {}

Tensor Shards::cut(const float* values, Span part) const {
  return Tensor::from(std::span(values + part.begin, static_cast<std::size_t>(part.size())), {part.size()});
}

Tensor Shards::slice_of(std::size_t i, const Tensor& part) const {
  std::vector<dist::Floats> kept;
  return cut(floats_of(part, kept).data(), slice(i));
}

Tensor Shards::kept_from(std::size_t i, std::span<const std::byte> whole, bool sliced) const {
  const auto* values = reinterpret_cast<const float*>(whole.data());
  dist::Floats part;
  if (parts_[i].shape != specs_[i].shape) {
    part.resize(static_cast<std::size_t>(elements_of(parts_[i])));
    const std::vector<int> at = grid_.coordinates(grid_.model().rank());
    copy_part_out(specs_[i].shape, part_ranges(specs_[i].shape, placements_[i], at), values, part.data());
    values = part.data();
  }
  return sliced ? cut(values, slice(i)) : Tensor::from_bytes(values, {DType::f32, parts_[i].shape});
}

Tensor Shards::parameter_from(std::size_t i, std::span<const std::byte> whole) const {
  return kept_from(i, whole, cut_parameters());
}

Tensor Shards::moment_from(std::size_t i, std::span<const std::byte> whole) const {
  return kept_from(i, whole, cut_optimiser());
}

Tensor Shards::zero_moment(std::size_t i) const {
  const Shape shape = cut_optimiser() ? Shape{slice(i).size()} : parts_[i].shape;
  return Tensor::from(dist::Floats(static_cast<std::size_t>(Type{DType::f32, shape}.elements())), shape);
}

dist::TreeParts Shards::parts_of(std::int64_t grains) const {
  return {ReductionTree(TreeKind::element, grains), size()};
}

Tensors Shards::reduce(std::int64_t grains, const std::function<Tensors(Span)>& values) const {
  if (size() == 1) {
    return values({0, grains});
  }
  Tensors node_values;
  std::vector<dist::Floats> kept;
  const dist::Floats pack = dist::tree_reduce_scatter(grid_.data(), parts_of(grains), uses_, [&](Span node) {
    node_values.clear();  // sent: their memory is free for the next node's
    kept.clear();
    node_values = values(node);
    dist::ConstPieces pieces;
    for (const Tensor& t : node_values) {
      pieces.push_back(floats_of(t, kept));
    }
    return pieces;
  });
  Tensors slices;
  for (std::size_t i = 0; i < uses_.tensors(); ++i) {
    slices.push_back(cut(pack.data(), uses_.in_pack(i, rank())));
  }
  return slices;
}

Tensors Shards::gather(const Tensors& slices) {
  dist::Floats pack;
  pack.reserve(static_cast<std::size_t>(layout_.pack_elements(rank())));
  std::vector<dist::Floats> kept;
  for (const Tensor& t : slices) {
    const std::span<const float> values = floats_of(t, kept);
    pack.insert(pack.end(), values.begin(), values.end());
    kept.clear();
  }
  if (block_ == nullptr || block_.use_count() > 1) {
    std::size_t bytes = 0;
    for (const nn::ParameterSpec& s : parts_) {
      bytes += aligned_bytes(s);
    }
    block_ = std::make_shared<device::HostBuffer>(bytes);
  }
  std::byte* at = block_->data();
  dist::Pieces pieces;
  for (const nn::ParameterSpec& s : parts_) {
    pieces.emplace_back(reinterpret_cast<float*>(at), static_cast<std::size_t>(elements_of(s)));
    at += aligned_bytes(s);
  }
  dist::all_gather_slices(grid_.data(), layout_, pack, pieces);
  Tensors whole;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    whole.push_back(Tensor::adopt(pieces[i].data(), {DType::f32, parts_[i].shape}, block_, false));
  }
  return whole;
}

nn::Parameters Shards::gather(const nn::Parameters& slices) {
  Tensors list;
  for (const nn::ParameterSpec& s : specs_) {
    list.push_back(slices.at(s.name));
  }
  const Tensors whole = gather(list);
  nn::Parameters out;
  for (std::size_t i = 0; i < specs_.size(); ++i) {
    out.set(specs_[i].name, whole[i]);
  }
  return out;
}

nn::Parameters Shards::join_parts(const nn::Parameters& parts) const {
  dist::Communicator& model = grid_.model();
  if (model.size() == 1) {
    return parts;
  }
  nn::Parameters out;
  for (std::size_t i = 0; i < specs_.size(); ++i) {
    std::vector<dist::Floats> kept;
    const auto mine = std::as_bytes(floats_of(parts.at(specs_[i].name), kept));
    const std::vector<dist::Message> all = dist::all_gather(model, dist::Message(mine.begin(), mine.end()));
    dist::Floats whole(static_cast<std::size_t>(elements_of(specs_[i])));
    for (std::size_t r = 0; r < all.size(); ++r) {
      copy_part_in(specs_[i].shape,
                   part_ranges(specs_[i].shape, placements_[i], grid_.coordinates(static_cast<int>(r))),
                   reinterpret_cast<const float*>(all[r].data()), whole.data());
    }
    out.set(specs_[i].name, Tensor::from(whole, specs_[i].shape));
  }
  return out;
}

nn::Parameters Shards::owned_parameters(const nn::Parameters& kept) const {
  return owned(kept, cut_parameters());
}

nn::Parameters Shards::owned_moments(const nn::Parameters& kept) const {
  return owned(kept, cut_optimiser());
}

/// Every piece of a parameter travels from one rank that has it to the parameter's owner.
nn::Parameters Shards::owned(const nn::Parameters& kept, bool sliced) const {
  const int model_ranks = grid_.model().size();
  if (!sliced && model_ranks == 1) {
    return kept;
  }
  dist::Communicator& world = grid_.world();
  std::vector<dist::Message> to_each(static_cast<std::size_t>(world.size()));
  for (std::size_t i = 0; i < specs_.size(); ++i) {
    if (counts(i) && (sliced || rank() == 0)) {
      std::vector<dist::Floats> copy;
      const auto bytes = std::as_bytes(floats_of(kept.at(specs_[i].name), copy));
      dist::Message& to = to_each[static_cast<std::size_t>(owners_[i])];
      to.insert(to.end(), bytes.begin(), bytes.end());
    }
  }
  const std::vector<dist::Message> from_each = dist::all_to_all(world, std::move(to_each));
  std::vector<std::size_t> at(from_each.size(), 0);
  nn::Parameters out;
  for (std::size_t i = 0; i < specs_.size(); ++i) {
    if (!owns(i)) {
      continue;
    }
    const Type type{DType::f32, specs_[i].shape};
    const auto whole = std::make_shared<device::HostBuffer>(type.bytes());
    for (int m = 0; m < model_ranks; ++m) {
      if (!grid_.speaks_for(placements_[i], m)) {
        continue;
      }
      const std::vector<Span> ranges = part_ranges(specs_[i].shape, placements_[i], grid_.coordinates(m));
      std::int64_t elements = 1;
      for (const Span r : ranges) {
        elements *= r.size();
      }
      dist::Floats part(static_cast<std::size_t>(elements));
      std::byte* to = reinterpret_cast<std::byte*>(part.data());
      const dist::SliceLayout layout({elements}, size());
      for (int d = 0; d < (sliced ? size() : 1); ++d) {
        const auto from = static_cast<std::size_t>(grid_.rank_at(d, m));
        const std::size_t n = static_cast<std::size_t>(sliced ? layout.slice(0, d).size() : elements) * sizeof(float);
        require(at[from] + n <= from_each[from].size(), "rank {} sent fewer of its slices than this rank owns", from);
        std::memcpy(to, from_each[from].data() + at[from], n);
        at[from] += n;
        to += n;
      }
      copy_part_in(specs_[i].shape, ranges, part.data(), reinterpret_cast<float*>(whole->data()));
    }
    out.set(specs_[i].name, Tensor::adopt(whole->data(), type, whole, false));
  }
  return out;
}

std::size_t Shards::bytes_sent(std::int64_t rounds, std::int64_t grains) const {
  if (size() == 1) {
    return 0;
  }
  // The gradients of every round, then either their sum or the parameters.
  const std::int64_t floats =
      rounds * dist::reduce_scatter_sends(parts_of(grains), uses_, rank()) + dist::all_gather_sends(layout_, rank());
  return static_cast<std::size_t>(floats) * sizeof(float);
}

}  // namespace isotone::train
