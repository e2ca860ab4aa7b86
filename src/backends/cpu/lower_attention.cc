// Attention over packed sequences and over the paged cache.
#include <cstring>

#include "backends/cpu/kernels/attention.h"
#include "backends/cpu/planner.h"
#include "base/error.h"
#include "ops/support/attention.h"

namespace isotone::cpu {

namespace {

/// q, k and v may be slices of one projection: any strides, as long as the head's width is contiguous.
Arg with_dense_width(Lowering& l, int k) {
  const Arg a = l.in(k);
  return a.strides.back() == 1 ? a : l.dense(k);
}

AttentionInput input(const Frame& f, const Arg& a) {
  return {f.ptr(a), a.strides[0], a.strides[1], a.strides[2]};
}
AttentionOutput output(const Frame& f, const Arg& a) {
  return {f.ptr(a), a.strides[0], a.strides[1], a.strides[2]};
}

bool width_fits(const ir::Graph& g, const ir::Instruction& i) {
  const ir::Type& q = g.types[static_cast<std::size_t>(i.inputs[0])];
  return q.shape[3] >= 1 && q.shape[3] <= 256;
}

Step lower_attention(Lowering& l) {
  const Arg q = with_dense_width(l, 0), k = with_dense_width(l, 1), v = with_dense_width(l, 2), doc = l.dense(3);
  const Arg o = l.out(0), lse = l.out(1);
  const AttentionShape shape = ops::attention_shape(q.type, k.type, l.attrs());
  return [=](const Frame& f) {
    AttentionForward call{shape, input(f, q), input(f, k), input(f, v), output(f, o), f.ptr<float>(lse)};
    call.shape.doc_start = f.ptr<const std::int32_t>(doc);
    attention_forward(call);
  };
}

Step lower_attention_grad(Lowering& l) {
  const Arg q = with_dense_width(l, 0), k = with_dense_width(l, 1), v = with_dense_width(l, 2), doc = l.dense(3);
  const Arg o = with_dense_width(l, 4), lse = l.dense(5), d = with_dense_width(l, 6);
  const Arg dq = l.out(0), dk = l.out(1), dv = l.out(2);
  const AttentionShape shape = ops::attention_shape(q.type, k.type, l.attrs());
  return [=](const Frame& f) {
    AttentionBackward call{
        shape,         input(f, q),   input(f, k),  input(f, v), input(f, o), input(f, d), f.ptr<const float>(lse),
        output(f, dq), output(f, dk), output(f, dv)};
    call.shape.doc_start = f.ptr<const std::int32_t>(doc);
    attention_backward(call);
  };
}

Step lower_paged(Lowering& l) {
  const Arg q = with_dense_width(l, 0), k = l.dense(1), v = l.dense(2), table = l.dense(3), positions = l.dense(4);
  const Arg o = l.out(0);
  const PagedAttention shape = ops::paged_shape(q.type, k.type, table.type, l.attrs());
  return [=](const Frame& f) {
    PagedAttention call = shape;
    call.q = input(f, q);
    call.k_pages = f.ptr(k);
    call.v_pages = f.ptr(v);
    call.table = f.ptr<const std::int32_t>(table);
    call.positions = f.ptr<const std::int32_t>(positions);
    call.o = output(f, o);
    paged_attention(call);
  };
}

Step lower_cache_write(Lowering& l) {
  const Arg pages = l.dense(0), x = l.in(1), table = l.dense(2), positions = l.dense(3);
  const Arg rows = x.strides.back() == 1 ? x : l.dense(1);
  const Arg y = l.out_over(0, 0);
  return [=](const Frame& f) {
    if (f.ptr(y) != f.ptr(pages)) {
      std::memcpy(f.ptr(y), f.ptr(pages), y.type.bytes());
    }
    const std::int64_t slots = y.dim(2), heads = y.dim(1), d = y.dim(3), count = y.dim(0), tokens = rows.dim(1),
                       width = table.dim(1);
    const auto unit = static_cast<std::int64_t>(unit_bytes(y.dtype()));
    for (std::int64_t i = 0; i < positions.elements(); ++i) {
      const std::int64_t p = f.ptr<const std::int32_t>(positions)[i];
      if (p < 0) {
        continue;
      }
      require(p / slots < width, "cache_write: position {} is past the {} pages of the table", p, width);
      const std::int64_t page = f.ptr<const std::int32_t>(table)[i / tokens * width + p / slots];
      require(page >= 0 && page < count, "cache_write: page {} is outside a cache of {}", page, count);
      for (std::int64_t h = 0; h < heads; ++h) {
        std::memcpy(f.ptr<std::byte>(y) + ((page * heads + h) * slots + p % slots) * d * unit,
                    f.ptr<std::byte>(rows) +
                        (i / tokens * rows.strides[0] + i % tokens * rows.strides[1] + h * rows.strides[2]) * unit,
                    static_cast<std::size_t>(d * unit));
      }
    }
  };
}

constexpr Kernel kKernels[] = {
    {"attention", width_fits, lower_attention},
    {"attention_grad", width_fits, lower_attention_grad},
    {"paged_attention", width_fits, lower_paged},
    {"cache_write", takes_all, lower_cache_write},
};

}  // namespace

std::span<const Kernel> attention_kernels() {
  return kKernels;
}

}  // namespace isotone::cpu
