// Gradient of a table of embeddings: rows summed by id.
#include "base/tree.h"
#include "ops/support/attributes.h"
#include "ops/support/index.h"
#include "ops/support/shard.h"

#include "base/error.h"

namespace isotone::ops {
namespace {

struct EmbeddingGrad {
  static constexpr std::string_view name = "embedding_grad";
  static Types infer(const InTypes& in, const Attrs& a) {
    require(in.size() == 2, "embedding_grad: takes ids and gradients, got {} inputs", in.size());
    require(
        in[0].rank() == 2 && in[1].rank() == 3 && in[1].shape[0] == in[0].shape[0] && in[1].shape[1] == in[0].shape[1],
        "embedding_grad: takes ids [grain, token] and gradients [grain, token, width], got {} and {}",
        ir::to_string(in[0]), ir::to_string(in[1]));
    require_index(name, in[0]);
    require_float(name, in[1]);
    const Shape table{a.integer("rows"), in[1].shape[2]};
    require_sizes(name, table);
    return {{DType::f32, table}};
  }
  static Values vjp(const VjpCall& c) {
    return {Value(), embedding(c.cotangents[0], c.inputs[0], c.inputs[1].dtype())};
  }
  static void reference(const ReferenceCall& c) {
    const std::int64_t grains = c.inputs[0].type->shape[0], tokens = c.inputs[0].type->shape[1];
    const std::int64_t width = c.inputs[1].type->shape[2], rows = c.attrs.integer("rows");
    const auto add = [](float l, float r) { return l + r; };
    for (std::int64_t i = 0; i < c.inputs[0].elements(); ++i) {
      checked_index(name, c.inputs[0].get_int(i), rows);
    }
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t j = 0; j < width; ++j) {
        const auto grain = [&](std::int64_t g) {
          const auto leaf = [&](std::int64_t begin, std::int64_t n) {
            float sum = 0.0F;
            for (std::int64_t t = begin; t < begin + n; ++t) {
              sum += c.inputs[0].get_int(g * tokens + t) == row ? c.inputs[1].get((g * tokens + t) * width + j) : 0.0F;
            }
            return sum + 0.0F;
          };
          return axis_tree(0, tokens, leaf, add);
        };
        c.outputs[0].set(row * width + j, grains == 0 ? 0.0F : element_tree(0, grains, grain, add));
      }
    }
  }
  static ShardRule shard(const InTypes&, const Types&, const Attrs&) {
    ShardRule rule{{"gt", "gtw"}, {".w"}};
    rule.joined = "gt";
    return rule;
  }
  static std::vector<Sample> samples() {
    return {{{{{DType::i32, {2, 9}}, 0, 5}, {{DType::f32, {2, 9, 6}}}}, {{"rows", std::int64_t{5}}}},
            {{{{DType::i32, {3, 600}}, 0, 7}, {{DType::f32, {3, 600, 5}}}}, {{"rows", std::int64_t{7}}}, false},
            {{{{DType::i32, {5, 40}}, 0, 50}, {{DType::bf16, {5, 40, 33}}}}, {{"rows", std::int64_t{50}}}, false}};
  }
};

}  // namespace

/// For every row r of `rows`: the sum of the gradients [grain, token, width] whose id [grain, token] is r: per grain
/// the axis tree over its tokens, over the grains the element tree. f32 [rows, width].
/// @api Value embedding_grad(const Value& ids, const Value& gradients, std::int64_t rows);
Value embedding_grad(const Value& ids, const Value& gradients, std::int64_t rows) {
  return apply1("embedding_grad", {ids, gradients}, {{"rows", rows}});
}

ISOTONE_OP(embedding_grad, EmbeddingGrad);

}  // namespace isotone::ops
