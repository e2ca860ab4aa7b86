#include "train/run_data.h"

#include "base/error.h"
#include "base/file.h"
#include "dist/agree.h"

namespace isotone::train {

namespace {

std::shared_ptr<const data::Grains> tokenized(const data::SourceSpec& spec, const data::BuildPlan& plan) {
  auto out = std::make_shared<data::MemoryGrains>(plan.grain_tokens);
  data::Packer packer(plan.grain_tokens, [&](std::span<const std::uint32_t> words) { out->add(words); });
  for (const std::string& file : data::files_of(spec)) {
    data::read_file(spec, file, plan.encoder, [&](const data::Document& d) { packer.add(d); });
  }
  packer.finish();
  return out;
}

std::string quoted(const std::string& hash) {
  return "\"" + hash + "\"";
}

/// Why the folder has to be built; empty where it is as the plan says.
std::string why_build(const std::string& folder, const data::BuildPlan& plan) {
  if (!path_exists(join_path(folder, data::kIndexFile))) {
    return "there is none yet";
  }
  try {
    return data::why_stale(data::read_index(folder), plan);
  } catch (const Error& e) {
    return e.what();
  }
}

}  // namespace

data::BuildPlan build_plan(const Recipe& r, const Setup& s) {
  data::BuildPlan plan{r.grain_tokens, r.training_sources(), {s.tokenizer, s.chat}};
  if (!r.validation.empty()) {
    plan.sources.push_back(r.validation_source());
  }
  return plan;
}

BuildResult build_data(const Recipe& r, const Setup& s, bool force) {
  const std::string folder = r.built_folder();
  const data::BuildPlan plan = build_plan(r, s);
  const std::string why = force ? "asked for" : why_build(folder, plan);
  return {why.empty() ? data::read_index(folder) : data::build(folder, plan), why};
}

RunData open_data(const Recipe& r, const Setup& s, dist::Communicator& ranks,
                  const std::function<void(const std::string&)>& on_note) {
  const data::BuildPlan plan = build_plan(r, s);
  RunData out;
  dist::together(ranks, [&] {
    const std::string folder = r.built_folder();
    if (ranks.rank() == 0 && (!r.built.empty() || path_exists(join_path(folder, data::kIndexFile)))) {
      if (const std::string why = why_build(folder, plan); !why.empty()) {
        on_note(fmt::format("building the data in {}: {}", folder, why));
        data::build(folder, plan);
      }
      out.built = folder;
    }
  });
  out.built = dist::text_of_rank_0(ranks, out.built);
  dist::together(ranks, [&] {
    std::optional<data::BuiltIndex> index;
    if (!out.built.empty()) {
      index.emplace(data::read_index(out.built));
    }
    const auto open = [&](const data::SourceSpec& spec) {
      return index.has_value() ? data::open_built(out.built, *index, spec.name) : tokenized(spec, plan);
    };
    out.contents["data.tokenizer"] = quoted(data::tokenizer_sha256(s.tokenizer));
    std::vector<data::NamedGrains> sources;
    for (const data::SourceSpec& spec : r.training_sources()) {
      sources.push_back({spec.name, open(spec)});
      out.contents[spec.name.empty() ? "data.tokens" : fmt::format("data.sources.{}.tokens", spec.name)] =
          quoted(index.has_value() ? index->source(spec.name).sha256 : sources.back().grains->sha256());
    }
    out.stream.emplace(std::move(sources), r.mixture(), r.seed);
    if (r.eval_every > 0) {
      out.validation = open(r.validation_source());
    }
  });
  return out;
}

}  // namespace isotone::train
