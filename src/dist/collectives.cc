#include "dist/collectives.h"

#include <algorithm>
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

Floats tree_all_reduce(Communicator& ranks, FloatPartials mine, const Join& join, const Site& site) {
  const Call call(ranks, "tree_all_reduce", site);
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

Message broadcast(Communicator& ranks, int root, Message message, const Site& site) {
  const Call call(ranks, fmt::format("broadcast from rank {}", root), site);
  const int size = ranks.size();
  require(root >= 0 && root < size, "broadcast: there is no rank {} among {}", root, size);
  // Counted from the root: who is at an odd multiple of a stride gets the message from the even one below it.
  const int rank = (ranks.rank() + size - root) % size;
  int stride = 1;
  while (stride < size && rank % (2 * stride) == 0) {
    stride *= 2;
  }
  if (rank != 0) {
    message = ranks.receive((rank - stride + root) % size);
  }
  for (stride /= 2; stride >= 1; stride /= 2) {
    if (rank + stride < size) {
      ranks.send((rank + stride + root) % size, message);
    }
  }
  return message;
}

void barrier(Communicator& ranks, const Site& site) {
  const Call call(ranks, "barrier", site);
  const int rank = ranks.rank(), size = ranks.size();
  for (int distance = 1; distance < size; distance *= 2) {
    ranks.send((rank + distance) % size, {});
    static_cast<void>(ranks.receive((rank + size - distance) % size));
  }
}

std::vector<Message> all_gather(Communicator& ranks, Message mine, const Site& site) {
  const Call call(ranks, "all_gather", site);
  const int rank = ranks.rank(), size = ranks.size();
  std::vector<Message> all(static_cast<std::size_t>(size));
  all[static_cast<std::size_t>(rank)] = std::move(mine);
  for (int distance = 1; distance < size; distance *= 2) {
    // Held: the messages of ranks rank, rank + 1, ..., rank + distance - 1.
    const int to = (rank + size - distance) % size, from = (rank + distance) % size;
    const int count = std::min(distance, size - distance);
    for (int i = 0; i < count; ++i) {
      ranks.send(to, all[static_cast<std::size_t>((rank + i) % size)]);
    }
    for (int i = 0; i < count; ++i) {
      all[static_cast<std::size_t>((from + i) % size)] = ranks.receive(from);
    }
  }
  return all;
}

std::vector<Message> all_to_all(Communicator& ranks, std::vector<Message> to_each, const Site& site) {
  const Call call(ranks, "all_to_all", site);
  const int rank = ranks.rank(), size = ranks.size();
  require(static_cast<int>(to_each.size()) == size, "all-to-all: {} messages for {} ranks", to_each.size(), size);
  std::vector<Message> from_each(to_each.size());
  from_each[static_cast<std::size_t>(rank)] = std::move(to_each[static_cast<std::size_t>(rank)]);
  // At each distance every rank sends one message and receives one, so that no link waits for another.
  for (int distance = 1; distance < size; ++distance) {
    const int to = (rank + distance) % size, from = (rank + size - distance) % size;
    ranks.send(to, std::move(to_each[static_cast<std::size_t>(to)]));
    from_each[static_cast<std::size_t>(from)] = ranks.receive(from);
  }
  return from_each;
}

Floats all_gather(Communicator& ranks, std::span<const float> mine, const Site& site) {
  const Call call(ranks, "all_gather", site);
  Floats all;
  for (const Message& m : all_gather(ranks, message_of<float>(mine))) {
    const Floats part = values_of<float>(m);
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

Floats max_all_reduce(Communicator& ranks, Floats mine, const Site& site) {
  const Call call(ranks, fmt::format("max_all_reduce of {} values", mine.size()), site);
  for (const Message& m : all_gather(ranks, message_of<float>(mine))) {
    const Floats other = values_of<float>(m);
    require(other.size() == mine.size(), "a maximum over {} and {} values", mine.size(), other.size());
    for (std::size_t i = 0; i < mine.size(); ++i) {
      mine[i] = other[i] > mine[i] || other[i] != other[i] ? other[i] : mine[i];
    }
  }
  return mine;
}

std::vector<ExactSum> exact_all_reduce(Communicator& ranks, std::vector<ExactSum> mine, const Site& site) {
  const Call call(ranks, fmt::format("exact_all_reduce of {} values", mine.size()), site);
  const int rank = ranks.rank(), size = ranks.size();
  int stride = 1;
  for (; stride < size && rank % (2 * stride) == 0; stride *= 2) {
    if (rank + stride < size) {
      const auto other = values_of<ExactSum>(ranks.receive(rank + stride));
      require(other.size() == mine.size(), "exact sums of {} and {} elements cannot be joined", mine.size(),
              other.size());
      for (std::size_t i = 0; i < mine.size(); ++i) {
        mine[i].merge(other[i]);
      }
    }
  }
  if (rank != 0) {
    ranks.send(rank - stride, message_of<ExactSum>(mine));
  }
  return values_of<ExactSum>(broadcast(ranks, 0, message_of<ExactSum>(mine)));
}

ExactSum exact_all_reduce(Communicator& ranks, const ExactSum& mine, const Site& site) {
  const Call call(ranks, "exact_all_reduce of 1 value", site);
  return exact_all_reduce(ranks, std::vector<ExactSum>{mine}).at(0);
}

}  // namespace isotone::dist
