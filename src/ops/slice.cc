// A regular part of a tensor.
#include "ops/functions.h"
#include "ops/support/shard.h"

#include "base/error.h"

namespace isotone::ops {
namespace {

struct Slice {
  static constexpr std::string_view name = "slice";
  static constexpr bool wide_cotangent = true;
  static Types infer(const InTypes& in, const Attrs& a) {
    require(in.size() == 1, "slice: takes one tensor, got {}", in.size());
    const Ints &begin = a.ints("begin"), &end = a.ints("end"), &step = a.ints("step");
    const std::size_t rank = in[0].shape.size();
    require(begin.size() == rank && end.size() == rank && step.size() == rank,
            "slice: {} needs one begin, end and step for each of its {} axes", ir::to_string(in[0]), rank);
    Shape out;
    for (std::size_t i = 0; i < rank; ++i) {
      require(step[i] >= 1 && begin[i] >= 0 && begin[i] <= end[i] && end[i] <= in[0].shape[i],
              "slice: [{}:{}:{}] does not fit axis {} of {}", begin[i], end[i], step[i], i, ir::to_string(in[0]));
      out.push_back(end[i] == begin[i] ? 0 : (end[i] - begin[i] - 1) / step[i] + 1);  // any step: no sum overflows
    }
    require(!is_quantised(in[0].dtype) || (rank > 0 && out.back() == in[0].shape.back()),
            "slice: rows of quantised {} stay whole", ir::to_string(in[0]));
    return {{in[0].dtype, out}};
  }
  static Values vjp(const VjpCall& c) {
    const Ints &begin = c.attrs.ints("begin"), &step = c.attrs.ints("step");
    const Shape& shape = c.inputs[0].shape();
    const Shape& part = c.cotangents[0].shape();
    Ints low(begin), high(begin.size()), inner(begin.size());
    for (std::size_t i = 0; i < begin.size(); ++i) {
      inner[i] = part[i] < 2 ? 0 : step[i] - 1;
      const std::int64_t covered = part[i] == 0 ? 0 : (part[i] - 1) * step[i] + 1;
      high[i] = shape[i] - begin[i] - covered;
    }
    return {pad(c.cotangents[0], low, high, 0.0, inner)};
  }
  static void reference(const ReferenceCall& c) {
    const Ints &begin = c.attrs.ints("begin"), &step = c.attrs.ints("step");
    const auto from = ir::contiguous_strides(c.inputs[0].type->shape);
    const Shape& shape = c.outputs[0].type->shape;
    const std::size_t unit = unit_bytes(c.outputs[0].type->dtype);
    for (std::int64_t i = 0; i < c.outputs[0].elements(); ++i) {
      std::int64_t rest = i, at = 0;
      for (std::size_t d = shape.size(); d-- > 0;) {
        at += (begin[d] + rest % shape[d] * step[d]) * from[d];
        rest /= shape[d];
      }
      std::memcpy(static_cast<std::byte*>(c.outputs[0].data) + static_cast<std::size_t>(i) * unit,
                  static_cast<const std::byte*>(c.inputs[0].data) + static_cast<std::size_t>(at) * unit, unit);
    }
  }
  static ShardRule shard(const InTypes& in, const Types&, const Attrs& a) {
    Ints parted;
    for (std::size_t i = 0; i < in[0].shape.size(); ++i) {
      if (a.ints("begin")[i] != 0 || a.ints("end")[i] != in[0].shape[i] || a.ints("step")[i] != 1) {
        parted.push_back(static_cast<std::int64_t>(i));
      }
    }
    const std::string letters = letters_without(in[0].shape.size(), parted);
    return {{letters}, {letters}};
  }
  static Values local(const LocalCall& c) {
    // What is not parted ends where the worker's part ends.
    Ints end = c.attrs.ints("end");
    for (std::size_t i = 0; i < end.size(); ++i) {
      const bool whole = c.attrs.ints("begin")[i] == 0 && c.attrs.ints("step")[i] == 1;
      end[i] = whole ? c.outputs[0].shape[i] : end[i];
    }
    return {slice(c.inputs[0], c.attrs.ints("begin"), end, c.attrs.ints("step"))};
  }
  static std::vector<Sample> samples() {
    return {{{{{DType::f32, {5, 6}}}}, {{"begin", Ints{1, 0}}, {"end", Ints{4, 6}}, {"step", Ints{1, 2}}}},
            {{{{DType::bf16, {7, 8, 3}}}},
             {{"begin", Ints{0, 2, 1}}, {"end", Ints{7, 8, 2}}, {"step", Ints{3, 1, 1}}},
             false}};
  }
};

}  // namespace

/// x[begin:end:step] on every axis (steps at least 1). No copy.
/// @api Value slice(const Value& x, Ints begin, Ints end, Ints step = {});
Value slice(const Value& x, Ints begin, Ints end, Ints step) {
  if (step.empty()) {
    step.assign(begin.size(), 1);
  }
  return apply1("slice", {x}, {{"begin", std::move(begin)}, {"end", std::move(end)}, {"step", std::move(step)}});
}

/// x[..., begin:end, ...] on one axis; negative bounds count from the end. No copy.
/// @api Value slice_axis(const Value& x, std::int64_t axis, std::int64_t begin, std::int64_t end);
Value slice_axis(const Value& x, std::int64_t axis, std::int64_t begin, std::int64_t end) {
  const auto a = static_cast<std::size_t>(ir::normal_axis(axis, x.rank(), "slice_axis"));
  Ints from(x.shape().size(), 0);
  Ints to = x.shape();
  from[a] = begin < 0 ? begin + x.shape()[a] : begin;
  to[a] = end < 0 ? end + x.shape()[a] : end;
  return slice(x, std::move(from), std::move(to));
}

ISOTONE_OP(slice, Slice);

}  // namespace isotone::ops
