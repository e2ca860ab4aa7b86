// What operations over sliding windows of images share: the sizes of a window and their checks.
#pragma once

#include "base/error.h"
#include "ops/functions.h"
#include "ops/support/attributes.h"

namespace isotone::ops {

/// Throws unless there is one tensor, of four axes, which `axes` names.
inline void require_four_axes(std::string_view op, const InTypes& in, std::string_view axes) {
  require(in.size() == 1 && in[0].rank() == 4, "{}: takes one tensor {}, got {}", op, axes,
          in.has(0) ? ir::to_string(in[0]) : "none");
}

/// A window over [n, c, h, w]: attributes "kernel", "stride", "padding", "dilation", each {vertical, horizontal}.
struct Window {
  std::int64_t kernel[2], stride[2], padding[2], dilation[2], in[2], out[2];

  Window(std::string_view op, const Attrs& a, std::int64_t height, std::int64_t width) : in{height, width} {
    for (std::size_t i = 0; i < 2; ++i) {
      kernel[i] = pair(op, a, "kernel")[i];
      stride[i] = pair(op, a, "stride")[i];
      padding[i] = pair(op, a, "padding")[i];
      dilation[i] = pair(op, a, "dilation")[i];
      require(kernel[i] >= 1 && stride[i] >= 1 && dilation[i] >= 1 && padding[i] >= 0,
              "{}: kernel, stride and dilation must be at least 1 and padding at least 0, got {}, {}, {} and {}", op,
              kernel[i], stride[i], dilation[i], padding[i]);
      require(kernel[i] < kFar && stride[i] < kFar && dilation[i] < kFar && padding[i] < kFar && in[i] < kFar,
              "{}: kernel {}, stride {}, dilation {}, padding {} and size {} must be below {}", op, kernel[i],
              stride[i], dilation[i], padding[i], in[i], kFar);
      const std::int64_t span = dilation[i] * (kernel[i] - 1) + 1;
      require(in[i] + 2 * padding[i] >= span, "{}: a window of {} does not fit {} with padding {}", op, span, in[i],
              padding[i]);
      out[i] = (in[i] + 2 * padding[i] - span) / stride[i] + 1;
    }
  }

  /// The attribute `name`, checked to be two numbers.
  static const Ints& pair(std::string_view op, const Attrs& a, std::string_view name) {
    const Ints& list = a.ints(name);
    require(list.size() == 2, "{}: {} takes two numbers, {{vertical, horizontal}}, but got {}", op, name,
            ir::to_string(list));
    return list;
  }
};

inline Attrs window_attrs(Ints kernel, Ints stride, Ints padding, Ints dilation) {
  return {{"kernel", std::move(kernel)},
          {"stride", std::move(stride)},
          {"padding", std::move(padding)},
          {"dilation", std::move(dilation)}};
}

}  // namespace isotone::ops
