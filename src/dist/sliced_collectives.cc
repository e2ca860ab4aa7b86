#include "dist/sliced_collectives.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/error.h"
#include "base/parallel.h"

namespace isotone::dist {
namespace {

/// Elements of a message: long enough to keep a link busy, short enough to stay in a cache between copy and sum.
constexpr std::int64_t kBucket = std::int64_t{1} << 20;

/// One message: elements `part` of the pack of rank `owner`.
struct Bucket {
  int owner = 0;
  Span part;
};

void add_buckets(const SliceLayout& layout, int owner, std::vector<Bucket>& to) {
  const std::int64_t n = layout.pack_elements(owner);
  for (std::int64_t at = 0; at < n; at += kBucket) {
    to.push_back({owner, {at, std::min(n, at + kBucket)}});
  }
}

Message packed(const SliceLayout& layout, const ConstPieces& tensors, const Bucket& b) {
  Message m(static_cast<std::size_t>(b.part.size()) * sizeof(float));
  layout.pack(tensors, b.owner, b.part, reinterpret_cast<float*>(m.data()));
  return m;
}

/// A message that must hold as many floats as the bucket.
Message received(Communicator& ranks, int from, const Bucket& b) {
  Message m = ranks.receive(from);
  require(m.size() == static_cast<std::size_t>(b.part.size()) * sizeof(float),
          "rank {} expects {} values of rank {}, which sent {} bytes: the two do not run the same step", ranks.rank(),
          b.part.size(), from, m.size());
  return m;
}

const float* floats_of(const Message& m) {
  return reinterpret_cast<const float*>(m.data());
}

/// to = left + right, element by element.
void add_to(float* to, const float* left, const float* right, std::int64_t n) {
  parallel_for(n, 1 << 14, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t i = begin; i < end; ++i) {
      to[i] = left[i] + right[i];
    }
  });
}

/// Every rank has one node, and at each distance the partner's is the sibling.
Floats halve(Communicator& ranks, const SliceLayout& layout, const ConstPieces& tensors) {
  const int rank = ranks.rank(), size = ranks.size();
  // Sums so far, by owner of the slice; those of the first distance come out of the tensors.
  std::vector<Floats> sums(static_cast<std::size_t>(size));
  for (int distance = 1; distance < size; distance *= 2) {
    const int partner = rank ^ distance;
    std::vector<Bucket> out, in;
    for (int owner = 0; owner < size; ++owner) {
      if (owner % distance == rank % distance) {  // held until now
        add_buckets(layout, owner, (owner & distance) == (partner & distance) ? out : in);
      }
    }
    for (std::size_t i = 0; i < std::max(out.size(), in.size()); ++i) {
      if (i < out.size()) {
        const Bucket& b = out[i];
        Floats& held = sums[static_cast<std::size_t>(b.owner)];
        if (distance == 1) {
          ranks.send(partner, packed(layout, tensors, b));
        } else {
          const auto bytes = std::as_bytes(
              std::span(held).subspan(static_cast<std::size_t>(b.part.begin), static_cast<std::size_t>(b.part.size())));
          ranks.send(partner, Message(bytes.begin(), bytes.end()));
        }
      }
      if (i < in.size()) {
        const Bucket& b = in[i];
        Floats& held = sums[static_cast<std::size_t>(b.owner)];
        held.resize(static_cast<std::size_t>(layout.pack_elements(b.owner)));
        float* mine = held.data() + b.part.begin;
        if (distance == 1) {
          layout.pack(tensors, b.owner, b.part, mine);
        }
        const Message theirs = received(ranks, partner, b);
        rank < partner ? add_to(mine, mine, floats_of(theirs), b.part.size())
                       : add_to(mine, floats_of(theirs), mine, b.part.size());
      }
    }
    for (const Bucket& b : out) {
      Floats().swap(sums[static_cast<std::size_t>(b.owner)]);
    }
  }
  return std::move(sums[static_cast<std::size_t>(rank)]);
}

/// Every rank hands its nodes to the owners of the slices.
Floats hand_over(Communicator& ranks, const TreeParts& parts, const SliceLayout& layout, const NodeValues& values) {
  const int rank = ranks.rank(), size = ranks.size();
  const std::int64_t n = layout.pack_elements(rank);
  FloatPartials mine(parts.tree);
  for (const Span node : parts.nodes(rank)) {
    const ConstPieces tensors = values(node);
    for (int i = 1; i < size; ++i) {
      std::vector<Bucket> out;
      add_buckets(layout, (rank + i) % size, out);
      for (const Bucket& b : out) {
        ranks.send(b.owner, packed(layout, tensors, b));
      }
    }
    Floats own(static_cast<std::size_t>(n));
    layout.pack(tensors, rank, {0, n}, own.data());
    mine.add(node, std::move(own));
  }
  std::vector<Bucket> in;
  add_buckets(layout, rank, in);
  const auto join = [](Floats left, const Floats& right) {
    add_to(left.data(), left.data(), right.data(), static_cast<std::int64_t>(left.size()));
    return left;
  };
  for (int i = 1; i < size; ++i) {
    const int from = (rank + size - i) % size;
    for (const Span node : parts.nodes(from)) {
      Floats theirs(static_cast<std::size_t>(n));
      for (const Bucket& b : in) {
        const Message m = received(ranks, from, b);
        std::memcpy(theirs.data() + b.part.begin, m.data(), m.size());
      }
      mine.add(node, std::move(theirs));
    }
    mine.merge(join);  // as soon as siblings are there, so that few nodes wait
  }
  mine.merge(join);
  require(mine.whole(), "{}: the ranks' parts leave out a piece", parts.tree.describe());
  return mine.root();
}

