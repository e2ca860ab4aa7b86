// What operations over sliding windows of images share: the sizes of a window and their checks.
#pragma once

#include "base/error.h"
#include "ops/functions.h"

namespace isotone::ops {

/// A window over [n, c, h, w]: attributes "kernel", "stride", "padding", "dilation", each {vertical, horizontal}.
struct Window {
  std::int64_t kernel[2], stride[2], padding[2], dilation[2], in[2], out[2];

  Window(std::string_view op, const Attrs& a, std::int64_t height, std::int64_t width) : in{height, width} {
    for (std::size_t i = 0; i < 2; ++i) {
      kernel[i] = a.ints("kernel").at(i);
      stride[i] = a.ints("stride").at(i);
      padding[i] = a.ints("padding").at(i);
      dilation[i] = a.ints("dilation").at(i);
      require(kernel[i] >= 1 && stride[i] >= 1 && dilation[i] >= 1 && padding[i] >= 0,
              "{}: kernel, stride and dilation must be at least 1 and padding at least 0", op);
      const std::int64_t span = dilation[i] * (kernel[i] - 1) + 1;
      require(in[i] + 2 * padding[i] >= span, "{}: a window of {} does not fit {} with padding {}", op, span, in[i], padding[i]);
      out[i] = (in[i] + 2 * padding[i] - span) / stride[i] + 1;
    }
  }
};

inline Attrs window_attrs(Ints kernel, Ints stride, Ints padding, Ints dilation) {
  return {{"kernel", std::move(kernel)}, {"stride", std::move(stride)}, {"padding", std::move(padding)}, {"dilation", std::move(dilation)}};
}

}  // namespace isotone::ops
