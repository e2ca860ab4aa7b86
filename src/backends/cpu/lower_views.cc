// Views that cost nothing, and the operations that only move elements.
#include <cstring>

#include "backends/cpu/kernels/elementwise.h"
#include "backends/cpu/planner.h"
#include "base/parallel.h"

namespace isotone::cpu {

void copy_strided(const Arg& from, const std::byte* source, std::byte* target) {
  if (from.type.elements() == 0) {
    return;
  }
  if (from.contiguous()) {
    const auto bytes = static_cast<std::int64_t>(from.type.bytes());
    parallel_for(bytes, 1 << 18, [&](std::int64_t begin, std::int64_t end, int) {
      std::memcpy(target + begin, source + begin, static_cast<std::size_t>(end - begin));
    });
    return;
  }
  copy(from.type.dtype, target, {source, from.strides}, from.type.shape);
}

namespace {

/// Strides of `shape` over the same memory, or empty where the elements do not lie evenly.
std::vector<std::int64_t> reshaped_strides(const Arg& a, const ir::Shape& shape) {
  if (a.contiguous()) {
    return ir::contiguous_strides(shape);
  }
  // Each new axis must lie within one run of old axes that are dense with respect to each other.
  std::vector<std::int64_t> out(shape.size(), 0);
  std::vector<std::pair<std::int64_t, std::int64_t>> runs;  // {elements, stride of the innermost}
  for (std::size_t i = 0; i < a.type.shape.size(); ++i) {
    if (a.type.shape[i] == 1) {
      continue;
    }
    if (!runs.empty() && runs.back().second == a.strides[i] * a.type.shape[i]) {
      runs.back() = {runs.back().first * a.type.shape[i], a.strides[i]};
    } else {
      runs.emplace_back(a.type.shape[i], a.strides[i]);
    }
  }
  std::size_t run = runs.size();
  std::int64_t left = 1, stride = 0;
  for (std::size_t i = shape.size(); i-- > 0;) {
    if (shape[i] == 1) {
      continue;
    }
    if (left == 1) {
      if (run == 0) {
        return {};
      }
      --run;
      left = runs[run].first;
      stride = runs[run].second;
    }
    if (left % shape[i] != 0) {
      return {};
    }
    out[i] = stride;
    stride *= shape[i];
    left /= shape[i];
  }
  return left == 1 ? out : std::vector<std::int64_t>{};
}

Step lower_reshape(Lowering& l) {
  const ir::Shape& shape = l.attrs().ints("shape");
  const Arg x = l.in(0);
  const std::vector<std::int64_t> strides = reshaped_strides(x, shape);
  if (!strides.empty() || shape.empty()) {
    l.alias(0, 0, 0, strides);
    return {};
  }
  const Arg y = l.out(0);
  return [x, y](const Frame& f) { copy_strided(x, f.ptr<std::byte>(x), f.ptr<std::byte>(y)); };
}

Step lower_transpose(Lowering& l) {
  const Arg x = l.in(0);
  std::vector<std::int64_t> strides;
  for (const std::int64_t axis : l.attrs().ints("order")) {
    strides.push_back(x.strides[static_cast<std::size_t>(axis)]);
  }
  l.alias(0, 0, 0, std::move(strides));
  return {};
}

Step lower_broadcast(Lowering& l) {
  const Arg x = l.in(0);
  const ir::Shape& shape = l.attrs().ints("shape");
  std::vector<std::int64_t> strides(shape.size(), 0);
  const std::size_t extra = shape.size() - x.type.shape.size();
  for (std::size_t i = 0; i < x.type.shape.size(); ++i) {
    strides[extra + i] = x.type.shape[i] == 1 ? 0 : x.strides[i];
  }
  l.alias(0, 0, 0, std::move(strides));
  return {};
}

Step lower_slice(Lowering& l) {
  const Arg x = l.in(0);
  std::vector<std::int64_t> strides = x.strides;
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < strides.size(); ++i) {
    offset += l.attrs().ints("begin")[i] * strides[i];
    strides[i] *= l.attrs().ints("step")[i];
  }
  l.alias(0, 0, offset, std::move(strides));
  return {};
}

/// Copies `x` into the part of contiguous `y` that starts at `offset` elements and has these strides.
void copy_into(const Arg& x, const std::byte* source, std::byte* target, const std::vector<std::int64_t>& strides,
               std::size_t axis, std::int64_t from, std::int64_t to) {
  const std::size_t unit = unit_bytes(x.dtype());
  if (axis + 1 >= x.type.shape.size()) {
    const std::int64_t n = axis < x.type.shape.size() ? x.type.shape[axis] : 1;
    const std::int64_t sx = axis < x.strides.size() ? x.strides[axis] : 1,
                       sy = axis < strides.size() ? strides[axis] : 1;
    if (sx == 1 && sy == 1) {
      std::memcpy(target + to * static_cast<std::int64_t>(unit), source + from * static_cast<std::int64_t>(unit),
                  static_cast<std::size_t>(n) * unit);
      return;
    }
    for (std::int64_t i = 0; i < n; ++i) {
      std::memcpy(target + (to + i * sy) * static_cast<std::int64_t>(unit),
                  source + (from + i * sx) * static_cast<std::int64_t>(unit), unit);
    }
    return;
  }
  for (std::int64_t i = 0; i < x.type.shape[axis]; ++i) {
    copy_into(x, source, target, strides, axis + 1, from + i * x.strides[axis], to + i * strides[axis]);
  }
}

Step lower_concat(Lowering& l) {
  const auto axis = static_cast<std::size_t>(l.attrs().integer("axis"));
  std::vector<Arg> xs;
  for (int k = 0; k < l.inputs(); ++k) {
    xs.push_back(l.in(k));
  }
  const Arg y = l.out(0);
  return [xs, y, axis](const Frame& f) {
    std::int64_t at = 0;
    for (const Arg& x : xs) {
      if (x.elements() > 0) {
        copy_into(x, f.ptr<std::byte>(x), f.ptr<std::byte>(y), y.strides, 0, 0, at * y.strides[axis]);
      }
      at += x.type.shape[axis];
    }
  };
}

Step lower_pad(Lowering& l) {
  const Arg x = l.in(0);
  const Arg y = l.out(0);
  std::vector<std::int64_t> strides = y.strides;
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < strides.size(); ++i) {
    offset += l.attrs().ints("low")[i] * strides[i];
    strides[i] *= l.attrs().ints("inner")[i] + 1;
  }
  const double value = l.attrs().real("value");
  return [x, y, strides, offset, value](const Frame& f) {
    const auto fill = static_cast<float>(value);
    const std::vector<std::int64_t> broadcast(y.type.shape.size(), 0);
    cast(y.dtype(), f.ptr(y), DType::f32, {&fill, broadcast}, y.type.shape);
    if (x.elements() > 0) {
      copy_into(x, f.ptr<std::byte>(x), f.ptr<std::byte>(y), strides, 0, 0, offset);
    }
  };
}

