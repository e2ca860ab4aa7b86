#include "passes/pipeline.h"

#include <fmt/core.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <string_view>

#include "passes/simplify.h"

namespace isotone::passes {

namespace {

bool skipped(std::string_view name) {
  const char* list = std::getenv("ISOTONE_SKIP_PASSES");
  std::string_view rest = list == nullptr ? "" : list;
  while (!rest.empty()) {
    const std::size_t comma = rest.find(',');
    if (rest.substr(0, comma) == name) {
      return true;
    }
    rest = comma == std::string_view::npos ? "" : rest.substr(comma + 1);
  }
  return false;
}

}  // namespace

ir::Graph run_pipeline(ir::Graph graph, const Takes& takes, std::vector<PassReport>* reports) {
  const char* print_flag = std::getenv("ISOTONE_PRINT_PASSES");
  const bool print = print_flag != nullptr && std::string_view(print_flag) == "1";
  const auto pass = [&](const char* name, bool optional, const std::function<ir::Graph(const ir::Graph&)>& run) {
    if (optional && skipped(name)) {
      return;
    }
    const auto start = std::chrono::steady_clock::now();
    const std::uint64_t before = print || reports != nullptr ? ir::hash(graph) : 0;
    graph = run(graph);
    ir::verify(graph);
    if (print || reports != nullptr) {
      const bool changed = ir::hash(graph) != before;
      if (print) {
        fmt::print(stderr, "--- after {}{}\n{}", name, changed ? "" : " (unchanged)", changed ? ir::print(graph) : "");
      }
      if (reports != nullptr) {
        const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
        reports->push_back({name, took.count(), graph.code.size(), changed});
      }
    }
  };
  // Merge equal composites first: fewer expansions to look at.
  pass("simplify", true, [](const ir::Graph& g) { return simplify(g); });
  // Needed for correctness: a device only sees what it takes.
  pass("decompose", false, [&](const ir::Graph& g) { return decompose(g, takes); });
  pass("simplify-again", true, [](const ir::Graph& g) { return simplify(g); });
  return graph;
}

}  // namespace isotone::passes
