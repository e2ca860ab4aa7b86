#include "ops/op.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/text_distance.h"

namespace isotone::ops {

namespace {

float quantised_element(DType dtype, const std::uint8_t* data, std::int64_t i) {
  const std::uint8_t* block = data + static_cast<std::size_t>(i / kQuantBlock) * unit_bytes(dtype);
  const auto j = static_cast<std::size_t>(i % kQuantBlock);
  const auto half_at = [&](std::size_t offset) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, block + offset, 2);
    return static_cast<float>(f16::from_bits(bits));
  };
  const auto nibble = [&](std::size_t offset) {
    const std::uint8_t byte = block[offset + j % 16];
    return static_cast<float>(j < 16 ? byte & 15 : byte >> 4);
  };
  switch (dtype) {
    case DType::q4_0:
      return (nibble(2) - 8.0F) * half_at(0);
    case DType::q4_1:
      return nibble(4) * half_at(0) + half_at(2);
    default:
      return static_cast<float>(static_cast<std::int8_t>(block[2 + j])) * half_at(0);
  }
}

}  // namespace

float HostTensor::get(std::int64_t i) const {
  switch (type->dtype) {
    case DType::f32:
      return static_cast<const float*>(data)[i];
    case DType::bf16:
      return static_cast<float>(static_cast<const bf16*>(data)[i]);
    case DType::f16:
      return static_cast<float>(static_cast<const f16*>(data)[i]);
    case DType::q4_0:
    case DType::q4_1:
    case DType::q8_0:
      return quantised_element(type->dtype, static_cast<const std::uint8_t*>(data), i);
    default:
      return static_cast<float>(get_int(i));
  }
}

std::int64_t HostTensor::get_int(std::int64_t i) const {
  switch (type->dtype) {
    case DType::i8:
      return static_cast<const std::int8_t*>(data)[i];
    case DType::u8:
    case DType::boolean:
      return static_cast<const std::uint8_t*>(data)[i];
    case DType::i32:
      return static_cast<const std::int32_t*>(data)[i];
    case DType::i64:
      return static_cast<const std::int64_t*>(data)[i];
    default:
      fail("get_int: {} is not an integer type", dtype_name(type->dtype));
  }
}

void HostTensor::set(std::int64_t i, float value) const {
  if (std::isnan(value)) {
    value = std::bit_cast<float>(0x7fc00000U);
  }
  switch (type->dtype) {
    case DType::f32:
      static_cast<float*>(data)[i] = value;
      return;
    case DType::bf16:
      static_cast<bf16*>(data)[i] = bf16(value);
      return;
    case DType::f16:
      static_cast<f16*>(data)[i] = f16(value);
      return;
    case DType::boolean:
      set_int(i, value != 0.0F ? 1 : 0);
      return;
    default: {
      // Truncates and saturates; NaN gives 0.
      const std::size_t width = 8 * unit_bytes(type->dtype);
      const bool sign = type->dtype != DType::u8;
      const double high = std::ldexp(1.0, static_cast<int>(sign ? width - 1 : width)) - 1.0;
      const double low = sign ? -std::ldexp(1.0, static_cast<int>(width - 1)) : 0.0;
      const double d = std::isnan(value) ? 0.0 : std::trunc(static_cast<double>(value));
      set_int(i, d <= low    ? static_cast<std::int64_t>(low)
                 : d >= high ? (width == 64 ? INT64_MAX : static_cast<std::int64_t>(high))
                             : static_cast<std::int64_t>(d));
    }
  }
}

void HostTensor::set_int(std::int64_t i, std::int64_t value) const {
  switch (type->dtype) {
    case DType::i8:
      static_cast<std::int8_t*>(data)[i] = static_cast<std::int8_t>(value);
      return;
    case DType::u8:
      static_cast<std::uint8_t*>(data)[i] = static_cast<std::uint8_t>(value);
      return;
    case DType::boolean:
      static_cast<std::uint8_t*>(data)[i] = static_cast<std::uint8_t>(value != 0);
      return;
    case DType::i32:
      static_cast<std::int32_t*>(data)[i] = static_cast<std::int32_t>(value);
      return;
    case DType::i64:
      static_cast<std::int64_t*>(data)[i] = value;
      return;
    default:
      set(i, static_cast<float>(value));
  }
}

void no_gradient(std::string_view name) {
  fail("{}: this operation has no gradient; wrap its argument in stop_gradient() if none is meant", name);
}

const OpDef* find(std::string_view name) {
  const auto all = table();
  const auto it =
      std::lower_bound(all.begin(), all.end(), name, [](const OpDef* d, std::string_view n) { return d->name < n; });
  return it != all.end() && (*it)->name == name ? *it : nullptr;
}

const OpDef& get(std::string_view name) {
  if (const OpDef* def = find(name)) {
    return *def;
  }
  const auto all = table();
  const OpDef* nearest = *std::min_element(all.begin(), all.end(), [&](auto* a, auto* b) {
    return text_distance(a->name, name) < text_distance(b->name, name);
  });
  fail("there is no operation '{}'; did you mean '{}'?", name, nearest->name);
}

ShardRule NeverCut::shard(const InTypes& inputs, const Types& outputs, const Attrs&) {
  ShardRule rule;
  for (int i = 0; i < inputs.size(); ++i) {
    rule.inputs.emplace_back(inputs.has(i) ? inputs[i].shape.size() : 0, '.');
  }
  for (const Type& t : outputs) {
    rule.outputs.emplace_back(t.shape.size(), '.');
  }
  return rule;
}

Values apply(std::string_view name, Values inputs, Attrs attrs) {
  const OpDef& def = get(name);
  std::vector<const Type*> types;
  types.reserve(inputs.size());
  for (const Value& v : inputs) {
    types.push_back(v ? &v.type() : nullptr);
  }
  Types out = def.infer(InTypes(std::move(types), def.name), attrs);
  const std::size_t count = out.size();
  const ir::NodePtr node = ir::record(def.name, std::move(attrs), std::move(inputs), std::move(out));
  Values values;
  values.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    values.emplace_back(node, static_cast<int>(i));
  }
  return values;
}

void require_same_dtype(std::string_view op, const InTypes& in, int first, int last) {
  for (int i = first + 1; i <= last; ++i) {
    require(!in.has(i) || in[i].dtype == in[first].dtype,
            "{}: inputs {} and {} must have one dtype, but are {} and {}; convert one of them with cast()", op, first,
            i, ir::to_string(in[first]), ir::to_string(in[i]));
  }
}

void require_float(std::string_view op, const Type& type) {
  require(is_float(type.dtype), "{}: needs f32, bf16 or f16, got {}; convert it with cast()", op, ir::to_string(type));
}

}  // namespace isotone::ops
