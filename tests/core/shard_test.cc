// Graphs shared out over meshes of in-process ranks: whatever the operation, the placement and the number of ranks, the
// parts together have the bits of the whole.
#include <atomic>
#include <mutex>

#include "base/philox.h"
#include "dist/graph_transport.h"
#include "dist/in_process.h"
#include "ops/op.h"
#include "passes/shard.h"
#include "tests/core/random_program.h"

namespace isotone {
namespace {

/// A stream of choices.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : rng_(seed) {}
  std::int64_t upto(std::int64_t n) { return static_cast<std::int64_t>(rng_() % static_cast<std::uint64_t>(n)); }
  std::mt19937_64& engine() { return rng_; }

 private:
  std::mt19937_64 rng_;
};

/// Cuts of a dimension: as plans make them, at nodes of its tree, or anywhere.
ir::AxisPlacement random_cut(Dice& dice, int dim, std::int64_t n, int workers) {
  const std::int64_t kind = dice.upto(3);
  if (kind == 0 || n == 0) {
    return ir::cut_evenly(dim, n, workers);
  }
  std::vector<std::int64_t> places(static_cast<std::size_t>(n) + 1);
  for (std::size_t i = 0; i < places.size(); ++i) {
    places[i] = static_cast<std::int64_t>(i);
  }
  if (kind == 1) {
    places = ReductionTree(TreeKind::axis, n).borders();
  }
  std::vector<std::int64_t> borders{0, n};
  while (static_cast<int>(borders.size()) < workers + 1) {
    borders.push_back(places[static_cast<std::size_t>(dice.upto(static_cast<std::int64_t>(places.size())))]);
  }
  std::sort(borders.begin(), borders.end());
  return ir::cut_at(dim, borders);
}

ir::Placement random_placement(Dice& dice, const ir::Type& type, const ir::Mesh& mesh) {
  ir::Placement out = ir::replicated(mesh);
  std::vector<int> dims;
  for (int d = 0; d + (is_quantised(type.dtype) ? 1 : 0) < type.rank(); ++d) {
    dims.push_back(d);
  }
  std::shuffle(dims.begin(), dims.end(), dice.engine());
  for (std::size_t a = 0; a < out.size() && !dims.empty(); ++a) {
    if (dice.upto(4) != 0) {
      const int d = dims.back();
      dims.pop_back();
      out[a] = random_cut(dice, d, type.shape[static_cast<std::size_t>(d)], mesh.axes()[a].size);
    }
  }
  return out;
}

/// The part of contiguous `bytes` that lies at `at`.
Bytes part_bytes(const ir::Type& type, const Bytes& bytes, const ir::Placement& placement, const std::vector<int>& at) {
  Bytes from = bytes;
  ir::Type now = type;
  for (std::size_t a = 0; a < placement.size(); ++a) {
    if (!placement[a].cut()) {
      continue;
    }
    const auto dim = static_cast<std::size_t>(placement[a].dim);
    const Span mine = placement[a].part(at[a]);
    std::int64_t outer = 1, inner = 1;
    for (std::size_t d = 0; d < now.shape.size(); ++d) {
      (d < dim ? outer : inner) *= d == dim ? 1 : now.shape[d];
    }
    const std::size_t unit = storage_bytes(now.dtype, inner);
    Bytes to;
    for (std::int64_t o = 0; o < outer; ++o) {
      const auto begin = from.begin() + static_cast<std::ptrdiff_t>((o * now.shape[dim] + mine.begin) *
                                                                    static_cast<std::int64_t>(unit));
      to.insert(to.end(), begin, begin + static_cast<std::ptrdiff_t>(mine.size() * static_cast<std::int64_t>(unit)));
    }
    now.shape[dim] = mine.size();
    from = std::move(to);
  }
  return from;
}

struct Count {
  int cases = 0, cut_sums = 0, talk = 0;
};

/// Runs the graph whole and on every rank of the mesh, with random places of inputs and (half of the time) results.
std::string compare(device::Device& device, const ir::Graph& graph, const std::vector<Bytes>& contents,
                    const std::vector<Bytes>& whole, const ir::Mesh& mesh, Dice& dice, Count& count) {
  std::vector<ir::Placement> places;
  std::vector<std::optional<ir::Placement>> wanted;
  std::string what = mesh.describe();
  for (const ir::ValueId v : graph.inputs) {
    places.push_back(random_placement(dice, graph.types[static_cast<std::size_t>(v)], mesh));
    what += " " + ir::to_string(graph.types[static_cast<std::size_t>(v)]) + ir::to_string(places.back(), mesh);
  }
  for (const ir::ValueId v : graph.outputs) {
    wanted.emplace_back();
    if (dice.upto(2) == 0) {
      wanted.back() = random_placement(dice, graph.types[static_cast<std::size_t>(v)], mesh);
      what += " -> " + ir::to_string(*wanted.back(), mesh);
    }
  }
  std::mutex mutex;
  std::string fault;
  bool summed = false, talked = false;
  dist::run_in_process(mesh.ranks(), [&](dist::Communicator& ranks) {
    const std::vector<int> at = mesh.coordinates(ranks.rank());
    const passes::Sharded mine = passes::shard(graph, {mesh, ranks.rank(), places, wanted});
    std::vector<Bytes> parts;
    for (std::size_t i = 0; i < contents.size(); ++i) {
      parts.push_back(part_bytes(graph.types[static_cast<std::size_t>(graph.inputs[i])], contents[i], places[i], at));
    }
    device::CompileOptions options;
    options.transport = dist::graph_transport(ranks);
    const std::vector<Bytes> found =
        read_all(compile_graph(device, mine.graph, options)->run(upload_all(device, parts)));
    const std::lock_guard lock(mutex);
    for (const passes::Traffic& t : mine.traffic) {
      talked = true;
      summed = summed || t.op != "all_gather";
    }
    for (std::size_t k = 0; k < graph.outputs.size() && fault.empty(); ++k) {
      const ir::Type& type = graph.types[static_cast<std::size_t>(graph.outputs[k])];
      const ir::Type local = ir::local_type(type, mine.results[k], at);
      const std::string d = difference(local, part_bytes(type, whole[k], mine.results[k], at), found[k]);
      fault = d.empty() ? ""
                        : fmt::format("{}: rank {}, result {} {}: {}", what, ranks.rank(), k,
                                      ir::to_string(mine.results[k], mesh), d);
    }
  });
  ++count.cases;
  count.cut_sums += summed ? 1 : 0;
  count.talk += talked ? 1 : 0;
  return fault;
}

std::vector<ir::Mesh> meshes() {
  return {ir::Mesh({{"t", 1}}),           ir::Mesh({{"t", 2}}),
          ir::Mesh({{"t", 3}}),           ir::Mesh({{"t", 4}}),
          ir::Mesh({{"d", 2}, {"t", 2}}), ir::Mesh({{"d", 2}, {"t", 3}}),
          ir::Mesh({{"t", 8}}),           ir::Mesh({{"d", 2}, {"c", 2}, {"t", 2}})};
}

class Shard : public ::testing::Test {
 protected:
  std::shared_ptr<device::Device> device_ = cpu::make_cpu_device();
};

TEST_F(Shard, EveryOperationOnEveryMesh) {
  Dice dice(7);
  for (const ops::OpDef* def : ops::table()) {
    if (def->collective) {
      continue;
    }
    Count count;
    for (const ops::Sample& sample : def->samples()) {
      Values inputs;
      std::vector<Bytes> contents;
      for (const ops::SampleInput& s : sample.inputs) {
        inputs.push_back(ir::leaf(s.type, nullptr, true));
        Bytes bytes(s.type.bytes());
        const ops::HostTensor host{&s.type, bytes.data()};
        std::uniform_real_distribution<double> uniform(s.low, s.high);
        if (is_quantised(s.type.dtype)) {
          for (std::size_t i = 0; i < bytes.size(); ++i) {
            bytes[i] =
                static_cast<std::byte>(i % unit_bytes(s.type.dtype) < 4 ? (i % 2 == 0 ? 0x10 : 0x2c) : dice.upto(256));
          }
        } else {
          for (std::int64_t i = 0; i < s.type.elements(); ++i) {
            const double x = uniform(dice.engine());
            is_float(s.type.dtype) ? host.set(i, static_cast<float>(x))
                                   : host.set_int(i, static_cast<std::int64_t>(std::floor(x)));
          }
        }
        contents.push_back(std::move(bytes));
      }
      const ir::Graph graph = ir::flatten(ops::apply(def->name, inputs, sample.attrs), inputs).graph;
      const std::vector<Bytes> whole = run_graph(*device_, graph, contents);
      for (const ir::Mesh& mesh : meshes()) {
        for (int i = 0; i < 2; ++i) {
          const std::string fault = compare(*device_, graph, contents, whole, mesh, dice, count);
          ASSERT_EQ(fault, "") << def->name;
        }
      }
    }
    RecordProperty(std::string(def->name),
                   fmt::format("{} cases, {} talk, {} join", count.cases, count.talk, count.cut_sums));
  }
}

TEST_F(Shard, RandomPrograms) {
  Dice dice(11);
  Count count;
  for (unsigned seed = 0; seed < 60; ++seed) {
    const Program p(1000 + seed);
    const std::vector<Bytes> whole = run_graph(*device_, p.graph, p.contents);
    for (const ir::Mesh& mesh : meshes()) {
      const std::string fault = compare(*device_, p.graph, p.contents, whole, mesh, dice, count);
      ASSERT_EQ(fault, "") << "seed " << 1000 + seed << "\n" << ir::print(p.graph);
    }
  }
  EXPECT_GT(count.talk, count.cases / 2) << "too few of " << count.cases << " cases need the other ranks";
}

}  // namespace
}  // namespace isotone
