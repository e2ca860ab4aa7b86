// Placement rules that many operations share: letters for dimensions (ops/op.h, ShardRule).
#pragma once

#include "ops/op.h"

namespace isotone::ops {

/// The letter of dimension i of the widest tensor of a call.
inline char dim_letter(std::size_t i) {
  return static_cast<char>('a' + i);
}

/// Letters of `shape` where it is broadcast to `to`: aligned from the right, '.' where it is repeated. A dimension of
/// one element is not cut, so that it is never taken for one that is repeated.
inline std::string broadcast_letters(const Shape& shape, const Shape& to) {
  std::string out;
  const std::size_t extra = to.size() - shape.size();
  for (std::size_t i = 0; i < shape.size(); ++i) {
    out += shape[i] == 1 ? '.' : dim_letter(extra + i);
  }
  return out;
}

/// Every element of the outputs (all of one shape) from the elements at its place in the inputs, broadcast.
inline ShardRule elementwise_rule(const InTypes& in, const Types& out) {
  ShardRule rule;
  for (int i = 0; i < in.size(); ++i) {
    rule.inputs.push_back(in.has(i) ? broadcast_letters(in[i].shape, out[0].shape) : "");
  }
  for (const Type& t : out) {
    rule.outputs.push_back(broadcast_letters(t.shape, out[0].shape));
  }
  return rule;
}
struct Elementwise {
  static ShardRule shard(const InTypes& in, const Types& out, const Attrs&) { return elementwise_rule(in, out); }
};

/// Letters for all dimensions but those of `whole`.
inline std::string letters_without(std::size_t rank, const Ints& whole) {
  std::string out;
  for (std::size_t i = 0; i < rank; ++i) {
    out += dim_letter(i);
  }
  for (const std::int64_t i : whole) {
    out[static_cast<std::size_t>(i)] = '.';
  }
  return out;
}

/// Tensors of one rank whose dimensions are independent, all but `axis`, which may differ in length.
inline ShardRule along_axis_rule(const InTypes& in, const Types& out, std::int64_t axis) {
  ShardRule rule;
  for (int i = 0; i < in.size(); ++i) {
    rule.inputs.push_back(in.has(i) ? letters_without(in[i].shape.size(), {axis}) : "");
  }
  for (const Type& t : out) {
    rule.outputs.push_back(letters_without(t.shape.size(), {axis}));
  }
  return rule;
}
struct AlongAxis {
  static ShardRule shard(const InTypes& in, const Types& out, const Attrs& a) {
    return along_axis_rule(in, out, a.integer("axis"));
  }
};

/// Rows along the last dimension of the first input, each computed by itself. What each input and output is: 'r' rows,
/// 'v' one value a row (no last dimension), 't' a table that every row reads.
inline ShardRule rows_rule(const InTypes& in, const Types& out, std::string_view input_kinds,
                           std::string_view output_kinds) {
  const std::size_t rank = in[0].shape.size();
  const auto letters = [&](char kind, std::size_t own_rank) {
    return kind == 'r'   ? letters_without(rank, {static_cast<std::int64_t>(rank) - 1})
           : kind == 'v' ? letters_without(rank - 1, {})
                         : std::string(own_rank, '.');
  };
  ShardRule rule;
  for (int i = 0; i < in.size(); ++i) {
    rule.inputs.push_back(letters(input_kinds[static_cast<std::size_t>(i)], in.has(i) ? in[i].shape.size() : 0));
  }
  for (std::size_t i = 0; i < out.size(); ++i) {
    rule.outputs.push_back(letters(output_kinds[i], out[i].shape.size()));
  }
  return rule;
}

}  // namespace isotone::ops