Step lower_full(Lowering& l) {
  const Arg y = l.out(0);
  const double value = l.attrs().real("value");
  return [y, value](const Frame& f) {
    const std::vector<std::int64_t> broadcast(y.type.shape.size(), 0);
    if (is_float(y.dtype())) {
      const auto fill = static_cast<float>(value);
      cast(y.dtype(), f.ptr(y), DType::f32, {&fill, broadcast}, y.type.shape);
    } else {
      const auto fill = static_cast<std::int64_t>(value);
      cast(y.dtype(), f.ptr(y), DType::i64, {&fill, broadcast}, y.type.shape);
    }
  };
}

bool few_dims(const ir::Graph& g, const ir::Instruction& i) {
  return g.types[static_cast<std::size_t>(i.outputs[0])].shape.size() <= kMaxDims;
}

bool not_quantised(const ir::Graph& g, const ir::Instruction& i) {
  return !is_quantised(g.types[static_cast<std::size_t>(i.inputs[0])].dtype);
}

constexpr Kernel kKernels[] = {
    {"reshape", takes_all, lower_reshape},
    {"transpose", takes_all, lower_transpose},
    {"broadcast_to", takes_all, lower_broadcast},
    {"slice", not_quantised, lower_slice},
    {"concat", takes_all, lower_concat},
    {"pad", few_dims, lower_pad},
    {"full", few_dims, lower_full},
};

}  // namespace

std::span<const Kernel> view_kernels() {
  return kKernels;
}

}  // namespace isotone::cpu
