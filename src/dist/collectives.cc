#include "dist/collectives.h"

#include <cstring>
#include <type_traits>

#include "base/error.h"
#include "base/parallel.h"

namespace isotone::dist {
namespace {

template <class T>
Message message_of(std::span<const T> values) {
  static_assert(std::is_trivially_copyable_v<T>);
  const auto bytes = std::as_bytes(values);
  return {bytes.begin(), bytes.end()};
}

template <class T>
std::vector<T> values_of(std::span<const std::byte> bytes) {
  static_assert(std::is_trivially_copyable_v<T>);
  require(bytes.size() % sizeof(T) == 0, "a message of {} bytes does not hold values of {}", bytes.size(), sizeof(T));
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!bytes.empty()) {
    std::memcpy(values.data(), bytes.data(), bytes.size());
  }
  return values;
}

/// Nodes travel as {count, {begin, end, length} each} and then their floats.
void send_partials(Communicator& ranks, int to, const FloatPartials& partials) {
  std::vector<std::int64_t> head{static_cast<std::int64_t>(partials.nodes().size())};
  Floats body;
  for (const auto& [node, values] : partials.nodes()) {
    head.insert(head.end(), {node.begin, node.end, static_cast<std::int64_t>(values.size())});
    body.insert(body.end(), values.begin(), values.end());
  }
  ranks.send(to, message_of<std::int64_t>(head));
  ranks.send(to, message_of<float>(body));
}

void receive_partials(Communicator& ranks, int from, FloatPartials& into) {
  const auto head = values_of<std::int64_t>(ranks.receive(from));
  const auto body = values_of<float>(ranks.receive(from));
  require(!head.empty() && static_cast<std::int64_t>(head.size()) == 1 + 3 * head[0],
          "rank {} sent a damaged list of nodes", from);
  std::size_t at = 0;
  for (std::size_t i = 1; i < head.size(); i += 3) {
    const auto n = static_cast<std::size_t>(head[i + 2]);
    require(at + n <= body.size(), "rank {} sent fewer values than it announced", from);
    into.add({head[i], head[i + 1]}, Floats(body.begin() + static_cast<std::ptrdiff_t>(at),
                                            body.begin() + static_cast<std::ptrdiff_t>(at + n)));
    at += n;
  }
}

}  // namespace

Floats add_floats(Floats left, Floats right) {
  require(left.size() == right.size(), "partial sums of {} and {} values cannot be added", left.size(), right.size());
  const FlushSubnormals flush;
  for (std::size_t i = 0; i < left.size(); ++i) {
    left[i] += right[i];
  }
  return left;
}

Floats tree_all_reduce(Communicator& ranks, FloatPartials mine, const Join& join) {
  const int rank = ranks.rank(), size = ranks.size();
  mine.merge(join);
  int stride = 1;
  for (; stride < size; stride *= 2) {
    if (rank % (2 * stride) != 0) {
      send_partials(ranks, rank - stride, mine);
      break;
    }
    if (rank + stride < size) {
      receive_partials(ranks, rank + stride, mine);
      mine.merge(join);
    }
  }
  // The way back: whoever handed its nodes to a neighbour has the result from there.
  Floats whole = rank == 0 ? mine.root() : values_of<float>(ranks.receive(rank - stride));
  for (stride /= 2; stride >= 1; stride /= 2) {
    if (rank + stride < size) {
      ranks.send(rank + stride, message_of<float>(whole));
    }
  }
  return whole;
}

std::vector<Message> all_gather(Communicator& ranks, Message mine) {
  std::vector<Message> all(static_cast<std::size_t>(ranks.size()));
  for (int r = 0; r < ranks.size(); ++r) {
    if (r != ranks.rank()) {
      ranks.send(r, mine);
    }
  }
  for (int r = 0; r < ranks.size(); ++r) {
    all[static_cast<std::size_t>(r)] = r == ranks.rank() ? mine : ranks.receive(r);
  }
  return all;
}

Floats all_gather(Communicator& ranks, std::span<const float> mine) {
  Floats all;
  for (const Message& m : all_gather(ranks, message_of<float>(mine))) {
    const Floats part = values_of<float>(m);
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

Floats max_all_reduce(Communicator& ranks, Floats mine) {
  for (const Message& m : all_gather(ranks, message_of<float>(mine))) {
    const Floats other = values_of<float>(m);
    require(other.size() == mine.size(), "a maximum over {} and {} values", mine.size(), other.size());
    for (std::size_t i = 0; i < mine.size(); ++i) {
      mine[i] = other[i] > mine[i] || other[i] != other[i] ? other[i] : mine[i];
    }
  }
  return mine;
}

ExactSum exact_all_reduce(Communicator& ranks, const ExactSum& mine) {
  ExactSum sum;
  for (const Message& m : all_gather(ranks, message_of<ExactSum>({&mine, 1}))) {
    sum.merge(values_of<ExactSum>(m).at(0));
  }
  return sum;
}

}  // namespace isotone::dist
