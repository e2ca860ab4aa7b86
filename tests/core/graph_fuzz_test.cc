// Random programs on the CPU backend and on the interpreter: the same bits, whatever the instruction set, threads,
// views and donated memory.
#include <chrono>
#include <cstdlib>

#include "backends/cpu/isa.h"
#include "base/parallel.h"
#include "tests/core/random_program.h"

namespace isotone {
namespace {

/// Runs the program on the device and says where its bits differ from the expected ones; empty where nowhere.
std::string run_and_compare(device::Device& device, const Program& p, const std::vector<Bytes>& expected, bool donate) {
  const ir::Graph& g = p.graph;
  const auto executable = compile_graph(device, g, {donate ? p.donated : std::vector<bool>(p.donated.size(), false)});
  std::string out;
  for (int run = 0; run < 2 && out.empty(); ++run) {  // the second run meets a used arena
    auto buffers = upload_all(device, p.contents);
    const std::vector<Bytes> found = read_all(executable->run(buffers));
    for (std::size_t k = 0; k < found.size() && out.empty(); ++k) {
      const std::string d = difference(g.types[static_cast<std::size_t>(g.outputs[k])], expected[k], found[k]);
      out = d.empty() ? "" : fmt::format("run {}, output {}: {}", run, k, d);
    }
  }
  return out;
}

TEST(GraphFuzz, CpuGivesTheInterpretersBits) {
  const auto device = cpu::make_cpu_device();
  const auto oracle = interpreter();
  const cpu::Isa saved = cpu::current_isa();
  const std::vector<cpu::Isa> isas = cpu::supported_isas();
  const int threads = thread_count();
  unsigned programs = 3000, first = 0, failures = 0;
  if (const char* asked = std::getenv("ISOTONE_FUZZ_PROGRAMS")) {
    programs = static_cast<unsigned>(std::strtoul(asked, nullptr, 10));
  }
  if (const char* asked = std::getenv("ISOTONE_FUZZ_FIRST")) {
    first = static_cast<unsigned>(std::strtoul(asked, nullptr, 10));
  }
  std::size_t instructions = 0;
  for (unsigned seed = first; seed < first + programs && failures < 5; ++seed) {
    const Program p(seed);
    instructions += p.graph.code.size();
    const std::vector<Bytes> expected = run_graph(*oracle, p.graph, p.contents);
    cpu::set_isa(isas[seed % isas.size()]);
    set_thread_count(1 + static_cast<int>(seed / 7 % 2));
    for (const bool donate : {false, true}) {
      const std::string failure = run_and_compare(*device, p, expected, donate);
      if (!failure.empty()) {
        ++failures;
        ADD_FAILURE() << "program " << seed << " on " << cpu::isa_name(cpu::current_isa())
                      << (donate ? ", donated" : "") << ": " << failure << "\n"
                      << ir::print(p.graph);
        break;
      }
    }
  }
  cpu::set_isa(saved);
  set_thread_count(threads);
  EXPECT_GT(instructions, programs * 3U);
}

}  // namespace
}  // namespace isotone
