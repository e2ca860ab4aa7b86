#include "train/shards.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

#include "base/error.h"

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

Shards::Shards(std::vector<nn::ParameterSpec> specs, std::size_t shared, DataMode mode, dist::Communicator& ranks)
    : specs_(std::move(specs)),
      mode_(mode),
      ranks_(ranks),
      layout_(lengths_of(specs_, specs_.size()), ranks.size()),
      uses_(lengths_of(specs_, shared), ranks.size()),
      owners_(share_out(specs_, ranks.size())) {}

Tensor Shards::cut(const float* values, Span part) const {
  return Tensor::from(std::span(values + part.begin, static_cast<std::size_t>(part.size())), {part.size()});
}

Tensor Shards::slice_of(std::size_t i, const Tensor& whole) const {
  std::vector<dist::Floats> kept;
  return slice_of(i, std::as_bytes(floats_of(whole, kept)));
}

Tensor Shards::slice_of(std::size_t i, std::span<const std::byte> whole) const {
  const Type type{DType::f32, {slice(i).size()}};
  return Tensor::from_bytes(whole.data() + static_cast<std::size_t>(slice(i).begin) * sizeof(float), type);
}

Tensor Shards::zero_moment(std::size_t i) const {
  const Shape shape = cut_optimiser() ? Shape{slice(i).size()} : specs_[i].shape;
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
  const dist::Floats pack = dist::tree_reduce_scatter(ranks_, parts_of(grains), uses_, [&](Span node) {
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
    for (const nn::ParameterSpec& s : specs_) {
      bytes += aligned_bytes(s);
    }
    block_ = std::make_shared<device::HostBuffer>(bytes);
  }
  std::byte* at = block_->data();
  dist::Pieces pieces;
  for (const nn::ParameterSpec& s : specs_) {
    pieces.emplace_back(reinterpret_cast<float*>(at), static_cast<std::size_t>(elements_of(s)));
    at += aligned_bytes(s);
  }
  dist::all_gather_slices(ranks_, layout_, pack, pieces);
  Tensors whole;
  for (std::size_t i = 0; i < specs_.size(); ++i) {
    whole.push_back(Tensor::adopt(pieces[i].data(), {DType::f32, specs_[i].shape}, block_, false));
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

nn::Parameters Shards::gather_owned(const nn::Parameters& slices) const {
  std::vector<dist::Message> to_each(static_cast<std::size_t>(size()));
  for (std::size_t i = 0; i < specs_.size(); ++i) {
    std::vector<dist::Floats> kept;
    const auto bytes = std::as_bytes(floats_of(slices.at(specs_[i].name), kept));
    dist::Message& to = to_each[static_cast<std::size_t>(owner(i))];
    to.insert(to.end(), bytes.begin(), bytes.end());
  }
  const std::vector<dist::Message> from_each = dist::all_to_all(ranks_, std::move(to_each));
  std::vector<std::size_t> at(from_each.size(), 0);
  nn::Parameters out;
  for (std::size_t i = 0; i < specs_.size(); ++i) {
    if (owner(i) != rank()) {
      continue;
    }
    const Type type{DType::f32, specs_[i].shape};
    const auto whole = std::make_shared<device::HostBuffer>(type.bytes());
    std::byte* to = whole->data();
    for (std::size_t r = 0; r < from_each.size(); ++r) {
      const std::size_t n = static_cast<std::size_t>(layout_.slice(i, static_cast<int>(r)).size()) * sizeof(float);
      require(at[r] + n <= from_each[r].size(), "rank {} sent fewer of its slices than this rank owns", r);
      std::memcpy(to, from_each[r].data() + at[r], n);
      at[r] += n;
      to += n;
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
