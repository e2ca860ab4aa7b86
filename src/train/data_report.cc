#include "train/data_report.h"

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "dist/silent_rank.h"
#include "train/manifest.h"

namespace isotone::train {

namespace {

data::GlobalBatch batch_of(const Recipe& r, const RunData& d, std::int64_t number) {
  const std::int64_t per_step = r.rounds * r.grains;
  require(number >= 0 && number < (std::int64_t{1} << 60) / per_step, "there is no batch {}", number);
  return d.stream->batch(number * per_step, per_step);
}

/// Whether token k of a document's piece is padding can be told by its end only: zeros of which nothing is learned.
std::int64_t without_padding(const data::Batch& b, std::int64_t start, std::int64_t end) {
  while (end > start + 1 && b.ids[static_cast<std::size_t>(end - 1)] == 0 &&
         b.targets[static_cast<std::size_t>(end - 2)] < 0) {
    --end;
  }
  return end;
}

}  // namespace

RecipeFields data_fields(const RecipeFields& recipe, const RecipeFields& contents) {
  RecipeFields out = contents;
  for (const auto& [key, value] : recipe) {
    if (key.starts_with("data.") || key.starts_with("batch.") || key == "train.seed") {
      out[key] = value;
    }
  }
  return out;
}

std::string data_sha256(const Recipe& r, const RecipeFields& contents) {
  Sha256 hash;
  for (const auto& [key, value] : data_fields(r.fields(), contents)) {
    const bool only_names = key == "data.validation" || key == "data.tokenizer" ||
                            (!key.starts_with("data.stages.") &&  // there, the last word is a source's name
                             (key.ends_with(".files") || key.ends_with(".kind") || key.ends_with(".field")));
    if (!only_names) {
      hash.update(fmt::format("{} = {}\n", key, value));
    }
  }
  return hash.hex();
}

void verify_data(const RunData& d) {
  if (d.built.empty()) {
    return;
  }
  const data::BuiltIndex index = data::read_index(d.built);
  for (const data::BuiltSource& s : index.sources) {
    require(data::open_built(d.built, index, s.name)->sha256() == s.sha256,
            "{}: the grains of {} are not those that were built; build the data again", d.built,
            s.name.empty() ? "the recipe's files" : "source '" + s.name + "'");
  }
}

std::vector<ShownDocument> show_batch(const Recipe& r, const Setup& s, const RunData& d, std::int64_t number) {
  const data::GlobalBatch batch = batch_of(r, d, number);
  std::vector<ShownDocument> out;
  for (std::int64_t g = 0; g < batch.grains(); ++g) {
    const data::Batch b = batch.part(g, 1);
    const data::Stream::Place place = d.stream->at(number * batch.grains() + g);
    for (std::int64_t start = 0; start < b.tokens;) {
      std::int64_t next = start + 1;
      while (next < b.tokens && b.starts[static_cast<std::size_t>(next)] == start) {
        ++next;
      }
      const std::int64_t end = without_padding(b, start, next);
      ShownDocument shown{g, d.stream->sources()[place.source].name, place.grain, place.epoch, start, end - start, 0,
                          ""};
      shown.learned = std::count_if(b.targets.begin() + start, b.targets.begin() + end, [](auto t) { return t >= 0; });
      shown.text = s.tokenizer.decode(
          std::span(b.ids).subspan(static_cast<std::size_t>(start), static_cast<std::size_t>(end - start)));
      out.push_back(std::move(shown));
      start = next;
    }
  }
  return out;
}

std::string hash_batch(const Recipe& r, const RunData& d, std::int64_t number) {
  const data::GlobalBatch batch = batch_of(r, d, number);
  std::vector<std::string> hashes;
  for (std::int64_t g = 0; g < batch.grains(); ++g) {
    hashes.push_back(batch.part(g, 1).grain_sha256(0));
  }
  return data::batch_sha256(batch.tokens(), hashes);
}

RecipeFields data_fields_of(const std::string& path) {
  if (is_folder(path)) {
    const Manifest m = read_manifest(path);
    require(!m.fields.empty(), "{}: the checkpoint does not keep its recipe's fields; an older program wrote it", path);
    return data_fields(m.fields, m.contents);
  }
  const Recipe r = read_recipe(path);
  const Setup s = open_setup(r);
  dist::SilentRank alone;
  return data_fields(r.fields(), open_data(r, s, alone, [](const std::string&) {}).contents);
}

std::vector<FieldDifference> field_differences(const RecipeFields& a, const RecipeFields& b) {
  std::map<std::string, FieldDifference> all;
  for (const auto& [key, value] : a) {
    all[key] = {key, value, ""};
  }
  for (const auto& [key, value] : b) {
    all.try_emplace(key, FieldDifference{key, "", ""}).first->second.b = value;
  }
  std::vector<FieldDifference> out;
  for (auto& [key, d] : all) {
    if (d.a != d.b) {
      out.push_back(std::move(d));
    }
  }
  return out;
}

}  // namespace isotone::train
