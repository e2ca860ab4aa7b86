// Operations called with what no sample holds: spoilt types and attributes are refused by name or taken, never a crash.
// And the table of operations itself.
#include <gtest/gtest.h>

#include <functional>

#include "base/error_for_tests.h"
#include "ops/functions.h"

namespace isotone::ops {
namespace {

/// Every sample with its inputs spoilt in every simple way: refused by name, or (where that is legal) taken; never a
/// crash.
TEST(OpErrors, SpoiltSamplesNeverCrash) {
  for (const OpDef* op : table()) {
    int refused = 0;
    std::size_t inputs = 0;
    for (const Sample& s : op->samples()) {
      const auto attempt = [&](const std::vector<Type>& types, int absent = -1) {
        std::vector<const Type*> in;
        for (std::size_t k = 0; k < types.size(); ++k) {
          in.push_back(static_cast<int>(k) == absent ? nullptr : &types[k]);
        }
        const std::string error = error_of([&] {
          for (const Type& out : op->infer(InTypes(in, op->name), s.attrs)) {
            for (const std::int64_t d : out.shape) {
              EXPECT_GE(d, 0) << op->name;
            }
          }
        });
        refused += error.empty() ? 0 : 1;
        EXPECT_TRUE(error.empty() || error.starts_with(std::string(op->name) + ":"))
            << op->name << " says: '" << error << "'";
      };
      std::vector<Type> types;
      inputs += s.inputs.size();
      for (const SampleInput& in : s.inputs) {
        types.push_back(in.type);
      }
      attempt(std::vector<Type>(types.size() + 1, Type{DType::f32, {2}}));
      attempt({});
      for (std::size_t k = 0; k < types.size(); ++k) {
        attempt(types, static_cast<int>(k));
        std::vector<Type> fewer = types;
        fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(k));
        attempt(fewer);
        for (int d = 0; d < kDTypeCount; ++d) {
          std::vector<Type> other = types;
          other[k].dtype = static_cast<DType>(d);
          attempt(other);
        }
        std::vector<Type> deeper = types, flat = types;
        deeper[k].shape.insert(deeper[k].shape.begin(), 3);
        flat[k].shape.clear();
        attempt(deeper);
        attempt(flat);
        for (std::size_t a = 0; a < types[k].shape.size(); ++a) {
          for (const std::int64_t size : {0, 1, 7}) {
            std::vector<Type> resized = types;
            resized[k].shape[a] = size;
            attempt(resized);
          }
        }
      }
    }
    EXPECT_TRUE(refused > 0 || inputs == 0) << op->name << " refuses nothing";
  }
}

/// Attributes come from files too (a printed graph): missing or of another kind or size they are refused, and what is
/// taken has legal types.
TEST(OpErrors, SpoiltAttributesNeverCrash) {
  for (const OpDef* op : table()) {
    for (const Sample& s : op->samples()) {
      std::vector<const Type*> in;
      for (const SampleInput& i : s.inputs) {
        in.push_back(&i.type);
      }
      const auto attempt = [&](const Attrs& spoilt) {
        return error_of([&] {
          for (const Type& out : op->infer(InTypes(in, op->name), spoilt)) {
            EXPECT_LT(static_cast<int>(out.dtype), kDTypeCount) << op->name;
            for (const std::int64_t d : out.shape) {
              EXPECT_GE(d, 0) << op->name;
            }
          }
        });
      };
      for (const auto& [name, value] : s.attrs.items()) {
        Attrs without;
        for (const auto& [other, kept] : s.attrs.items()) {
          if (other != name) {
            without.set(other, kept);
          }
        }
        attempt(without);
        std::vector<ir::Attr> wrong = {std::int64_t{-1}, std::int64_t{1} << 40, -1.0, std::string("?"), Ints{}};
        wrong.emplace_back(Ints{-7, 9, 0, 5, 1, 2, 3});
        if (const Ints* list = std::get_if<Ints>(&value)) {
          for (const std::int64_t n : {std::int64_t{-1}, std::int64_t{0}, std::int64_t{1} << 40, INT64_MAX}) {
            wrong.emplace_back(Ints(list->size(), n));
          }
          Ints negated = *list;
          for (std::int64_t& n : negated) {
            n = -n;
          }
          wrong.emplace_back(std::move(negated));
        }
        for (const ir::Attr& other : wrong) {
          Attrs spoilt = s.attrs;
          spoilt.set(name, other);
          const std::string error = attempt(spoilt);
          EXPECT_TRUE(error.empty() || error.starts_with(std::string(op->name) + ":") ||
                      error.starts_with("attribute '"))
              << op->name << " says: '" << error << "'";
        }
      }
    }
  }
}

TEST(Table, IsSortedAndEveryOperationIsFound) {
  for (const OpDef* op : table()) {
    EXPECT_EQ(find(op->name), op);
    EXPECT_FALSE(op->samples().empty()) << op->name;
    EXPECT_NE(op->reference == nullptr, op->decompose == nullptr) << op->name;
  }
  EXPECT_EQ(find("nothing"), nullptr);
  EXPECT_NE(error_of([] { get("sofmax"); }).find("did you mean 'softmax'"), std::string::npos);
  EXPECT_NE(error_of([] { apply("nothing", {}); }).find("nothing"), std::string::npos);
}

TEST(Calls, OnTheSameDtypeOrShapeCostNothing) {
  const Value x = ir::leaf({DType::f32, {2, 3}}, nullptr);
  EXPECT_EQ(cast(x, DType::f32), x);
  EXPECT_EQ(reshape(x, {2, 3}), x);
  EXPECT_EQ(broadcast_to(x, {2, 3}), x);
  EXPECT_EQ(reshape(x, {3, -1}).shape(), (Shape{3, 2}));
  EXPECT_EQ(reshape(x, {-1}).shape(), (Shape{6}));
  EXPECT_EQ(slice_axis(x, 1, -2, 3).shape(), (Shape{2, 2}));
  EXPECT_EQ(swap_axes(x, 0, -1).shape(), (Shape{3, 2}));
}

}  // namespace
}  // namespace isotone::ops
