// Contractions: a spec of letters becomes calls of the kernel with one stride for each of its dimensions.
#include <algorithm>

#include "backends/cpu/kernels/contract.h"
#include "backends/cpu/planner.h"
#include "base/error.h"
#include "ops/support/contraction.h"

namespace isotone::cpu {

namespace {

/// A dimension with its distance in elements in each of the three tensors (0 where it does not occur).
struct Dim {
  std::int64_t size = 1, a = 0, b = 0, c = 0;
};

std::int64_t stride_of(const std::string& letters, const std::vector<std::int64_t>& strides, char letter) {
  const std::size_t i = letters.find(letter);
  return i == std::string::npos ? 0 : strides[i];
}

/// The letters as dimensions, neighbours merged where they lie evenly in all tensors. Outermost first.
std::vector<Dim> dims_of(const std::string& letters, const ops::ContractionSpec& s, const Arg& a, const Arg& b,
                         const Arg& c) {
  std::vector<Dim> out;
  for (const char letter : letters) {
    const Dim d{ops::letter_size(s, letter, a.type.shape, b.type.shape), stride_of(s.left, a.strides, letter),
                stride_of(s.right, b.strides, letter), stride_of(s.out, c.strides, letter)};
    if (d.size == 1) {
      continue;
    }
    if (!out.empty() && out.back().a == d.a * d.size && out.back().b == d.b * d.size && out.back().c == d.c * d.size) {
      out.back() = {out.back().size * d.size, d.a, d.b, d.c};
    } else {
      out.push_back(d);
    }
  }
  return out;
}

/// Takes the largest dimension out of the list (size 1 where there is none).
Dim take_largest(std::vector<Dim>& dims) {
  if (dims.empty()) {
    return {};
  }
  const auto it =
      std::max_element(dims.begin(), dims.end(), [](const Dim& x, const Dim& y) { return x.size < y.size; });
  const Dim d = *it;
  dims.erase(it);
  return d;
}

/// Calls visit(offset in a, in b, in c) for every index of `loops`.
template <class Visit>
void for_each(const std::vector<Dim>& loops, std::size_t depth, std::int64_t a, std::int64_t b, std::int64_t c,
              const Visit& visit) {
  if (depth == loops.size()) {
    visit(a, b, c);
    return;
  }
  for (std::int64_t i = 0; i < loops[depth].size; ++i) {
    for_each(loops, depth + 1, a + i * loops[depth].a, b + i * loops[depth].b, c + i * loops[depth].c, visit);
  }
}

bool takes_contract(const ir::Graph& g, const ir::Instruction& i) {
  const ir::Type &a = g.types[static_cast<std::size_t>(i.inputs[0])],
                 &b = g.types[static_cast<std::size_t>(i.inputs[1])];
  // Several outer reduced axes form nested trees, which the kernel does not have.
  return ops::parse_contraction(i.attrs.text("spec"), a, b).reduced.size() <= 2;
}

/// linear(x, w) with all of x's leading axes as rows.
bool is_linear(const ops::ContractionSpec& s) {
  return s.batch.empty() && s.reduced.size() == 1 && s.left.back() == s.reduced[0] && s.right.size() == 2 &&
         s.right[1] == s.reduced[0] && s.out == s.left.substr(0, s.left.size() - 1) + s.right[0];
}

void run_packed(const Frame& f, const Arg& a, const Arg& c, const PackedWeight& w) {
  const std::int64_t k = w.k();
  contract_packed({k == 0 ? 0 : a.elements() / k, f.ptr(a), a.dtype(), k, 1, f.ptr(c), c.dtype(), w.n(), 1}, w);
}

Step lower_contract(Lowering& l) {
  const ir::Type &a_type = l.in(0).type, &b_type = l.in(1).type;
  const ops::ContractionSpec s = ops::parse_contraction(l.attrs().text("spec"), a_type, b_type);
  if (is_linear(s)) {
    const Arg a = l.dense(0), b = l.dense(1);
    const Arg c = l.out(0);
    if (is_quantised(b.dtype())) {
      return [=](const Frame& f) {
        CpuBuffer* buffer = f.buffer(b);
        if (buffer != nullptr && buffer->constant()) {
          run_packed(f, a, c, buffer->packed(b.dtype(), b.dim(0), b.dim(1)));
        } else {
          run_packed(f, a, c, pack_weight({f.ptr(b), b.dtype(), 0, 0, b.dim(1), 1}, b.dim(0), b.dim(1)));
        }
      };
    }
    return [=](const Frame& f) {
      CpuBuffer* buffer = f.buffer(b);
      const std::int64_t n = b.dim(0), k = b.dim(1),
                         rows = k == 0 ? c.elements() / std::max<std::int64_t>(n, 1) : a.elements() / k;
      if (buffer != nullptr && buffer->constant() && b.byte_offset == 0 && buffer->bytes() == b.type.bytes()) {
        run_packed(f, a, c, buffer->packed(b.dtype(), n, k));
      } else {
        Contraction call;
        call.m = rows;
        call.n = n;
        call.k = k;
        call.a = {f.ptr(a), a.dtype(), 0, 0, k, 1};
        call.b = {f.ptr(b), b.dtype(), 0, 0, k, 1};
        call.c = f.ptr(c);
        call.c_dtype = c.dtype();
        call.c_row_stride = n;
        contract(call);
      }
    };
  }
  const Arg a = l.in(0), b = l.in(1);
  const Arg c = l.out(0);
  std::vector<Dim> m = dims_of(s.left_free, s, a, b, c), n = dims_of(s.right_free, s, a, b, c),
                   loops = dims_of(s.batch, s, a, b, c);
  Contraction call;
  const Dim dm = take_largest(m), dn = take_largest(n), db = take_largest(loops);
  loops.insert(loops.end(), m.begin(), m.end());
  loops.insert(loops.end(), n.begin(), n.end());
  const auto reduced = [&](std::size_t i) {
    const char letter = s.reduced[i];
    return Dim{ops::letter_size(s, letter, a.type.shape, b.type.shape), stride_of(s.left, a.strides, letter),
               stride_of(s.right, b.strides, letter), 0};
  };
  const Dim dk = s.reduced.empty() ? Dim{} : reduced(s.reduced.size() - 1);
  const Dim outer = s.reduced.size() == 2 ? reduced(0) : Dim{};
  call.batch = db.size;
  call.outer = outer.size;
  call.m = dm.size;
  call.n = dn.size;
  call.k = dk.size;
  call.a = {nullptr, a.dtype(), db.a, outer.a, dm.a, dk.a};
  call.b = {nullptr, b.dtype(), db.b, outer.b, dn.b, dk.b};
  call.c_dtype = c.dtype();
  call.c_batch_stride = db.c;
  call.c_row_stride = dm.c;
  call.c_column_stride = dn.c;
  return [=](const Frame& f) {
    if (c.elements() == 0) {
      return;
    }
    const auto at = [&](const Arg& x, std::int64_t i) {
      return f.ptr<std::byte>(x) + i * static_cast<std::int64_t>(unit_bytes(x.dtype()));
    };
    Contraction now = call;
    for_each(loops, 0, 0, 0, 0, [&](std::int64_t ia, std::int64_t ib, std::int64_t ic) {
      now.a.data = at(a, ia);
      now.b.data = at(b, ib);
      now.c = at(c, ic);
      contract(now);
    });
  };
}

constexpr Kernel kKernels[] = {{"contract", takes_contract, lower_contract}};

}  // namespace

std::span<const Kernel> contraction_kernels() {
  return kKernels;
}

}  // namespace isotone::cpu