/// For each doubling of all_gather_slices(): the distance, and how many packs go over it.
std::vector<std::pair<int, int>> doublings(int size) {
  std::vector<std::pair<int, int>> out;
  for (int distance = 1; distance < size; distance *= 2) {
    out.emplace_back(distance, std::min(distance, size - distance));
  }
  return out;
}

}  // namespace

bool TreeParts::halves() const {
  const auto n = static_cast<unsigned>(parts.size());
  if (!std::has_single_bit(n)) {
    return false;
  }
  for (unsigned group = 1; group <= n; group *= 2) {
    for (unsigned first = 0; first < n; first += group) {
      if (tree.cover({parts[first].begin, parts[first + group - 1].end}).size() != 1 || parts[first].empty()) {
        return false;
      }
    }
  }
  return true;
}

Floats tree_reduce_scatter(Communicator& ranks, const TreeParts& parts, const SliceLayout& layout,
                           const NodeValues& values, const Site& site) {
  const Call call(ranks, fmt::format("reduce_scatter of {} values", layout.elements()), site);
  require(static_cast<int>(parts.parts.size()) == ranks.size() && layout.ranks() == ranks.size(),
          "reduce-scatter: {} parts and slices for {} ranks, but there are {}", parts.parts.size(), layout.ranks(),
          ranks.size());
  if (ranks.size() > 1 && parts.halves()) {
    return halve(ranks, layout, values(parts.nodes(ranks.rank()).at(0)));
  }
  return hand_over(ranks, parts, layout, values);
}

void all_gather_slices(Communicator& ranks, const SliceLayout& layout, std::span<const float> mine,
                       const Pieces& tensors, const Site& site) {
  const Call call(ranks, fmt::format("all_gather of {} values", layout.elements()), site);
  const int rank = ranks.rank(), size = ranks.size();
  require(layout.ranks() == size && static_cast<std::int64_t>(mine.size()) == layout.pack_elements(rank),
          "all-gather: {} values given, the pack of rank {} of {} has {}", mine.size(), rank, layout.ranks(),
          layout.pack_elements(rank));
  layout.unpack(mine.data(), rank, {0, layout.pack_elements(rank)}, tensors);
  const ConstPieces placed(tensors.begin(), tensors.end());
  for (const auto& [distance, count] : doublings(size)) {
    // Held: the packs of ranks rank, rank + 1, ..., rank + distance - 1.
    std::vector<Bucket> out, in;
    for (int i = 0; i < count; ++i) {
      add_buckets(layout, (rank + i) % size, out);
      add_buckets(layout, (rank + distance + i) % size, in);
    }
    const int to = (rank + size - distance) % size, from = (rank + distance) % size;
    for (std::size_t i = 0; i < std::max(out.size(), in.size()); ++i) {
      if (i < out.size()) {
        ranks.send(to, packed(layout, placed, out[i]));
      }
      if (i < in.size()) {
        const Message m = received(ranks, from, in[i]);
        layout.unpack(floats_of(m), in[i].owner, in[i].part, tensors);
      }
    }
  }
}

void tree_all_reduce(Communicator& ranks, const TreeParts& parts, const SliceLayout& layout, const NodeValues& values,
                     const Pieces& tensors, const Site& site) {
  const Call call(ranks, fmt::format("all_reduce of {} values", layout.elements()), site);
  const Floats mine = tree_reduce_scatter(ranks, parts, layout, values);
  all_gather_slices(ranks, layout, mine, tensors);
}

std::int64_t reduce_scatter_sends(const TreeParts& parts, const SliceLayout& layout, int rank) {
  return static_cast<std::int64_t>(parts.nodes(rank).size()) * (layout.elements() - layout.pack_elements(rank));
}

std::int64_t all_gather_sends(const SliceLayout& layout, int rank) {
  std::int64_t n = 0;
  for (const auto& [distance, count] : doublings(layout.ranks())) {
    for (int i = 0; i < count; ++i) {
      n += layout.pack_elements((rank + i) % layout.ranks());
    }
  }
  return n;
}

}  // namespace isotone::dist
